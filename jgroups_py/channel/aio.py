"""AsyncChannel: JChannel for asyncio, with the same names; methods that wait are coroutines.

    async with AsyncChannel("udp", name="A") as ch:
        await ch.connect("chat")
        await ch.send(None, b"hello")
        async for message in ch:
            ...

The sockets are read on the event loop itself, so nothing that arrives changes threads; a watchdog thread takes over
while the event loop is blocked (io_task.py), so a busy one does not starve failure detection. With a receiver (its
methods may be coroutines) one task calls it, in order; without one, messages wait for `async for`. Both are bounded: a
member that does not keep up slows the senders of the group. An AsyncChannel belongs to the event loop in which it was
connected, and leaves its group if that is closed.
"""
from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Self, overload

from jgroups_py.channel.base import BaseChannel, ChannelState
from jgroups_py.channel.dispatcher import EXITS, Transfer, pieces
from jgroups_py.channel.environment import AsyncIo, environment
from jgroups_py.channel.message import Message, MessageBatch, Payload, head_of, received
from jgroups_py.channel.receipt import AsyncReceipt
from jgroups_py.channel.receipts import Until
from jgroups_py.channel.receiver import ReceiverLike
from jgroups_py.channel.session import Session
from jgroups_py.channel.streams import KEPT_EVENTS, GroupEvent, event_of
from jgroups_py.channel.validation import Coordinator, provider_of
from jgroups_py.config.load import Source
from jgroups_py.model.address import Address
from jgroups_py.model.batch import RSVP, Batch, Flag, Header
from jgroups_py.model.errors import ChannelError, SendTimeoutError, StateTransferError
from jgroups_py.model.events import GetState
from jgroups_py.model.outputs import Closed, Deliver, Output, ProvideState, StateBegin
from jgroups_py.model.units import seconds
from jgroups_py.model.view import View
from jgroups_py.runtime.inbox import cost_of
from jgroups_py.runtime.send_queue import MESSAGE_COST, NOW

log = logging.getLogger("jgroups_py")

LEAVE_SECONDS = 3.0
STOP_SECONDS = 0.5
LATE_SECONDS = 2.0
ROUND = 256                                 # messages handed to callbacks before other tasks get a turn


