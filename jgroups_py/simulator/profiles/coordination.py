"""Profile coordination: locks, leaders, counters, queues (blocks/coordination) on one group, under all faults of a
group, with clocks that run at different rates."""
from __future__ import annotations

import attrs

from jgroups_py.simulator.faults.actions import Action, CrashOfCoordinator
from jgroups_py.simulator.profiles.base import Plan
from jgroups_py.simulator.profiles.group import GroupProfile
from jgroups_py.simulator.profiles.one_group import GROUP_FAULTS


class CoordinationProfile(GroupProfile):
    """Three to five members; their application is in jgroups_py/testing/simulation/coordination.py."""

    name = "coordination"
    bursts = False
    application = True
    sizes = (3, 5)
    kinds = (*GROUP_FAULTS, "coordinator", "pause")
    reaches = ("grants", "grants lost", "writes refused by a fence", "waits withdrawn", "timeouts", "sessions ended",
               "barriers passed", "items finished", "counters added to", "cells changed", "orphans released")

    def make_plan(self) -> Plan:
        """The plan of profile group, with more operations."""
        plan = super().make_plan()
        return attrs.evolve(plan, traffic=(*plan.traffic, *self.draw_messages([], plan.stop_ns, 40)))

    def fault(self, kind: str, at_ns: int) -> Action:
        if kind == "coordinator":
            return CrashOfCoordinator(at_ns, self.rng.choice(self.members))
        return super().fault(kind, at_ns)
