"""Profile flow: one group with FLOW, whose senders follow a strategy, with slow applications and faults of a group."""
from __future__ import annotations

from jgroups_py.model.units import millis
from jgroups_py.simulator.faults.actions import Begin, LeaveOf, SendMessages
from jgroups_py.simulator.process import App, Process
from jgroups_py.simulator.profiles.base import STARTED_NS, Plan, stack
from jgroups_py.simulator.profiles.group import GroupProfile
from jgroups_py.simulator.world import World

TAG = "1001"
STRATEGIES = ("max", "max,rrwm:1", "min", "min,t:1s", "min,g:/2", f"tagged,g:{TAG}", f"tagged,g:{TAG}/1,t:500ms")
SLOW_RATES = (100, 300, 1000)


class FlowProfile(GroupProfile):
    """Three to six members; each may be slow, and may have the tag of a tagged strategy."""

    name = "flow"
    bursts = False
    reaches = ("messages skipped", "receivers given up", "receivers back", "senders not connected")

    def make_plan(self) -> Plan:
        plan = super().make_plan()
        rng = self.rng
        self.transport = "flow"
        self.properties = (("fc", rng.choice(STRATEGIES)), ("window", rng.choice(("64K", "256K", "1M"))))
        self.rates = {name: rng.choice(SLOW_RATES) for name in self.members if rng.random() < 0.4}
        self.tags = {name: TAG for name in self.members if rng.random() < 0.6}
        self.tags.setdefault(self.members[0], TAG)
        self.tags.setdefault(self.members[1], TAG)
        floods = [SendMessages(rng.randrange(STARTED_NS, plan.stop_ns), rng.choice(self.members), "",
                       rng.choice((40, 100, 200)), rng.choice((5000, 10_000)), 0) for _ in range(rng.randint(5, 25))]
        # A strategy with "/" has a least number of receivers, for which senders wait: so no member leaves, and all run
        # at the end.
        faults = tuple(fault for fault in plan.faults if "/" not in self.properties[0][1]
                       or not isinstance(fault, LeaveOf))
        all_there = [Begin(plan.stop_ns - millis(1), name) for name in self.members]
        return Plan(plan.sites, faults, (*plan.traffic, *floods, *all_there), plan.stop_ns)

    def start(self, world: World, name: str) -> Process:
        spec = stack("flow", (*self.properties, ("gtag", self.tags.get(name, ""))))
        return world.start(name, spec, app=App(rate=self.rates.get(name, 0)))
