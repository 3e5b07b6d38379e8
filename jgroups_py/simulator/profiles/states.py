"""Profiles states and site-states: members fetch states, of their own group and of other sites, under faults."""
from __future__ import annotations

from random import Random

import attrs

from jgroups_py.config.spec import StackSpec
from jgroups_py.model.batch import NO_RELAY, NO_RELIABILITY
from jgroups_py.model.units import millis, seconds
from jgroups_py.simulator.checkers import Violation
from jgroups_py.simulator.faults.actions import SendMessages
from jgroups_py.simulator.process import Process
from jgroups_py.simulator.profiles.base import Plan, Profile, in_order, span
from jgroups_py.simulator.profiles.group import GroupProfile
from jgroups_py.simulator.profiles.relay import RelayCrashProfile
from jgroups_py.simulator.states import FetchState, StateApp, behaviour, check_states, is_waiting
from jgroups_py.simulator.world import World

NEAR = 0.3                               # share of requests in site-states that may ask for a state of the same site
TIMEOUTS_S = (0.2, 1.0, 5.0, 5.0, 5.0)
FINAL_TIMEOUT_NS = seconds(20)


class StateRequests(Profile):
    """The base of both profiles: an application with a state, requests that are drawn from a separate generator, and a
    last request once everything is at rest, which must be answered with a state while others send."""

    by_numbers = False                   # see check_states

    def make_plan(self) -> Plan:
        self.state_rng = Random(f"{self.seed}/states/{self.name}")
        self.behaviour = behaviour(self.state_rng)
        self.last: StateApp | None = None                # the application that makes the last request
        return self.with_fetches(super().make_plan())

    def with_fetches(self, plan: Plan) -> Plan:
        """The plan with requests: at any time, around faults, and just after sends, so that messages are under way."""
        rng = self.state_rng
        messages = [attrs.evolve(action, flags=action.flags & ~self.excluded_flags)
                 if isinstance(action, SendMessages) else action for action in plan.traffic]
        sent = [action for action in messages if isinstance(action, SendMessages) and not action.dest]
        times = [rng.randrange(seconds(1), plan.stop_ns) for _ in range(rng.randint(3, 14))]
        times += [max(0, fault.at_ns + span(rng, -0.02, 0.05)) for fault in plan.faults if rng.random() < 0.8]
        fetches = [self.fetch(at_ns, rng.choice(self.members)) for at_ns in times]
        for action in rng.sample(sent, min(len(sent), 8)):
            at_ns = action.at_ns + rng.randrange(millis(2))
            fetch = self.fetch(at_ns, action.name)
            fetches.append(fetch if rng.random() < 0.5 or not fetch.target else
                           attrs.evolve(fetch, name=fetch.target, target=fetch.name))
        return attrs.evolve(plan, traffic=in_order([*messages, *fetches]))

    excluded_flags = NO_RELIABILITY
    """Flags that are removed from all messages: unreliable ones have no position in the stream, so a state may contain
    some that are delivered after it."""

    def fetch(self, at_ns: int, name: str) -> FetchState:
        """Draw a request of a member."""
        rng = self.state_rng
        target = rng.choice(["", *self.members, *self.members])
        return FetchState(at_ns, name, target, seconds(rng.choice(TIMEOUTS_S)), again=rng.random() < 0.1)

    def app(self) -> StateApp:
        """The application of a member."""
        return StateApp(self.behaviour)

    def rested(self, world: World) -> bool:
        """Whether the world is at rest, no member waits for a state, and the last request has ended."""
        if not super().rested(world) or any(is_waiting(world.process(name)) for name in self.live(world)):
            return False
        if self.last is None:
            self.request_last(world)
            return False
        return True

    def request_last(self, world: World) -> None:
        """Make the last request, amid multicasts of all members."""
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
        app.request(target, FINAL_TIMEOUT_NS)
        for other in live:
            world.post(other, count=2)

    def last_pair(self, live: list[str]) -> tuple[str, str]:
        """The member that makes the last request, and its target."""
        pair = self.state_rng.sample(live, min(2, len(live)))
        return pair[0], pair[-1]

    def judged(self, world: World, found: list[Violation]) -> list[Violation]:
        found = [*super().judged(world, found), *check_states(world, by_numbers=self.by_numbers)]
        if self.last is not None and self.last.process.running and any(self.last.state_errors[self.last.ends_before:]):
            found.append(Violation("L", f"{self.last.process.incarnation} was refused the state without any fault: "
                                   f"{self.last.state_errors[-1]}", world.now_ns))
        return sorted(found, key=lambda violation: violation.at_ns)


class StatesProfile(StateRequests, GroupProfile):
    """Profile group, with states; half of the seeds have a small `window` of STATE_TRANSFER, a third a small
    `max_ahead_size` of NAKACK."""

    name = "states"
    reaches = ("states of the own group", "states requested again", "states refused or failed")

    def make_plan(self) -> Plan:
        plan = super().make_plan()
        self.slow = None                                  # no slow receiver: applications may read states slowly
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


class SiteStatesProfile(StateRequests, RelayCrashProfile):
    """Profile relay-crash, with states of other sites, which all members of the requesting site install, and of the
    same site."""

    name = "site-states"
    reaches = ("failovers", "states of other sites", "states of other sites that failed")
    by_numbers = True
    excluded_flags = NO_RELIABILITY | NO_RELAY                  # no site has NO_RELAY messages of another in its state

    def fetch(self, at_ns: int, name: str) -> FetchState:
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
        # While a state comes from another site, the members of a site hold back their multicasts, which breaks R5.
        return super().judged(world, [violation for violation in found if violation.guarantee != "R5"])
