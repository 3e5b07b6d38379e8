"""Profiles split-brain-topics, storm-topics and scale-topics: TOPICS with splits, chains of failovers, many sites."""
from __future__ import annotations

from typing import ClassVar

import attrs

from jgroups_py.model.outputs import LOCAL
from jgroups_py.model.units import millis, seconds
from jgroups_py.simulator.faults.actions import Action, ChangeInterest, SendMessages, Split, Storm
from jgroups_py.simulator.network import Weather
from jgroups_py.simulator.process import Process
from jgroups_py.simulator.profiles.base import Plan, in_order, span
from jgroups_py.simulator.profiles.scale import ScaleProfile
from jgroups_py.simulator.profiles.sites import SitesProfile
from jgroups_py.simulator.profiles.split_brain import SplitBrainProfile
from jgroups_py.simulator.profiles.storm import RelayStormProfile
from jgroups_py.simulator.profiles.topics import TOPICS, member_with_topics
from jgroups_py.simulator.world import World

REACHES = ("numbers sent for messages", "numbers delivered", "interests received")


class Topical(SitesProfile):
    """Members subscribe to few topics, all the time or for a while. Some topics have subscribers only in one half of a
    split site, and messages of these topics are sent while the site splits, both halves relay, and they merge."""

    def make_plan(self) -> Plan:
        plan, rng = super().make_plan(), self.rng
        self.wanted: dict[str, str] = {}                  # member -> its permanent subscriptions
        for names in plan.sites.values():
            few = rng.sample(TOPICS, rng.choice((1, 1, 2)))
            for name in names:
                self.wanted[name] = "*" if rng.random() < 0.05 else ",".join(
                    topic for topic in few if rng.random() < 0.5)
        traffic: list[Action] = [
            self.about(action) if isinstance(action, SendMessages) else action for action in plan.traffic]
        for at_ns in self.change_times(plan):
            traffic += self.change_interests(at_ns)
        splits = [fault for fault in plan.faults if isinstance(fault, Split) and LOCAL in fault.nets]
        faults = list(plan.faults)
        if splits and rng.random() < 0.6:
            traffic = self.first_messages(rng.choice(splits), traffic)
            if rng.random() < 0.6:
                latency_ns = span(rng, 0.01, 0.08)
                faults.append(Storm(millis(1500), Weather(latency_ns=latency_ns, jitter_ns=latency_ns // 4),
                                    plan.stop_ns - millis(1500), LOCAL))
        return attrs.evolve(plan, faults=in_order(faults), traffic=in_order(traffic))

    def first_messages(self, split: Split, traffic: list[Action]) -> list[Action]:
        """Some members of other sites send their first message just after a site has split, before any member detects
        that, and then none for long: one half acknowledges the message also for the other one, which does not know its
        origin yet."""
        rng = self.rng
        away = self.site_of[split.groups[0][0]]
        new_senders = dict.fromkeys(rng.sample(self.elsewhere(away), min(2, len(self.elsewhere(away)))))
        again_ns = split.at_ns + split.for_ns + seconds(8)
        kept = [action for action in traffic
                if not (isinstance(action, SendMessages) and action.name in new_senders and not action.dest
                        and action.at_ns < again_ns)]
        return [*kept, *(SendMessages(split.at_ns + span(rng, 0, 6), name, "", 1, 0, topic=rng.choice(TOPICS))
                         for name in new_senders)]

    def about(self, sent: SendMessages) -> SendMessages:
        """A message with a topic, if it goes to all; some stay without one."""
        if sent.dest or sent.until or self.rng.random() < 0.2:
            return sent
        return attrs.evolve(sent, topic=self.rng.choice(TOPICS))

    def change_times(self, plan: Plan) -> list[int]:
        """The times at which interests change while others send: any, around the begin of faults and the end of splits.
        """
        rng = self.rng
        times = [rng.randrange(millis(800), plan.stop_ns) for _ in range(rng.randint(0, 3))]
        for fault in rng.sample(plan.faults, min(5, len(plan.faults))):
            times.append(fault.at_ns + span(rng, -0.1, 3))
        times += [fault.at_ns + fault.for_ns + span(rng, -0.5, 3) for fault in plan.faults if isinstance(fault, Split)]
        return [at_ns for at_ns in times if 0 <= at_ns < plan.stop_ns]

    def change_interests(self, at_ns: int) -> list[Action]:
        """A member may change its interest in a topic, while a member of another site sends messages about it."""
        rng, topic = self.rng, self.rng.choice(TOPICS)
        site = rng.choice(list(self.sites))
        name = rng.choice(self.sites[site])
        made: list[Action] = []
        if rng.random() < 0.5 and not {"*", topic}.intersection(self.wanted[name].split(",")):
            made.append(ChangeInterest(at_ns, name, topic, rng.random() < 0.7))
        sender = rng.choice(self.elsewhere(site))
        first_ns = max(0, at_ns + span(rng, -0.3, 0.3))
        made += [SendMessages(time_ns, sender, "", 1, 0, topic=topic)
                 for time_ns in range(first_ns, first_ns + seconds(rng.choice((0.2, 1.5))), millis(50))]
        return made

    def start(self, world: World, name: str) -> Process:
        return member_with_topics(self, world, name, self.wanted[name])


class SplitBrainTopicsProfile(Topical, SplitBrainProfile):
    """Profile split-brain with topics."""

    name = "split-brain-topics"
    reaches: ClassVar[tuple[str, ...]] = ("halves that both relayed", "merged sites", *REACHES)


class StormTopicsProfile(Topical, RelayStormProfile):
    """Profile relay-storm with topics."""

    name = "storm-topics"
    reaches: ClassVar[tuple[str, ...]] = ("overlapping failovers at one site", "excluded members merged back", *REACHES)


class ScaleTopicsProfile(Topical, ScaleProfile):
    """Profile scale with topics, and smaller sites."""

    name = "scale-topics"
    sizes = (2, 4)
    reaches = ("failovers", "worlds of five sites", *REACHES)
