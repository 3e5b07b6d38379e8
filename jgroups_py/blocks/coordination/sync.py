"""Coordination: locks, semaphores, leaders, counters, cells, barriers and queues for a JChannel, with fences.

    co = Coordination(channel, founders=("A", "B", "C"), ttl="3s")
    with co.lock("invoice-7", timeout=5) as grant:
        grant.check()                                    # LostError once it is lost
        write(row, fence=grant.fence)

A lock holds only as far as clocks do: a process that is stopped between `check` and its write goes on with a lock that
another one has. What keeps such a write out is the fence, a number that grows with every grant: whatever is protected
refuses a number below the highest that it has seen (Fence).
"""
from __future__ import annotations

import logging
import threading
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
from jgroups_py.blocks.coordination.driver import request_of
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
from jgroups_py.channel.base import ChannelState
from jgroups_py.channel.sync import JChannel
from jgroups_py.model.address import Address
from jgroups_py.model.errors import ChannelError

log = logging.getLogger("jgroups_py")

T = TypeVar("T")
MOST = (1 << 31) - 1                       # permits, and parties of a barrier
AGAIN_SECONDS = 0.5                        # until a leader's function that raised, or found no group, is tried again
LeaderBody = Callable[["Grant"], object]


class Latch(threading.Event):
    """A thread that waits for the end of a request."""

    result: Result | None = None
    error: Exception | None = None

    def end(self, result: Result | None, error: Exception | None) -> None:
        """It has ended."""
        if not self.is_set():
            if isinstance(result, CommandRefused):
                error = MismatchError(result.why)
            self.result, self.error = result, error
            self.set()


class Coordination(BaseCoordination):
    """See the module. Any thread may call it, but no callback of the channel. Its state is in the memory of members.

    founders: names of the members that create the store, once all of them are in one view; `replicas` of the members
    hold a copy, and a majority of those has to run. ttl: for how long a grant is valid without a confirmed renewal: a
    holder that is cut off loses it then, by its own clock, and others get it 5 % later; a holder whose process has
    ended is not waited for (expire="lease": it is, too). partitions: how many leaders share the names; the same at all
    members, as is `service`, which tells several stores of one channel apart. timeout: of operations that wait for
    no other member, seconds.
    """

    _channel: JChannel

    def lock(self, name: str, timeout: float | None = None) -> Lock:
        """A lock, for `with` or `acquire`. timeout: seconds that `with` waits; None: for ever. Not re-entrant."""
        return Lock(self, LOCK, name, 1, timeout)

    def semaphore(self, name: str, permits: int, timeout: float | None = None) -> Lock:
        """A lock that `permits` may have at once; all that use it at a time give the same number."""
        return Lock(self, SEMAPHORE, name, checked_number("permits", permits, 1, MOST), timeout)

    def leadership(self, name: str, timeout: float | None = None) -> Lock:
        """`with` waits until this member leads."""
        return Lock(self, LEADER, name, 1, timeout)

    def leader(self, name: str) -> Callable[[LeaderBody], LeaderBody]:
        """A decorator: call the function with a grant where this member leads, again after each loss.

        It runs on a thread of its own, and has to return soon after `grant.valid` is False. If it returns while it
        leads, it has finished: the leadership is given up, and it is not called again. If it raises, that is logged,
        and it is called again when this member leads next.
        """
        checked(name)

        def start(function: LeaderBody) -> LeaderBody:
            threading.Thread(target=self._lead, args=(name, function), name=f"leader of {name}", daemon=True).start()
            return function
        return start

    def leader_of(self, name: str) -> Address | None:
        """The member that leads now (linearizable); None: none does."""
        holders = self._ask(name, ReadHolders(LEADER, checked(name)))
        assert isinstance(holders, Holders), "the answer to that"
        return holders.holders[0][0] if holders.holders else None

    def counter(self, name: str) -> SharedCounter:
        """A counter, 0 at first."""
        return SharedCounter(self, name)

    def cell(self, name: str, kind: type[T] | DictCodec[T]) -> Cell[T]:
        """A value that is compared and set. kind: bytes, str, int, float, bool, or a DictCodec."""
        return Cell(self, name, kind)

    def barrier(self, name: str, parties: int) -> SharedBarrier:
        """Where `parties` wait for each other; it can be used again and again."""
        return SharedBarrier(self, name, parties)

    def queue(self, name: str, kind: type[T] | DictCodec[T]) -> SharedQueue[T]:
        """A queue of items, each of which is leased to one taker at a time. kind: as of a cell."""
        return SharedQueue(self, name, kind)

    def wait_for_store(self, timeout: float = 10.0) -> None:
        """Wait until the store is there.

        Raises:
            UnavailableError: not in time.
        """
        latch, driver = Latch(), self._driver
        driver.put(lambda _: driver.replicas.when(lambda host: host.store is not None, latch.set))
        if not latch.wait(timeout):
            raise UnavailableError("there is no store yet: are all founders in this group?")

    def close(self) -> None:
        """Give everything back, and take no part any more. The channel stays connected."""
        self._closed.set()
        self._driver.close()

    # --- waiting ------------------------------------------------------------------------------------------------------

    def _request(
        self, name: str, make: Make, timeout: float | None, *, waits: bool = False, grants: bool = False,
    ) -> Any:
        self._check_outside()
        latch = Latch()
        request = request_of(make, latch.end, waits=waits, grants=grants)
        self._driver.submit(name, request, timeout)
        return self._result(name, latch, request)

    def _result(self, name: str, latch: Latch, request: CoordinationRequest) -> Any:
        try:
            self._await(latch)
        except BaseException:                                # KeyboardInterrupt, for example
            if isinstance(latch.result, HeldGrant):
                self._driver.release(name, latch.result, True, lambda *_: None)
            else:
                self._driver.cancel(name, request)
            raise
        if latch.error is not None:
            raise latch.error
        return latch.result

    def _await(self, latch: Latch) -> None:
        self._channel.work_until(latch.is_set, self.timeout)
        latch.wait()                                         # the core ends every request

    def _ask(self, name: str, query: CoordinationMessage) -> CoordinationMessage:
        self._check_outside()
        latch = Latch()
        self._driver.ask(name, query, self.timeout, latch.end)
        self._await(latch)
        if latch.error is not None:
            raise latch.error
        assert isinstance(latch.result, CoordinationMessage), "it was answered"
        return latch.result

    def _check_outside(self) -> None:
        if self._channel._inside_callback():
            raise ChannelError("inside a callback of this channel the answer would wait for its end; use another "
                               "thread")

    # --- leading ------------------------------------------------------------------------------------------------------

    def _lead(self, name: str, function: LeaderBody) -> None:
        """The thread of `leader`."""
        while not self._closed.is_set() and self._channel.state is not ChannelState.CLOSED:
            try:
                grant = self.leadership(name).acquire()
            except ChannelError:
                self._closed.wait(AGAIN_SECONDS)
                continue
            try:
                function(grant)
                finished = grant.valid
            except Exception:
                log.exception("the function for the leadership of %r raised", name)
                finished = False
                self._closed.wait(AGAIN_SECONDS)
            grant.release()
            if finished:
                return


