"""AsyncCoordination: locks, semaphores, leaderships, counters, cells, barriers and queues for an AsyncChannel.

    co = AsyncCoordination(channel, founders=("A", "B", "C"), ttl="3s")
    await channel.connect("shop")
    async with co.lock("invoice-7", timeout=5) as grant:         # the body is cancelled when the grant is lost
        await write(row, fence=grant.fence)

See Coordination for what is promised, and where it ends.
"""
from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, TypeVar

from jgroups_py.blocks.coordination.base import (
    BaseCoordination,
    BaseGrant,
    CellState,
    QueueItem,
    acquire,
    add,
    arrive,
    checked,
    checked_number,
    compare_cell,
    decoded,
    encoded,
    put_item,
    set_cell,
    set_counter,
    take_item,
    watch_cell,
)
from jgroups_py.blocks.coordination.core import CoordinationRequest, Make, Result
from jgroups_py.blocks.coordination.driver import CoordinationDriver, request_of
from jgroups_py.blocks.coordination.errors import MismatchError, UnavailableError
from jgroups_py.blocks.coordination.grants import RELEASED, HeldGrant
from jgroups_py.blocks.coordination.messages import (
    LEADER,
    LOCK,
    SEMAPHORE,
    SPACES,
    CellValue,
    CommandRefused,
    CoordinationMessage,
    CounterValue,
    GrantResult,
    Holders,
    ReadCell,
    ReadCounter,
    ReadHolders,
)
from jgroups_py.blocks.dicts.replicated import DictCodec, codec_of
from jgroups_py.channel.aio import AsyncChannel
from jgroups_py.model.address import Address
from jgroups_py.model.errors import ChannelError

T = TypeVar("T")
MOST = (1 << 31) - 1                       # permits, and parties of a barrier
Waiter = asyncio.Future[Any]


class AsyncCoordination(BaseCoordination):
    """See the module, and Coordination for the arguments of the constructor and of the methods."""

    _channel: AsyncChannel

    def lock(self, name: str, timeout: float | None = None) -> AsyncLock:
        """See Coordination.lock."""
        return AsyncLock(self, LOCK, name, 1, timeout)

    def semaphore(self, name: str, permits: int, timeout: float | None = None) -> AsyncLock:
        """See Coordination.semaphore."""
        return AsyncLock(self, SEMAPHORE, name, checked_number("permits", permits, 1, MOST), timeout)

    def leadership(self, name: str, timeout: float | None = None) -> AsyncLock:
        """`async with` waits until this member leads; the body is cancelled when it does not any more."""
        return AsyncLock(self, LEADER, name, 1, timeout)

    async def leader_of(self, name: str) -> Address | None:
        """The member that leads now (linearizable); None: none does."""
        holders = await self._ask(name, ReadHolders(LEADER, checked(name)))
        assert isinstance(holders, Holders), "the answer to that"
        return holders.holders[0][0] if holders.holders else None

    def counter(self, name: str) -> AsyncCounter:
        """See Coordination.counter."""
        return AsyncCounter(self, name)

    def cell(self, name: str, kind: type[T] | DictCodec[T]) -> AsyncCell[T]:
        """See Coordination.cell."""
        return AsyncCell(self, name, kind)

    def barrier(self, name: str, parties: int) -> AsyncBarrier:
        """See Coordination.barrier."""
        return AsyncBarrier(self, name, parties)

    def queue(self, name: str, kind: type[T] | DictCodec[T]) -> AsyncQueue[T]:
        """See Coordination.queue."""
        return AsyncQueue(self, name, kind)

    async def wait_for_store(self, timeout: float = 10.0) -> None:
        """Wait until the store is there.

        Raises:
            UnavailableError: not in time.
        """
        waiter: Waiter = asyncio.get_running_loop().create_future()
        driver = self._driver
        driver.put(lambda _: driver.replicas.when(
            lambda host: host.store is not None, lambda: self._channel.call(lambda: settle(waiter, None, None))))
        try:
            await asyncio.wait_for(waiter, timeout)
        except TimeoutError:
            raise UnavailableError("there is no store yet: are all founders in this group?") from None

    def close(self) -> None:
        """Give everything back, and take no part any more. The channel stays connected."""
        self._driver.close()

    # --- waiting ------------------------------------------------------------------------------------------------------

    async def _request(
        self, name: str, make: Make, timeout: float | None, *, waits: bool = False, grants: bool = False,
        unwanted: Callable[[HeldGrant], object] = lambda grant: None,
    ) -> Any:
        """The result of a command. unwanted: called with a grant that came as the caller was being cancelled."""
        waiter: Waiter = asyncio.get_running_loop().create_future()
        request = request_of(make, self._done(waiter), waits=waits, grants=grants)
        self._driver.submit(name, request, timeout)
        return await self._result(name, waiter, request, unwanted)

    async def _result(self, name: str, waiter: Waiter, request: CoordinationRequest,
                      unwanted: Callable[[HeldGrant], object]) -> Any:
        try:
            return await waiter
        except asyncio.CancelledError:
            if not waiter.done() or waiter.cancelled():
                self._driver.cancel(name, request)
            elif waiter.exception() is None and isinstance(waiter.result(), HeldGrant):
                unwanted(waiter.result())
            raise

    def _done(self, waiter: Waiter) -> Callable[[Result | None, Exception | None], None]:
        return lambda result, error: self._channel.call(lambda: settle(waiter, result, error))

    async def _ask(self, name: str, query: CoordinationMessage) -> CoordinationMessage:
        waiter: Waiter = asyncio.get_running_loop().create_future()
        self._driver.ask(name, query, self.timeout, self._done(waiter))
        found: CoordinationMessage = await waiter
        return found


