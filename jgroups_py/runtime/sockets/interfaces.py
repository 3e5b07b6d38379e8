"""What a `bind_addr` such as "site_local" means on this machine. IPv4 comes first, where both versions fit.

Source: JGroups' symbolic bind addresses (loopback, site_local, link_local, global, match-interface:, match-address:).
"""
from __future__ import annotations

import ipaddress
import re
import socket
import struct
from collections.abc import Callable

from jgroups_py.model.errors import ConfigError
from jgroups_py.model.name_resolution import is_address
from jgroups_py.runtime.sockets.ip import split_scope, usual_form, version

try:
    import fcntl
except ImportError:                         # not on this system; only symbolic addresses need it
    fcntl = None                            # type: ignore[assignment]

SIOCGIFADDR = 0x8915                        # Linux: the IPv4 address of an interface
IPV6_ADDRESSES = "/proc/net/if_inet6"       # Linux: the IPv6 addresses of all interfaces
SITE_LOCAL = tuple(ipaddress.ip_network(net) for net in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"))
FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}


def interfaces() -> list[tuple[str, str]]:
    """(name, address) of every interface that has one: first the IPv4 addresses, one each, then those of IPv6, in the
    system's order. A link-local address of IPv6 has its scope: "fe80::1%eth0"."""
    return [*_ipv4_interfaces(), *_ipv6_interfaces()]


def _ipv4_interfaces() -> list[tuple[str, str]]:
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


def _ipv6_interfaces() -> list[tuple[str, str]]:
    try:
        with open(IPV6_ADDRESSES, encoding="ascii") as file:
            rows = [line.split() for line in file]
    except OSError:
        return []                           # another system, or one without IPv6
    found = []
    for digits, *_, name in rows:
        address = ipaddress.IPv6Address(int(digits, 16))
        found.append((name, f"{address}%{name}" if address.is_link_local else str(address)))
    return found


def _is_site_local(name: str, address: str) -> bool:
    return any(ipaddress.ip_address(address) in net for net in SITE_LOCAL)


def _is_global(name: str, address: str) -> bool:
    return ipaddress.ip_address(address).is_global


def _is_link_local(name: str, address: str) -> bool:
    return ipaddress.ip_address(address).is_link_local


_SYMBOLIC: dict[str, Callable[[str, str], bool]] = {
    "site_local": _is_site_local, "global": _is_global, "link_local": _is_link_local,
    "non_loopback": lambda name, address: not ipaddress.ip_address(address).is_loopback,
}


def resolve(bind_addr: str, wanted: int = 0) -> str:
    """The IP address that `bind_addr` means; a comma-separated list is tried in order.

    wanted: the version that it must have, 4 or 6; 0: IPv4 if there is one. A link-local address of IPv6 has its scope.

    >>> resolve("loopback"), resolve("127.0.0.1"), resolve("[::1]")
    ('127.0.0.1', '127.0.0.1', '::1')

    Raises:
        ConfigError: no interface has such an address, or a host name has none.
    """
    for word in (part.strip() for part in bind_addr.split(",")):
        found = _resolve_one(word.removeprefix("[").removesuffix("]"), wanted)
        if found:
            return found
    here = ", ".join(f"{name} {address}" for name, address in interfaces())
    kind = f"IPv{wanted} address" if wanted else "address"
    raise ConfigError(f"bind_addr {bind_addr!r}: no interface of this machine has such an {kind} (there are: {here})")


def _resolve_one(word: str, wanted: int) -> str | None:
    lowered = word.lower()
    if lowered in ("loopback", "localhost"):
        return "::1" if wanted == 6 else "127.0.0.1"
    if lowered in _SYMBOLIC:
        return _first(_SYMBOLIC[lowered], wanted)
    kind, colon, pattern = word.partition(":")
    if colon and kind.lower() in ("match-interface", "match-address"):
        by_name = kind.lower() == "match-interface"
        return _first(lambda name, address: bool(re.fullmatch(pattern, name if by_name else address)), wanted)
    if is_address(word):
        return _with_scope(word) if wanted in (0, version(word)) else None
    return host_address(word, wanted)


def _first(fits: Callable[[str, str], bool], wanted: int) -> str | None:
    return next((address for name, address in interfaces()
                 if wanted in (0, version(address)) and fits(name, address.partition("%")[0])), None)


def _with_scope(address: str) -> str:
    """A literal address in its usual form; link-local ones of IPv6 with the scope that they need."""
    host, scope = split_scope(address)
    host = usual_form(host)
    if ":" not in host or not ipaddress.ip_address(host).is_link_local:
        return host
    if scope:
        return f"{host}%{socket.if_indextoname(scope)}"
    places = [text for _, text in _ipv6_interfaces() if text.partition("%")[0] == host]
    if len(places) == 1:
        return places[0]
    said = "is an address of no interface" if not places else "is an address of several interfaces"
    raise ConfigError(f"bind_addr {address!r} is link-local and {said} of this machine; write it with its interface, "
                      f"as {host}%eth0")


def interface_number(host: str) -> int:
    """The number of the interface that has an IPv6 address, as `resolve` gives it; 0: not found."""
    address, scope = split_scope(host)
    if scope:
        return scope
    return next((socket.if_nametoindex(name) for name, text in _ipv6_interfaces() if text == address), 0)


def host_address(host: str, wanted: int = 0) -> str | None:
    """The first address of a host name, of the IP version `wanted` (0: IPv4 if it has one); None if it has none."""
    for each in (wanted,) if wanted else (4, 6):
        try:
            return str(socket.getaddrinfo(host, None, FAMILIES[each], socket.SOCK_STREAM)[0][4][0])
        except (OSError, UnicodeError):
            continue
    return None
