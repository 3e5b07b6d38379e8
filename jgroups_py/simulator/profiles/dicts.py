"""Profile dict: a ReplicatedDict (blocks/dicts) on one group with one order, under all faults of a group."""
from __future__ import annotations

from jgroups_py.simulator.faults.actions import Action, CrashOfCoordinator
from jgroups_py.simulator.profiles.base import Plan
from jgroups_py.simulator.profiles.group import GroupProfile
from jgroups_py.simulator.profiles.one_group import GROUP_FAULTS


class DictProfile(GroupProfile):
    """Two to five members; their application is in jgroups_py/testing/simulation/dicts.py."""

    name = "dict"
    bursts = False
    application = True
    sizes = (2, 5)
    kinds = (*GROUP_FAULTS, "coordinator")
    reaches = ("copies taken", "writes refused", "writes taken back", "merged copies", "entries expired",
               "writes answered")

    def make_plan(self) -> Plan:
        plan = super().make_plan()
        self.transport += "-total"
        return plan

    def fault(self, kind: str, at_ns: int) -> Action:
        if kind == "coordinator":
            return CrashOfCoordinator(at_ns, self.rng.choice(self.members))
        return super().fault(kind, at_ns)