def settle(waiter: Waiter, result: object, error: Exception | None) -> None:
    """Resume a coroutine, on its event loop."""
    if waiter.done():
        return
    if isinstance(result, CommandRefused):
        error = MismatchError(result.why)
    if error is not None:
        waiter.set_exception(error)
    else:
        waiter.set_result(result)


class AsyncGrant(BaseGrant):
    """See BaseGrant."""

    def __init__(self, co: AsyncCoordination, what: str, name: str, held: HeldGrant) -> None:
        super().__init__(co._driver, what, name, held)
        self._co = co

    async def release(self) -> bool:
        """Give it back; whether it was still held: a second release, or one after a loss, changes nothing. If the
        caller is cancelled meanwhile, it is released all the same."""
        return await self._give_back(back=True)

    async def _give_back(self, back: bool) -> bool:
        waiter: Waiter = asyncio.get_running_loop().create_future()
        held = self.valid
        try:
            self._driver.release(self._name, self._held, back, self._co._done(waiter))
        except ChannelError:                                 # all is released when a member leaves
            self._held.end(RELEASED)
            return False
        result = await waiter
        return held and result is not None and bool(result.changed)


class _Body:
    """The body of an `async with` that holds a grant: it is cancelled when the grant is lost."""

    def __init__(self, grant: AsyncGrant, task: asyncio.Task[Any]) -> None:
        self.grant = grant
        self.task = task
        self.cancelling = task.cancelling()
        self.cancelled = False                               # by the loss
        self.over = False

    def lost(self) -> None:
        if not self.over and not self.cancelled:
            self.cancelled = True
            self.task.cancel()


class AsyncLock:
    """A lock, a semaphore or a leadership. One object may serve many tasks."""

    def __init__(self, co: AsyncCoordination, space: int, name: str, permits: int, timeout: float | None) -> None:
        self.name = checked(name)
        self.timeout = timeout
        self._co = co
        self._space = space
        self._permits = permits
        self._bodies: dict[asyncio.Task[Any], list[_Body]] = {}

    async def acquire(self, timeout: float | None = None) -> AsyncGrant:
        """Wait for it. timeout: seconds; None: for ever.

        Raises:
            LockTimeoutError: not in time; it is certain that nothing was granted.
            UnavailableError: not in time, and that could not be confirmed: what is granted yet is released at once.
            MismatchError: a semaphore with other permits.
            NotConnectedError, ChannelClosedError: of the channel.
        """
        co, what = self._co, f"the {SPACES[self._space]} {self.name!r}"
        held = await co._request(
            self.name, acquire(self._space, self.name, self._permits), timeout, waits=True, grants=True,
            unwanted=lambda grant: release_quietly(co._driver, self.name, grant))
        return AsyncGrant(co, what, self.name, held)

    async def __aenter__(self) -> AsyncGrant:
        grant = await self.acquire(self.timeout)
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        body = _Body(grant, task)
        self._bodies.setdefault(task, []).append(body)
        grant.when_lost(lambda _: self._co._channel.call(body.lost))
        return grant

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        body = self._bodies[task].pop()
        if not self._bodies[task]:
            del self._bodies[task]
        body.over = True
        grant = body.grant
        lost = body.cancelled or (not grant.valid and grant.why != RELEASED)
        await grant.release()
        if not lost:
            return
        only_lost = kind is None
        if body.cancelled and task.uncancel() <= body.cancelling and kind is asyncio.CancelledError:
            only_lost = True
        if only_lost:
            raise grant.lost_error() from error


def release_quietly(driver: CoordinationDriver, name: str, held: HeldGrant) -> None:
    """Give back what is not wanted any more."""
    try:
        driver.release(name, held, True, lambda *_: None)
    except ChannelError:
        held.end(RELEASED)                                   # all is released when a member leaves


