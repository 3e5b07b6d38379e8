"""Wall clocks of virtual hosts: each may differ from true time, jump, and run fast or slow.

Protocols measure durations with a monotonic clock (`now_ns`); they read the wall clock where a time must outlive the
process, as in RELAY's journal.
"""
from __future__ import annotations

import attrs

from jgroups_py.model.units import NS_PER_S

EPOCH_NS = 1_700_000_000 * NS_PER_S      # the wall clock when a simulation begins


@attrs.define(eq=False)
class WallClock:
    """The wall clock of one host: `wall_ns` at `since_ns`, advancing by `rate` seconds a second."""

    wall_ns: int = EPOCH_NS
    since_ns: int = 0
    rate: float = 1.0

    def read(self, now_ns: int) -> int:
        """Its time, in ns since 1970."""
        return self.wall_ns + int((now_ns - self.since_ns) * self.rate)

    def set(self, now_ns: int, by_ns: int, rate: float) -> None:
        """Move it by `by_ns`, and let it advance at `rate` from now on."""
        self.wall_ns, self.since_ns, self.rate = self.read(now_ns) + by_ns, now_ns, rate


class WallClocks:
    """All wall clocks of a world, by the member's name; correct until a fault moves them."""

    def __init__(self) -> None:
        self.by_name: dict[str, WallClock] = {}

    def of(self, name: str) -> WallClock:
        """The clock of a member's host."""
        return self.by_name.setdefault(name, WallClock())
