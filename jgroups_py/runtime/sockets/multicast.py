"""Multicast options of sockets, of both IP versions.

IPv4 names an interface by an address of it, IPv6 by its number. The loopback interface has no IPv6 multicast.
"""
from __future__ import annotations

import contextlib
import socket
import struct
import sys

from jgroups_py.model.text import place as place_text
from jgroups_py.runtime.sockets.ip import SocketAddress, family, physical

LINUX = sys.platform.startswith("linux")
IP_MULTICAST_ALL = 49                       # Linux: 0 = only groups that this very socket joined
IPV6_MULTICAST_ALL = 29                     # the same, since Linux 4.20


def send_from(sock: socket.socket, host: str, interface: int, most_routers: int) -> None:
    """Multicasts leave by the interface of `host`, number `interface`, pass so many routers, and loop back."""
    if sock.family == socket.AF_INET:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(host))
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, most_routers)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
    else:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, interface)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, most_routers)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 1)


def join(sock: socket.socket, group: str, host: str, interface: int) -> None:
    """Receive what is sent to `group` and arrives at that interface."""
    if sock.family == socket.AF_INET:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + socket.inet_aton(host))
    else:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP,
                        socket.inet_pton(socket.AF_INET6, group) + struct.pack("@I", interface))


def shared_socket(group: SocketAddress) -> socket.socket:
    """A non-blocking socket on a multicast address and port that other processes may use too.

    Raises:
        OSError: another process has the port exclusively.
    """
    sock = socket.socket(family(group[0]), socket.SOCK_DGRAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if LINUX and sock.family == socket.AF_INET:
            sock.setsockopt(socket.IPPROTO_IP, IP_MULTICAST_ALL, 0)
        elif LINUX:
            with contextlib.suppress(OSError):               # an older kernel: a group of another program may be heard
                sock.setsockopt(socket.IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0)
        elif hasattr(socket, "SO_REUSEPORT"):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind(group)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise OSError(error.errno, f"cannot bind the multicast address {place_text(*physical(group))}: {error}"
                      ) from error
    return sock
