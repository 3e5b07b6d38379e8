"""CodeMember: a simulated process that runs code of an application by itself: on an event loop, or in threads.

The application gets its channel, connects it, and what it returns is given to operations and checks (the channel, if it
returns nothing). A crash runs no code. An application that ends with a ChannelError (it found no group in time, was
excluded, ...) is started again after RESTART_NS, as by a supervisor, while there are faults.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol

from jgroups_py.channel.base import BaseChannel, ChannelState
from jgroups_py.config.spec import StackSpec
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.errors import ChannelError
from jgroups_py.model.events import Event, SendUntil
from jgroups_py.model.outputs import Output, ProvideState, StateBegin, StateEnd, StatePart
from jgroups_py.model.units import seconds
from jgroups_py.node.node import Node
from jgroups_py.simulator import history as h
from jgroups_py.simulator.process import App, Process, ProcessPort
from jgroups_py.testing.simulation.async_host import SimulatedHost
from jgroups_py.testing.simulation.baton import ThreadScheduler
from jgroups_py.testing.simulation.naming import named, named_event
from jgroups_py.testing.simulation.refusals import SimulationError, code_of, refuse

RESTART_NS = seconds(1)                     # until an application that ended with a ChannelError is started again
PPM = 1_000_000                              # the rate of a clock that is right
CANCEL_SECONDS = 5.0                        # how long a member that leaves waits for its code to end
Operation = Callable[[Any, Random], object]


class StagePort(Protocol):
    """The world, as members that run an application's own code see it."""

    seed: str
    tick_ns: int
    clock_drift: float
    history: h.History
    processes: dict[str, Process]
    refusal: SimulationError | None

    @property
    def now_ns(self) -> int:
        """The virtual time."""

    @property
    def stopped(self) -> bool:
        """A check has failed, or something was refused: applications are not called any more."""

    def wall_ns(self, name: str) -> int:
        """The wall clock of a member's host."""

    def after(self, delay_ns: int, call: Callable[..., None], *arguments: Any) -> None:
        """Call something later."""

    def open(self, process: Process) -> None:
        """Let the node of a process that was held begin."""

    def send(
        self, name: str, dest: str | Address | None, payloads: Sequence[bytes], flags: int = 0,
        headers: tuple[Header, ...] = (),
    ) -> None:
        """Send from a member."""

    def inject_event(self, process: Process, event: Event) -> None:
        """Pass a node an event of its channel."""

    def app_busy(self, process: Process, on: bool) -> None:
        """The application of a process fell behind, or caught up."""

    def leave_group(self, name: str, *, forget: bool) -> None:
        """Disconnect a member's node gracefully."""

    def crash(self, name: str, *, power: bool = False) -> None:
        """Kill a process."""

    def end_connection(self, name: str) -> None:
        """Close the sockets of a process whose application goes on."""

    def begin_application(self, channel: BaseChannel) -> Any:
        """Call the user's `start` for a member that starts; a coroutine function's coroutine is awaited there."""

    def guard(self, what: str, call: Callable[..., Any], *arguments: Any, refusals: bool = False) -> Any:
        """Call the application; an exception that it raises fails the run (refusals: except a ChannelError)."""

    def failed(self, what: str, error: BaseException, at_ns: int | None = None) -> None:
        """The application raised an exception."""

    def ended_too_late(self, started_ns: int) -> bool:
        """Whether the end of an application that began then cannot be due to faults."""

    def check_always(self) -> None:
        """Run the `always` check of the trial."""


class Turns(Protocol):
    """What runs the code of a process: an event loop, or threads one at a time."""

    @property
    def is_ready(self) -> bool:
        """Whether something waits for a turn."""

    @property
    def next_timer_ns(self) -> int | None:
        """When the next timer is due, by the clock of the process."""

    def run_turns(self) -> bool:
        """Run what is ready, for this instant; whether something is ready still."""


