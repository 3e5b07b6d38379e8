"""A simulated member with a user's application.

Outputs pass through the Dispatcher of a JChannel, so the receiver's methods are called as in production. Payloads are
sent with a name in front (naming.py).
"""
from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol

from jgroups_py.channel.dispatcher import Dispatcher
from jgroups_py.channel.receiver import is_receiver
from jgroups_py.config.spec import StackSpec
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.errors import ChannelError, NotConnectedError
from jgroups_py.model.events import Event, GetState
from jgroups_py.model.outputs import Closed, Deliver, Output, StateBegin, StateEnd, StatePart, ViewInstalled
from jgroups_py.model.units import millis, seconds
from jgroups_py.node.node import Node
from jgroups_py.runtime.inbox import Inbox
from jgroups_py.runtime.send_queue import SendQueue
from jgroups_py.simulator.checkers import Violation
from jgroups_py.simulator.history import History
from jgroups_py.simulator.process import App, Process, ProcessPort
from jgroups_py.testing.simulation.channel import SimulatedChannel
from jgroups_py.testing.simulation.connection import SimulatedConnection
from jgroups_py.testing.simulation.naming import named, unnamed

STATE_TIMEOUT_NS = seconds(10)
RETRY_NS = millis(500)                   # until a member requests a state again that did not arrive


class StagePort(Protocol):
    """The world, as its members see it."""

    history: History
    processes: dict[str, Process]
    failures: list[Violation]

    @property
    def now_ns(self) -> int:
        """The virtual time."""

    def after(self, delay_ns: int, call: Callable[..., None], *arguments: Any) -> None:
        """Call something later."""

    def when_awake(self, process: Process, call: Callable[[int], None]) -> None:
        """Call a function now, or when the paused process resumes."""

    def send(
        self, name: str, dest: str | Address | None, payloads: Sequence[bytes], flags: int = 0,
        headers: tuple[Header, ...] = (),
    ) -> None:
        """Send from a member."""

    def leave(self, name: str) -> None:
        """Disconnect a member gracefully."""

    def inject_event(self, process: Process, event: Event) -> None:
        """Pass a node an event of its channel."""

    def make_application(self, channel: SimulatedChannel) -> Any:
        """The user's application for a member that starts."""

    def guard(self, what: str, call: Callable[..., Any], *arguments: Any, refusals: bool = False) -> Any:
        """Call the application; an exception that it raises fails the run (refusals: except a ChannelError)."""

    def check_always(self) -> None:
        """Run the `always` check of the trial."""

    def failed(self, what: str, error: BaseException) -> None:
        """The application raised an exception."""