class AsyncChannel(BaseChannel):
    """A member of a group, or of none yet, for one asyncio event loop."""

    _io: AsyncIo | None = None                               # what runs the loop, of the last connection
    _consumer: asyncio.Task[None] | None = None
    _ended: asyncio.Future[None] | None = None
    _with_events: bool | None = None                         # events() was called; False: messages(); None: neither yet

    def __init__(
        self, stack: Source = "udp", name: str | None = None, properties: Mapping[str, object] | None = None,
        receiver: ReceiverLike | None = None,
    ) -> None:
        """See JChannel."""
        self._waiting: deque[GroupEvent] = deque()           # for a loop over messages() or events()
        super().__init__(stack, name, properties, receiver)
        self._status.over = lambda: self._raise(self._changed)

    # --- connect and close ------------------------------------------------------------------------------------------

    async def connect(
        self, cluster: str, timeout: float = 10.0, state_from: Address | Coordinator | None = None,
    ) -> Self:
        """See JChannel.connect."""
        provider, place = provider_of(state_from), environment()
        self._changed = asyncio.Event()
        self._arrived = asyncio.Event()
        self._taken = asyncio.Event()
        self._waiting.clear()
        session = self._begin(cluster, lambda: self._raise(self._changed), place.new_host)
        session.host.coalesces_sends = True
        session.dispatcher.callback_failed = place.callback_failed
        session.inbox.notify = lambda: self._raise(self._arrived)
        self._io = place.new_io(self.name, session.host, lambda: self._orphaned(session))
        self._consumer = asyncio.create_task(self._consume(session), name=f"jgroups-deliver-{self.name}")
        self._consumer.add_done_callback(self._consumed)
        session.state_due = state_from is not None
        session.start()
        self._io.start()
        try:
            await self._until(lambda: session.joined or session.ended, timeout)
            if not session.joined:
                raise self._join_failure(session, timeout)
            if state_from is not None:
                await self.get_state(provider, timeout)
                session.state_due = False
        except BaseException:
            await asyncio.shield(self._end(session))
            raise
        return self

    async def disconnect(self) -> None:
        """See JChannel.disconnect."""
        if self._session is not None:
            await self._end(self._session)

    async def close(self, *, forget: bool = False) -> None:
        """See JChannel.close."""
        self._check_forget(forget)
        if self._session is not None:
            await self._end(self._session, forget)
        self._status.state = ChannelState.CLOSED

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        await self.close()

    def _orphaned(self, session: Session) -> None:
        """The event loop was closed before the channel: no task takes what arrives, and the group would wait for it."""
        log.warning("channel %s leaves %s: its event loop was closed; close a channel before", self.name, self.cluster)
        self._status.closed_itself(session, "the event loop of the channel was closed")
        session.host.leave()

    def _raise(self, flag: asyncio.Event) -> None:
        """From any thread: set a flag of the event loop."""
        self.call(flag.set)

    def call(self, function: Callable[[], object]) -> None:
        """For building blocks, from any thread: call `function` on the event loop; at once if this is its thread."""
        if self._io is not None:
            self._io.call(function)

    async def _until(self, holds: Any, timeout: float | None) -> None:
        """Wait until `holds()`, `timeout` seconds at most."""
        try:
            async with asyncio.timeout(timeout):
                while not holds():
                    self._changed.clear()
                    if not holds():
                        await self._changed.wait()
        except TimeoutError:
            pass

    async def _end(self, session: Session, forget: bool = False) -> None:
        if self._ended is not None:
            if asyncio.current_task() is not self._consumer:
                await asyncio.shield(self._ended)
            return
        self._ended = asyncio.get_running_loop().create_future()
        session.leave(forget)
        await self._until(lambda: session.ended, LEAVE_SECONDS)
        if not session.ended:
            session.host.kill("left without the group's consent")
            await self._until(lambda: session.ended, STOP_SECONDS)
        session.dispatcher.stopping = True
        session.inbox.wake_consumer()
        self._arrived.set()
        self._taken.set()
        consumer = self._consumer
        if consumer is not None and consumer is not asyncio.current_task():
            await asyncio.wait([consumer], timeout=STOP_SECONDS)
        assert self._io is not None, "it was connected"
        await self._io.run_blocking(session.host.join)
        self._status.session_ended(session)
        ended, self._ended = self._ended, None
        ended.set_result(None)

    # --- send -------------------------------------------------------------------------------------------------------

    @overload
    async def send(
        self, dest: Payload | Message, /, *, flags: int = 0,
        headers: Mapping[int, bytes] | None = None, timeout: float | None = None, until: None = None,
        wait: bool = True, topic: str | int | None = None,
    ) -> None: ...

    @overload
    async def send(
        self, dest: Payload | Message, /, *, flags: int = 0,
        headers: Mapping[int, bytes] | None = None, until: str | Iterable[str], timeout: float | None = None,
        wait: bool = True, topic: str | int | None = None,
    ) -> AsyncReceipt: ...

    @overload
    async def send(
        self, dest: Address | None, payload: Payload | None = None, flags: int = 0, *,
        headers: Mapping[int, bytes] | None = None, timeout: float | None = None, until: None = None,
        wait: bool = True, topic: str | int | None = None,
    ) -> None: ...

    @overload
    async def send(
        self, dest: Address | None, payload: Payload | None = None, flags: int = 0, *,
        headers: Mapping[int, bytes] | None = None, until: str | Iterable[str], timeout: float | None = None,
        wait: bool = True, topic: str | int | None = None,
    ) -> AsyncReceipt: ...

    async def send(
        self, dest: Address | Message | Payload | None, payload: Payload | None = None, flags: int = 0, *,
        headers: Mapping[int, bytes] | None = None, timeout: float | None = None,
        until: str | Iterable[str] | None = None, wait: bool = True, topic: str | int | None = None,
    ) -> AsyncReceipt | None:
        """See JChannel.send; awaits room, and `until`: with wait=False the receipt that it returns can be awaited."""
        if (dest is None and payload.__class__ is bytes and not flags and headers is None and topic is None
                and until is None):                          # plain: the short way, see send_queue.Intake
            intake = self._status.intake
            left = intake.left - len(payload)
            if left > 0:
                intake.append(payload)
                intake.left = left - MESSAGE_COST
                if not intake.attend or intake.tell(payload):
                    return None
            elif self._observer is not None and self._passes(payload):
                return None
        dest, data, bits, wired = self._checked_parts(dest, payload, flags, headers, topic)
        if self._observer is not None and (observer := self._asking()) is not None:
            with observer.sending(dest, (data,), wired) as wired:
                if until is not None or bits & RSVP:
                    return await self.send_until(
                        self.checked_until(until, dest, bits), data, bits, wired, timeout, wait)
                await self.room(timeout)
                sends = self.connection().sends
                sends.put(dest, data, bits, wired, NOW)
                sends.renew()                                # the observer may let some pass again
                return None
        if until is not None or bits & RSVP:
            return await self.send_until(self.checked_until(until, dest, bits), data, bits, wired, timeout, wait)
        await self.room(timeout)
        self.connection().sends.put(dest, data, bits, wired, NOW)
        return None

    async def send_until(
        self, until: Until, data: bytes, bits: int, wired: tuple[Header, ...], timeout: float | None, wait: bool,
    ) -> AsyncReceipt:
        """See JChannel.send_until."""
        if until.handled and wait:
            self._check_outside(until)
        left, events = self.send_timeout if timeout is None else timeout, asyncio.get_running_loop()
        if not self.connection().sends.has_room():
            ends = None if left is None else events.time() + left
            await self.room(timeout)
            left = None if ends is None else max(0.0, ends - events.time())
        self.connection()
        check = partial(self._check_outside, until) if until.handled and not wait else _nothing
        receipt = AsyncReceipt(until.words, check, self)
        self.receipts.start(until, receipt, data, bits, wired, NOW, left)
        if wait:                                             # as `await receipt`, with fewer objects and calls
            future = receipt.future()
            if future is not None:
                await future
            if receipt.error is not None:
                raise receipt.error
        return receipt

    def _check_outside(self, until: Until) -> None:
        self._check_handled(until, asyncio.current_task() is self._consumer)

    async def send_batch(
        self, dest: Address | None, payloads: Iterable[Any], flags: int = 0, *,
        headers: Mapping[int, bytes] | None = None, timeout: float | None = None, topic: str | int | None = None,
    ) -> None:
        """See JChannel.send_batch; awaits room every so often."""
        found, wired = self._all_bytes(dest, payloads, flags), self._wire_headers(headers, topic, dest)
        if self._observer is not None and (observer := self._asking()) is not None:
            with observer.sending(dest, found, wired) as wired:
                return await self._put_rounds(dest, found, Flag.bits(flags), wired, timeout)
        return await self._put_rounds(dest, found, Flag.bits(flags), wired, timeout)

    async def _put_rounds(
        self, dest: Address | None, payloads: list[bytes], flags: int, wired: tuple[Header, ...], timeout: float | None,
    ) -> None:
        for start in range(0, len(payloads), ROUND):
            await self.room(timeout)
            self.connection().sends.put_all(dest, payloads[start:start + ROUND], flags, wired, NOW)

    async def room(self, timeout: float | None = None) -> None:
        """For building blocks: await room in the send queue, and receivers, before putting with the timeout NOW.

        timeout: seconds, None: `send_timeout`. Raises what `send` raises.
        """
        sends = self.connection().sends
        while not sends.has_room():
            room, resolve = _promise()
            sends.when_room(lambda: resolve(None))              # noqa: B023  one promise a turn
            try:
                await asyncio.wait_for(room, self.send_timeout if timeout is None else timeout)
            except TimeoutError:
                raise sends.lacking() or SendTimeoutError(
                    "the send queue stayed full: the receivers are slower than this sender") from None

    # --- receive ----------------------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[Message]:
        """As `messages()`."""
        return self.messages()

    def messages(self, *, timeout: float | None = None) -> AsyncIterator[Message]:
        """Iterate over the messages, of the whole connection if none was iterated over yet; see JChannel.messages.

        They wait for the loop, and count as backlog: above 2 MB the member grants no credits, so a loop that does not
        keep up, or that is never begun, slows the senders of its group.
        """
        self._check_iteration(False)
        return self._iterate(timeout)

    def events(self, *, timeout: float | None = None) -> AsyncIterator[GroupEvent]:
        """Messages that wait already, the present view, then messages and events in order; see JChannel.events."""
        self._check_iteration(True)
        return self._iterate(timeout)

    def _check_iteration(self, events: bool) -> None:
        if self._receiver is not None and not self._messages_wait():
            raise ChannelError("the channel has a receiver or on_message, which takes the messages; messages() and "
                               "events() are for channels without")
        if self._with_events not in (None, events):
            raise ChannelError("a channel's messages() and events() exclude each other: the one that was called first "
                               "takes the messages (until `ch.receiver = None`)")
        if events and self._with_events is None and self.view is not None:
            self._waiting.append(self.view)
            self._changed.set()
        self._with_events = events

    def _messages_wait(self) -> bool:
        """Whether messages are kept for a loop, because neither a receiver nor a function takes them."""
        functions = self._functions
        return self._receiver is None or (functions is not None and not functions.takes_messages)

    async def _iterate(self, timeout: float | None) -> AsyncIterator[Any]:
        session = self.connection()
        while True:
            while self._waiting:
                item = self._waiting.popleft()
                if isinstance(item, Message):
                    session.inbox.handled(len(item.payload) + MESSAGE_COST)
                self._taken.set()
                yield item
            if self._consumer is None or self._consumer.done():
                return
            self._changed.clear()
            if not self._waiting:
                try:
                    await asyncio.wait_for(self._changed.wait(), timeout)
                except TimeoutError:
                    return

    def _receiver_changed(self) -> None:
        if self._functions is None:
            self._with_events = None
        super()._receiver_changed()
        if self._session is not None and self._waiting and not self._messages_wait():
            self._raise(self._arrived)                       # what waits is for the new receiver

    async def wait_for(self, *, members: int, timeout: float | None = None) -> View:
        """See JChannel.wait_for."""
        self._check_wait(members, asyncio.current_task() is self._consumer)
        await self._until(lambda: self._waited_enough(members), timeout)
        return self._awaited_view(members, timeout)

    async def _consume(self, session: Session) -> None:
        """Deliver what arrives, in order."""
        dispatcher = session.dispatcher
        while not dispatcher.stopping:
            if self._waiting and not self._messages_wait():
                await self._deliver_waiting(session)
            output = dispatcher.next(0)
            if output is None:
                self._arrived.clear()
                output = dispatcher.next(0)
                if output is None:
                    await self._arrived.wait()
                    continue
            await self._handle(session, output)
        dispatcher.abandon()
        asyncio.get_running_loop().call_soon(self._changed.set)
        if dispatcher.exit_error is not None:
            raise dispatcher.exit_error                            # it ends the event loop, as from any task

    def _consumed(self, consumer: asyncio.Task[None]) -> None:
        """Delivery has ended: with a bug, or with what a callback raised to end the application, which was logged."""
        error = None if consumer.cancelled() else consumer.exception()
        if error is not None and not isinstance(error, EXITS):
            log.error("channel %s delivers no more because of a bug", self.name, exc_info=error)

    async def _handle(self, session: Session, output: Output) -> None:
        dispatcher = session.dispatcher
        if isinstance(output, Deliver):
            await self._deliver(session, output)
        elif isinstance(output, ProvideState | StateBegin):
            # These read and write streams, which block; delivery stands still meanwhile, as it must.
            assert self._io is not None, "it is connected"
            await self._io.run_blocking(dispatcher.handle, output)
        else:
            dispatcher.before(output)
            callback = dispatcher.callback_of(output)
            if callback is not None:
                await self._call(session, *callback)
            if self._with_events:
                await self._keep_event(output)
            dispatcher.finished(output)
        if isinstance(output, Closed):
            self._changed.set()

    async def _keep_event(self, output: Output) -> None:
        """Keep an event for `events()`; waits for the loop if it has not taken KEPT_EVENTS."""
        event = event_of(output)
        if event is None:
            return
        while len(self._waiting) >= KEPT_EVENTS and self._ended is None:
            self._taken.clear()
            await self._taken.wait()
        self._waiting.append(event)
        self._changed.set()

    async def _deliver_waiting(self, session: Session) -> None:
        """Give the messages that waited for a loop to the receiver that was set since."""
        while self._waiting and not session.dispatcher.stopping:
            item = self._waiting.popleft()
            if not isinstance(item, Message):
                continue                                     # an event: it had its callback when it came
            if session.dispatcher.has("receive"):
                await self._call(session, "receive", item)
            elif session.dispatcher.has("receive_batch"):
                await self._call(session, "receive_batch", item.as_batch())
            session.inbox.handled(len(item.payload) + MESSAGE_COST)

    async def _deliver(self, session: Session, output: Deliver) -> None:
        batch, dispatcher = output.batch, session.dispatcher
        if dispatcher.is_for_none(batch):
            session.inbox.handled(cost_of(output))
        elif dispatcher.has("receive_batch"):
            await self._call(session, "receive_batch", MessageBatch(batch))
            session.inbox.handled(cost_of(output))
        elif dispatcher.has("receive"):
            await self._one_by_one(session, batch)
        elif self._messages_wait():
            self._waiting.extend(MessageBatch(batch))
            self._changed.set()
        else:
            session.inbox.handled(cost_of(output))

    async def _one_by_one(self, session: Session, batch: Batch) -> None:
        """As Dispatcher._one_by_one; other tasks get a turn after every ROUND messages."""
        dispatcher, src, head, place = session.dispatcher, batch.src, head_of(batch), batch.place
        for payloads, cost in pieces(batch):
            for number, payload in enumerate(payloads, 1):
                if dispatcher.stopping:                      # a callback closed the channel
                    dispatcher.counters.add("undelivered_at_close")
                    continue
                message = received(payload, src, head, place)
                try:
                    result = dispatcher.invoke("receive", message)
                    if result is not None and inspect.isawaitable(result):
                        await result
                except BaseException as error:
                    if cancelled():
                        raise
                    dispatcher.failed("receive", error, message)     # the application's bug, not this package's
                place += bool(place)
                if not number % ROUND:
                    await asyncio.sleep(0)
            session.inbox.handled(cost)

    async def _call(self, session: Session, name: str, *arguments: Any) -> None:
        try:
            result = session.dispatcher.invoke(name, *arguments)
            if inspect.isawaitable(result):
                await result
        except BaseException as error:
            if cancelled():
                raise
            session.dispatcher.failed(name, error, *arguments)   # the application's bug, not this package's

    # --- state and figures ------------------------------------------------------------------------------------------

    async def get_state(self, target: Address | Coordinator | None = None, timeout: float = 10.0) -> None:
        """See JChannel.get_state. The receiver's get_state and set_state run on a thread: their streams block."""
        provider, session = provider_of(target), self.connection()
        if session.dispatcher.transfer is not None:
            raise StateTransferError("another get_state of this channel is under way")
        if asyncio.current_task() is self._consumer:
            raise StateTransferError("inside a callback of this channel; start a task for it")
        transfer = session.dispatcher.transfer = Transfer(lambda: self._raise(self._changed))
        try:
            session.sends.put_event(GetState(provider, seconds(timeout)), 0, None)
            while transfer.error is None and not session.ended:
                await self._until(lambda: transfer.error is not None or session.ended, timeout + LATE_SECONDS)
                if not session.dispatcher.reading_state:
                    break
        finally:
            session.dispatcher.transfer = None
        if transfer.error is None:
            raise StateTransferError(f"no state within {timeout:g} s")
        if transfer.error:
            raise StateTransferError(transfer.error)

    async def stats(self) -> dict[str, dict[str, float]]:
        """See JChannel.stats."""
        session = self._session
        if session is None:
            return {}
        answer, resolve = _promise()
        session.host.ask(session.host.stats, resolve)
        try:
            figures: dict[str, dict[str, float]] = await asyncio.wait_for(answer, LATE_SECONDS) or {}
        except TimeoutError:
            return {}
        if figures:
            figures["channel"].update({**session.dispatcher.counters, **self.receipts.counters})
        return figures


