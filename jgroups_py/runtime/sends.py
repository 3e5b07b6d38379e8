"""From the application's threads to the loop: a bounded queue in which neighbouring messages form runs.

Any thread puts, the loop takes. A message joins the last run if destination, flags and headers are the same, so
the loop meets runs, not messages, and never waits for one to grow. Messages of numbered streams (requests, answers)
join the last run to their destination, whatever goes to others in between: their order holds per destination. The
bound is in bytes; when it is reached a sender waits, and that is how flow control reaches the application.
"""
from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import Any, Protocol

from jgroups_py.address import Address
from jgroups_py.batch import NO_FC, Header
from jgroups_py.errors import ChannelError, ReceiversMissingError, SendTimeoutError
from jgroups_py.events import Event
from jgroups_py.outputs import GroupConnected

LIMIT_BYTES = 2 << 20
RUN_BYTES = 512 << 10                       # a run that reached this is closed, and is what a round takes: many
                                            # frames, since the last one that it is cut into is not full
FULL_BYTES = 256 << 10                      # the loop is behind: a sender carries the messages down himself
MESSAGE_COST = 64                           # what a message costs beside its payload: objects, and empty ones too
NOW = -1.0                                  # as a timeout: do not wait; for callers that waited for room themselves
OVERDRAFT = 16                              # how many times the limit a callback may queue, see `put`


class Run:
    """Messages with one destination, one set of headers and flags, waiting to be sent."""

    __slots__ = ("dest", "flags", "headers", "nbytes", "number", "payloads", "stream")

    def __init__(self, dest: Address | None, flags: int, headers: tuple[Header, ...]) -> None:
        self.stream: Stream | None = None                    # with it, `number` is that of the message that may join
        self.number = 0
        self.dest = dest
        self.flags = flags
        self.headers = headers
        self.payloads: list[bytes] = []
        self.nbytes = 0


class Stream(Protocol):
    """Messages to one destination that are numbered as they are queued, so that neighbours form numbered runs."""

    dest: Address | None

    def number(self, item: Any, count: int) -> int:
        """The number of the first of `count` messages that are queued now; `item` is what `put_numbered` got.

        Must not block.
        """

    def headers(self, first: int) -> tuple[Header, ...]:
        """The headers of a run whose first message has this number; they shift."""


