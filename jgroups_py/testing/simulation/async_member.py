"""A simulated process whose application is a coroutine with an AsyncChannel.

The coroutine gets its channel, connects it, and returns the object that operations and checks get (None: the channel);
its tasks and blocks go on. A crash runs no code. When a member is to leave, its tasks are cancelled, as by Ctrl-C, and
its channel is closed; then the process ends. An application that ends with a ChannelError (it found no group in time,
was excluded, ...) is started again after RESTART_NS, as by a supervisor, while there are faults.
"""
from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from random import Random
from typing import Any, Protocol

from jgroups_py.channel.aio import AsyncChannel
from jgroups_py.channel.base import ChannelState
from jgroups_py.channel.environment import ChannelHost, Environment
from jgroups_py.config.spec import StackSpec
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.errors import ChannelError
from jgroups_py.model.events import Event, SendUntil
from jgroups_py.model.outputs import Output, ProvideState, StateBegin, StateEnd, StatePart
from jgroups_py.model.units import seconds
from jgroups_py.node.node import Node
from jgroups_py.runtime.inbox import Inbox
from jgroups_py.simulator import history as h
from jgroups_py.simulator.process import App, Process, ProcessPort
from jgroups_py.testing.simulation.async_host import SimulatedHost, SimulatedIo
from jgroups_py.testing.simulation.event_loop import SimulatedLoop
from jgroups_py.testing.simulation.naming import named, named_event
from jgroups_py.testing.simulation.refusals import SimulationError, code_of, refuse

RESTART_NS = seconds(1)                     # until an application that ended with a ChannelError is started again
PPM = 1_000_000                              # the rate of an exact clock
CANCEL_SECONDS = 5.0                        # how long a member that leaves waits for its tasks to end
Operation = Callable[[Any, Random], object]


class StagePort(Protocol):
    """The world, as asynchronous members see it."""

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
        """A check has failed, or a call was refused: applications are not called any more."""

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

    def begin_application(self, channel: AsyncChannel) -> Coroutine[Any, Any, Any]:
        """The user's coroutine for a member that starts."""

    def guard(self, what: str, call: Callable[..., Any], *arguments: Any, refusals: bool = False) -> Any:
        """Call the application; an exception that it raises fails the run (refusals: except a ChannelError)."""

    def failed(self, what: str, error: BaseException, at_ns: int | None = None) -> None:
        """The application raised an exception."""

    def ended_too_late(self, started_ns: int) -> bool:
        """Whether the end of an application that began then cannot be due to faults."""

    def check_always(self) -> None:
        """Run the `always` check of the trial."""