class Grant(BaseGrant):
    """See BaseGrant."""

    def __init__(self, co: Coordination, what: str, name: str, held: HeldGrant) -> None:
        super().__init__(co._driver, what, name, held)
        self._co = co
        self.lost = threading.Event()
        self.when_lost(lambda _: self.lost.set())

    def release(self) -> bool:
        """Give it back; whether it was still held: a second release, or one after a loss, changes nothing."""
        return self._give_back(back=True)

    def _give_back(self, back: bool) -> bool:
        latch, held = Latch(), self.valid
        try:
            self._driver.release(self._name, self._held, back, latch.end)
        except ChannelError:                                 # all is released when a member leaves
            self._held.end(RELEASED)
            return False
        self._co._await(latch)
        return held and isinstance(latch.result, CoordinationMessage) and bool(getattr(latch.result, "changed", False))


class Lock:
    """A lock, a semaphore or a leadership. One object may serve many threads."""

    def __init__(self, co: Coordination, space: int, name: str, permits: int, timeout: float | None) -> None:
        self.name = checked(name)
        self.timeout = timeout
        self._co = co
        self._space = space
        self._permits = permits
        self._held = threading.local()

    def acquire(self, timeout: float | None = None) -> Grant:
        """Wait for it. timeout: seconds; None: for ever.

        Raises:
            LockTimeoutError: not in time; it is certain that nothing was granted.
            UnavailableError: not in time, and that could not be confirmed: what is granted yet is released at once.
            MismatchError: a semaphore with other permits.
            NotConnectedError, ChannelClosedError, ChannelError: of the channel, or this is one of its callbacks.
        """
        held = self._co._request(self.name, acquire(self._space, self.name, self._permits), timeout, waits=True,
                                 grants=True)
        return Grant(self._co, f"the {SPACES[self._space]} {self.name!r}", self.name, held)

    def __enter__(self) -> Grant:
        grant = self.acquire(self.timeout)
        if not hasattr(self._held, "grants"):
            self._held.grants = []
        self._held.grants.append(grant)
        return grant

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        """Release it. Raises LostError if it was lost, unless something else is being raised."""
        grant: Grant = self._held.grants.pop()
        lost = not grant.valid and grant.why != RELEASED
        grant.release()
        if lost and kind is None:
            raise grant.lost_error()


