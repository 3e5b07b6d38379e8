"""A user's application under the faults of a profile, with its own checks.

The plan is the profile's: its members, its faults, and operations of the application at the times of its messages. So
operations fall around faults, and a seed has the same faults for every application.
"""
from __future__ import annotations

import asyncio
import inspect
import logging
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from random import Random
from typing import Any

import attrs

from jgroups_py.channel.base import BaseChannel
from jgroups_py.config.spec import StackSpec
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Header
from jgroups_py.model.errors import ChannelError
from jgroups_py.model.units import millis, seconds
from jgroups_py.node.node import BridgeLoader
from jgroups_py.simulator.checkers import Violation
from jgroups_py.simulator.faults.actions import Action, SendMessages, Starter, is_up
from jgroups_py.simulator.plan_parts import WHOLE, PlanPart
from jgroups_py.simulator.process import App, Process
from jgroups_py.simulator.profiles import PROFILES, Plan, Profile
from jgroups_py.simulator.runner import Outcome, judged, run_setting, unacknowledged
from jgroups_py.simulator.shrink import shrink
from jgroups_py.simulator.world import World
from jgroups_py.testing.simulation.async_member import AsyncMember
from jgroups_py.testing.simulation.channel import SimulatedChannel
from jgroups_py.testing.simulation.code_member import CodeMember
from jgroups_py.testing.simulation.member import SimulatedMember
from jgroups_py.testing.simulation.refusals import SimulationError, code_of, simulated
from jgroups_py.testing.simulation.thread_member import Checking, ThreadMember
from jgroups_py.testing.simulation.thread_primitives import Unobservable, replacements

Check = Callable[[list[Any]], object]
SETTLE_NS = seconds(10)                  # within it `at_end` must hold once all is at rest
SETTLE_STEP_NS = millis(250)
SILENCE_NS = seconds(1)                  # without a message: then the applications have settled
ARRIVAL_NS = millis(500)                 # what was sent before arrives within it, once all has healed
OBJECT = re.compile(r" at 0x[0-9a-f]+")
MAX_SENDS = 5000                         # of all members at one instant


@attrs.frozen
class Trial:
    """A simulation of an application.

    start: makes the application of a member that starts, given its channel; it is the receiver, unless it sets one. A
    coroutine function gets an AsyncChannel, which it connects, and returns what is given to `act` and the checks
    (None: the channel); see async_member.py. act: one operation, given an application and a random generator; members
    call it at random times; where `start` is a coroutine function it may be one, too. always, at_end: checks that
    assert on the list of running applications: after every callback and operation; once all faults have healed, all
    members are in one view, no message is under way and all operations have ended (at_end has SETTLE_NS to become
    true).
    threads: `start` gets a JChannel, which it connects, and it, the operations and all threads that they start run on
    virtual time, one at a time; see thread_member.py.
    falls_silent: the applications stop sending some time after healing, and the run ends only then. sends_for_ever:
    they send for ever, as on a timer; what they send in the last moment before judgement is held back, so that nothing
    is judged while it is under way. is_quiet: whether the running applications have nothing under way but what they
    send now and then; the run ends only then. clock_drift: clocks of coroutines' processes run at rates within 1 +-
    this share, drawn for each; those of the stack's timers are right.
    """

    profile: str
    start: Callable[[Any], Any]
    act: Callable[[Any, Random], object] | None = None
    always: Check | None = None
    at_end: Check | None = None
    falls_silent: bool = False
    sends_for_ever: bool = False
    is_quiet: Callable[[list[Any]], bool] | None = None
    clock_drift: float = 0.0
    threads: bool = False

    def __attrs_post_init__(self) -> None:
        if self.threads and self.is_async:
            raise TypeError("`start` is a coroutine function, so its application has no threads: leave out `threads`")

    @property
    def runs_code(self) -> bool:
        """Whether applications run by themselves, as coroutines or threads; otherwise they are receivers."""
        return self.threads or self.is_async

    @property
    def is_async(self) -> bool:
        """Whether applications are coroutines."""
        return inspect.iscoroutinefunction(self.start) or inspect.iscoroutinefunction(
            getattr(self.start, "__call__", None))           # noqa: B004  an object's own __call__

    def run(self, seed: int, part: PlanPart = WHOLE, *, keep: bool = False) -> Outcome:
        """Run one seed, or a part of it.

        Raises:
            SimulationError: a coroutine does what would wait for real, or reach outside; see refusals.py.
            RuntimeError: the caller runs on an event loop itself.
        """
        if asyncio._get_running_loop() is not None:
            raise RuntimeError("a simulation has event loops of its own: run it in a plain function, no `async def`")
        setting = PROFILES[self.profile](seed)
        setting.plan = self.plan(setting.plan)
        stage = Stage(self, seed)
        with self._simulated(f"{seed}/{self.profile}"):
            try:
                outcome = run_setting(setting, stage, part, judge, keep=keep)
            finally:
                stage.dispose()
        if stage.refusal is not None:
            raise stage.refusal
        return outcome

    def _simulated(self, seed: str) -> AbstractContextManager[None]:
        if self.is_async:
            return simulated(seed)
        return simulated(seed, replacements()) if self.threads else nullcontext()

    def shrunk(self, outcome: Outcome, limit_s: float) -> Outcome:
        """The smallest failing part of a seed that is found within `limit_s` seconds."""
        plan = self.plan(PROFILES[self.profile](outcome.seed).plan)
        return shrink(outcome, plan, lambda part: self.run(outcome.seed, part), limit_s)

    def plan(self, plan: Plan) -> Plan:
        """A plan with the same faults, and the application's operations in place of messages."""
        return attrs.evolve(plan, traffic=tuple(
            Act(action.at_ns, action.name, number) if isinstance(action, SendMessages) else action
            for number, action in enumerate(plan.traffic)))