class AsyncCounter:
    """See Counter."""

    def __init__(self, co: AsyncCoordination, name: str) -> None:
        self.name = checked(name)
        self._co = co

    async def get(self) -> int:
        """See Counter.get."""
        found = await self._co._ask(self.name, ReadCounter(self.name))
        assert isinstance(found, CounterValue), "the answer to that"
        return found.value

    async def add(self, by: int = 1) -> int:
        """See Counter.add."""
        found: CounterValue = await self._co._request(self.name, add(self.name, by), self._co.timeout)
        return found.value

    async def set(self, value: int) -> None:
        """See Counter.set."""
        await self._co._request(self.name, set_counter(self.name, None, value), self._co.timeout)

    async def compare_and_set(self, expected: int, value: int) -> bool:
        """See Counter.compare_and_set."""
        found: CounterValue = await self._co._request(
            self.name, set_counter(self.name, expected, value), self._co.timeout)
        return found.changed

    async def take(self, number: int) -> range:
        """See Counter.take."""
        stop = await self.add(checked_number("a block of numbers", number, 1, MOST))
        return range(stop - number, stop)


class AsyncCell(Generic[T]):
    """See Cell."""

    def __init__(self, co: AsyncCoordination, name: str, kind: type[T] | DictCodec[T]) -> None:
        self.name = checked(name)
        self._co = co
        self._codec: DictCodec[T] = codec_of(kind)

    async def get(self) -> T | None:
        """See Cell.get."""
        return (await self.state()).value

    async def state(self) -> CellState[T]:
        """See Cell.state."""
        found = await self._co._ask(self.name, ReadCell(self.name))
        assert isinstance(found, CellValue), "the answer to that"
        return CellState(decoded(self._codec, found.value), found.version)

    async def set(self, value: T | None) -> None:
        """See Cell.set."""
        data = encoded(self._codec, value)
        self._co._check_size(len(data or b""))
        await self._co._request(self.name, set_cell(self.name, data), self._co.timeout)

    async def compare_and_set(self, expected: T | None, value: T | None) -> bool:
        """See Cell.compare_and_set."""
        old, new = encoded(self._codec, expected), encoded(self._codec, value)
        self._co._check_size(len(old or b"") + len(new or b""))
        found: CellValue = await self._co._request(self.name, compare_cell(self.name, old, new), self._co.timeout)
        return found.changed

    async def watch(self, callback: Callable[[CellState[T]], object]) -> None:
        """See Cell.watch; the callback runs on the event loop."""
        codec, channel = self._codec, self._co._channel

        def heard(version: int, value: bytes | None) -> None:
            state = CellState(decoded(codec, value), version)
            channel.call(lambda: callback(state))
        self._co._driver.watch(self.name, heard)
        await self._co._request(self.name, watch_cell(self.name, True), self._co.timeout)


class AsyncBarrier:
    """See SharedBarrier."""

    def __init__(self, co: AsyncCoordination, name: str, parties: int) -> None:
        self.name = checked(name)
        self.parties = checked_number("parties", parties, 1, MOST)
        self._co = co

    async def wait(self, timeout: float | None = None) -> int:
        """See SharedBarrier.wait."""
        found: GrantResult = await self._co._request(self.name, arrive(self.name, self.parties), timeout, waits=True)
        return found.fence


class AsyncQueue(Generic[T]):
    """See Queue."""

    def __init__(self, co: AsyncCoordination, name: str, kind: type[T] | DictCodec[T]) -> None:
        self.name = checked(name)
        self._co = co
        self._codec: DictCodec[T] = codec_of(kind)

    async def put(self, value: T) -> None:
        """See Queue.put."""
        data = self._codec.encode(value)
        self._co._check_size(len(data))
        await self._co._request(self.name, put_item(self.name, data), self._co.timeout)

    def take(self, timeout: float | None = None) -> _AsyncTake[T]:
        """See Queue.take."""
        return _AsyncTake(self._co, self.name, self._codec, timeout)


class _AsyncTake(Generic[T]):
    """`async with` of one item."""

    def __init__(self, co: AsyncCoordination, name: str, codec: DictCodec[T], timeout: float | None) -> None:
        self._co = co
        self._name = name
        self._codec = codec
        self._timeout = timeout
        self._grant: AsyncGrant | None = None

    async def __aenter__(self) -> QueueItem[T]:
        co, name = self._co, self._name
        held: HeldGrant = await co._request(
            name, take_item(name), self._timeout, waits=True, grants=True,
            unwanted=lambda grant: release_quietly(co._driver, name, grant))
        self._grant = AsyncGrant(co, f"an item of the queue {name!r}", name, held)
        return QueueItem(self._grant, self._codec.decode(held.value), held.attempt)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        grant = self._grant
        assert grant is not None, "it was entered"
        done = await grant._give_back(back=kind is not None)
        if not done and kind is None:
            raise grant.lost_error()
