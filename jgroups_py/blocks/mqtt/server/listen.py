"""The addresses of a server, and the limits of one connection."""
from __future__ import annotations

import attrs

from jgroups_py.model.text import place

MIB = 1 << 20


@attrs.frozen
class TlsFiles:
    """Paths of PEM files. client_ca: clients need a certificate that this one has signed; "": they need none."""

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
    """Bytes read at once from one connection; then other connections are next."""
    piece_packets: int = 64
    """Packets given to the broker at once; fewer while each of them causes many deliveries."""
    round_outputs: int = 8_192
    """Packets to clients after which they are written, and the connection that caused them is paused for this round."""
    write_high_bytes: int = 256 << 10
    """More unsent bytes of a client: messages for it stay in the session's queue ..."""
    write_low_bytes: int = 64 << 10
    """... until no more than these are unsent."""
    unread_bytes: int = MIB
    """Unsent bytes of a client, acknowledgements too, above which nothing is read from it."""
    close_timeout_s: float = 5.0
    """Time for a closed connection to take what was sent before."""
    handshake_timeout_s: float = 10.0
    """Time from the connection to the end of the TLS handshake."""
    password_threads: int = 2
    waiting_passwords: int = 1_000
    """Connections whose password is being checked or waits for that; further ones are refused."""
