"""Profile services: typed services (blocks/service) on one group, under all faults of a group."""
from __future__ import annotations

from jgroups_py.simulator.faults.actions import Action, CrashOfCoordinator
from jgroups_py.simulator.profiles.group import GroupProfile
from jgroups_py.simulator.profiles.one_group import GROUP_FAULTS


class ServicesProfile(GroupProfile):
    """Two to five members, all of which serve and call; see jgroups_py/testing/simulation/services.py."""

    name = "services"
    bursts = False
    application = True
    sizes = (2, 5)
    kinds = (*GROUP_FAULTS, "coordinator")
    reaches = ("calls answered", "faults declared", "tried elsewhere", "definite failures", "indefinite failures",
               "no such method", "cancelled by callers", "handlers cancelled", "asked again", "streams read",
               "streams given up", "streams broken", "answers of all")

    def fault(self, kind: str, at_ns: int) -> Action:
        if kind == "coordinator":
            return CrashOfCoordinator(at_ns, self.rng.choice(self.members))
        return super().fault(kind, at_ns)
