"""Profile replicas: partitions with replicas on one group (blocks/replicas), under everything that befalls a group."""
from __future__ import annotations

import attrs

from jgroups_py.sim.faults import Action, Begin, CrashOf, CrashOfFirst, OneWay
from jgroups_py.sim.profiles.base import STARTED_NS, Plan, span
from jgroups_py.sim.profiles.group import Group
from jgroups_py.sim.profiles.one_group import GROUP_FAULTS
from jgroups_py.units import seconds


class Replicas(Group):
    """Four to six members; what they do with their partitions is in jgroups_py/simulation/replicas.py."""

    name = "replicas"
    bursts = False
    application = True
    sizes = (4, 6)
    kinds = (*GROUP_FAULTS, "coordinator")
    reaches = ("elections", "changes of replicas", "states taken over", "replicas dropped", "leaders moved",
               "partitions without a majority", "operations answered", "splits")

    def make_plan(self) -> Plan:
        """As a group's, and members that die while not all could hear them: what they led is known to few then."""
        plan, rng = super().make_plan(), self.rng
        lonely: list[Action] = []
        for _ in range(rng.choice((0, 1, 2, 2))):
            lonely += self.lonely_death(rng.randrange(STARTED_NS, plan.stop_ns))
        lonely = [action for action in lonely if action.at_ns < plan.stop_ns]
        faults = sorted([*plan.faults, *lonely], key=lambda action: action.at_ns)
        cuts: list[Action] = [action for action in lonely if isinstance(action, OneWay)]
        return attrs.evolve(plan, faults=tuple(faults), traffic=(*plan.traffic, *self.talk(cuts, plan.stop_ns, 0)))

    def lonely_death(self, at_ns: int) -> list[Action]:
        """A member is not heard by some others for a moment, and dies, or another one does, or nobody."""
        rng = self.rng
        one, *others = rng.sample(self.members, len(self.members))
        for_ns = span(rng, 0.2, 2)
        deaf = others[:rng.randint(1, 2)]
        made: list[Action] = [OneWay(at_ns, one, other, for_ns) for other in deaf]
        if rng.random() < 0.8:
            dead = rng.choice((one, one, others[-1]))
            crash_ns = at_ns + span(rng, 0.05, for_ns / seconds(1))
            made += [CrashOf(crash_ns, dead), Begin(crash_ns + span(rng, 0.3, 5), dead)]
        return made

    def fault(self, kind: str, at_ns: int) -> Action:
        if kind == "coordinator":
            return CrashOfFirst(at_ns, self.rng.choice(self.members))
        return super().fault(kind, at_ns)
