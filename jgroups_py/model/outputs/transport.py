"""Sockets, frames and links."""
from __future__ import annotations

import attrs

from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.outputs.base import Output


@attrs.frozen(eq=False)
class OpenTransport(Output):
    """Open sockets according to `config` (the transport protocol's configuration), then call `node.bound`."""

    net: int
    config: object
    me: Address


@attrs.define(eq=False)
class Frame(Output):
    """Send the buffers as one datagram or message; to None: to the group's IP multicast address."""

    net: int
    to: PhysicalAddress | None
    data: list[bytes | bytearray]


@attrs.frozen(eq=False)
class Listen(Output):
    """Open FD_SOCK's listener on a free port of `host` (or `port`..`port+port_range`), then pass Listening up.

    host: empty: the address that the transport has bound.

    The listener greets each connection with this member's 16 address bytes and keeps the connection open.
    """

    net: int
    host: str
    port: int
    port_range: int


@attrs.frozen(eq=False)
class OpenLink(Output):
    """Connect to a listener; LinkUp or LinkDown with the same number follows, LinkDown also when it breaks later."""

    net: int
    link: int
    to: PhysicalAddress
    timeout_ns: int


@attrs.frozen(eq=False)
class CloseLink(Output):
    """Close a link; no LinkDown follows."""

    net: int
    link: int


@attrs.frozen(eq=False)
class CloseTransport(Output):
    """Close the sockets of one stack. Links to the listener are closed with a goodbye if `graceful`."""

    net: int
    graceful: bool = True
