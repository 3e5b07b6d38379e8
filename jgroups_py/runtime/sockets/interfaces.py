"""What a `bind_addr` such as "site_local" means on this machine. IPv4.

Source: JGroups' symbolic bind addresses (loopback, site_local, link_local, global, match-interface:, match-address:).
"""
from __future__ import annotations

import ipaddress
import re
import socket
import struct
from collections.abc import Callable

from jgroups_py.model.errors import ConfigError

try:
    import fcntl
except ImportError:                         # not on this system; only symbolic addresses need it
    fcntl = None                            # type: ignore[assignment]

SIOCGIFADDR = 0x8915                        # Linux: the IPv4 address of an interface
SITE_LOCAL = tuple(ipaddress.ip_network(net) for net in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))


def interfaces() -> list[tuple[str, str]]:
    """(name, IPv4 address) of every interface that has one, in the system's order."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            if fcntl is None:
                break
            try:
                raw = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue                    # an interface without an IPv4 address
            found.append((name, socket.inet_ntoa(raw[20:24])))
    return found


def _is_site_local(name: str, address: str) -> bool:
    return any(ipaddress.ip_address(address) in net for net in SITE_LOCAL)


def _is_global(name: str, address: str) -> bool:
    return ipaddress.ip_address(address).is_global


def _is_link_local(name: str, address: str) -> bool:
    return ipaddress.ip_address(address).is_link_local


_SYMBOLIC: dict[str, Callable[[str, str], bool]] = {
    "site_local": _is_site_local, "global": _is_global, "link_local": _is_link_local,
    "non_loopback": lambda name, address: not address.startswith("127."),
}


def resolve(bind_addr: str) -> str:
    """The IPv4 address that `bind_addr` means; a comma-separated list is tried in order.

    >>> resolve("loopback"), resolve("127.0.0.1")
    ('127.0.0.1', '127.0.0.1')

    Raises:
        ConfigError: no interface has such an address, or a host name has none.
    """
    for word in (part.strip() for part in bind_addr.split(",")):
        found = _resolve_one(word)
        if found:
            return found
    here = ", ".join(f"{name} {address}" for name, address in interfaces())
    raise ConfigError(f"bind_addr {bind_addr!r}: no interface of this machine has such an address (there are: {here})")


def _resolve_one(word: str) -> str | None:
    lowered = word.lower()
    if lowered in ("loopback", "localhost"):
        return "127.0.0.1"
    if lowered in _SYMBOLIC:
        return _first(_SYMBOLIC[lowered])
    kind, colon, pattern = word.partition(":")
    if colon and kind.lower() in ("match-interface", "match-address"):
        by_name = kind.lower() == "match-interface"
        return _first(lambda name, address: bool(re.fullmatch(pattern, name if by_name else address)))
    return host_address(word)


def _first(wanted: Callable[[str, str], bool]) -> str | None:
    return next((address for name, address in interfaces() if wanted(name, address)), None)


def host_address(host: str) -> str | None:
    """The first IPv4 address of a host name or of a literal address; None if it has none."""
    try:
        return str(socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])
    except (OSError, UnicodeError):
        return None
