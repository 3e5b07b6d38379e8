"""Profile topics: sites whose members want different topics, some of them now and then, under what befalls relays."""
from __future__ import annotations

import attrs

from jgroups_py.config.spec import StackSpec
from jgroups_py.sim.faults import Action, Talk, Want
from jgroups_py.sim.process import Process
from jgroups_py.sim.profiles.base import Plan, span, stack
from jgroups_py.sim.profiles.relay import Relay
from jgroups_py.sim.profiles.sites import Replier
from jgroups_py.sim.world import World
from jgroups_py.units import millis

TOPICS = ("orders", "prices", "7")
PORT = 45611


class Topics(Relay):
    """As relay; each member has topics that it wants all the time, and most change their mind about others."""

    name = "topics"
    reaches = ("failovers", "numbers sent for messages", "numbers delivered", "numbers refused", "interests heard",
               "halves that both relayed")

    def make_plan(self) -> Plan:
        self.wanted: dict[str, str] = {}                  # member -> what it wants all the time
        plan = super().make_plan()
        rng = self.rng
        for names in plan.sites.values():
            # Most sites want few topics as a whole, else hardly anything would be left out.
            few = rng.sample(TOPICS, rng.choice((0, 1, 1, 2))) if rng.random() < 0.7 else list(TOPICS)
            for name in names:
                self.wanted[name] = "*" if rng.random() < 0.07 else ",".join(
                    topic for topic in few if rng.random() < 0.7)
        times = [rng.randrange(millis(800), plan.stop_ns) for _ in range(rng.randint(0, 12))]
        times += [max(0, fault.at_ns + span(rng, -0.1, 3)) for fault in plan.faults if rng.random() < 0.7]
        traffic = [*plan.traffic, *(action for at_ns in times for action in self.stir(at_ns))]
        return attrs.evolve(plan, traffic=tuple(sorted(traffic, key=lambda action: action.at_ns)))

    def stir(self, at_ns: int) -> list[Action]:
        """Members of a site change their minds about a topic within a moment, while others send a lot about it."""
        rng, topic = self.rng, self.rng.choice(TOPICS)
        site = rng.choice(list(self.sites))
        changes = [Want(at_ns + rng.randrange(millis(30)), rng.choice(self.sites[site]), topic, rng.random() < 0.6)
                   for _ in range(rng.choice((1, 1, 2, 4)))]
        speaker = rng.choice(self.elsewhere(site))
        talks = [Talk(max(0, at_ns + span(rng, -0.05, 0.15)), speaker, "", rng.choice((1, 1, 2)), 0, topic=topic)
                 for _ in range(rng.choice((0, 10, 30)))]
        return [*(change for change in changes if self.may_do(change)), *talks]

    def may_do(self, change: Want) -> bool:
        """What a member wants all the time it never gives up, so that the other guarantees can be judged too."""
        always = self.wanted[change.name].split(",")
        return "*" not in always and change.topic not in always

    def one_talk(self, at_ns: int, far_ratio: float) -> Talk:
        talk = super().one_talk(at_ns, far_ratio)
        if talk.dest or talk.until or self.rng.random() < 0.2:
            return talk
        return attrs.evolve(talk, topic=self.rng.choice(TOPICS))

    def start(self, world: World, name: str) -> Process:
        site = self.site_of[name]
        hosts = ",".join(f"{world.ip(other)}[7900]" for other in self.members)
        bridge = stack("bridge", (("bridge_hosts", hosts), ("bridge_port_range", "0")))
        spec = self.stack_of(site, self.wanted[name])
        return world.start(name, spec, f"group of {site}", bridge=bridge, app=Replier())

    def stack_of(self, site: str, topics: str) -> StackSpec:
        """The shipped stack."""
        port = PORT + list(self.plan.sites).index(site)
        return stack("topics", (("site", site), ("mcast_port", str(port)), ("topics", topics)))