def cancelled() -> bool:
    """Whether the task that runs is cancelled, rather than something in the callback that it has called."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class PendingJoin:
    """What `aio.join` returns: await it, or enter it, which closes the channel at the end."""

    def __init__(
        self, channel: AsyncChannel, cluster: str, timeout: float, state_from: Address | Coordinator | None,
    ) -> None:
        self._channel = channel
        self._arguments = cluster, timeout, state_from

    def __await__(self) -> Generator[Any, None, AsyncChannel]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> AsyncChannel:
        try:
            return await self._channel.connect(*self._arguments)
        except BaseException:
            await asyncio.shield(self._channel.close())
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        await self._channel.close()


def join(
    cluster: str, *, stack: Source = "udp", name: str | None = None, properties: Mapping[str, object] | None = None,
    receiver: ReceiverLike | None = None, timeout: float = 10.0, state_from: Address | Coordinator | None = None,
) -> PendingJoin:
    """A channel that is connected: `async with join("chat", name="A") as ch:`, or `ch = await join("chat", name="A")`.

    The stack is loaded at once, so its errors are raised here. See the function of the same name for threads, jg.join.
    """
    return PendingJoin(AsyncChannel(stack, name, properties, receiver), cluster, timeout, state_from)


def _promise() -> tuple[asyncio.Future[Any], Callable[[Any], None]]:
    """A future of the running event loop, and how any thread gives it its result."""
    events = asyncio.get_running_loop()
    future: asyncio.Future[Any] = events.create_future()

    def settle(result: Any) -> None:
        if not future.done():
            future.set_result(result)

    def resolve(result: Any) -> None:
        with contextlib.suppress(RuntimeError):              # the event loop is closed; no coroutine waits any more
            events.call_soon_threadsafe(settle, result)
    return future, resolve


def _nothing() -> None:
    """Checks nothing."""
