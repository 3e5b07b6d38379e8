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
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from jgroups_py.channel.base import BaseChannel, ChannelState
from jgroups_py.channel.dispatcher import EXITS, Transfer
from jgroups_py.channel.io_task import IoTask
from jgroups_py.channel.message import Message, MessageBatch, headers_of, received
from jgroups_py.channel.receipts import check_receipt, timed_out
from jgroups_py.channel.session import Session
from jgroups_py.channel.validation import Coordinator, provider_of
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Flag, Header
from jgroups_py.model.errors import SendTimeoutError, StateTransferError
from jgroups_py.model.events import GetState
from jgroups_py.model.outputs import Closed, Deliver, Output, ProvideState, StateBegin
from jgroups_py.model.units import seconds
from jgroups_py.runtime.inbox import cost_of
from jgroups_py.runtime.send_queue import MESSAGE_COST, NOW

log = logging.getLogger("jgroups_py")

LEAVE_SECONDS = 3.0
STOP_SECONDS = 0.5
LATE_SECONDS = 2.0
ROUND = 256                                 # messages handed to callbacks before other tasks get a turn


class AsyncChannel(BaseChannel):
    """A member of a group, or of none yet, for one asyncio event loop."""

    _io: IoTask | None = None                                # what runs the loop, of the last connection
    _consumer: asyncio.Task[None] | None = None
    _ended: asyncio.Future[None] | None = None

    # --- connect and close ------------------------------------------------------------------------------------------

    async def connect(
        self, cluster: str, timeout: float = 10.0, state_from: Address | Coordinator | None = None,
    ) -> Self:
        """See JChannel.connect."""
        provider = provider_of(state_from)
        self._changed = asyncio.Event()
        self._arrived = asyncio.Event()
        self._messages: deque[Message] = deque()
        session = self._begin(cluster, lambda: self._raise(self._changed))
        session.host.coalesces_sends = True
        session.inbox.notify = lambda: self._raise(self._arrived)
        self._io = IoTask(self.name, session.host.loop, lambda: self._orphaned(session))
        self._consumer = asyncio.create_task(self._consume(session), name=f"jgroups-deliver-{self.name}")
        self._consumer.add_done_callback(self._consumed)
        session.start()
        self._io.start()
        try:
            await self._until(lambda: session.joined or session.ended, timeout)
            if not session.joined:
                raise self._join_failure(session, timeout)
            if state_from is not None:
                await self.get_state(provider, timeout)
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

    async def _until(self, holds: Any, timeout: float) -> None:
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
        session.host.leave(forget)
        await self._until(lambda: session.ended, LEAVE_SECONDS)
        if not session.ended:
            session.host.kill("left without the group's consent")
            await self._until(lambda: session.ended, STOP_SECONDS)
        session.dispatcher.stopping = True
        session.inbox.wake_consumer()
        self._arrived.set()
        consumer = self._consumer
        if consumer is not None and consumer is not asyncio.current_task():
            await asyncio.wait([consumer], timeout=STOP_SECONDS)
        await asyncio.to_thread(session.host.join)
        self._status.session_ended(session)
        ended, self._ended = self._ended, None
        ended.set_result(None)

    # --- send -------------------------------------------------------------------------------------------------------

    async def send(
        self, dest: Address | Message | None, payload: Any = b"", flags: int = 0, *,
        headers: Mapping[int, bytes] | None = None, timeout: float | None = None,
        until: str | Iterable[str] | None = None, topic: str | int | None = None,
    ) -> None:
        """See JChannel.send; awaits room, and `until`."""
        dest, data, bits, wired = self._checked_parts(dest, payload, flags, headers, topic)
        if until is not None:
            return await self._send_until(self._sites_of(until, dest, bits), data, bits, wired, timeout)
        await self.room(timeout)
        return self.connection().sends.put(dest, data, bits, wired, NOW)

    async def _send_until(
        self, sites: tuple[str, ...], data: bytes, bits: int, wired: tuple[Header, ...], timeout: float | None,
    ) -> None:
        events, wait = asyncio.get_running_loop(), self.send_timeout if timeout is None else timeout
        until = None if wait is None else events.time() + wait
        await self.room(timeout)
        self.connection()
        receipt, resolve = _promise()
        ticket = self.receipts.send(sites, data, bits, wired, NOW, resolve)
        try:
            async with asyncio.timeout_at(until):
                await receipt
        except TimeoutError:
            raise timed_out(sites, wait or 0) from None
        finally:
            self.receipts.give_up(ticket)
        check_receipt(receipt.result(), sites)

    async def send_batch(
        self, dest: Address | None, payloads: Iterable[Any], flags: int = 0, *,
        headers: Mapping[int, bytes] | None = None, timeout: float | None = None, topic: str | int | None = None,
    ) -> None:
        """See JChannel.send_batch; awaits room every so often."""
        found, wired = self._all_bytes(dest, payloads), self._wire_headers(headers, topic, dest)
        for start in range(0, len(found), ROUND):
            await self.room(timeout)
            self.connection().sends.put_all(dest, found[start:start + ROUND], Flag.bits(flags), wired, NOW)

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
        """Messages as they come, until the channel is disconnected. For channels without a receiver."""
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[Message]:
        session = self.connection()
        while True:
            while self._messages:
                message = self._messages.popleft()
                session.inbox.handled(len(message.payload) + MESSAGE_COST)
                yield message
            if self._consumer is None or self._consumer.done():
                return
            self._changed.clear()
            if not self._messages:
                await self._changed.wait()

    async def _consume(self, session: Session) -> None:
        """Deliver what arrives, in order."""
        dispatcher = session.dispatcher
        while not dispatcher.stopping:
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
            await asyncio.to_thread(dispatcher.handle, output)
        else:
            dispatcher.before(output)
            callback = dispatcher.callback_of(output)
            if callback is not None:
                await self._call(session, *callback)
            dispatcher.finished(output)
        if isinstance(output, Closed):
            self._changed.set()

    async def _deliver(self, session: Session, output: Deliver) -> None:
        batch, dispatcher = output.batch, session.dispatcher
        own_discarded = dispatcher.discard_own and batch.src == dispatcher.me
        if (batch.headers and dispatcher.deliver_to_block(batch)) or own_discarded:
            session.inbox.handled(cost_of(output))
        elif dispatcher.has("receive_batch"):
            await self._call(session, "receive_batch", MessageBatch(batch))
            session.inbox.handled(cost_of(output))
        elif dispatcher.has("receive"):
            headers = headers_of(batch)
            for number, payload in enumerate(batch.payloads):
                if dispatcher.stopping:                      # a callback closed the channel
                    dispatcher.counters.add("undelivered_at_close")
                else:
                    await self._call(session, "receive", received(batch, payload, headers))
                session.inbox.handled(len(payload) + MESSAGE_COST)
                if number % ROUND == ROUND - 1:
                    await asyncio.sleep(0)
        elif self.receiver is None:
            self._messages.extend(MessageBatch(batch))
            self._changed.set()
        else:
            session.inbox.handled(cost_of(output))

    async def _call(self, session: Session, name: str, *arguments: Any) -> None:
        try:
            result = session.dispatcher.invoke(name, *arguments)
            if inspect.isawaitable(result):
                await result
        except BaseException as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():       # this task is cancelled, not something in the callback
                raise
            session.dispatcher.failed(name, error)           # the application's bug, not this package's

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
            figures["channel"].update(session.dispatcher.counters)
        return figures


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
