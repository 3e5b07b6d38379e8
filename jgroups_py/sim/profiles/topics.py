"""Profile topics: sites whose members want different topics, some of them now and then, under what befalls relays."""
from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import attrs

from jgroups_py.config.spec import StackSpec
from jgroups_py.outputs import LOCAL
from jgroups_py.sim.faults import Action, Begin, CrashOfFirst, OneWay, PauseOf, Split, Storm, Talk, Want
from jgroups_py.sim.network import Weather
from jgroups_py.sim.process import Process
from jgroups_py.sim.profiles.base import Plan, in_order, span, stack
from jgroups_py.sim.profiles.relay import Relay
from jgroups_py.sim.profiles.sites import Replier, SitesProfile, with_relay
from jgroups_py.sim.relay_faults import PauseOfFirst
from jgroups_py.sim.world import World
from jgroups_py.units import millis, seconds

TOPICS = ("orders", "prices", "7")
PORT = 45611
PATTERNS = ("hand over", "comeback", "another reign")        # the last one needs three members
FAULTS_END = millis(1500)                # before it all are started


class Topics(Relay):
    """As relay; each member has topics that it wants all the time, and most change their mind about others.

    In more than half of the seeds the local nets are slow, and around every change of mind somebody sends without a
    pause: so there is always something on its way between a member and its relay, in both directions. Most of these
    are one of three patterns, orders of events that single safeguards of TOPICS are for, and nothing else.
    """

    name = "topics"
    bursts = False
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
        slow = rng.random() < 0.6
        if slow and rng.random() < 0.75:
            return self.one_pattern(plan)
        times = [rng.randrange(millis(800), plan.stop_ns) for _ in range(rng.randint(0, 12))]
        times += [max(0, fault.at_ns + span(rng, -0.1, 3)) for fault in plan.faults if rng.random() < 0.7]
        stir = self.stir_slowly if slow else self.stir
        traffic = [*plan.traffic, *(action for at_ns in times for action in stir(at_ns))]
        faults = [*plan.faults, *(self.slowness(plan.stop_ns) if slow else ())]
        return attrs.evolve(plan, faults=in_order(faults), traffic=in_order(traffic))

    # --- at random --------------------------------------------------------------------------------------------------

    def slowness(self, stop_ns: int) -> list[Action]:
        """Local nets that take their time, nearly all the time."""
        latency_ns = span(self.rng, 0.01, 0.12)
        weather = Weather(latency_ns=latency_ns, jitter_ns=latency_ns // 4)
        return [Storm(FAULTS_END, weather, stop_ns - FAULTS_END, LOCAL)]

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

    def stir_slowly(self, at_ns: int) -> list[Action]:
        """Some members of a site change their minds about a topic, perhaps again and again, in a stream about it."""
        rng, topic = self.rng, self.rng.choice(TOPICS)
        site = rng.choice(list(self.sites))
        changes = []
        for name in rng.sample(self.sites[site], rng.randint(1, len(self.sites[site]))):
            change = Want(max(0, at_ns + span(rng, -0.1, 0.3)), name, topic, rng.random() < 0.7)
            for _ in range(rng.choice((1, 1, 2, 3))):
                changes.append(change)
                change = attrs.evolve(change, at_ns=change.at_ns + span(rng, 0.01, 0.25), on=not change.on)
        first_ns = max(0, at_ns - millis(200))
        talks = self.stream(rng.choice(self.elsewhere(site)), topic, first_ns, first_ns + seconds(0.6))
        return [*(change for change in changes if self.may_do(change)), *talks]

    def stream(self, speaker: str, topic: str, first_ns: int, stop_ns: int) -> list[Action]:
        """One message after the other about a topic."""
        return [Talk(at_ns, speaker, "", 1, 0, topic=topic) for at_ns in range(first_ns, stop_ns, millis(10))]

    # --- patterns: each at one site, where nobody wants anything all the time ---------------------------------------

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
            case "comeback":
                faults, stream = self.comeback(names, others, at_ns)
            case _:
                faults, stream = self.another_reign(names, others, at_ns)
        stop_ns = max(action.at_ns for action in (*faults, *stream)) + seconds(2)
        early = [action for action in plan.traffic if action.at_ns < at_ns - seconds(1) or isinstance(action, Begin)]
        return Plan(plan.sites, in_order([*faults, *self.slowness(stop_ns)]), in_order([*early, *stream]), stop_ns)

    def hand_over(self, names: list[str], others: tuple[str, ...], at_ns: int) -> tuple[list[Action], list[Action]]:
        """One member gives up a topic just as another asks for it, which has just asked for something else, too."""
        rng, (giver, taker), stream = self.rng, names[:2], list[Action]()
        for _ in range(3):
            topic, other = rng.sample(TOPICS, 2)
            asks_ns = at_ns + seconds(1)
            takes_ns = asks_ns + span(rng, 0.05, 0.25)
            stream += [Want(at_ns, giver, topic, True), Want(asks_ns, taker, other, True),
                       Want(rng.randrange(asks_ns, takes_ns), giver, topic, False),
                       Want(takes_ns, taker, topic, True), Want(at_ns + seconds(2.5), taker, topic, False),
                       Want(at_ns + seconds(2.5), taker, other, False),
                       *self.stream(rng.choice(others), topic, at_ns + millis(800), at_ns + seconds(2))]
            at_ns += seconds(3)
        return [], stream

    def comeback(self, names: list[str], others: tuple[str, ...], at_ns: int) -> tuple[list[Action], list[Action]]:
        """The only one that wants a topic is paused until it is excluded; others begin to send as it comes back."""
        rng, name, for_ns = self.rng, names[0], span(self.rng, 7, 9)
        topic, back_ns = rng.choice(TOPICS), at_ns + for_ns
        self.wanted[name] = topic
        stream: list[Action] = []
        for speaker in others:
            first_ns = back_ns + span(rng, 0, 2)
            stream += self.stream(speaker, topic, first_ns, first_ns + rng.choice((millis(10), seconds(1))))
        pause = PauseOfFirst(at_ns, name, for_ns) if rng.random() < 0.3 else PauseOf(at_ns, name, for_ns)
        return [pause], stream

    def another_reign(self, names: list[str], others: tuple[str, ...], at_ns: int) -> tuple[list[Action], list[Action]]:
        """A coordinator loses its office in a merge, another one changes its mind, and the first has the office again,
        but does not hear from the other one for a moment."""
        rng, topic, for_ns = self.rng, self.rng.choice(TOPICS), span(self.rng, 7, 9)
        lone, first, other = names
        healed_ns = at_ns + for_ns
        dies_ns = healed_ns + seconds(6)
        stream = self.stream(rng.choice(others), topic, dies_ns - millis(500), dies_ns + seconds(4))
        return [Split(at_ns, ((lone,), (first, other)), for_ns, (LOCAL,)), CrashOfFirst(dies_ns, lone),
                OneWay(dies_ns + span(rng, 0.1, 1.2), other, first, span(rng, 1, 3), (LOCAL,))], [
            Want(healed_ns + span(rng, 4, 5), other, topic, True), *stream]

    # --- members ----------------------------------------------------------------------------------------------------

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
        return member_with_topics(self, world, name, self.wanted[name])


def member_with_topics(
    profile: SitesProfile, world: World, name: str, topics: str,
    changed: Callable[[StackSpec], StackSpec] | None = None,
) -> Process:
    """Start a member with the shipped stack `topics`, RELAY set as the profile says; `changed` may add to the stack."""
    site = profile.site_of[name]
    hosts = ",".join(f"{world.ip(other)}[7900]" for other in profile.members)
    bridge = stack("bridge", (("bridge_hosts", hosts), ("bridge_port_range", "0")))
    spec = topics_stack(site, PORT + list(profile.plan.sites).index(site), topics, profile.settings)
    spec = changed(spec) if changed is not None else spec
    return world.start(name, spec, f"group of {site}", bridge=bridge, app=Replier())


@lru_cache(maxsize=256)
def topics_stack(site: str, port: int, topics: str, settings: tuple[tuple[str, object], ...]) -> StackSpec:
    """The shipped stack, with RELAY set differently."""
    return with_relay(stack("topics", (("site", site), ("mcast_port", str(port)), ("topics", topics))), settings)
