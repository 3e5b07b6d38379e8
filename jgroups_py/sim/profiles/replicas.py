"""Profile replicas: partitions with replicas on one group (blocks/replicas), under everything that befalls a group."""
from __future__ import annotations

from jgroups_py.sim.faults import Action, CrashOfFirst
from jgroups_py.sim.profiles.group import GROUP_FAULTS, Group

KINDS = (*GROUP_FAULTS, "coordinator")


class Replicas(Group):
    """Four to six members; what they do with their partitions is in jgroups_py/simulation/replicas.py."""

    name = "replicas"
    application = True
    sizes = (4, 6)
    kinds = KINDS
    reaches = ("elections", "changes of replicas", "states taken over", "replicas dropped", "leaders moved",
               "partitions without a majority", "operations answered", "splits")

    def fault(self, kind: str, at_ns: int) -> Action:
        if kind == "coordinator":
            return CrashOfFirst(at_ns, self.rng.choice(self.members))
        return super().fault(kind, at_ns)
