"""What MFC (12), UFC (13) and FLOW (24) say on the wire."""
from __future__ import annotations

from jgroups_py import wire
from jgroups_py.model.batch import Header


@wire.header(proto=12, kind=1)
class MulticastMark(Header):
    """In the stream of multicasts: its sender had multicast `position` bytes before."""

    position: int = wire.field(wire.U64)


@wire.header(proto=12, kind=2)
class MulticastGranted(Header):
    """All your multicasts below `position` have been passed up here."""

    position: int = wire.field(wire.U64)


@wire.header(proto=12, kind=3)
class MulticastWanted(Header):
    """Blocked at the mark at `position`: answer again."""

    position: int = wire.field(wire.U64)


@wire.header(proto=13, kind=1)
class UnicastMark(Header):
    """In the stream of unicasts: its sender had sent you `position` bytes before."""

    position: int = wire.field(wire.U64)


@wire.header(proto=13, kind=2)
class UnicastGranted(Header):
    """All your unicasts to me below `position` have been passed up here."""

    position: int = wire.field(wire.U64)


@wire.header(proto=13, kind=3)
class UnicastWanted(Header):
    """Blocked at the mark at `position`: answer again."""

    position: int = wire.field(wire.U64)


FLOW_ID = 24


@wire.header(proto=FLOW_ID, kind=1)
class FlowMark(Header):
    """In the stream of multicasts: its sender had multicast `position` bytes before."""

    position: int = wire.field(wire.U64)


@wire.header(proto=FLOW_ID, kind=2)
class StatusHeader(Header):
    """Of your multicasts all below `received` have come; those below `consumed`, and `window` more, can be taken."""

    consumed: int = wire.field(wire.U64)
    received: int = wire.field(wire.U64)
    window: int = wire.field(wire.U64)
    tag: int | None = wire.field(wire.optional(wire.BITS64))


@wire.header(proto=FLOW_ID, kind=3)
class StatusWanted(Header):
    """Not answered yet: the mark at `position`. Answer with a StatusHeader, whatever it says."""

    position: int = wire.field(wire.U64)


@wire.header(proto=FLOW_ID, kind=4)
class ReceivingHeader(Header):
    """From now on count me among your receivers, with this tag and window."""

    window: int = wire.field(wire.U64)
    tag: int | None = wire.field(wire.optional(wire.BITS64))


@wire.header(proto=FLOW_ID, kind=5)
class ClosingHeader(Header):
    """I am about to leave: wait for no more answers of mine."""


@wire.header(proto=FLOW_ID, kind=6)
class Counted(Header):
    """Whether you count among my receivers: not while you were silent for too long, again since you caught up."""

    in_group: bool = wire.field(wire.BOOL)
