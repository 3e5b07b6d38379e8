"""The headers of PEX."""
from __future__ import annotations

from jgroups_py import wire
from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.batch import Header
from jgroups_py.model.topics import Interest
from jgroups_py.protocols.discovery.base import DISCOVERY_ID
from jgroups_py.wire.topic_headers import INTEREST

Listed = tuple[Address, PhysicalAddress]
_LISTED = wire.sequence(wire.record(wire.ADDRESS, wire.PHYSICAL))


@wire.header(proto=DISCOVERY_ID, kind=3)
class PeerPing(Header):
    """Requests a PeerPong with a page of the receiver's table. interest, place: of the sender.

    after: the page begins with the next higher identity; walk: the requester will request all pages up to the last.
    """

    interest: Interest = wire.field(INTEREST)
    place: PhysicalAddress = wire.field(wire.PHYSICAL)
    after: Address = wire.field(wire.ADDRESS)
    walk: bool = wire.field(wire.BOOL)


@wire.header(proto=DISCOVERY_ID, kind=4)
class PeerPong(Header):
    """The answer: a page of the peers that have answered the sender itself; more: another page follows it."""

    interest: Interest = wire.field(INTEREST)
    place: PhysicalAddress = wire.field(wire.PHYSICAL)
    peers: tuple[Listed, ...] = wire.field(_LISTED)
    more: bool = wire.field(wire.BOOL)
    walk: bool = wire.field(wire.BOOL)


@wire.header(proto=DISCOVERY_ID, kind=5)
class PeerLeave(Header):
    """The sender is leaving."""


@wire.header(proto=DISCOVERY_ID, kind=6)
class PeerBroadcast(Header):
    """A broadcast of the sender's application; the header of its topic, if it has one, stands above."""