class SendQueue:
    """What the application sent and the loop has not taken yet."""

    def __init__(self, queued: Callable[[], None], limit_bytes: int = LIMIT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.nbytes = 0
        self.sent = 0                                        # messages put so far
        self.owner: int | None = None                        # thread id of the callbacks, see `put`
        self._queued = queued                                # called when the queue was empty, or holds a frame's worth
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._blocked = 0                                    # threads that wait for room
        self._items: deque[Run | tuple[Event, int]] = deque()
        self._open: Run | None = None                        # the last run, while more may join it; also in
        self._opens: dict[Address | None, Run] = {}          # destination -> the last run to it, likewise
        self._refused: Callable[[], ChannelError] | None = None     # makes what every put raises
        self._apart: GroupConnected | None = None            # there are too few receivers for multicasts
        self._waiting: list[Callable[[], None]] = []         # called once when there is room again

    def put(
        self, dest: Address | None, payload: bytes, flags: int, headers: tuple[Header, ...], timeout: float | None,
    ) -> None:
        """Queue one message; waits up to `timeout` seconds for room (None: for ever, NOW: queue it regardless).

        A callback must not wait for room that only its own return can make (its member grants no credits while its
        backlog is large), so the thread of the callbacks may overdraw the limit.

        Raises:
            SendTimeoutError: still no room; the message was not queued.
            ChannelError: what `close` was given.
        """
        cost = len(payload) + MESSAGE_COST
        with self._lock:
            if self._refused is not None:
                raise self._refused()
            if self._apart is not None and dest is None and not flags & NO_FC:
                self._wait_for_receivers(timeout)
            if self.nbytes + cost > self.limit_bytes and self.nbytes and timeout != NOW:
                self._wait(cost, timeout)
            run = self._open
            if run is None or run.dest is not dest or run.flags != flags or run.headers != headers:
                run = self._open_run(dest, flags, headers)
            run.payloads.append(payload)
            run.nbytes += cost
            self.sent += 1
            if run.nbytes >= RUN_BYTES:
                self._close_run(run)
            before = self.nbytes
            self.nbytes = before + cost
        if not before or before + cost >= FULL_BYTES:
            self._queued()

    def put_all(
        self, dest: Address | None, payloads: Iterable[bytes], flags: int, headers: tuple[Header, ...],
        timeout: float | None,
    ) -> None:
        """Queue many messages, as `put` does one after the other, in as few runs as fit."""
        if isinstance(payloads, list):
            cost = sum(map(len, payloads)) + MESSAGE_COST * len(payloads)
            if payloads and cost < RUN_BYTES:
                return self._put_piece(dest, payloads, cost, flags, headers, timeout)
        piece: list[bytes] = []
        cost = 0
        for payload in payloads:
            piece.append(payload)
            cost += len(payload) + MESSAGE_COST
            if cost >= RUN_BYTES:
                self._put_piece(dest, piece, cost, flags, headers, timeout)
                piece, cost = [], 0
        if piece:
            self._put_piece(dest, piece, cost, flags, headers, timeout)
        return None

    def _put_piece(
        self, dest: Address | None, payloads: list[bytes], cost: int, flags: int, headers: tuple[Header, ...],
        timeout: float | None,
    ) -> None:
        with self._lock:
            if self._refused is not None:
                raise self._refused()
            if self._apart is not None and dest is None and not flags & NO_FC:
                self._wait_for_receivers(timeout)
            if self.nbytes + cost > self.limit_bytes and self.nbytes and timeout != NOW:
                self._wait(cost, timeout)
            run = self._open
            if run is None or run.dest is not dest or run.flags != flags or run.headers != headers:
                run = self._open_run(dest, flags, headers)
            run.payloads += payloads
            run.nbytes += cost
            self.sent += len(payloads)
            if run.nbytes >= RUN_BYTES:
                self._close_run(run)
            before = self.nbytes
            self.nbytes = before + cost
        if not before or before + cost >= FULL_BYTES:
            self._queued()

    def put_numbered(
        self, stream: Stream, item: Any, payloads: Sequence[bytes], flags: int, timeout: float | None,
    ) -> None:
        """Queue messages of a stream, as `put` does.

        Their numbers are drawn when nothing can keep them from being queued any more, and before the loop can see
        them; so numbers have no gaps, and whoever waits for an answer is registered before it can come.
        """
        count = len(payloads)
        cost = sum(map(len, payloads)) + MESSAGE_COST * count
        with self._lock:
            if self._refused is not None:
                raise self._refused()
            if self.nbytes + cost > self.limit_bytes and self.nbytes and timeout != NOW:
                self._wait(cost, timeout)
            if self._apart is not None and stream.dest is None and not flags & NO_FC:
                self._wait_for_receivers(timeout)
            first = stream.number(item, count)
            run = self._open
            if run is None or run.stream is not stream:
                run = self._opens.get(stream.dest)
            if run is None or run.stream is not stream or run.number != first or run.flags != flags:
                run = self._open_run(stream.dest, flags, stream.headers(first))
                run.stream = stream
            run.number = first + count
            run.payloads += payloads
            run.nbytes += cost
            self.sent += count
            if run.nbytes >= RUN_BYTES:
                self._close_run(run)
            before = self.nbytes
            self.nbytes = before + cost
        if not before or before + cost >= FULL_BYTES:
            self._queued()

    def put_event(self, event: Event, nbytes: int, timeout: float | None) -> None:
        """Queue an event for the stack, in order with the messages; waits for room as `put` does."""
        with self._lock:
            if self._refused is not None:
                raise self._refused()
            if nbytes and self.nbytes + nbytes > self.limit_bytes and self.nbytes and timeout != NOW:
                self._wait(nbytes, timeout, may_overdraw=False)
            self._close_runs()
            self._items.append((event, nbytes + MESSAGE_COST))
            idle = not self.nbytes
            self.nbytes += nbytes + MESSAGE_COST
        if idle:
            self._queued()

    def has_room(self) -> bool:
        """Whether a message would be taken without waiting, or refused at once."""
        apart = self._apart
        return self.nbytes < self.limit_bytes and (apart is None or apart.raises)

    def when_room(self, tell: Callable[[], None]) -> None:
        """Call `tell` once, from any thread, when there is room or the queue is closed; at once if so already."""
        with self._lock:
            waits = self._apart is not None and not self._apart.raises
            if (self.nbytes > self.limit_bytes // 2 or waits) and self._refused is None:
                self._waiting.append(tell)
                return
        tell()

    def lacking(self) -> ChannelError | None:
        """What a send raises that waited for receivers in vain; None if it waited for room."""
        apart = self._apart
        return None if apart is None else ReceiversMissingError(apart.receivers, apart.wanted)

    def take(self, max_bytes: int) -> list[Run | tuple[Event, int]]:
        """The oldest items, at least one if there is any, and no more than `max_bytes` with those after it."""
        with self._lock:
            taken: list[Run | tuple[Event, int]] = []
            nbytes = 0
            items = self._items
            while items and nbytes < max_bytes:
                item = items.popleft()
                if isinstance(item, Run):
                    nbytes += item.nbytes
                    self._close_run(item)
                else:
                    nbytes += item[1]
                taken.append(item)
            self.nbytes -= nbytes
            assert self.nbytes >= 0, "no more is taken than was put"
            told = self._make_room() if self.nbytes <= self.limit_bytes // 2 else []
        for tell in told:
            tell()
        return taken

    def close(self, reason: Callable[[], ChannelError]) -> None:
        """Refuse everything from now on with what `reason` makes, waiting senders too; the loop may still take."""
        with self._lock:
            self._refused = reason
            told = self._make_room()
        for tell in told:
            tell()

    def connected(self, news: GroupConnected) -> None:
        """FLOW found enough receivers, or too few: then multicasts are refused, or wait for them."""
        with self._lock:
            self._apart = None if news.connected else news
            told = self._make_room()
        for tell in told:
            tell()

    def _wait_for_receivers(self, timeout: float | None) -> None:
        until = None if timeout is None or timeout == NOW else monotonic() + timeout
        self._blocked += 1
        try:
            while self._apart is not None:
                left = None if until is None else until - monotonic()
                if self._apart.raises or timeout == NOW or (left is not None and left <= 0):
                    raise ReceiversMissingError(self._apart.receivers, self._apart.wanted)
                self._room.wait(left)
                if self._refused is not None:
                    raise self._refused()
        finally:
            self._blocked -= 1

    def _make_room(self) -> list[Callable[[], None]]:
        if self._blocked:
            self._room.notify_all()
        told, self._waiting = self._waiting, []
        return told

    def _open_run(self, dest: Address | None, flags: int, headers: tuple[Header, ...]) -> Run:
        run = self._open = self._opens[dest] = Run(dest, flags, headers)
        self._items.append(run)
        return run

    def _close_run(self, run: Run) -> None:
        if self._open is run:
            self._open = None
        if self._opens.get(run.dest) is run:
            del self._opens[run.dest]

    def _close_runs(self) -> None:
        self._open = None
        self._opens.clear()

    def _wait(self, cost: int, timeout: float | None, may_overdraw: bool = True) -> None:
        limit = self.limit_bytes
        if may_overdraw and self.owner is not None and threading.get_ident() == self.owner:
            limit *= OVERDRAFT
        until = None if timeout is None else monotonic() + timeout
        self._blocked += 1
        try:
            while self.nbytes + cost > limit and self.nbytes:
                left = None if until is None else until - monotonic()
                if (left is not None and left <= 0) or not self._room.wait(left):
                    raise SendTimeoutError(f"the send queue ({self.limit_bytes} bytes) stayed full for {timeout:g} s: "
                                           "the receivers are slower than this sender")
                if self._refused is not None:
                    raise self._refused()
        finally:
            self._blocked -= 1