class AsyncMember(App, Environment):
    """One run of the application: its event loop, its channel; a process for each connection of the channel.

    started_ns: when it began. application: what the coroutine has returned. ready: it has returned. operations: tasks
    of operations that are under way, and their numbers in the plan.
    """

    takes_events = True

    def __init__(
        self, stage: StagePort, spec: StackSpec, rate: int, start: Callable[[AsyncMember | None], object],
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
        self.operations: dict[asyncio.Task[Any], str] = {}
        self._host: SimulatedHost | None = None
        self._main: asyncio.Task[Any] | None = None
        self._leaves = False                                 # it is to leave
        self._due_ns: int | None = None                      # when turns are planned
        self._postponed = False                              # turns are due when the process resumes
        self._failed_ns: dict[asyncio.Task[Any], int] = {}

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
        self.loop = SimulatedLoop(                           # type: ignore[abstract]  # the rest is set, and refused
            lambda: self.clock_ns, self._plan, self._raised, Random(f"{self.stage.seed}/{process.incarnation}/turns"))
        self.loop.channel_environment = self
        self.channel = AsyncChannel(self.spec, process.name)
        self._main = self.run(self._application())

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a task of this process."""
        return self.loop.inside(self.loop.create_task, coroutine)

    async def _application(self) -> None:
        try:
            made = await self.stage.begin_application(self.channel)
        except (Exception, SystemExit) as error:             # noqa: BLE001  any exception is a finding, with its seed
            self._ended(error)
        else:
            self.application = self.channel if made is None else made
            self.ready = True

    def _ended(self, error: BaseException) -> None:
        """An exception has ended the application."""
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
        if self._main is not None:
            self.loop.abandon()

    @property
    def current(self) -> bool:
        """Whether its process is the latest of its name."""
        return self.stage.processes.get(self.process.name) is self.process

    def told_to_leave(self) -> None:
        """As by Ctrl-C: tasks are cancelled, the channel is closed, the process ends."""
        if not self._leaves:
            self._leaves = True
            self.run(self._leave())

    async def _leave(self) -> None:
        own = asyncio.current_task(), self.channel._consumer
        rest = [task for task in self.loop.tasks if task not in own]
        for task in rest:
            task.cancel()
        if rest:
            await asyncio.wait(rest, timeout=CANCEL_SECONDS)
        await self.channel.close()
        self._exit("it was told to leave")

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
        """Its code made a call that a simulation refuses."""
        if self.stage.refusal is None:
            self.stage.refusal = error

    def _raised(self, error: BaseException) -> None:
        if isinstance(error, SystemExit):
            self._ended(error)
        else:
            self.stage.failed("callback", error)

    def _plan(self) -> None:
        """Plan the next turn."""
        stage, loop = self.stage, self.loop
        due_ns = stage.now_ns + stage.tick_ns if loop.is_ready else self._by_world(loop.next_timer_ns)
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
            self.loop.run_turns()
        for task in self.loop.failures:
            self._failed_ns.setdefault(task, self.stage.now_ns)
        self.stage.check_always()
        if self.alive:
            self._plan()

    def act(self, operation: Operation, rng: Random) -> None:
        """Carry out one operation of the application; one that awaits is a task of the process."""
        with code_of(self):
            made = self.stage.guard("act", self.loop.inside, operation, self.application, rng, refusals=True)
        if inspect.isawaitable(made):
            task = self.run(self._operation(made))
            self.operations[task] = getattr(operation, "__name__", "act")
            task.add_done_callback(lambda ended: self.operations.pop(ended, None))

    async def _operation(self, awaitable: Awaitable[object]) -> None:
        try:
            await awaitable
        except ChannelError:
            pass                                             # the group refused it, as it may
        except Exception as error:                           # noqa: BLE001  any exception is a finding, with its seed
            if not only_channel_errors(error):
                self.stage.failed("act", error)

    @property
    def callbacks_run(self) -> int:
        """Callbacks of its event loop so far."""
        return self.loop.callbacks_run if self._main is not None else 0

    def check_tasks(self) -> None:
        """A task that raised, and that nothing awaited, is a failure; a ChannelError while the channel is closed is
        none."""
        if self._main is None:
            return
        closed = self._leaves or not self.alive or self.channel.state is not ChannelState.CONNECTED
        for task in self.loop.unread_failures():
            error = task._exception
            assert error is not None, "it failed"
            if not (closed and only_channel_errors(error)):
                self.stage.failed(f"task {task.get_name()}", error, self._failed_ns.get(task))

    def dispose(self) -> None:
        """After the run."""
        if self._main is not None:
            self.loop.dispose()

    # --- for the channel: Environment -------------------------------------------------------------------------------

    def new_host(
        self, spec: StackSpec, cluster: str, name: str, inbox: Inbox, ended: Callable[[str, bool], None],
    ) -> ChannelHost:
        """The host of the channel that the application was given.

        Raises:
            SimulationError: another channel is connected.
        """
        if spec is not self.channel.spec or name != self.channel.name:
            refuse(f"connecting another channel ({name!r})", "connect the one that the application is given, whose "
                   "stack is that of the profile")
        if not self.process.held:
            self._start(self)
        self._host = SimulatedHost(self, self.loop, inbox, ended)
        return self._host

    def new_io(self, name: str, host: ChannelHost, orphaned: Callable[[], None]) -> SimulatedIo:
        """See Environment."""
        assert isinstance(host, SimulatedHost), "made by new_host"
        return SimulatedIo(host)

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
