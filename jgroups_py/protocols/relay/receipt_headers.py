"""Headers for receipts (receipts.py): who asks for them, who is asked, and what comes back."""
from __future__ import annotations

from jgroups_py import wire
from jgroups_py.batch import Header
from jgroups_py.protocols.relay.headers import HELD, NUMBERS, PROTO, VECTOR, Held, Numbers, Vector
from jgroups_py.view import ViewId

Ranges = tuple[tuple[int, int], ...]
SITES = wire.mapping(wire.NAME, wire.U64)
VIEWS = wire.sequence(wire.VIEW_ID)


@wire.header(proto=PROTO, kind=24)
class Await(Header):
    """An origin to its relay: tell me when every member of these sites has my messages below these numbers."""

    sites: dict[str, int] = wire.field(SITES)


@wire.header(proto=PROTO, kind=25)
class Granted(Header):
    """The relay to an origin: all members of these views of `site` are through with your messages below `number`.

    They have them, but for the ranges that some of them have lost.
    """

    site: str = wire.field(wire.NAME)
    number: int = wire.field(wire.U64)
    lost: Ranges = wire.field(wire.RANGES)
    views: tuple[ViewId, ...] = wire.field(VIEWS)


@wire.header(proto=PROTO, kind=26)
class Wanted(Header):
    """A relay to another, on the bridge: say Settled when all your members have these origins' messages."""

    numbers: Numbers = wire.field(NUMBERS)


@wire.header(proto=PROTO, kind=27)
class Settled(Header):
    """The answer: all members of our view `epoch` are through with everything below these numbers."""

    epoch: ViewId = wire.field(wire.VIEW_ID)
    numbers: Numbers = wire.field(NUMBERS)
    lost: Held = wire.field(HELD)


@wire.header(proto=PROTO, kind=28)
class Check(Header):
    """Multicast in a group: each member answers the sender once it has delivered everything below these numbers."""

    vector: Vector = wire.field(VECTOR)


@wire.header(proto=PROTO, kind=29)
class Checked(Header):
    """A member's answer; lost: what it was told it will never get of these origins."""

    view_id: ViewId = wire.field(wire.VIEW_ID)
    vector: Vector = wire.field(VECTOR)
    lost: Held = wire.field(HELD)
