"""From the inbox to the receiver's methods: in order, one at a time, whatever the receiver does.

A Dispatcher calls the receiver's method for each output. It runs on a JChannel's I/O thread (io_thread.py), or in a
task of the application's event loop for an AsyncChannel. An exception of a method is logged with its traceback and
counted, and the channel stays connected, unless it is SystemExit or KeyboardInterrupt (see Receiver). A blocking
`get_state` inside a callback goes on delivering (in order, on the same thread) until the state is set.
"""
from __future__ import annotations

import contextlib
import io
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, cast

import attrs

from jgroups_py.channel.block import Block
from jgroups_py.channel.message import Message, MessageBatch, OrderedMessage, head_of
from jgroups_py.channel.observer import MessageObserver
from jgroups_py.channel.receiver import callbacks
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.counters import counter, declare, drop, table
from jgroups_py.model.errors import ChannelError, StateTransferError
from jgroups_py.model.events import StateChunk
from jgroups_py.model.outputs import (
    ArchiveDurability,
    Closed,
    CountedAsReceiver,
    Deliver,
    GlobalViewInstalled,
    GroupConnected,
    HoldDurability,
    MemberAlone,
    MemberChanged,
    MessagesLost,
    MessagesSkipped,
    OrderUncertain,
    Output,
    ProvideState,
    SiteStatusChanged,
    StateBegin,
    StateEnd,
    StatePart,
    Unreachable,
    ViewInstalled,
)
from jgroups_py.runtime.inbox import Inbox, cost_of
from jgroups_py.runtime.send_queue import MESSAGE_COST, SendQueue
from jgroups_py.system.drops import LoggedCounters
from jgroups_py.wire.block_headers import BlockHeader

log = logging.getLogger("jgroups_py")

CALLBACK_OF: dict[type[Output], tuple[str, Callable[[Any], Any]]] = {
    ViewInstalled: ("view_accepted", lambda output: output.view),
    GlobalViewInstalled: ("global_view_accepted", lambda output: output.view),
    Unreachable: ("unreachable", lambda output: output.dest),
    MessagesLost: ("messages_lost", lambda output: output),
    HoldDurability: ("journal_failed", lambda output: output.reason),
    ArchiveDurability: ("archive_failed", lambda output: output.reason),
    MemberAlone: ("alone", lambda output: output.reason),
    MemberChanged: ("member_changed", lambda output: output),
    MessagesSkipped: ("messages_skipped", lambda output: output),
    OrderUncertain: ("order_uncertain", lambda output: output.messages),
    CountedAsReceiver: ("counted_as_receiver", lambda output: output),
    GroupConnected: ("group_connected", lambda output: output.connected),
}
"""Output -> the receiver's method for it, and the method's argument."""

OBSERVED = ("receive", "receive_batch")     # the methods of a receiver that a MessageObserver may wrap
EXITS = (KeyboardInterrupt, SystemExit)     # raised by an application to exit: it closes the channel, see Receiver
HANDLED_BYTES = 64 << 10                    # of messages that are received one by one, how much is reported at once
CHUNK_BYTES = 64 << 10                      # pieces in which a state travels
CHUNK_SECONDS = 60.0                        # how long get_state may wait for the receiver of the state to take one


@attrs.frozen(eq=False)
class StateRestarted(StateEnd):
    """A new state begins in the middle of one: it ends the stream that set_state reads, but not the transfer."""

    error: str = "the member that provided the state was lost; another one begins again"


class Transfer:
    """One `get_state` of the application; the thread that called it waits for its end."""

    def __init__(self, done: Callable[[], None]) -> None:
        self.error: str | None = None                        # None: it goes on; "": the state is set
        self._done = done

    def finish(self, error: str) -> None:
        """End the transfer."""
        self.error = error
        self._done()


