"""Wall clocks of virtual hosts: each may differ from true time, jump, and run fast, slow or away.

Protocols measure durations with a clock that never jumps (`now_ns`); the wall clock is read where something must
outlive a process, as RELAY's journal does.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from jgroups_py.sim.faults import Action, Starter
from jgroups_py.units import NS_PER_S

if TYPE_CHECKING:
    from jgroups_py.sim.world import World

EPOCH_NS = 1_700_000_000 * NS_PER_S      # the wall clock when a simulation begins


@attrs.define(eq=False)
class Clock:
    """One host's. It showed `wall_ns` at `since_ns` and goes on at `rate` seconds a second."""

    wall_ns: int = EPOCH_NS
    since_ns: int = 0
    rate: float = 1.0

    def read(self, now_ns: int) -> int:
        """What it shows."""
        return self.wall_ns + int((now_ns - self.since_ns) * self.rate)

    def set(self, now_ns: int, by_ns: int, rate: float) -> None:
        """Move it by so much, and let it run at another rate from now on."""
        self.wall_ns, self.since_ns, self.rate = self.read(now_ns) + by_ns, now_ns, rate


class Clocks:
    """All wall clocks of a world, by the member's name; right until something moves them."""

    def __init__(self) -> None:
        self.by_name: dict[str, Clock] = {}

    def of(self, name: str) -> Clock:
        """The clock of a member's host."""
        return self.by_name.setdefault(name, Clock())


@attrs.frozen
class ClockChange(Action):
    """The wall clock of a member's host jumps, and from then on runs at a rate (1.0: right)."""

    kind = "wall clock moved"
    name: str
    by_ns: int
    rate: float = 1.0

    def do(self, world: World, start: Starter) -> bool:
        world.clocks.of(self.name).set(world.now_ns, self.by_ns, self.rate)
        world.remark(f"the wall clock of {self.name} {self._how()}")
        return True

    def words(self) -> str:
        return f"the wall clock of {self.name} {self._how()}"

    def _how(self) -> str:
        return f"jumps by {self.by_ns / NS_PER_S:.3f} s and runs at {self.rate:g}"