class SharedCounter:
    """A number from -2^63 to 2^63 - 1; operations are linearizable. All raise UnavailableError if there is no answer in
    time: the operation may have been carried out."""

    def __init__(self, co: Coordination, name: str) -> None:
        self.name = checked(name)
        self._co = co

    def get(self) -> int:
        """The value now."""
        found = self._co._ask(self.name, ReadCounter(self.name))
        assert isinstance(found, CounterValue), "the answer to that"
        return found.value

    def add(self, by: int = 1) -> int:
        """Add to it; returns the sum, which no other addition gets.

        Raises:
            MismatchError: the sum would be out of range; nothing was added.
        """
        found: CounterValue = self._co._request(self.name, add(self.name, by), self._co.timeout)
        return found.value

    def set(self, value: int) -> None:
        """Set it."""
        self._co._request(self.name, set_counter(self.name, None, value), self._co.timeout)

    def compare_and_set(self, expected: int, value: int) -> bool:
        """Set it if it is `expected`; whether it was."""
        found: CounterValue = self._co._request(
            self.name, set_counter(self.name, expected, value), self._co.timeout)
        return found.changed

    def take(self, number: int) -> range:
        """The next `number` values, for this caller alone: ids without a message for each."""
        stop = self.add(checked_number("a block of numbers", number, 1, MOST))
        return range(stop - number, stop)


class Cell(Generic[T]):
    """A value, None at first; operations are linearizable. Errors: see SharedCounter."""

    def __init__(self, co: Coordination, name: str, kind: type[T] | DictCodec[T]) -> None:
        self.name = checked(name)
        self._co = co
        self._codec: DictCodec[T] = codec_of(kind)

    def get(self) -> T | None:
        """The value now."""
        return self.state().value

    def state(self) -> CellState[T]:
        """The value now, and how often it was changed."""
        found = self._co._ask(self.name, ReadCell(self.name))
        assert isinstance(found, CellValue), "the answer to that"
        return CellState(decoded(self._codec, found.value), found.version)

    def set(self, value: T | None) -> None:
        """Set it."""
        data = encoded(self._codec, value)
        self._co._check_size(len(data or b""))
        self._co._request(self.name, set_cell(self.name, data), self._co.timeout)

    def compare_and_set(self, expected: T | None, value: T | None) -> bool:
        """Set it if it is `expected`; whether it was."""
        old, new = encoded(self._codec, expected), encoded(self._codec, value)
        self._co._check_size(len(old or b"") + len(new or b""))
        found: CellValue = self._co._request(self.name, compare_cell(self.name, old, new), self._co.timeout)
        return found.changed

    def watch(self, callback: Callable[[CellState[T]], object]) -> None:
        """Call `callback` with each change, inside a round: it must not block. Best effort: what changes while this
        member has no session, or while the store has no leader, is not told; `version` shows gaps."""
        codec = self._codec
        self._co._driver.watch(self.name, lambda version, value: callback(CellState(decoded(codec, value), version)))
        self._co._request(self.name, watch_cell(self.name, True), self._co.timeout)


class SharedBarrier:
    """Where a number of threads, coroutines or members wait for each other."""

    def __init__(self, co: Coordination, name: str, parties: int) -> None:
        self.name = checked(name)
        self.parties = checked_number("parties", parties, 1, MOST)
        self._co = co

    def wait(self, timeout: float | None = None) -> int:
        """Wait until all are there; returns the number of the meeting, which grows.

        Raises:
            WaitTimeoutError: not in time; this one is not counted any more.
            UnavailableError: not in time, and that could not be confirmed.
            MismatchError: others wait there for another number of parties.
        """
        found: GrantResult = self._co._request(self.name, arrive(self.name, self.parties), timeout, waits=True)
        return found.fence


class SharedQueue(Generic[T]):
    """Items in order. Each is leased to one taker at a time, and dealt with at least once."""

    def __init__(self, co: Coordination, name: str, kind: type[T] | DictCodec[T]) -> None:
        self.name = checked(name)
        self._co = co
        self._codec: DictCodec[T] = codec_of(kind)

    def put(self, value: T) -> None:
        """Append an item.

        Raises:
            UnavailableError: not in time; it may be there, or may yet come.
        """
        data = self._codec.encode(value)
        self._co._check_size(len(data))
        self._co._request(self.name, put_item(self.name, data), self._co.timeout)

    def take(self, timeout: float | None = None) -> Take[T]:
        """`with queue.take(timeout) as item`: the first item; it is removed at the end of the block. If the block
        raises, or this member dies or is cut off, it goes back to its place, and `attempt` counts it.

        Raises (at `with`):
            WaitTimeoutError, UnavailableError: see SharedBarrier.wait. At the end of the block LostError: another one
            may have it.
        """
        return Take(self._co, self.name, self._codec, timeout)


class Take(Generic[T]):
    """One item of a queue, for `with`."""

    def __init__(self, co: Coordination, name: str, codec: DictCodec[T], timeout: float | None) -> None:
        self._co = co
        self._name = name
        self._codec = codec
        self._timeout = timeout
        self._grant: Grant | None = None

    def __enter__(self) -> QueueItem[T]:
        held: HeldGrant = self._co._request(self._name, take_item(self._name), self._timeout, waits=True, grants=True)
        self._grant = Grant(self._co, f"an item of the queue {self._name!r}", self._name, held)
        return QueueItem(self._grant, self._codec.decode(held.value), held.attempt)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        assert self._grant is not None, "it was entered"
        done = self._grant._give_back(back=kind is not None)
        if not done and kind is None:
            raise self._grant.lost_error()
