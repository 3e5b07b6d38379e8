"""A simulated member with a user's application on it.

Outputs go through the Dispatcher that a JChannel uses, so the receiver's methods are called as they are in earnest.
Payloads travel with a name in front ("A#2>*/17|"), because the checkers must tell messages apart and an application
may send the same bytes twice; it is taken off before the receiver gets them.
"""
from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jgroups_py.address import Address
from jgroups_py.batch import Batch, Header
from jgroups_py.config.spec import StackSpec
from jgroups_py.delivery import Dispatcher
from jgroups_py.errors import ChannelError, NotConnectedError
from jgroups_py.events import GetState
from jgroups_py.outputs import Closed, Deliver, Output, StateBegin, StateEnd, StatePart, ViewInstalled
from jgroups_py.receiver import hears
from jgroups_py.runtime.inbox import Inbox
from jgroups_py.runtime.sends import SendQueue
from jgroups_py.sim.process import App, Process
from jgroups_py.sim.world import World
from jgroups_py.simulation.channel import SimulatedChannel
from jgroups_py.units import millis, seconds

if TYPE_CHECKING:
    from jgroups_py.simulation.trial import Stage

MARK = b"|"                              # between a message's name and the application's payload
STATE_TIMEOUT_NS = seconds(10)
RETRY_NS = millis(500)                   # until a member whose state did not come asks again


class Member(App):
    """One incarnation: its channel, and the application that the user's `start` made for it."""

    hears_news = True
    world: Stage

    def __init__(self, stage: Stage, spec: StackSpec, rate: int) -> None:
        super().__init__(rate)
        self.stage = stage
        self.spec = spec
        self.application: Any = None
        self.ready = False                               # in a view, and the state is here if it is wanted
        self._inbox = Inbox()
        self._parts: list[StatePart] | None = None       # of a state that is arriving
        self._behind: list[Output] = []                  # what comes after it

    def joins(self, world: World, process: Process) -> None:
        super().joins(world, process)
        self.channel = SimulatedChannel(self, self.spec, process.name)
        self.dispatcher = Watched(self, process.name, self._inbox)
        self.application = self.stage.guard("start", self._started)
        if self.channel.cluster is None:
            self.channel.connect("simulated")
        self.dispatcher.me = process.me

    def _started(self) -> Any:
        """The application; it is the receiver, unless it gave the channel another one."""
        application = self.stage.trial.start(self.channel)
        if self.channel.receiver is None:
            if not hears(application):
                raise TypeError(f"the application ({type(application).__name__}) hears nothing: it has none of the "
                                "methods of jg.Receiver, and set no other receiver of its channel")
            self.channel.receiver = application
        return application

    @property
    def running(self) -> bool:
        """Whether the process is the latest of its name, runs and is not about to leave."""
        process = self.process
        return self.stage.processes.get(process.name) is process and process.running and not process.leaving

    # --- what the channel asks for ----------------------------------------------------------------------------------

    def send(self, dest: Address | None, payloads: list[bytes], flags: int, headers: tuple[Header, ...]) -> None:
        """Send, each payload under a name of its own.

        Raises:
            NotConnectedError: the member is about to leave.
        """
        if not self.running:
            raise NotConnectedError("the channel is leaving its group")
        process, names = self.process, self.stage.history.names
        where = "*" if dest is None else names.get(dest, str(dest))
        first = process.sent.get(where, 0)
        process.sent[where] = first + len(payloads)
        named = [f"{process.incarnation}>{where}/{number}".encode() + MARK + payload
                 for number, payload in enumerate(payloads, first)]
        self.stage.send(process.name, dest, named, flags, headers)

    def leave(self) -> None:
        """Leave gracefully."""
        self.stage.leave(self.process.name)

    def fetch_state(self, target: Address | None, timeout_ns: int) -> None:
        """Ask for the state."""
        self.stage.give_down(self.process, GetState(target, timeout_ns))

    def later(self, delay_ns: int, call: Callable[..., object], *arguments: Any) -> None:
        """Call something in the process, when the time has come and it is not paused."""
        def due(_: int) -> None:
            self.stage.guard("later", call, *arguments)
            self.stage.look()
        self.stage.after(delay_ns, self.stage.when_awake, self.process, due)

    # --- what the node tells ----------------------------------------------------------------------------------------

    def delivered(self, batch: Batch) -> None:
        super().delivered(batch)
        payloads = tuple(payload.partition(MARK)[2] for payload in batch.payloads if MARK in payload)
        if payloads:                                     # the rest is the simulator's own
            self._hand_over(Deliver(Batch(batch.src, batch.dest, payloads, batch.headers, batch.flags)))

    def news(self, output: Output) -> None:
        self._hand_over(output)

    def _hand_over(self, output: Output) -> None:
        """To the receiver; behind the state, while one is arriving. After a failure applications are left alone."""
        if self._parts is not None:
            self._behind.append(output)
            return
        if self.stage.failures:
            self.channel.shown(output)
            return
        self.dispatcher.set_receiver(self.channel.receiver)
        self.dispatcher.discard_own = self.channel.discard_own_messages
        self.dispatcher.handle(output)
        if isinstance(output, ViewInstalled) and not self.ready:
            self._joined(output)
        elif isinstance(output, Closed):
            self.channel.ended(output.reason)
        self.stage.look()

    def _joined(self, output: ViewInstalled) -> None:
        """The first view; a member that is alone, or the first of those it meets, has nobody to ask."""
        if self.channel.wants_state and output.view.coordinator != self.process.me:
            self.channel.wants_state = False
            self.fetch_state(None, STATE_TIMEOUT_NS)
        elif self.process.views[0] == output.view:
            self.ready = True

    # --- state ------------------------------------------------------------------------------------------------------

    def state(self) -> bytes:
        stream = io.BytesIO()
        self.dispatcher.set_receiver(self.channel.receiver)
        self.stage.guard("get_state", self.dispatcher.invoke, "get_state", stream)
        return stream.getvalue()

    def state_begins(self) -> None:
        self._go_on()
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
        self._go_on()

    def _go_on(self) -> None:
        behind, self._behind, self._parts = self._behind, [], None
        for output in behind:
            self._hand_over(output)


class Watched(Dispatcher):
    """The channel's dispatcher, but a receiver that raises fails the run instead of being logged.

    A member that is leaving cannot send any more; that its receiver did not expect it is no failure.
    """

    def __init__(self, member: Member, name: str, inbox: Inbox) -> None:
        super().__init__(name, inbox, no_queue, member.channel.shown, lambda output: None)
        self._member = member

    def failed(self, name: str) -> None:
        self.counters.add("receiver_exceptions")
        error = sys.exc_info()[1]
        assert error is not None, "called where an exception is handled"
        if self._member.running or not isinstance(error, ChannelError):
            self._member.stage.failed(name, error)


def no_queue() -> SendQueue:
    """A simulated channel has no queue: what it sends is sent at once."""
    raise AssertionError("nothing of a simulated channel is queued")
