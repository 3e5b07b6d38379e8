"""IP addresses as sockets take them: both versions, and the scope of link-local addresses of IPv6.

A link-local address (fe80::/10) exists on every link, so a socket needs the link too: the scope id, which is the number
of an interface of this host and means nothing to others. So no scope is sent: a physical address has none, and a
member gives every link-local address the scope of its own bind_addr ("fe80::1%eth0").
"""
from __future__ import annotations

import socket
from ipaddress import ip_address

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.errors import ConfigError

SocketAddress = tuple[str, int] | tuple[str, int, int, int]
"""Host and port; with IPv6 also the flow label (0) and the scope id."""


def family(host: str) -> socket.AddressFamily:
    """The family of sockets for an IP address.

    >>> family("::1").name, family("10.0.0.1").name
    ('AF_INET6', 'AF_INET')
    """
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def version(host: str) -> int:
    """The version of an IP address: 4 or 6."""
    return 6 if ":" in host else 4


def split_scope(host: str) -> tuple[str, int]:
    """An address without its scope, and the scope id; 0: it has none.

    >>> split_scope("10.0.0.1"), split_scope("::1")
    (('10.0.0.1', 0), ('::1', 0))

    Raises:
        ConfigError: this host has no interface of that name.
    """
    address, percent, interface = host.partition("%")
    if not percent:
        return host, 0
    try:
        return address, int(interface) if interface.isdecimal() else socket.if_nametoindex(interface)
    except OSError:
        here = ", ".join(name for _, name in socket.if_nameindex())
        raise ConfigError(f"{host!r}: this host has no interface {interface!r} (there are: {here})") from None


def socket_address(host: str, port: int, scope: int = 0) -> SocketAddress:
    """What a socket takes for an IP address in its usual form. scope: used where the address needs one.

    >>> socket_address("10.0.0.1", 7), socket_address("fe80::1", 7, 2), socket_address("fd00::1", 7, 2)
    (('10.0.0.1', 7), ('fe80::1', 7, 0, 2), ('fd00::1', 7, 0, 0))
    """
    if ":" not in host:
        return host, port
    address = ip_address(host)
    needs_scope = address.is_link_local or address.is_multicast
    return host, port, 0, scope if needs_scope else 0


def physical(address: SocketAddress) -> PhysicalAddress:
    """Host and port of an address that a socket reports."""
    return address[0], address[1]


def usual_form(host: str) -> str:
    """An IP address in its usual form; an IPv4 address mapped into IPv6 as what it is.

    >>> usual_form("0:0:0:0:0:0:0:1"), usual_form("::ffff:10.0.0.1"), usual_form("10.0.0.1")
    ('::1', '10.0.0.1', '10.0.0.1')
    """
    address = ip_address(host)
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
