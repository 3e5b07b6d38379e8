"""The headers of TOTAL. Data has none: tickets speak of "the next n of a member"."""
from __future__ import annotations

from jgroups_py import wire
from jgroups_py.model.batch import Header

VIEW_ID_BYTES = 24
TOTAL_ID = 27
_VIEW = wire.fixed_bytes(VIEW_ID_BYTES)


@wire.header(proto=TOTAL_ID, kind=1)
class Tickets(Header):
    """From the coordinator to all: the next places in the order of `view` go to these messages.

    runs: (index of a member in the view, number of its next messages), in order; the coordinator's own messages need
    none. safe: all members have everything below this place (0: that is not said).
    """

    view: bytes = wire.field(_VIEW)
    safe: int = wire.field(wire.U64)
    runs: tuple[tuple[int, int], ...] = wire.field(wire.sequence(wire.record(wire.U16, wire.U32)))


@wire.header(proto=TOTAL_ID, kind=2)
class Reached(Header):
    """To the coordinator: the sender has everything below `place` of the order of `view`."""

    view: bytes = wire.field(_VIEW)
    place: int = wire.field(wire.U64)


@wire.header(proto=TOTAL_ID, kind=3)
class NewViewWanted(Header):
    """To the coordinator: the sender lost messages for good, and cannot follow the order of `view` any more."""

    view: bytes = wire.field(_VIEW)
