"""Where a server listens, and what one connection may cost it."""
from __future__ import annotations

import attrs

from jgroups_py.model.text import place

MIB = 1 << 20


@attrs.frozen
class TlsFiles:
    """Certificate and key in PEM. client_ca: a client needs a certificate that this one has signed; "": none."""

    certificate: str
    key: str
    client_ca: str = ""


@attrs.frozen
class ListenAddress:
    """One listener. host "": all addresses, IPv4 and IPv6; port 0: a free one.

    websocket_path: the path of the HTTP request; None: MQTT straight over TCP.
    """

    host: str = ""
    port: int = 1883
    tls: TlsFiles | None = None
    websocket_path: str | None = None

    def __str__(self) -> str:
        scheme = ("mqtt" if self.websocket_path is None else "ws") + ("s" if self.tls else "")
        return f"{scheme}://{place(self.host, self.port)}{self.websocket_path or ''}"


@attrs.frozen(kw_only=True)
class SocketLimits:
    """Bytes and times of one connection; the bounds of sessions are in options.py."""

    read_bytes: int = 64 << 10
    """Read at once from one connection; then it is the others' turn."""
    piece_packets: int = 64
    """Packets that the broker gets at once; fewer while each of them leads to many deliveries."""
    round_outputs: int = 8_192
    """Packets to clients after which they are written, and the connection that caused them waits for its next turn."""
    write_high_bytes: int = 256 << 10
    """Unsent bytes from which on messages stay in the session's queue ..."""
    write_low_bytes: int = 64 << 10
    """... until so few are left."""
    unread_bytes: int = MIB
    """Unsent bytes of a client (its acknowledgements are no messages) from which on nothing is read from it."""
    close_timeout_s: float = 5.0
    """How long a closed connection may take to get what was sent before."""
    handshake_timeout_s: float = 10.0
    """From the connection to the end of the TLS handshake."""
    password_threads: int = 2
    waiting_passwords: int = 1_000
    """Connections whose password is being checked or waits for that; further ones are refused."""