class CodeMember(App):
    """One run of the application; a process for each connection of its channel.

    channel: that of the application. turns: what runs its code. started_ns: when it began. application: what it has
    returned. ready: it has returned. operations: those under way (as tasks or threads), and their names.
    """

    takes_events = True
    scheduler: ThreadScheduler | None = None                 # see SimulatedCode
    uses_threads = False
    channel: BaseChannel
    turns: Turns

    def __init__(
        self, stage: StagePort, spec: StackSpec, rate: int, start: Callable[[CodeMember | None], object],
    ) -> None:
        """start: starts a process of this name, with this application or (None) a new one."""
        super().__init__(rate)
        self.stage = stage
        self.spec = spec
        self._start = start
        self.application: Any = None
        self.ready = False
        self.alive = False                                   # its code may run
        self.started_ns = stage.now_ns
        self._rate_ppm = PPM                                 # how fast its clock runs
        self.operations: dict[Any, str] = {}
        self._host: SimulatedHost | None = None
        self._leaves = False                                 # it was told to
        self._due_ns: int | None = None                      # when turns are planned
        self._postponed = False                              # turns are due when the process resumes

    # --- of each kind -----------------------------------------------------------------------------------------------

    def begin(self, rng: Random) -> None:
        """Make the channel, and what runs the code; begin the application. rng: draws what runs when."""
        raise NotImplementedError

    def leave_process(self) -> None:
        """Have the application end as by Ctrl-C, close the channel, and end the process."""
        raise NotImplementedError

    def abandon(self) -> None:
        """Nothing of it runs any more."""
        raise NotImplementedError

    def act(self, operation: Operation, rng: Random) -> None:
        """Carry out one operation of the application."""
        raise NotImplementedError

    def after_turns(self) -> None:
        """Code has run."""

    def check_tasks(self) -> None:
        """At the end of the run: report what failed and nothing has noticed."""

    def dispose(self) -> None:
        """After the run: free what the application leaves."""

    def waits_at(self, operation: Any) -> str:
        """Where an operation waits, as " (file:line)"; "" if that is not known."""
        return ""

    @property
    def steps_run(self) -> int:
        """How often code of it was run so far."""
        raise NotImplementedError

    # --- the life of the process ------------------------------------------------------------------------------------

    def joins(self, world: ProcessPort, process: Process) -> None:
        """The process has started, or has a new address for another connection."""
        super().joins(world, process)
        if self.stage.stopped:
            return
        process.held = True
        if self.alive:
            return
        self.alive = True
        drift = Random(f"{self.stage.seed}/{process.incarnation}/clock").uniform(-1, 1) * self.stage.clock_drift
        self._rate_ppm = PPM + round(drift * PPM)
        self.begin(Random(f"{self.stage.seed}/{process.incarnation}/turns"))

    def _ended(self, error: BaseException) -> None:
        """The application has ended, or a part of it that ends all, by an exception."""
        if self._leaves or not self.alive:
            return
        expected = isinstance(error, SystemExit) or only_channel_errors(error)
        if not expected or self.stage.ended_too_late(self.started_ns):
            self.stage.failed("start", error)
            return
        self._exit(f"{type(error).__name__}: {error}")
        self.stage.after(RESTART_NS, self._restart)

    def _restart(self) -> None:
        if self.current and not self.process.running:
            self._start(None)

    def _exit(self, why: str) -> None:
        """The process ends: its sockets are closed if the application has not done it."""
        stage = self.stage
        stage.history.add(h.Remark(stage.now_ns, f"the application of {self.process.incarnation} ends: {why}"))
        if self.current and self.process.alive:
            self.stage.crash(self.process.name)
        self.killed()

    def killed(self) -> None:
        """The process was killed: none of its code runs any more."""
        self.alive = self.ready = False
        self.abandon()

    @property
    def current(self) -> bool:
        """Whether its process is the latest of its name."""
        return self.stage.processes.get(self.process.name) is self.process

    def told_to_leave(self) -> None:
        """As by Ctrl-C: the application ends, the channel is closed, the process ends."""
        if not self._leaves:
            self._leaves = True
            self.leave_process()

    # --- turns ------------------------------------------------------------------------------------------------------

    @property
    def clock_ns(self) -> int:
        """The monotonic time of the process, by its own clock."""
        return self.started_ns + (self.stage.now_ns - self.started_ns) * self._rate_ppm // PPM

    @property
    def wall_ns(self) -> int:
        """The wall clock of its host."""
        return self.stage.wall_ns(self.process.name)

    def refused(self, error: SimulationError) -> None:
        """Its code did what a simulation refuses."""
        if self.stage.refusal is None:
            self.stage.refusal = error

    def _plan(self) -> None:
        """Plan the next turn."""
        stage, turns = self.stage, self.turns
        due_ns = stage.now_ns + stage.tick_ns if turns.is_ready else self._by_world(turns.next_timer_ns)
        if due_ns is not None and (self._due_ns is None or due_ns < self._due_ns):
            self._due_ns = due_ns
            stage.after(due_ns - stage.now_ns, self._due, due_ns)

    def _by_world(self, at_ns: int | None) -> int | None:
        """When the clock of this process shows that time."""
        if at_ns is None or self._rate_ppm == PPM:
            return at_ns
        return self.started_ns - (self.started_ns - at_ns) * PPM // self._rate_ppm

    def _due(self, due_ns: int) -> None:
        if due_ns != self._due_ns:
            return                                           # an earlier turn was planned since
        self._due_ns = None
        if not self.alive:
            return
        if self.process.paused and self.process.running:
            if not self._postponed:
                self._postponed = True
                self.process.postponed.append(lambda _: self._turns())
            return
        self._turns()

    def _turns(self) -> None:
        self._postponed = False
        if not self.alive or self.stage.stopped:
            return
        with code_of(self):
            self.turns.run_turns()
        self.after_turns()
        self.stage.check_always()
        if self.alive:
            self._plan()

    # --- for the channel: HostEnvironment -----------------------------------------------------------------------------

    def check_channel(self, spec: StackSpec, name: str) -> None:
        """A channel connects: it must be the one that the application was given. A later connection is a new process.

        Raises:
            SimulationError: it is another one.
        """
        if spec is not self.channel.spec or name != self.channel.name:
            refuse(f"connecting another channel ({name!r})", "connect the one that the application is given, whose "
                   "stack is that of the profile")
        if not self.process.held:
            self._start(self)

    def callback_failed(self, name: str, error: BaseException) -> bool:
        """An exception of a callback fails the run, unless it is a ChannelError of a member that is leaving."""
        if not (isinstance(error, ChannelError) and self.channel.state is not ChannelState.CONNECTED):
            self.stage.failed(name, error)
        return True

    # --- for its host: NodePort -------------------------------------------------------------------------------------

    @property
    def now_ns(self) -> int:
        """The time of the process."""
        return self.clock_ns

    @property
    def node(self) -> Node:
        """The node of its process."""
        return self.process.node

    def open(self) -> None:
        """See NodePort."""
        self.stage.open(self.process)

    def send(self, dest: Address | None, payloads: Sequence[bytes], flags: int, headers: tuple[Header, ...]) -> None:
        """See NodePort; what a member sends that is not in its group any more is dropped, as in its send queue."""
        if self.current and self.process.running and not self.process.leaving:
            self.stage.send(self.process.name, dest, self._named(dest, payloads), flags, headers)

    def inject(self, event: Event) -> None:
        """See NodePort."""
        event = named_event(event, lambda payloads: self._named(None, payloads))
        if isinstance(event, SendUntil):
            self.stage.history.add(h.MessageSent(
                self.stage.now_ns, self.process.me, None, (event.payload,), event.flags, self.process.view))
        self.stage.inject_event(self.process, event)

    def app_busy(self, on: bool) -> None:
        """See NodePort."""
        self.stage.app_busy(self.process, on)

    def leave(self, forget: bool) -> None:
        """See NodePort."""
        if self.current:
            self.stage.leave_group(self.process.name, forget=forget)

    def kill(self) -> None:
        """See NodePort: the connection ends, the process goes on."""
        if self.current and self.process.alive:
            self.stage.end_connection(self.process.name)

    def _named(self, dest: Address | None, payloads: Sequence[bytes]) -> list[bytes]:
        return named(self.process, self.stage.history, dest, payloads)

    # --- outputs of the node ----------------------------------------------------------------------------------------

    def delivered(self, batch: Batch) -> None:
        super().delivered(batch)
        if self._host is not None:
            self._host.delivered(batch)

    def on_event(self, output: Output) -> None:
        self._put(output)

    def state_requested(self, request: int) -> None:
        self._put(ProvideState(request))

    def state_begins(self) -> None:
        self._put(StateBegin())

    def state_part(self, data: bytes) -> None:
        self._put(StatePart(data))

    def state_ends(self, error: str) -> None:
        self.state_errors.append(error)
        self._put(StateEnd(error))

    def _put(self, output: Output) -> None:
        if self._host is not None and not self.stage.stopped:
            self._host.put(output)


def only_channel_errors(error: BaseException) -> bool:
    """Whether an exception is a ChannelError, or a group of such."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(only_channel_errors, error.exceptions))
    return isinstance(error, ChannelError)
