"""Profile coordination: locks, leaders, counters, queues (blocks/coordination) on one group, under all faults of a
group, with clocks that run at different rates."""
from __future__ import annotations

from typing import ClassVar

import attrs

from jgroups_py.model.units import millis, seconds
from jgroups_py.simulator.faults.actions import Action, Begin, CrashOfCoordinator, LeaveOf
from jgroups_py.simulator.profiles.base import Plan
from jgroups_py.simulator.profiles.group import GroupProfile
from jgroups_py.simulator.profiles.one_group import GROUP_FAULTS

LEAVE_NS = seconds(6)


class CoordinationProfile(GroupProfile):
    """Three to five members; their application is in jgroups_py/testing/simulation/coordination.py."""

    name = "coordination"
    bursts = False
    application = True
    sizes = (3, 5)
    kinds = (*GROUP_FAULTS, "coordinator", "pause")
    reaches: ClassVar[tuple[str, ...]] = (
        "grants", "grants lost", "writes refused by a fence", "waits withdrawn", "timeouts", "sessions ended",
        "barriers passed", "items finished", "counters added to", "cells changed", "orphans released")

    def make_plan(self) -> Plan:
        """The plan of profile group, with more operations. An application may take LEAVE_NS to leave, so none leaves
        later; somebody runs at the end."""
        plan = super().make_plan()
        faults = tuple(fault for fault in plan.faults
                       if not (isinstance(fault, LeaveOf) and fault.at_ns > plan.stop_ns - LEAVE_NS))
        traffic = (*plan.traffic, *self.draw_messages([], plan.stop_ns, 40),
                   Begin(plan.stop_ns - millis(1), self.members[0]))
        return attrs.evolve(plan, faults=faults, traffic=traffic)

    def fault(self, kind: str, at_ns: int) -> Action:
        if kind == "coordinator":
            return CrashOfCoordinator(at_ns, self.rng.choice(self.members))
        return super().fault(kind, at_ns)