@attrs.frozen
class Act(Action):
    """An operation of a member's application, if it is in a view; each has its own random generator."""

    kind = "operation"
    name: str
    number: int

    def do(self, world: World, start: Starter) -> bool:
        assert isinstance(world, Stage), "operations need a stage"
        process = world.processes.get(self.name)
        if process is None or process.paused or not is_up(world, self.name):
            return False
        member = process.app
        assert isinstance(member, SimulatedMember | CodeMember), "on a stage every member runs an application"
        act = world.trial.act
        if act is None or not member.ready or world.stopped:
            return False
        member.act(act, Random(f"{world.seed}/act/{self.number}"))
        world.check_always()
        return True

    def describe(self) -> str:
        return f"operation of {self.name}"


class Stage(World):
    """A world whose members run the application of a trial."""

    def __init__(self, trial: Trial, seed: int) -> None:
        super().__init__(seed)
        self.trial = trial
        self.failures: list[Violation] = []
        self.refusal: SimulationError | None = None      # what an application did that cannot be simulated
        self.healed_ns: int | None = None
        self.clock_drift = trial.clock_drift
        self.unobservable = ""                           # whom the last check would have had to wait for
        self._checking = Checking(lambda: self.now_ns, self._refused)
        self._members: list[CodeMember] = []
        self._sends = 0                                  # at the virtual time `_sent_ns`
        self._sent_ns = -1
        self._held: list[tuple[str, str | Address | None, Sequence[bytes], int, tuple[Header, ...]]] | None = None

    def start(
        self, name: str, spec: StackSpec, cluster: str = "demo", *, bridge: StackSpec | BridgeLoader | None = None,
        app: App | None = None, host: str | None = None, shown: str = "", site: str = "",
    ) -> Process:
        """Start a member with the trial's application, which takes messages at the rate of `app`."""
        rate = app.rate if app is not None else 0
        member: SimulatedMember | CodeMember
        if isinstance(app, CodeMember):
            member = app                                 # it connects again
        elif self.trial.runs_code:
            kind = AsyncMember if self.trial.is_async else ThreadMember
            member = kind(self, spec, rate, lambda same: self.start(
                name, spec, cluster, bridge=bridge, app=same or App(rate), host=host, shown=shown, site=site))
            self._members.append(member)
        else:
            member = SimulatedMember(self, spec, rate)
        old = self.processes.get(name)
        if old is not None and isinstance(old.app, CodeMember) and old.app is not member:
            old.app.killed()                             # it has left its group, and its process ends now at the latest
        return super().start(name, spec, cluster, bridge=bridge, app=member, host=host, shown=shown, site=site)

    # --- coroutines, threads (code_member.StagePort) ------------------------------------------------------------------

    @property
    def stopped(self) -> bool:
        """A check has failed, or something was refused: applications are not called any more."""
        return bool(self.failures) or self.refusal is not None

    def begin_application(self, channel: BaseChannel) -> Any:
        """Call the user's `start` for a member that starts; a coroutine is awaited there."""
        return self.trial.start(channel)

    def open(self, process: Process) -> None:
        """Let the node of a process that was held begin."""
        process.held = False
        self._settle(process)

    def crash(self, name: str, *, power: bool = False) -> None:
        """Kill the process, and its application."""
        super().crash(name, power=power)
        app = self.processes[name].app
        if isinstance(app, CodeMember):
            app.killed()

    def end_connection(self, name: str) -> None:
        """Close the sockets of a process whose application goes on."""
        super().crash(name)

    def leave(self, name: str, *, forget: bool = False) -> None:
        """Have a member leave: a coroutine is cancelled and closes its channel, which disconnects it."""
        process = self.processes[name]
        if isinstance(process.app, CodeMember) and process.app.alive and not self.stopped:
            process.app.told_to_leave()
        else:
            super().leave(name, forget=forget)

    def leave_group(self, name: str, *, forget: bool) -> None:
        """Disconnect a member's node gracefully."""
        super().leave(name, forget=forget)

    def heal(self) -> None:
        """All faults end; applications have no excuse any more."""
        super().heal()
        self.healed_ns = self.now_ns

    def ended_too_late(self, started_ns: int) -> bool:
        """Whether the end of an application that began then cannot be due to faults."""
        return self.healed_ns is not None and started_ns >= self.healed_ns

    def check_tasks(self) -> None:
        """Failures of tasks that nothing awaited, and operations that do not end."""
        for member in self._members:
            if not self.stopped:
                member.check_tasks()
            self.remark(f"{member.process.incarnation} ran {member.steps_run} callbacks")

    def dispose(self) -> None:
        """After the run: free what applications leave."""
        disabled = logging.root.manager.disable
        logging.disable(logging.CRITICAL)                # what ends now was abandoned: nobody is told
        try:
            for member in self._members:
                member.dispose()
        finally:
            logging.disable(disabled)

    def _refused(self, error: SimulationError) -> None:
        if self.refusal is None:
            self.refusal = error

    def make_application(self, channel: SimulatedChannel) -> Any:
        """Make the user's application for a member that starts; it may set the channel's receiver."""
        return self.trial.start(channel)

    def applications(self) -> list[Any]:
        """The applications of running members, in order of their first start."""
        members = [process.app for name, process in self.processes.items() if is_up(self, name)]
        return [member.application for member in members
                if isinstance(member, SimulatedMember) or (isinstance(member, CodeMember) and member.ready)]

    def send(
        self, name: str, dest: str | Address | None, payloads: Sequence[bytes], flags: int = 0,
        headers: tuple[Header, ...] = (),
    ) -> None:
        """Send as in any world; raises RuntimeError where applications reply to replies without end at one instant."""
        if self._held is not None:
            self._held.append((name, dest, payloads, flags, headers))
            return
        self._sends = self._sends + 1 if self._sent_ns == self.now_ns else 1
        self._sent_ns = self.now_ns
        if self._sends > MAX_SENDS:
            raise RuntimeError(f"{MAX_SENDS} sends at one instant: the applications reply to each other without end")
        super().send(name, dest, payloads, flags, headers)

    @contextmanager
    def sends_held(self) -> Iterator[None]:
        """Hold what applications send back until the end of the block: what is under way is not judged as lost."""
        self._held = []
        try:
            yield
        finally:
            held, self._held = self._held, None
            for name, dest, payloads, flags, headers in held:
                with suppress(ChannelError):                 # a member that has left meanwhile sends nothing
                    self.send(name, dest, payloads, flags, headers)

    def has_settled(self) -> bool:
        """Whether the applications have stopped sending, if the trial provides that."""
        if not self.stopped and any(self.operations()):
            return False
        if self.trial.is_quiet is not None and not self.failures:
            under_way = any(unacknowledged(self, name) for name in self.running() if self.view_of(name) is not None)
            if under_way or not self.trial.is_quiet(self.applications()):
                return False
        return not self.trial.falls_silent or self.now_ns - self._sent_ns > SILENCE_NS

    def operations(self) -> Iterator[str]:
        """Operations of running members that are under way."""
        for name, process in self.processes.items():
            if is_up(self, name) and isinstance(process.app, CodeMember) and process.app.alive:
                for operation, what in process.app.operations.items():
                    yield f"{what} of {process.incarnation}{process.app.waits_at(operation)}"

    # --- checks -----------------------------------------------------------------------------------------------------

    def guard(self, what: str, call: Callable[..., Any], *arguments: Any, refusals: bool = False) -> Any:
        """Call the application; an exception fails the run (refusals: except a ChannelError).

        After the first failure nothing is called any more, as in a test.
        """
        if self.stopped:
            return None
        try:
            if not self.trial.threads:
                return call(*arguments)
            with code_of(self._checking):
                return call(*arguments)
        except Unobservable as busy:                         # a thread is in the middle of something: look again later
            self.unobservable = str(busy)
        except ChannelError as error:
            if not refusals:
                self.failed(what, error)
        except Exception as error:       # noqa: BLE001  any exception of the application is a finding, with its seed
            self.failed(what, error)
        return None

    def check_always(self) -> None:
        """Run the `always` check; its first failure ends the checks."""
        if self.trial.always is not None:
            self.guard(name_of(self.trial.always, "always"), self.trial.always, self.applications())

    def failed(self, what: str, error: BaseException, at_ns: int | None = None) -> None:
        """Record an exception of the application, which was raised now if no time is given; it may name the guarantee
        that it violates."""
        what = getattr(error, "guarantee", what)
        if isinstance(error, AssertionError):
            text = str(error) or "an assertion does not hold:\n" + traceback.format_exc(limit=-1)
        else:
            text = "raised\n" + "".join(traceback.format_exception(error, limit=-4))
        text = OBJECT.sub("", text.rstrip())                 # addresses in memory: other ones in each run
        self.failures.append(Violation(what, text, self.now_ns if at_ns is None else at_ns))

    def check_at_end(self) -> None:
        """Run the `at_end` check until it holds, for at most SETTLE_NS."""
        check = self.trial.at_end
        if check is None or self.failures:
            return

        found: list[Violation] = []

        def fails() -> bool:
            self.unobservable = ""
            self.guard(name_of(check, "at_end"), check, self.applications())
            found[:], self.failures = self.failures, []
            if self.unobservable:
                found.append(Violation(name_of(check, "at_end"), "the check would wait for a lock that "
                                       f"{self.unobservable} has", self.now_ns))
            return bool(found)
        if not self.run_while(fails, SETTLE_NS, SETTLE_STEP_NS):
            self.failures = found


def judge(world: World, setting: Profile) -> list[Violation]:
    """The application's failures first, then the violations of the checkers."""
    assert isinstance(world, Stage), "a trial runs on a stage"
    if world.trial.sends_for_ever:
        with world.sends_held():
            world.run_for(ARRIVAL_NS)
            found = judged(world, setting)
    else:
        found = judged(world, setting)
    world.check_tasks()
    under_way = list(world.operations())
    restless = [] if world.has_settled() else [Violation("L", (
        f"operations do not end, although all faults healed long ago: {', '.join(under_way)}" if under_way else
        "the applications still send messages, although all faults healed long ago"), world.now_ns)]
    world.check_at_end()
    return [*world.failures, *restless, *found]


def name_of(check: Callable[..., object], otherwise: str) -> str:
    """The name of a check; `otherwise` for a lambda."""
    name = getattr(check, "__name__", otherwise)
    return otherwise if name == "<lambda>" else name


__all__ = ["Act", "Check", "SimulatedChannel", "Stage", "Trial"]
