"""A user's application under the faults of a profile, with its own checks.

The plan is the profile's: its members, its faults, and in place of its messages operations of the application, at the
same times. So operations fall around faults, and a seed means the same faults whatever the application is.
"""
from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import attrs

from jgroups_py.address import Address
from jgroups_py.batch import Header
from jgroups_py.config.spec import StackSpec
from jgroups_py.errors import ChannelError
from jgroups_py.node import BridgeLoader
from jgroups_py.sim.checkers import Violation
from jgroups_py.sim.faults import Action, Starter, Talk, is_up
from jgroups_py.sim.parts import WHOLE, Part
from jgroups_py.sim.process import App, Process
from jgroups_py.sim.profiles import PROFILES, Plan, Profile
from jgroups_py.sim.runner import Outcome, judged, run_setting
from jgroups_py.sim.shrink import shrink
from jgroups_py.sim.world import World
from jgroups_py.simulation.channel import SimulatedChannel
from jgroups_py.simulation.member import Member
from jgroups_py.units import millis, seconds

Check = Callable[[list[Any]], object]
SETTLE_NS = seconds(10)                  # how long `at_end` may take to come true once all is at rest
SETTLE_STEP_NS = millis(250)
SILENCE_NS = seconds(1)                  # without a message: then an application has nothing more to say
MAX_SENDS = 5000                         # of all members at one instant


@attrs.frozen
class Trial:
    """What is simulated.

    start: makes the application of a member that starts, from its channel; it is the receiver, or sets another.
    act: one operation, given an application and a generator to draw from; done by members at random times. always,
    at_end: checks that assert something of the applications that run: after every callback and operation; once all
    faults have healed, all members are in one view and nothing is under way (it has some seconds to come true then).
    falls_silent: once all has healed the applications have nothing more to say after a while, and the run ends no
    sooner.
    """

    profile: str
    start: Callable[[Any], Any]
    act: Callable[[Any, Random], object] | None = None
    always: Check | None = None
    at_end: Check | None = None
    falls_silent: bool = False

    def run(self, seed: int, part: Part = WHOLE, *, keep: bool = False) -> Outcome:
        """Run one seed, or a part of it."""
        setting = PROFILES[self.profile](seed)
        setting.plan = self.plan(setting.plan)
        return run_setting(setting, Stage(self, seed), part, judge, keep=keep)

    def shrunk(self, outcome: Outcome, limit_s: float) -> Outcome:
        """The smallest part of a failing seed that is found within the time."""
        plan = self.plan(PROFILES[self.profile](outcome.seed).plan)
        return shrink(outcome, plan, lambda part: self.run(outcome.seed, part), limit_s)

    def plan(self, plan: Plan) -> Plan:
        """The same faults at the same times, and the application's operations."""
        return attrs.evolve(plan, traffic=tuple(
            Act(action.at_ns, action.name, number) if isinstance(action, Talk) else action
            for number, action in enumerate(plan.traffic)))


@attrs.frozen
class Act(Action):
    """An operation of a member's application, if it is in a view; drawn from a generator of its own."""

    kind = "operation"
    name: str
    number: int

    def do(self, world: World, start: Starter) -> bool:
        assert isinstance(world, Stage), "operations need a stage"
        process = world.processes.get(self.name)
        if process is None or process.paused or not is_up(world, self.name):
            return False
        member = process.app
        assert isinstance(member, Member), "on a stage all members are applications'"
        act = world.trial.act
        if act is None or not member.ready:
            return False
        world.guard("act", act, member.application, Random(f"{world.seed}/act/{self.number}"), refusals=True)
        world.look()
        return True

    def words(self) -> str:
        return f"operation of {self.name}"


