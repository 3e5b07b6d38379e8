"""Profile coordination: locks, leaders, counters, queues (blocks/coordination) on one group, under all faults of a
group, with clocks that run at different rates."""
from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import ClassVar

import attrs

from jgroups_py.model.units import millis, seconds
from jgroups_py.simulator.faults.actions import Action, Begin, Clog, CrashOfCoordinator, LeaveOf, Split
from jgroups_py.simulator.network import Weather
from jgroups_py.simulator.profiles.base import Plan, span
from jgroups_py.simulator.profiles.group import GroupProfile
from jgroups_py.simulator.profiles.one_group import GROUP_FAULTS

LEAVE_NS = seconds(6)
SLOW_EVERY = 10                          # of so many seeds one has slow renewals
SLOW_NS, SLOW_ROUND_NS = seconds(27), seconds(9)


class CoordinationProfile(GroupProfile):
    """Three to five members; their application is in jgroups_py/testing/simulation/coordination.py."""

    name = "coordination"
    bursts = False
    application = True
    sizes = (3, 5)
    kinds = (*GROUP_FAULTS, "coordinator", "pause")
    slow_renewals = True                     # every tenth seed has them
    reaches: ClassVar[tuple[str, ...]] = (
        "grants", "grants lost", "writes refused by a fence", "waits withdrawn", "timeouts", "sessions ended",
        "barriers passed", "items finished", "counters added to", "cells changed", "orphans released")

    def make_plan(self) -> Plan:
        """The plan of profile group, with more operations. An application may take LEAVE_NS to leave, so none leaves
        later; somebody runs at the end."""
        plan = super().make_plan()
        stop_ns, more = plan.stop_ns, tuple[Action, ...]()
        if self.slow_renewals and self.seed % SLOW_EVERY == SLOW_EVERY - 1:
            more = tuple(self.slow_then_cut(stop_ns))
            stop_ns += SLOW_NS
        faults = tuple(fault for fault in (*plan.faults, *more)
                       if not (isinstance(fault, LeaveOf) and fault.at_ns > stop_ns - LEAVE_NS))
        traffic = (*plan.traffic, *self.draw_messages([], stop_ns, 40),
                   Begin(stop_ns - millis(1), self.members[0]))
        return attrs.evolve(plan, faults=faults, traffic=traffic, stop_ns=stop_ns)

    def slow_then_cut(self, at_ns: int) -> Iterator[Action]:
        """For SLOW_NS: answers to one member take half a second, and it is cut off before its next renewal."""
        rng = Random(f"{self.seed}/renewals")
        for begin_ns in range(at_ns, at_ns + SLOW_NS - SLOW_ROUND_NS // 2, SLOW_ROUND_NS):
            one = rng.choice(self.members)
            rest = tuple(name for name in self.members if name != one)
            slow = Weather(latency_ns=span(rng, 0.3, 0.6), jitter_ns=millis(10))
            yield from (Clog(begin_ns, other, one, slow, SLOW_ROUND_NS // 2) for other in rest)
            yield Split(begin_ns + span(rng, 1, 2.5), ((one,), rest), span(rng, 3, 4))

    def fault(self, kind: str, at_ns: int) -> Action:
        if kind == "coordinator":
            return CrashOfCoordinator(at_ns, self.rng.choice(self.members))
        return super().fault(kind, at_ns)
