"""Faults of wall clocks: they jump, run fast or slow, or stop."""
from __future__ import annotations

import attrs

from jgroups_py.model.units import NS_PER_S
from jgroups_py.simulator.clocks import EPOCH_NS
from jgroups_py.simulator.faults.actions import Action, Starter
from jgroups_py.simulator.world import World


@attrs.frozen
class ClockChange(Action):
    """The wall clock of a member's host jumps by `by_ns`, and from then on runs at `rate` (1.0: correct)."""

    kind = "wall clock moved"
    name: str
    by_ns: int
    rate: float = 1.0

    def do(self, world: World, start: Starter) -> bool:
        world.clocks.of(self.name).set(world.now_ns, self.by_ns, self.rate)
        world.remark(f"the wall clock of {self.name} {self._how()}")
        return True

    def describe(self) -> str:
        return f"the wall clock of {self.name} {self._how()}"

    def _how(self) -> str:
        return f"jumps by {self.by_ns / NS_PER_S:.3f} s and runs at {self.rate:g}"


@attrs.frozen
class ClockSet(Action):
    """The wall clock of a member's host is set to `off_ns` after true time, and from then on runs at `rate`."""

    kind = "wall clock set"
    name: str
    off_ns: int
    rate: float = 1.0

    def do(self, world: World, start: Starter) -> bool:
        clock = world.clocks.of(self.name)
        clock.set(world.now_ns, EPOCH_NS + world.now_ns + self.off_ns - clock.read(world.now_ns), self.rate)
        world.remark(self.describe())
        return True

    def describe(self) -> str:
        return f"the wall clock of {self.name} is {self.off_ns / NS_PER_S:.3f} s ahead and runs at {self.rate:g}"