class Stage(World):
    """A world whose members run the application of a trial."""

    def __init__(self, trial: Trial, seed: int) -> None:
        super().__init__(seed)
        self.trial = trial
        self.failures: list[Violation] = []
        self._sends = 0                                  # at this instant,
        self._sent_ns = -1

    def start(
        self, name: str, spec: StackSpec, cluster: str = "demo", *, bridge: StackSpec | BridgeLoader | None = None,
        app: App | None = None, host: str | None = None,
    ) -> Process:
        """As in any world, but with the trial's application; as slow as `app`."""
        member = Member(self, spec, app.rate if app is not None else 0)
        return super().start(name, spec, cluster, bridge=bridge, app=member, host=host)

    def applications(self) -> list[Any]:
        """Those of members that run, in order of their first start."""
        members = [process.app for name, process in self.processes.items() if is_up(self, name)]
        return [member.application for member in members if isinstance(member, Member)]

    def send(
        self, name: str, dest: str | Address | None, payloads: Sequence[bytes], flags: int = 0,
        headers: tuple[Header, ...] = (),
    ) -> None:
        """As in any world, but not without end: messages that answer each other take no time in one member."""
        self._sends = self._sends + 1 if self._sent_ns == self.now_ns else 1
        self._sent_ns = self.now_ns
        if self._sends > MAX_SENDS:
            raise RuntimeError(f"{MAX_SENDS} sends at one instant: messages that are answered by messages, without end")
        super().send(name, dest, payloads, flags, headers)

    def has_settled(self) -> bool:
        """Whether the applications are silent, where that can be expected."""
        return not self.trial.falls_silent or self.now_ns - self._sent_ns > SILENCE_NS

    # --- checks -----------------------------------------------------------------------------------------------------

    def guard(self, what: str, call: Callable[..., Any], *arguments: Any, refusals: bool = False) -> Any:
        """Call the application; what it raises fails the run (refusals: but for a channel's refusal to send).

        After the first failure nothing is called any more, as in a test: what follows would say little.
        """
        if self.failures:
            return None
        try:
            return call(*arguments)
        except ChannelError as error:
            if not refusals:
                self.failed(what, error)
        except Exception as error:       # noqa: BLE001  any exception of the application is a finding, with its seed
            self.failed(what, error)
        return None

    def look(self) -> None:
        """See whether what must always hold does; the first time that it does not is enough."""
        if self.trial.always is not None:
            self.guard(name_of(self.trial.always, "always"), self.trial.always, self.applications())

    def failed(self, what: str, error: BaseException) -> None:
        """Something of the application's raised; an error may name the guarantee that it breaks."""
        what = getattr(error, "guarantee", what)
        if isinstance(error, AssertionError):
            text = str(error) or "an assertion does not hold:\n" + traceback.format_exc(limit=-1)
        else:
            text = "raised\n" + "".join(traceback.format_exception(error, limit=-4))
        self.failures.append(Violation(what, text.rstrip(), self.now_ns))

    def look_at_the_end(self) -> None:
        """See whether what must hold in the end does, within some seconds."""
        check = self.trial.at_end
        if check is None or self.failures:
            return

        found: list[Violation] = []

        def fails() -> bool:
            self.guard(name_of(check, "at_end"), check, self.applications())
            found[:], self.failures = self.failures, []
            return bool(found)
        if not self.run_while(fails, SETTLE_NS, SETTLE_STEP_NS):
            self.failures = found


def judge(world: World, setting: Profile) -> list[Violation]:
    """The application's failures first, then what our checkers find."""
    assert isinstance(world, Stage), "a trial runs on a stage"
    found = judged(world, setting)
    restless = [] if world.has_settled() else [
        Violation("L", "the applications still send each other messages, although all faults healed long ago",
                  world.now_ns)]
    world.look_at_the_end()
    return [*world.failures, *restless, *found]


def name_of(check: Callable[..., object], otherwise: str) -> str:
    """What a check is called; a lambda by its part."""
    name = getattr(check, "__name__", otherwise)
    return otherwise if name == "<lambda>" else name


__all__ = ["Act", "Check", "SimulatedChannel", "Stage", "Trial"]
