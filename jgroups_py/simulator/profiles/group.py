"""Profile group: one group under all faults of hosts and the network."""
from __future__ import annotations

from jgroups_py.config.spec import StackSpec
from jgroups_py.model.units import millis
from jgroups_py.simulator.faults.actions import Begin
from jgroups_py.simulator.process import App, Process
from jgroups_py.simulator.profiles.base import Plan, span, stack
from jgroups_py.simulator.profiles.one_group import OneGroupProfile, Severity
from jgroups_py.simulator.world import World


class GroupProfile(OneGroupProfile):
    """One group of three to six members: even seeds on UDP, odd ones on TCP."""

    name = "group"
    bursts = True
    sizes = 3, 6
    severity = Severity(faults=8, power_ratio=0.2, again_ratio=0.6, away_s=5, pause_s=9, split_s=9, one_way_s=9,
                        clog_s=5, storm_s=5)

    def make_plan(self) -> Plan:
        rng = self.rng
        self.transport = "tcp" if self.seed % 2 else "udp"
        self.members = list("ABCDEF"[:rng.randint(*self.sizes)])
        self.slow = rng.choice(self.members) if rng.random() < 0.15 else None
        stop_ns = span(rng, 8, 16)
        begins = [Begin(rng.randrange(millis(500)), name) for name in self.members]
        for at, name in enumerate(self.members[2:], 2):
            if rng.random() < 0.3:
                begins[at] = Begin(rng.randrange(stop_ns), name)
        if self.transport == "tcp":
            # A member of initial_hosts must run at the end, or two groups could not discover each other.
            begins.append(Begin(stop_ns - millis(1), self.members[0]))
        faults = self.draw_faults(stop_ns)
        traffic = (*begins, *self.draw_messages(faults, stop_ns, rng.randint(15, 50)))
        return Plan({"": tuple(self.members)}, tuple(faults), traffic, stop_ns)

    def start(self, world: World, name: str) -> Process:
        app = App(rate=300) if name == self.slow else None
        return world.start(name, self.spec(world), app=app)

    def spec(self, world: World) -> StackSpec:
        """The shipped stack of all members."""
        properties = {} if self.transport == "udp" else {
            "initial_hosts": ",".join(f"{world.ip(other)}[7800]" for other in self.members[:3]), "port_range": "0"}
        return stack(self.transport, tuple(properties.items()))

    def rested(self, world: World) -> bool:
        live = self.live(world)
        return world.agreed(live) and live == [name for name in self.names if name in world.running()]
