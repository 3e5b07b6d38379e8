"""Profile group: one group under everything a network and its hosts can do."""
from __future__ import annotations

from jgroups_py.sim.faults import Action, Begin, Clog, CrashOf, LeaveOf, OneWay, PauseOf, Split, Storm
from jgroups_py.sim.network import Weather
from jgroups_py.sim.process import App, Process
from jgroups_py.sim.profiles.base import STARTED_NS, Plan, Profile, halves, span, stack, storm
from jgroups_py.sim.world import World
from jgroups_py.units import millis

GROUP_FAULTS = ("crash", "leave", "pause", "split", "one-way", "clog", "storm")


class Group(Profile):
    """One group of three to six members, UDP and TCP by turns."""

    name = "group"
    sizes = 3, 6
    kinds: tuple[str, ...] = GROUP_FAULTS

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
            # Somebody of initial_hosts must be there in the end, else two groups have nobody through whom to meet.
            begins.append(Begin(stop_ns - millis(1), self.members[0]))
        kinds = [kind for kind in self.kinds if rng.random() < 0.4] or [rng.choice(self.kinds)]
        faults = [self.fault(rng.choice(kinds), rng.randrange(STARTED_NS, stop_ns)) for _ in range(rng.randint(2, 8))]
        again = [Begin(fault.at_ns + span(rng, 0.2, 5), fault.name) for fault in faults
                 if isinstance(fault, CrashOf | LeaveOf) and rng.random() < 0.6]
        faults = sorted([*faults, *(begin for begin in again if begin.at_ns < stop_ns)], key=lambda x: x.at_ns)
        traffic = (*begins, *self.talk(faults, stop_ns, rng.randint(15, 50)))
        return Plan({"": tuple(self.members)}, tuple(faults), traffic, stop_ns)

    def fault(self, kind: str, at_ns: int) -> Action:
        rng, names = self.rng, self.members
        one, other = rng.sample(names, 2)
        match kind:
            case "crash":
                return CrashOf(at_ns, one, power=rng.random() < 0.2)
            case "leave":
                return LeaveOf(at_ns, one)
            case "pause":
                return PauseOf(at_ns, one, span(rng, 0.2, 9))
            case "split":
                return Split(at_ns, halves(rng, names), span(rng, 0.5, 9))
            case "one-way":
                return OneWay(at_ns, one, other, span(rng, 0.5, 9))
            case "clog":
                slow = Weather(latency_ns=span(rng, 0.05, 1), jitter_ns=span(rng, 0.01, 0.5))
                return Clog(at_ns, one, other, slow, span(rng, 0.5, 5))
        return Storm(at_ns, storm(rng), span(rng, 0.5, 5))

    def start(self, world: World, name: str) -> Process:
        properties = {} if self.transport == "udp" else {
            "initial_hosts": ",".join(f"{world.ip(other)}[7800]" for other in self.members[:3]), "port_range": "0"}
        app = App(rate=300) if name == self.slow else None
        return world.start(name, stack(self.transport, tuple(properties.items())), app=app)

    def rested(self, world: World) -> bool:
        live = self.live(world)
        return world.agreed(live) and live == [name for name in self.names if name in world.running()]
