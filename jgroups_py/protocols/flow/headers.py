"""What MFC (12) and UFC (13) say on the wire."""
from __future__ import annotations

from jgroups_py import wire
from jgroups_py.batch import Header


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