class SimulatedMember(App):
    """One incarnation: its channel, and the application that the user's `start` made for it."""

    takes_events = True

    def __init__(self, stage: StagePort, spec: StackSpec, rate: int) -> None:
        super().__init__(rate)
        self.stage = stage
        self.spec = spec
        self.application: Any = None
        self.ready = False                               # in a view, and has the state, if it fetches one
        self._inbox = Inbox()
        self._parts: list[StatePart] | None = None       # of a state that is arriving
        self._after_state: list[Output] = []                  # outputs that arrived after its begin
        self._slow: deque[Output] = deque()              # outputs whose turn a slow receiver lets wait

    def joins(self, world: ProcessPort, process: Process) -> None:
        super().joins(world, process)
        self.dispatcher = StrictDispatcher(self, process.name, self._inbox)
        self.channel = SimulatedChannel(self, self.spec, process.name)
        receipts = self.channel.receipts
        self.connection = SimulatedConnection(self, "simulated", receipts)
        self.dispatcher.attach(receipts)
        receipts.begin(self.connection)
        self.application = self.stage.guard("start", self._started)
        if self.channel.cluster is None:
            self.channel.connect("simulated")
        self.dispatcher.me = process.me

    def _started(self) -> Any:
        """Make the application; it is the receiver, unless it has set another one."""
        application = self.stage.make_application(self.channel)
        if self.channel._receiver is None:
            if not is_receiver(application):
                raise TypeError(f"the application ({type(application).__name__}) has none of the methods of "
                                "jg.Receiver, and has set no other receiver of its channel")
            self.channel.receiver = application
        return application

    @property
    def running(self) -> bool:
        """Whether the process is the latest of its name, runs and is not leaving."""
        process = self.process
        return self.stage.processes.get(process.name) is process and process.running and not process.leaving

    def act(self, operation: Callable[[Any, Random], object], rng: Random) -> None:
        """Carry out one operation of the application."""
        self.stage.guard("act", operation, self.application, rng, refusals=True)

    # --- for the channel (channel.ChannelMember) ----------------------------------------------------------------------

    @property
    def me(self) -> Address:
        """Its address."""
        return self.process.me

    @property
    def now_ns(self) -> int:
        """The virtual time."""
        return self.stage.now_ns

    def pending_bytes(self) -> int:
        """Bytes that its stack queues because receivers are slow."""
        return self.process.node.pending_bytes()

    def stats(self) -> dict[str, dict[str, float]]:
        """Protocol name -> its counters."""
        return self.process.node.stats()

    def inject(self, event: Event) -> None:
        """Pass an event down the stack."""
        self.stage.inject_event(self.process, event)

    def send(self, dest: Address | None, payloads: list[bytes], flags: int, headers: tuple[Header, ...]) -> None:
        """Send, each payload with a unique name in front.

        Raises:
            NotConnectedError: the member is leaving.
        """
        if not self.running:
            raise NotConnectedError("the channel is leaving its group")
        self.stage.send(self.process.name, dest, self.named(dest, payloads), flags, headers)

    def named(self, dest: Address | None, payloads: Sequence[bytes]) -> list[bytes]:
        """Payloads with the names that the history knows them by."""
        return named(self.process, self.stage.history, dest, payloads)

    @property
    def node(self) -> Node:
        """Its node."""
        return self.process.node

    def soon(self, delay_ns: int, call: Callable[[], None]) -> None:
        """Call a function of a building block in the process; a paused process calls it when it resumes."""
        self.stage.after(delay_ns, self.stage.when_awake, self.process, lambda _: call())

    def leave(self) -> None:
        """Leave gracefully."""
        self.stage.leave(self.process.name)

    def fetch_state(self, target: Address | None, timeout_ns: int) -> None:
        """Request the state of `target` (None: of the coordinator)."""
        self.stage.inject_event(self.process, GetState(target, timeout_ns))

    def later(self, delay_ns: int, call: Callable[..., object], *arguments: Any) -> None:
        """Call a function in the process after `delay_ns`, or when a paused process resumes."""
        def due(_: int) -> None:
            self.stage.guard("later", call, *arguments)
            self.stage.check_always()
        self.stage.after(delay_ns, self.stage.when_awake, self.process, due)

    def receiver_changed(self, receiver: object) -> None:
        self.dispatcher.set_receiver(receiver)

    # --- outputs of the node ------------------------------------------------------------------------------------------

    def delivered(self, batch: Batch) -> None:
        super().delivered(batch)
        for part in unnamed(batch):
            self._call_receiver(Deliver(part))

    def on_event(self, output: Output) -> None:
        self._call_receiver(output)

    def _call_receiver(self, output: Output) -> None:
        """Show an output to the building blocks; then call the receiver, later if it is slow (`channel.lag`)."""
        for seen in self.connection.early(output):
            if self.channel.lag and not isinstance(seen, Closed):
                self._slow.append(seen)
                self.soon(seconds(self.channel.lag), self._next_of_slow)
            else:
                self._deliver(seen)

    def _next_of_slow(self) -> None:
        self._deliver(self._slow.popleft())

    def _deliver(self, output: Output) -> None:
        """Call the receiver; while a state is arriving, after it. After a failure applications are not called."""
        if self._parts is not None:
            self._after_state.append(output)
            return
        if self.stage.failures:
            self.channel.shown(output)
            return
        self.dispatcher.discard_own = self.channel.discard_own_messages
        if isinstance(output, ViewInstalled):
            self.connection.view = output.view
        self.dispatcher.handle(output)
        if isinstance(output, ViewInstalled) and not self.ready:
            self._joined(output)
        elif isinstance(output, Closed):
            self.connection.ended = True
            self.channel.ended(output.reason)
        self.stage.check_always()

    def _joined(self, output: ViewInstalled) -> None:
        """Handle the first view. A member that is alone, or the coordinator, has no member to fetch a state from."""
        if self.channel.fetches_state and output.view.coordinator != self.process.me:
            self.channel.fetches_state = False
            self.fetch_state(None, STATE_TIMEOUT_NS)
        elif self.process.views[0] == output.view:
            self.ready = True

    # --- state ------------------------------------------------------------------------------------------------------

    def state(self) -> bytes:
        stream = io.BytesIO()
        self.stage.guard("get_state", self.dispatcher.invoke, "get_state", stream)
        return stream.getvalue()

    def state_begins(self) -> None:
        self._resume()
        self._parts = []

    def state_part(self, data: bytes) -> None:
        assert self._parts is not None, "a state begins before its parts"
        self._parts.append(StatePart(data))

    def state_ends(self, error: str) -> None:
        self.state_errors.append(error)
        parts, self._parts = self._parts, None
        if parts is not None:
            self._inbox.put([*parts, StateEnd(error)])
            self.dispatcher.handle(StateBegin())         # it takes the parts from the inbox
        if not error:
            self.ready = True
        elif self.running and not self.ready:
            self.later(RETRY_NS, self.fetch_state, None, STATE_TIMEOUT_NS)
        self._resume()

    def _resume(self) -> None:
        after_state, self._after_state, self._parts = self._after_state, [], None
        for output in after_state:
            self._deliver(output)


class StrictDispatcher(Dispatcher):
    """The channel's dispatcher, except that an exception of the receiver fails the run instead of being logged.

    A ChannelError of a member that is leaving is no failure: it cannot send any more.
    """

    def __init__(self, member: SimulatedMember, name: str, inbox: Inbox) -> None:
        super().__init__(name, inbox, no_queue, lambda output: member.channel.shown(output), lambda output: None)
        self._member = member

    def failed(self, name: str, error: BaseException, *arguments: Any) -> None:
        self.counters.add("receiver_exceptions")
        if self._member.running or not isinstance(error, ChannelError):
            self._member.stage.failed(name, error)


def no_queue() -> SendQueue:
    """A simulated channel has no send queue: it sends at once."""
    raise AssertionError("a simulated channel has no send queue")
