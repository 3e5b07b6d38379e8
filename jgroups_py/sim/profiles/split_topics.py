"""Profiles split-brain-topics, storm-topics and scale-topics: TOPICS while sites split, relays die in chains, and there
are many sites."""
from __future__ import annotations

from typing import ClassVar

import attrs

from jgroups_py.outputs import LOCAL
from jgroups_py.sim.faults import Action, Split, Storm, Talk, Want
from jgroups_py.sim.network import Weather
from jgroups_py.sim.process import Process
from jgroups_py.sim.profiles.base import Plan, in_order, span
from jgroups_py.sim.profiles.scale import Scale
from jgroups_py.sim.profiles.sites import SitesProfile
from jgroups_py.sim.profiles.split_brain import SplitBrain
from jgroups_py.sim.profiles.storm import RelayStorm
from jgroups_py.sim.profiles.topics import TOPICS, member_with_topics
from jgroups_py.sim.world import World
from jgroups_py.units import millis, seconds

REACHES = ("numbers sent for messages", "numbers delivered", "interests heard")


class Topical(SitesProfile):
    """Members of sites want few topics: all the time, or now and then. Some topics only one half of a split site wants,
    and there are messages about them while it splits, relays and merges."""

    def make_plan(self) -> Plan:
        plan, rng = super().make_plan(), self.rng
        self.wanted: dict[str, str] = {}                  # member -> what it wants all the time
        for names in plan.sites.values():
            few = rng.sample(TOPICS, rng.choice((1, 1, 2)))
            for name in names:
                self.wanted[name] = "*" if rng.random() < 0.05 else ",".join(
                    topic for topic in few if rng.random() < 0.5)
        traffic: list[Action] = [self.about(action) if isinstance(action, Talk) else action for action in plan.traffic]
        for at_ns in self.stirring(plan):
            traffic += self.stir(at_ns)
        splits = [fault for fault in plan.faults if isinstance(fault, Split) and LOCAL in fault.nets]
        faults = list(plan.faults)
        if splits and rng.random() < 0.6:
            traffic = self.first_words(rng.choice(splits), traffic)
            if rng.random() < 0.6:
                latency_ns = span(rng, 0.01, 0.08)
                faults.append(Storm(millis(1500), Weather(latency_ns=latency_ns, jitter_ns=latency_ns // 4),
                                    plan.stop_ns - millis(1500), LOCAL))
        return attrs.evolve(plan, faults=in_order(faults), traffic=in_order(traffic))

    def first_words(self, split: Split, traffic: list[Action]) -> list[Action]:
        """Some members of other sites send their first message of all about a topic just after a site has split, when
        nobody has noticed, and nothing more for long: one half acknowledges it for the other, which never heard of its
        sender."""
        rng = self.rng
        away = self.site_of[split.groups[0][0]]
        novices = dict.fromkeys(rng.sample(self.elsewhere(away), min(2, len(self.elsewhere(away)))))
        again_ns = split.at_ns + split.for_ns + seconds(8)
        kept = [action for action in traffic
                if not (isinstance(action, Talk) and action.name in novices and not action.dest
                        and action.at_ns < again_ns)]
        return [*kept, *(Talk(split.at_ns + span(rng, 0, 6), name, "", 1, 0, topic=rng.choice(TOPICS))
                         for name in novices)]

    def about(self, talk: Talk) -> Talk:
        """A run to all mostly has a topic."""
        if talk.dest or talk.until or self.rng.random() < 0.2:
            return talk
        return attrs.evolve(talk, topic=self.rng.choice(TOPICS))

    def stirring(self, plan: Plan) -> list[int]:
        """When members change their minds and others talk: at any time, when faults begin, and when splits end."""
        rng = self.rng
        times = [rng.randrange(millis(800), plan.stop_ns) for _ in range(rng.randint(0, 3))]
        for fault in rng.sample(plan.faults, min(5, len(plan.faults))):
            times.append(fault.at_ns + span(rng, -0.1, 3))
        times += [fault.at_ns + fault.for_ns + span(rng, -0.5, 3) for fault in plan.faults if isinstance(fault, Split)]
        return [at_ns for at_ns in times if 0 <= at_ns < plan.stop_ns]

    def stir(self, at_ns: int) -> list[Action]:
        """A member may change its mind about a topic, while one of another site sends messages about it."""
        rng, topic = self.rng, self.rng.choice(TOPICS)
        site = rng.choice(list(self.sites))
        name = rng.choice(self.sites[site])
        made: list[Action] = []
        if rng.random() < 0.5 and not {"*", topic}.intersection(self.wanted[name].split(",")):
            made.append(Want(at_ns, name, topic, rng.random() < 0.7))
        speaker = rng.choice(self.elsewhere(site))
        first_ns = max(0, at_ns + span(rng, -0.3, 0.3))
        made += [Talk(time_ns, speaker, "", 1, 0, topic=topic)
                 for time_ns in range(first_ns, first_ns + seconds(rng.choice((0.2, 1.5))), millis(50))]
        return made

    def start(self, world: World, name: str) -> Process:
        return member_with_topics(self, world, name, self.wanted[name])


class SplitBrainTopics(Topical, SplitBrain):
    """Profile split-brain with topics."""

    name = "split-brain-topics"
    reaches: ClassVar[tuple[str, ...]] = ("halves that both relayed", "merged sites", *REACHES)


class StormTopics(Topical, RelayStorm):
    """Profile relay-storm with topics."""

    name = "storm-topics"
    reaches: ClassVar[tuple[str, ...]] = ("overlapping failovers at one site", "excluded members merged back", *REACHES)


class ScaleTopics(Topical, Scale):
    """Profile scale with topics, and smaller sites."""

    name = "scale-topics"
    sizes = (2, 4)
    reaches = ("failovers", "worlds of five sites", *REACHES)
