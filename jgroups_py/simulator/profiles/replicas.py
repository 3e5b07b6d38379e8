"""Profile replicas: partitions with replicas on one group (blocks/replication), under all faults of a group."""
from __future__ import annotations

import attrs

from jgroups_py.model.units import seconds
from jgroups_py.simulator.faults.actions import Action, Begin, CrashOf, CrashOfCoordinator, OneWay
from jgroups_py.simulator.profiles.base import STARTED_NS, Plan, span
from jgroups_py.simulator.profiles.group import GroupProfile
from jgroups_py.simulator.profiles.one_group import GROUP_FAULTS


class ReplicasProfile(GroupProfile):
    """Four to six members; their application is in jgroups_py/testing/simulation/replicas.py."""

    name = "replicas"
    bursts = False
    application = True
    sizes = (4, 6)
    kinds = (*GROUP_FAULTS, "coordinator")
    reaches = ("elections", "changes of replicas", "states taken over", "replicas dropped", "leaders moved",
               "partitions without a majority", "operations answered", "splits")

    def make_plan(self) -> Plan:
        """The plan of profile group, and members that crash while they are cut off from some others: only few members
        have what such a leader decided."""
        plan, rng = super().make_plan(), self.rng
        isolated: list[Action] = []
        for _ in range(rng.choice((0, 1, 2, 2))):
            isolated += self.isolated_crash(rng.randrange(STARTED_NS, plan.stop_ns))
        isolated = [action for action in isolated if action.at_ns < plan.stop_ns]
        faults = sorted([*plan.faults, *isolated], key=lambda action: action.at_ns)
        cuts: list[Action] = [action for action in isolated if isinstance(action, OneWay)]
        traffic = (*plan.traffic, *self.draw_messages(cuts, plan.stop_ns, 0))
        return attrs.evolve(plan, faults=tuple(faults), traffic=traffic)

    def isolated_crash(self, at_ns: int) -> list[Action]:
        """A member is cut off from some others for a moment; it crashes, or another member does, or none."""
        rng = self.rng
        one, *others = rng.sample(self.members, len(self.members))
        for_ns = span(rng, 0.2, 2)
        cut_off_from = others[:rng.randint(1, 2)]
        made: list[Action] = [OneWay(at_ns, one, other, for_ns) for other in cut_off_from]
        if rng.random() < 0.8:
            crashing = rng.choice((one, one, others[-1]))
            crash_ns = at_ns + span(rng, 0.05, for_ns / seconds(1))
            made += [CrashOf(crash_ns, crashing), Begin(crash_ns + span(rng, 0.3, 5), crashing)]
        return made

    def fault(self, kind: str, at_ns: int) -> Action:
        if kind == "coordinator":
            return CrashOfCoordinator(at_ns, self.rng.choice(self.members))
        return super().fault(kind, at_ns)
