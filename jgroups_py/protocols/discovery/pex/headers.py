"""What peers say to each other."""
from __future__ import annotations

from jgroups_py import wire
from jgroups_py.address import Address, PhysicalAddress
from jgroups_py.batch import Header
from jgroups_py.protocols.discovery.base import DISCOVERY_ID
from jgroups_py.topics import INTEREST, Interest

Listed = tuple[Address, PhysicalAddress]
_LISTED = wire.sequence(wire.record(wire.ADDRESS, wire.PHYSICAL))


@wire.header(proto=DISCOVERY_ID, kind=3)
class PeerPing(Header):
    """Are you there, and whom do you know? The sender receives at `place`.

    after: the page wanted is that of peers with higher identities; walk: the answer is followed to the last page.
    """

    interest: Interest = wire.field(INTEREST)
    place: PhysicalAddress = wire.field(wire.PHYSICAL)
    after: Address = wire.field(wire.ADDRESS)
    walk: bool = wire.field(wire.BOOL)


@wire.header(proto=DISCOVERY_ID, kind=4)
class PeerPong(Header):
    """The answer: a page of the peers that the sender has heard itself; more: there is another page after it."""

    interest: Interest = wire.field(INTEREST)
    place: PhysicalAddress = wire.field(wire.PHYSICAL)
    peers: tuple[Listed, ...] = wire.field(_LISTED)
    more: bool = wire.field(wire.BOOL)
    walk: bool = wire.field(wire.BOOL)


@wire.header(proto=DISCOVERY_ID, kind=5)
class PeerLeave(Header):
    """The sender is going."""


@wire.header(proto=DISCOVERY_ID, kind=6)
class PeerSaid(Header):
    """A broadcast of the sender's application; the mark of its topic, if it has one, stands above."""