class Dispatcher:
    """Passes outputs to callbacks. All methods but the setters run on the consumer's thread.

    before: called with an output other than messages before the receiver's method, so that the channel's properties are
    up to date there; after: called with it when that method has returned. unrequested: the application did not request
    the end.
    """

    COUNTERS = declare(
        counter("delivered", "Messages given to the receiver."),
        counter("delivered_bytes", "Their payload bytes."),
        counter("receiver_exceptions", "Exceptions that methods of the receiver raised."),
        drop("undelivered_at_close", "Messages that the receiver had not been given when the channel closed."),
        drop("for_no_block", "Messages of building blocks (rpc, ...) that this member does not run."),
        drop("no_message_dropped", "Batches without a message: of a protocol that this member's stack does not have."),
    )

    def __init__(
        self, name: str, inbox: Inbox, sends: Callable[[], SendQueue], before: Callable[[Output], None],
        after: Callable[[Output], None],
    ) -> None:
        self.counters = LoggedCounters(table(self.COUNTERS))
        self.me: Address | None = None
        self.discard_own = False
        self.stopping = False
        self.unrequested = False
        self.exit_error: BaseException | None = None         # what a callback raised to end the application
        self.on_exit: Callable[[str], None] = lambda reason: None   # called when that happens, with the reason
        self.callback_failed: Callable[[str, BaseException], bool] = lambda name, error: False
        """Called with a method of the receiver and what it raised; False: that is to be logged."""
        self.on_unhandled: Callable[[Address | None, Sequence[bytes]], None] = lambda source, payloads: None
        """Called with the source and the payloads of messages that the receiver raised for."""
        self.reading_state = False                           # set_state is running
        self.transfer: Transfer | None = None
        self._name = name
        self._inbox = inbox
        self._nothing_new = inbox.empty
        self._sends = sends
        self.before = before
        self._after = after
        self._pending: deque[Output] = deque()               # taken from the inbox, not handled yet
        self._methods: dict[str, Callable[..., Any]] = {}
        self._unobserved = self._methods                     # the same, as the observer found them
        self._blocks: dict[type[BlockHeader], Block] = {}
        self.observer: MessageObserver | None = None         # set before `set_receiver`

    def attach(self, block: Block) -> None:
        """Give the batches with one of its headers to `block` from now on."""
        self._blocks = {**self._blocks, **dict.fromkeys(block.headers, block)}

    def set_receiver(self, receiver: object) -> None:
        """The object to call from now on."""
        methods, observer = callbacks(receiver), self.observer
        self._methods = self._unobserved = methods
        if observer is not None:
            observed = {name: observer.receiving(methods[name]) for name in OBSERVED if name in methods}
            self._methods = {**methods, **observed}

    # --- the order of things ----------------------------------------------------------------------------------------

    def next(self, timeout: float | None) -> Output | None:
        """The next output; None if none came in time, or if delivery is to stop."""
        pending = self._pending
        while not pending:
            taken = self._inbox.take(timeout)
            if self.stopping or not taken:
                return None
            pending.extend(taken)
        return pending.popleft()

    def pump(self, until: Callable[[], bool], timeout: float) -> None:
        """Inside a callback: go on delivering until `until()` holds, `timeout` seconds without an output at most."""
        while not until() and not self.stopping:
            output = self.next(timeout)
            if output is None:
                return
            self.handle(output)

    def any_waiting(self) -> bool:
        """Whether there is something to deliver."""
        return bool(self._pending) or not self._nothing_new()

    def handle(self, output: Output) -> None:
        """Deliver one output."""
        if isinstance(output, Deliver):                      # most of them; `before` and `after` are for the others
            return self._deliver(output)
        self.before(output)
        if isinstance(output, ProvideState):
            self._provide_state(output)
        elif isinstance(output, StateBegin):
            self._state()
        else:
            callback = self.callback_of(output)
            if callback is not None:
                self.call(*callback)
        return self.finished(output)

    def callback_of(self, output: Output) -> tuple[Any, ...] | None:
        """The receiver's method for an output, and its arguments; None: it is not for the receiver."""
        known = CALLBACK_OF.get(output.__class__)
        if known is not None:
            return known[0], known[1](output)
        if isinstance(output, SiteStatusChanged):
            return "site_status", output.site, output.status
        if isinstance(output, Closed) and self.unrequested:
            return "channel_closed", output.reason
        return None

    def finished(self, output: Output) -> None:
        """The receiver's method for an output has returned."""
        if isinstance(output, StateEnd):
            self._finish(output.error)
        elif isinstance(output, Closed):
            self.stopping = True
            self._finish(output.reason)
        self._after(output)

    def abandon(self) -> None:
        """Drop what was not delivered; it is counted."""
        self.stopping = True
        outputs = [*self._pending]
        self._pending.clear()
        while not self._nothing_new():
            outputs.extend(self._inbox.take(0))
        for output in outputs:
            if isinstance(output, Deliver):
                self.counters.drop("undelivered_at_close", f"the channel is closed; of {output.batch.src}",
                                   len(output.batch.payloads))

    def has(self, name: str) -> bool:
        """Whether the receiver has the method."""
        return name in self._methods

    def invoke(self, name: str, *arguments: Any) -> Any:
        """Call the receiver's method `name` if it has one; what it returns, and raises."""
        method = self._methods.get(name)
        return None if method is None else method(*arguments)

    def call(self, name: str, *arguments: Any) -> None:
        """Call the receiver's method `name` if it has one."""
        try:
            self.invoke(name, *arguments)
        except BaseException as error:                       # noqa: BLE001  the application's bug, not this package's
            self.failed(name, error, *arguments)

    def failed(self, name: str, error: BaseException, *arguments: Any) -> None:
        """A method of the receiver raised: that is logged and counted, and ends the channel if it was one of EXITS."""
        self.counters.add("receiver_exceptions")
        unhandled = arguments[0] if arguments else None
        if isinstance(unhandled, MessageBatch):
            self.on_unhandled(unhandled.src, unhandled.payloads)
        elif isinstance(unhandled, Message):
            self.on_unhandled(unhandled.src, (unhandled.payload,))
        if not self.callback_failed(name, error):
            log.error("channel %s: the receiver's %s raised", self._name, name, exc_info=error)
        if isinstance(error, EXITS):
            self.interrupt(f"the receiver's {name} raised {type(error).__name__}", error)

    def interrupt(self, reason: str, error: BaseException) -> None:
        """The application is to exit: nothing more is delivered, and the channel closes. From any thread."""
        if self.exit_error is None:
            self.exit_error, self.stopping = error, True
            self.on_exit(reason)

    def is_for_none(self, batch: Batch) -> bool:
        """Whether the receiver does not get a batch: a building block got it, or it is an own one, or has no message.

        Any process can send the last kind: a header that this stack has no protocol for, and nothing else.
        """
        if (batch.headers and self.deliver_to_block(batch)) or (self.discard_own and batch.src == self.me):
            return True
        if batch.payloads:
            return False
        headers = ", ".join(type(header).__name__ for header in batch.headers) or "no header"
        self.counters.drop("no_message_dropped", f"{headers} of {batch.src}: no protocol here is for it", 1)
        return True

    def deliver_to_block(self, batch: Batch) -> bool:
        """If a batch is for a building block, pass it to the block; returns whether it was for one."""
        kind = batch.headers[0].__class__
        if not issubclass(kind, BlockHeader):
            return False
        block = self._blocks.get(kind)
        if block is None:
            self.counters.drop("for_no_block", f"{kind.__name__} of {batch.src}: this member runs no such block",
                               len(batch.payloads))
            return True
        try:
            block.deliver(batch)
        except EXITS as error:                               # the application's handler, under the block
            self.interrupt(f"a handler raised {type(error).__name__}", error)
        return True

    # --- messages ---------------------------------------------------------------------------------------------------

    def _deliver(self, output: Deliver) -> None:
        batch = output.batch
        if self.is_for_none(batch):
            return self._inbox.handled(cost_of(output))
        self.counters.add("delivered", len(batch.payloads))
        self.counters.add("delivered_bytes", batch.nbytes)
        if "receive_batch" in self._methods:
            self.call("receive_batch", MessageBatch(batch))
            self._inbox.handled(cost_of(output))
        elif "receive" in self._methods:
            self._one_by_one(batch)
        else:
            self._inbox.handled(cost_of(output))
        return None

    def _one_by_one(self, batch: Batch) -> None:
        """Call `receive` for each message.

        The loop does for a message what must be done for each, and no more: a message is made here, not by a call of
        `received`, and what is handled is reported for HANDLED_BYTES at once. `stopping` is read for each, as a
        receiver that closes its channel gets nothing more.
        """
        method = (self._methods if batch.headers else self._unobserved)["receive"]
        new, src, head = Message.__new__, batch.src, head_of(batch)
        place = batch.place
        kind: type[Message] = OrderedMessage if place else Message
        for payloads, cost in pieces(batch):
            rest = iter(payloads)
            for payload in rest:
                if self.stopping:                            # a callback closed the channel
                    self.counters.drop("undelivered_at_close", f"a callback closed the channel; of {batch.src}",
                                       1 + len(tuple(rest)))
                    break
                message = new(kind)
                message.payload = payload
                message.src = src
                message._head = head
                if place:                                    # then it is an OrderedMessage
                    message._place = place                   # type: ignore[attr-defined]
                    place += 1
                try:
                    method(message)
                except BaseException as error:               # noqa: BLE001  the application's bug, not this package's
                    self.failed("receive", error, message)
            self._inbox.handled(cost)

    # --- state ------------------------------------------------------------------------------------------------------

    def _provide_state(self, output: ProvideState) -> None:
        """Let the application write its state; it is sent in chunks while it is being written."""
        sends, request = self._sends(), output.request
        error = ""
        method = self._methods.get("get_state")
        try:
            if method is None:
                error = "the member that provides the state has no get_state"
            else:
                with io.BufferedWriter(StateWriter(sends, request), CHUNK_BYTES) as stream:
                    method(cast(BinaryIO, stream))
        except ChannelError as raised:                       # this member leaves, or the requester reads nothing
            error = str(raised)
        except BaseException as raised:                      # noqa: BLE001  the application's bug, not this package's
            self.failed("get_state", raised)
            error = f"get_state raised {type(raised).__name__}: {raised}"
        with contextlib.suppress(ChannelError):              # the channel was closed meanwhile
            sends.put_event(StateChunk(request, b"", last=True, error=error), 0, None)

    def _state(self) -> None:
        """Let the application read a state while it arrives."""
        source = StateReader(self._next_of_state)
        method = self._methods.get("set_state")
        error = ""
        self.reading_state = True
        try:
            if method is None:
                error = "the receiver has no set_state"
            else:
                method(cast(BinaryIO, io.BufferedReader(source, CHUNK_BYTES)))
        except StateTransferError as raised:
            error = str(raised)                              # raised by the stream, not by the application
        except BaseException as raised:                      # noqa: BLE001  the application's bug, not this package's
            self.failed("set_state", raised)
            error = f"set_state raised {type(raised).__name__}: {raised}"
        end = source.rest()
        self.reading_state = False
        if not isinstance(end, StateRestarted):
            self._finish(error or end.error)

    def _finish(self, error: str) -> None:
        if self.transfer is not None:
            self.transfer.finish(error)

    def _next_of_state(self) -> StatePart | StateEnd:
        """The next part of the state that is being read; outputs in between are delivered after the state."""
        deferred: list[Output] = []
        while True:
            output = self.next(None)
            if output is None or isinstance(output, Closed):
                self.stopping = True
                found: StatePart | StateEnd = StateEnd("the channel was closed")
                break
            if isinstance(output, StatePart | StateEnd):
                found = output
                break
            deferred.append(output)
            if isinstance(output, StateBegin):               # what is deferred is delivered before the new state
                found = StateRestarted()
                break
        self._pending.extendleft(reversed(deferred))
        if isinstance(found, StatePart):
            self._inbox.state_read(len(found.data))
        return found


