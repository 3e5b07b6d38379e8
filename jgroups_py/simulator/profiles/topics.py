"""Profile topics: sites whose members subscribe to different topics, some for a while, under faults of relays."""
from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import ClassVar

import attrs

from jgroups_py.config.spec import StackSpec
from jgroups_py.model.outputs import LOCAL
from jgroups_py.model.units import millis, seconds
from jgroups_py.simulator.faults.actions import (
    Action,
    Begin,
    ChangeInterest,
    CrashOfCoordinator,
    OneWay,
    PauseOf,
    SendMessages,
    Split,
    Storm,
)
from jgroups_py.simulator.faults.relay_faults import PauseOfRelay
from jgroups_py.simulator.network import Weather
from jgroups_py.simulator.process import Process
from jgroups_py.simulator.profiles.base import Plan, in_order, span, stack
from jgroups_py.simulator.profiles.relay import RelayProfile
from jgroups_py.simulator.profiles.sites import Replier, SitesProfile, with_relay
from jgroups_py.simulator.world import World

TOPICS = ("orders", "prices", "7")
PORT = 45611
PATTERNS = ("hand over", "return from pause", "second term")       # the last one needs three members
FAULTS_END = millis(1500)                # by then all members have started


class TopicsProfile(RelayProfile):
    """Profile relay with topics; each member has permanent subscriptions, and most change their interest in others.

    In more than half of the seeds the local nets are slow, and around every change of interest a member sends without
    a pause, so that messages are always under way between a member and its relay, in both directions. Most of these
    seeds have just one of three patterns: orders of events, each of which a single safeguard of TOPICS is for.
    """

    name = "topics"
    bursts = False
    reaches: ClassVar[tuple[str, ...]] = (
        "failovers", "numbers sent for messages", "numbers delivered", "numbers refused", "interests received",
        "halves that both relayed")

    def make_plan(self) -> Plan:
        self.wanted: dict[str, str] = {}                  # member -> its permanent subscriptions
        plan = super().make_plan()
        rng = self.rng
        for names in plan.sites.values():
            # Most sites as a whole subscribe to few topics, else relays would hardly filter anything.
            few = rng.sample(TOPICS, rng.choice((0, 1, 1, 2))) if rng.random() < 0.7 else list(TOPICS)
            for name in names:
                self.wanted[name] = "*" if rng.random() < 0.07 else ",".join(
                    topic for topic in few if rng.random() < 0.7)
        slow = rng.random() < 0.6
        if slow and rng.random() < 0.75:
            return self.one_pattern(plan)
        times = [rng.randrange(millis(800), plan.stop_ns) for _ in range(rng.randint(0, 12))]
        times += [max(0, fault.at_ns + span(rng, -0.1, 3)) for fault in plan.faults if rng.random() < 0.7]
        change_interests = self.change_interests_slowly if slow else self.change_interests
        traffic = [*plan.traffic, *(action for at_ns in times for action in change_interests(at_ns))]
        faults = [*plan.faults, *(self.slowness(plan.stop_ns) if slow else ())]
        return attrs.evolve(plan, faults=in_order(faults), traffic=in_order(traffic))

    # --- at random --------------------------------------------------------------------------------------------------

    def slowness(self, stop_ns: int) -> list[Action]:
        """Slow local nets, from the start of all members to the end."""
        latency_ns = span(self.rng, 0.01, 0.12)
        weather = Weather(latency_ns=latency_ns, jitter_ns=latency_ns // 4)
        return [Storm(FAULTS_END, weather, stop_ns - FAULTS_END, LOCAL)]

    def change_interests(self, at_ns: int) -> list[Action]:
        """Members of a site change their interest in a topic almost at once, during a burst of its messages."""
        rng, topic = self.rng, self.rng.choice(TOPICS)
        site = rng.choice(list(self.sites))
        changes = [ChangeInterest(at_ns + rng.randrange(millis(30)), rng.choice(self.sites[site]), topic,
                                  rng.random() < 0.6) for _ in range(rng.choice((1, 1, 2, 4)))]
        sender = rng.choice(self.elsewhere(site))
        messages = [SendMessages(max(0, at_ns + span(rng, -0.05, 0.15)), sender, "", rng.choice((1, 1, 2)), 0,
                              topic=topic) for _ in range(rng.choice((0, 10, 30)))]
        return [*(change for change in changes if self.is_allowed(change)), *messages]

    def change_interests_slowly(self, at_ns: int) -> list[Action]:
        """Some members of a site change their interest in a topic, up to three times, during a stream of messages."""
        rng, topic = self.rng, self.rng.choice(TOPICS)
        site = rng.choice(list(self.sites))
        changes = []
        for name in rng.sample(self.sites[site], rng.randint(1, len(self.sites[site]))):
            change = ChangeInterest(max(0, at_ns + span(rng, -0.1, 0.3)), name, topic, rng.random() < 0.7)
            for _ in range(rng.choice((1, 1, 2, 3))):
                changes.append(change)
                change = attrs.evolve(change, at_ns=change.at_ns + span(rng, 0.01, 0.25), on=not change.on)
        first_ns = max(0, at_ns - millis(200))
        messages = self.stream(rng.choice(self.elsewhere(site)), topic, first_ns, first_ns + seconds(0.6))
        return [*(change for change in changes if self.is_allowed(change)), *messages]

    def stream(self, sender: str, topic: str, first_ns: int, stop_ns: int) -> list[Action]:
        """A message of a topic every 10 ms."""
        return [SendMessages(at_ns, sender, "", 1, 0, topic=topic) for at_ns in range(first_ns, stop_ns, millis(10))]

    # --- patterns: each at one site without permanent subscriptions ---------------------------------------------------

    def one_pattern(self, plan: Plan) -> Plan:
        """A plan with a pattern in place of its faults."""
        rng = self.rng
        site, at_ns = rng.choice(list(self.sites)), span(rng, 4, 5)
        names = rng.sample(self.sites[site], len(self.sites[site]))
        self.wanted.update(dict.fromkeys(names, ""))
        others = self.elsewhere(site)
        match rng.choice(PATTERNS if len(names) > 2 else PATTERNS[:2]):
            case "hand over":
                faults, stream = self.hand_over(names, others, at_ns)
            case "return from pause":
                faults, stream = self.return_from_pause(names, others, at_ns)
            case _:
                faults, stream = self.second_term(names, others, at_ns)
        stop_ns = max(action.at_ns for action in (*faults, *stream)) + seconds(2)
        early = [action for action in plan.traffic if action.at_ns < at_ns - seconds(1) or isinstance(action, Begin)]
        return Plan(plan.sites, in_order([*faults, *self.slowness(stop_ns)]), in_order([*early, *stream]), stop_ns)

    def hand_over(self, names: list[str], others: tuple[str, ...], at_ns: int) -> tuple[list[Action], list[Action]]:
        """The subscription to a topic moves: one member ends it just as another one begins it, which has begun one to
        another topic just before."""
        rng, (former, new), stream = self.rng, names[:2], list[Action]()
        for _ in range(3):
            topic, other = rng.sample(TOPICS, 2)
            other_ns = at_ns + seconds(1)
            moves_ns = other_ns + span(rng, 0.05, 0.25)
            stream += [ChangeInterest(at_ns, former, topic, True), ChangeInterest(other_ns, new, other, True),
                       ChangeInterest(rng.randrange(other_ns, moves_ns), former, topic, False),
                       ChangeInterest(moves_ns, new, topic, True),
                       ChangeInterest(at_ns + seconds(2.5), new, topic, False),
                       ChangeInterest(at_ns + seconds(2.5), new, other, False),
                       *self.stream(rng.choice(others), topic, at_ns + millis(800), at_ns + seconds(2))]
            at_ns += seconds(3)
        return [], stream

    def return_from_pause(
        self, names: list[str], others: tuple[str, ...], at_ns: int,
    ) -> tuple[list[Action], list[Action]]:
        """The only subscriber of a topic is paused until it is excluded; others begin to send as it merges back."""
        rng, name, for_ns = self.rng, names[0], span(self.rng, 7, 9)
        topic, back_ns = rng.choice(TOPICS), at_ns + for_ns
        self.wanted[name] = topic
        stream: list[Action] = []
        for sender in others:
            first_ns = back_ns + span(rng, 0, 2)
            stream += self.stream(sender, topic, first_ns, first_ns + rng.choice((millis(10), seconds(1))))
        pause = PauseOfRelay(at_ns, name, for_ns) if rng.random() < 0.3 else PauseOf(at_ns, name, for_ns)
        return [pause], stream

    def second_term(self, names: list[str], others: tuple[str, ...], at_ns: int) -> tuple[list[Action], list[Action]]:
        """A member is coordinator a second time. In a merge it ceases to be, another member changes its interest, and
        then the first one becomes coordinator again while it is cut off from that member for a moment."""
        rng, topic, for_ns = self.rng, self.rng.choice(TOPICS), span(self.rng, 7, 9)
        lone, first, other = names
        healed_ns = at_ns + for_ns
        dies_ns = healed_ns + seconds(6)
        stream = self.stream(rng.choice(others), topic, dies_ns - millis(500), dies_ns + seconds(4))
        return [Split(at_ns, ((lone,), (first, other)), for_ns, (LOCAL,)), CrashOfCoordinator(dies_ns, lone),
                OneWay(dies_ns + span(rng, 0.1, 1.2), other, first, span(rng, 1, 3), (LOCAL,))], [
            ChangeInterest(healed_ns + span(rng, 4, 5), other, topic, True), *stream]

    # --- members ----------------------------------------------------------------------------------------------------

    def is_allowed(self, change: ChangeInterest) -> bool:
        """Whether a change affects no permanent subscription: what is due to these is judged."""
        always = self.wanted[change.name].split(",")
        return "*" not in always and change.topic not in always

    def draw_message(self, at_ns: int, far_ratio: float) -> SendMessages:
        sent = super().draw_message(at_ns, far_ratio)
        if sent.dest or sent.until or self.rng.random() < 0.2:
            return sent
        return attrs.evolve(sent, topic=self.rng.choice(TOPICS))

    def start(self, world: World, name: str) -> Process:
        return member_with_topics(self, world, name, self.wanted[name])


def member_with_topics(
    profile: SitesProfile, world: World, name: str, topics: str,
    changed: Callable[[StackSpec], StackSpec] | None = None,
) -> Process:
    """Start a member with the shipped stack `topics` and the profile's settings of RELAY, passed through `changed`."""
    site = profile.site_of[name]
    hosts = ",".join(f"{world.ip(other)}[7900]" for other in profile.members)
    bridge = stack("bridge", (("bridge_hosts", hosts), ("bridge_port_range", "0")))
    spec = topics_stack(site, PORT + list(profile.plan.sites).index(site), topics, profile.settings)
    spec = changed(spec) if changed is not None else spec
    return world.start(name, spec, f"group of {site}", bridge=bridge, app=Replier())


@lru_cache(maxsize=256)
def topics_stack(site: str, port: int, topics: str, settings: tuple[tuple[str, object], ...]) -> StackSpec:
    """The shipped stack `topics`, with these settings of RELAY."""
    return with_relay(stack("topics", (("site", site), ("mcast_port", str(port)), ("topics", topics))), settings)
