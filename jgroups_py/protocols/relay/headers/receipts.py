"""Headers for receipts (receipts.py): requests, checks of what members have delivered, and answers."""
from __future__ import annotations

from jgroups_py import wire
from jgroups_py.model.batch import Header
from jgroups_py.model.view import ViewId
from jgroups_py.protocols.relay.headers import HELD, NUMBERS, PROTO, VECTOR, Held, Numbers, Vector

Ranges = tuple[tuple[int, int], ...]
SITES = wire.mapping(wire.NAME, wire.U64)
VIEWS = wire.sequence(wire.VIEW_ID)


@wire.header(proto=PROTO, kind=24)
class Await(Header):
    """An origin to its relay: answer with GRANTED when all members of these sites have its messages below these
    numbers."""

    sites: dict[str, int] = wire.field(SITES)


@wire.header(proto=PROTO, kind=25)
class Granted(Header):
    """The relay to an origin: all members of these views of `site` have its messages below `number`.

    lost: ranges that some of these members have lost. views: of each relay of the site, one for each half of a split.
    """

    site: str = wire.field(wire.NAME)
    number: int = wire.field(wire.U64)
    lost: Ranges = wire.field(wire.RANGES)
    views: tuple[ViewId, ...] = wire.field(VIEWS)


@wire.header(proto=PROTO, kind=26)
class AwaitSettled(Header):
    """A relay to another one: answer with SETTLED when all members there have these origins' messages."""

    numbers: Numbers = wire.field(NUMBERS)


@wire.header(proto=PROTO, kind=27)
class Settled(Header):
    """The answer: all members of the view `epoch` have everything below these numbers, except what they lost."""

    epoch: ViewId = wire.field(wire.VIEW_ID)
    numbers: Numbers = wire.field(NUMBERS)
    lost: Held = wire.field(HELD)


@wire.header(proto=PROTO, kind=28)
class Check(Header):
    """Multicast in a group: each member answers with CHECKED when it has delivered everything below these numbers."""

    vector: Vector = wire.field(VECTOR)


@wire.header(proto=PROTO, kind=29)
class Checked(Header):
    """A member's answer to CHECK. lost: the ranges of these origins that it will never get."""

    view_id: ViewId = wire.field(wire.VIEW_ID)
    vector: Vector = wire.field(VECTOR)
    lost: Held = wire.field(HELD)