def pieces(batch: Batch) -> Iterator[tuple[Sequence[bytes], int]]:
    """The payloads of a batch in pieces of about HANDLED_BYTES, and what each counts in the backlog.

    That is its part of the whole by the number of its messages: only the sum must be right.
    """
    payloads = batch.payloads
    number, cost = len(payloads), batch.nbytes + MESSAGE_COST * len(payloads)
    step = max(1, HANDLED_BYTES * number // cost)
    for start in range(0, number, step):
        stop = min(start + step, number)
        yield payloads[start:stop], cost * stop // number - cost * start // number


class StateWriter(io.RawIOBase):
    """The stream that a member's get_state writes to: chunks for the stack; writing waits while there is no room."""

    def __init__(self, sends: SendQueue, request: int) -> None:
        self._sends = sends
        self._request = request

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        """Queue at most one chunk; waits while there is no room."""
        piece = bytes(memoryview(data)[:CHUNK_BYTES])
        self._sends.put_event(StateChunk(self._request, piece), len(piece), CHUNK_SECONDS)
        return len(piece)


class StateReader(io.RawIOBase):
    """The stream that a member's set_state reads from: the parts of a state, as they arrive.

    If the transfer fails, reading raises StateTransferError, so set_state never takes a part of a state for all of it.
    """

    def __init__(self, following: Callable[[], StatePart | StateEnd]) -> None:
        self._following = following
        self._part = memoryview(b"")
        self._end: StateEnd | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Bytes read into `buffer`; 0 at the end of the state."""
        while not self._part and self._end is None:
            found = self._following()
            if isinstance(found, StateEnd):
                self._end = found
            else:
                self._part = memoryview(found.data)
        if self._end is not None and self._end.error:
            raise StateTransferError(self._end.error)
        number = min(len(buffer), len(self._part))
        buffer[:number] = self._part[:number]
        self._part = self._part[number:]
        return number

    def rest(self) -> StateEnd:
        """Drop what was not read; returns how the state ended."""
        while self._end is None:
            found = self._following()
            if isinstance(found, StateEnd):
                self._end = found
        return self._end
