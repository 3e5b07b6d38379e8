"""The listening sockets: addresses, certificates, file descriptors."""
from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Iterable

from jgroups_py.blocks.mqtt.server.listen import ListenAddress, TlsFiles
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.text import place

BACKLOG = 1_024
SPARE_DESCRIPTORS = 100
"""File descriptors for other things than clients' sockets."""


def bind(address: ListenAddress) -> list[socket.socket]:
    """Listening sockets: one for each address that the host has; for all addresses one that takes IPv4 and IPv6.

    Raises:
        ConfigError: the port is in use, or the address is none of this machine; the text names it.
    """
    found: list[socket.socket] = []
    try:
        for family, where in _places(address):
            # A free port is found once, and taken for all addresses of the host.
            port = found[0].getsockname()[1] if found else address.port
            found.append(_listening(family, (where[0], port, *where[2:]), not address.host))
    except OSError as error:
        for each in found:
            each.close()
        raise ConfigError(f"{address}: {_why(error, address)}") from None
    return found


def _places(address: ListenAddress) -> Iterable[tuple[int, tuple[str, ...]]]:
    """(family, socket address)."""
    if not address.host:
        return [(socket.AF_INET6, ("::", "")) if _has_ipv6() else (socket.AF_INET, ("0.0.0.0", ""))]
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return [(int(family), where) for family, _, _, _, where in found]   # type: ignore[misc]


def _listening(family: int, where: tuple[object, ...], dual: bool) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not dual)
        made.bind(where)
        made.listen(BACKLOG)
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as tried:
            tried.bind(("::", 0))
    except OSError:
        return False
    return True


def _why(error: OSError, address: ListenAddress) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {address.port} is in use by another process"
    if error.errno == errno.EACCES:
        return f"port {address.port} needs a privileged user; ports from 1024 on do not"
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return f"{address.host!r} is no address of this machine"
    return f"cannot listen at {place(address.host, address.port)}: {error.strerror or error}"


def tls_context(files: TlsFiles) -> ssl.SSLContext:
    """TLS 1.2 or 1.3.

    Raises:
        ConfigError: a file cannot be read, or is not what it should be.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(files.certificate, files.key)
    except (OSError, ValueError) as error:               # ssl.SSLError is an OSError
        raise ConfigError(f"TLS: certificate {files.certificate!r} with key {files.key!r}: {_reason(error)}") from None
    if files.client_ca:
        try:
            context.load_verify_locations(files.client_ca)
        except (OSError, ValueError) as error:
            raise ConfigError(f"TLS: certificates of clients' signers {files.client_ca!r}: {_reason(error)}") from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def guard_half_open(client: socket.socket) -> None:
    """Use TCP keepalives, so that an idle connection whose peer is gone ends after two minutes."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 20), ("TCP_KEEPCNT", 3)):
        option = getattr(socket, name, None)             # not on every system
        if option is not None:
            client.setsockopt(socket.IPPROTO_TCP, option, value)


def raise_descriptor_limit(clients: int) -> int:
    """Raise the limit of open files for so many clients, as far as allowed; returns for how many it suffices."""
    import resource
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = clients + SPARE_DESCRIPTORS
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return clients if soft == resource.RLIM_INFINITY else max(1, soft - SPARE_DESCRIPTORS)
