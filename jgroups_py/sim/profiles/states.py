"""Profiles states and site-states: members fetch states, of the own group and of other sites, while things fail."""
from __future__ import annotations

from random import Random

import attrs

from jgroups_py.batch import NO_RELAY, NO_RELIABILITY
from jgroups_py.config.spec import StackSpec
from jgroups_py.sim.checkers import Violation
from jgroups_py.sim.faults import Talk
from jgroups_py.sim.process import Process
from jgroups_py.sim.profiles.base import Plan, Profile, in_order, span
from jgroups_py.sim.profiles.group import Group
from jgroups_py.sim.profiles.relay import RelayCrash
from jgroups_py.sim.states import Fetch, StateApp, judge_states, manner, waits
from jgroups_py.sim.world import World
from jgroups_py.units import millis, seconds

NEAR = 0.3                               # of the requests in site-states may be for a state of the own site
TIMEOUTS_S = (0.2, 1.0, 5.0, 5.0, 5.0)
FINAL_TIMEOUT_NS = seconds(20)


class Fetching(Profile):
    """What both have in common: dice of their own, an application with a state, and a last request when all is well.

    That one must be answered with a state, while others send.
    """

    by_numbers = False                   # as in judge_states

    def make_plan(self) -> Plan:
        self.state_rng = Random(f"{self.seed}/states/{self.name}")
        self.manner = manner(self.state_rng)
        self.last: StateApp | None = None                # who asks last
        return self.with_fetches(super().make_plan())

    def with_fetches(self, plan: Plan) -> Plan:
        """The plan with requests: at any time, beside faults, and just around messages, on whose way they come."""
        rng = self.state_rng
        talks = [attrs.evolve(action, flags=action.flags & ~self.left_out) if isinstance(action, Talk) else action
                 for action in plan.traffic]
        said = [action for action in talks if isinstance(action, Talk) and not action.dest]
        times = [rng.randrange(seconds(1), plan.stop_ns) for _ in range(rng.randint(3, 14))]
        times += [max(0, fault.at_ns + span(rng, -0.02, 0.05)) for fault in plan.faults if rng.random() < 0.8]
        fetches = [self.fetch(at_ns, rng.choice(self.members)) for at_ns in times]
        for talk in rng.sample(said, min(len(said), 8)):
            at_ns = talk.at_ns + rng.randrange(millis(2))
            fetch = self.fetch(at_ns, talk.name)
            fetches.append(fetch if rng.random() < 0.5 or not fetch.target else
                           attrs.evolve(fetch, name=fetch.target, target=fetch.name))
        return attrs.evolve(plan, traffic=in_order([*talks, *fetches]))

    left_out = NO_RELIABILITY
    """Flags that no message has: what is unreliable has no place in the stream, so a state may hold what is to come."""

    def fetch(self, at_ns: int, name: str) -> Fetch:
        """A request at some time."""
        rng = self.state_rng
        target = rng.choice(["", *self.members, *self.members])
        return Fetch(at_ns, name, target, seconds(rng.choice(TIMEOUTS_S)), again=rng.random() < 0.1)

    def app(self) -> StateApp:
        """What each member runs."""
        return StateApp(self.manner)

    def rested(self, world: World) -> bool:
        """Also: nobody waits for a state, and the last request has been answered."""
        if not super().rested(world) or any(waits(world.process(name)) for name in self.live(world)):
            return False
        if self.last is None:
            self.ask_last(world)
            return False
        return True

    def ask_last(self, world: World) -> None:
        """The last request, amid messages of everybody."""
        live = self.live(world)
        for name in live:
            app = world.process(name).app
            assert isinstance(app, StateApp), "as started"
            app.fails = False
            world.post(name, count=2)
        name, target = self.last_pair(live)
        app = world.process(name).app
        assert isinstance(app, StateApp), "as started"
        self.last = app
        app.ask(target, FINAL_TIMEOUT_NS)
        for other in live:
            world.post(other, count=2)

    def last_pair(self, live: list[str]) -> tuple[str, str]:
        """Which member asks last, and which is asked."""
        pair = self.state_rng.sample(live, min(2, len(live)))
        return pair[0], pair[-1]

    def judged(self, world: World, found: list[Violation]) -> list[Violation]:
        found = [*super().judged(world, found), *judge_states(world, by_numbers=self.by_numbers)]
        if self.last is not None and self.last.process.running and any(self.last.state_errors[self.last.ends_before:]):
            found.append(Violation("L", f"{self.last.process.incarnation} was refused the state when all was well: "
                                   f"{self.last.state_errors[-1]}", world.now_ns))
        return sorted(found, key=lambda violation: violation.at_ns)


class States(Fetching, Group):
    """Profile group, with states; in half of the seeds little of one may be on its way, in a third little is kept ahead
    of a hole."""

    name = "states"
    reaches = ("states of the own group", "states asked for again", "states refused or failed")

    def make_plan(self) -> Plan:
        plan = super().make_plan()
        self.slow = None                                  # an application that reads its state slowly is slow enough
        self.window_bytes = self.state_rng.choice((0, 1 << 16))
        self.ahead_bytes = self.state_rng.choice((0, 0, 1 << 16))
        return plan

    def start(self, world: World, name: str) -> Process:
        return world.start(name, self.smaller(self.spec(world)), app=self.app())

    def smaller(self, spec: StackSpec) -> StackSpec:
        """A stack with the limits that were drawn."""
        limits = {"STATE_TRANSFER": {"window_bytes": self.window_bytes} if self.window_bytes else {},
                  "NAKACK": {"max_ahead_bytes": self.ahead_bytes} if self.ahead_bytes else {}}
        return StackSpec(tuple(attrs.evolve(layer, config=attrs.evolve(layer.config, **limits[layer.name]))
                               if limits.get(layer.name) else layer for layer in spec.layers), spec.source)


class SiteStates(Fetching, RelayCrash):
    """Profile relay-crash, with states of other sites, which all members of the asking site take, and of the own."""

    name = "site-states"
    reaches = ("failovers", "states of other sites", "states of other sites that failed")
    by_numbers = True
    left_out = NO_RELIABILITY | NO_RELAY                  # what stays in its site is in no other site's state

    def fetch(self, at_ns: int, name: str) -> Fetch:
        rng = self.state_rng
        found = super().fetch(at_ns, name)
        return found if rng.random() < NEAR else attrs.evolve(
            found, target=rng.choice(self.elsewhere(self.site_of[name])))

    def last_pair(self, live: list[str]) -> tuple[str, str]:
        name = self.state_rng.choice(live)
        return name, self.state_rng.choice([other for other in self.elsewhere(self.site_of[name]) if other in live])

    def start(self, world: World, name: str) -> Process:
        return self.start_with(world, name, self.app())

    def judged(self, world: World, found: list[Violation]) -> list[Violation]:
        # While a state comes from another site the members of a site keep back what they multicast (not R5).
        return super().judged(world, [violation for violation in found if violation.guarantee != "R5"])
