"""The send queue: from the application's threads to the loop, bounded, with neighbouring messages joined to batches.

Any thread puts, the loop takes. A message joins the last batch if destination, flags and headers are the same, so the
loop meets batches, not messages, and never waits for one to grow. Messages of numbered streams (requests, answers) join
the last batch to their destination, whatever goes to other members in between: their order holds per destination.

A sender waits at one place, `_admit`, and for two things: receivers, if it multicasts and FLOW lacks some, and room.
The bound on bytes is how flow control reaches the application.

What most applications send most of, plain multicasts one by one, takes the Intake: a list that `send` appends to
without a lock. Whoever holds the lock next moves what is there into a batch, in order with everything else.
"""
from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import Any, Final, Protocol

from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_FC, Header
from jgroups_py.model.errors import ChannelError, ReceiversMissingError, SendTimeoutError
from jgroups_py.model.events import Event
from jgroups_py.model.outputs import GroupConnected

LIMIT_BYTES = 2 << 20
BATCH_BYTES = 512 << 10                     # a batch that reached this is closed, and is what a round takes: many
                                            # frames, since the last one that it is cut into is not full
FULL_BYTES = 256 << 10                      # the loop is behind: the sending thread carries the messages down itself
MESSAGE_COST = 64                           # what a message costs beside its payload: objects, and empty ones too
INTAKE_BYTES = 64 << 10                     # what may be in the intake before somebody counts it under the lock
SAMPLED = 16                                # of so many messages in the intake the size of one is looked at
NOW = -1.0                                  # as a timeout: do not wait for room; the caller has waited for it already
OVERDRAFT = 16                              # how many times the limit a callback may queue, see `put`


class QueuedBatch:
    """Messages with one destination, one set of headers and flags, waiting to be sent: a batch that still grows."""

    __slots__ = ("dest", "flags", "headers", "nbytes", "number", "payloads", "stream")

    def __init__(self, dest: Address | None, flags: int, headers: tuple[Header, ...]) -> None:
        self.stream: Stream | None = None                    # with it, `number` is that of the message that may join
        self.number = 0
        self.dest = dest
        self.flags = flags
        self.headers = headers
        self.payloads: list[bytes] = []
        self.nbytes = 0


class Intake:
    """The short way of plain multicasts (no flags, headers, topic) into a SendQueue; written out in each `send`:

        left = intake.left - len(payload)
        if left > 0:
            intake.append(payload)                           # first queue it,
            intake.left = left - MESSAGE_COST
            if not intake.attend or intake.tell(payload):    # then look whether somebody must be told
                return
        ...                                                  # the long way, by SendQueue.put

    A lock would double what a message costs here, and so would a call. So nothing but `append` is atomic, and threads
    may overwrite each other's `left`: it is a hint, and what is in the intake is counted when it is taken out of it. A
    lost update admits INTAKE_BYTES too many for each thread, at most, until then.

    left: bytes that may still be appended, 0 where the long way must be taken: the queue is full or refuses, or the
    message may be too large. attend: the loop has taken what was queued since a sender last told it, or the queue
    refuses. It is set before the intake is emptied and read after the append, so that no message is left alone.
    """

    __slots__ = ("append", "attend", "left", "tell")

    def __init__(self, append: Callable[[bytes], None], tell: Callable[[bytes], bool]) -> None:
        self.append = append
        self.tell = tell
        self.left = 0
        self.attend = True


CLOSED_INTAKE: Final = Intake(list[bytes]().append, lambda payload: False)
"""Of a channel that is not connected."""


class Stream(Protocol):
    """Messages to one destination that are numbered as they are queued, so that neighbours form numbered batches."""

    dest: Address | None

    def number(self, item: Any, count: int) -> int:
        """The number of the first of `count` messages that are queued now; `item` is what `put_numbered` got.

        Must not block or raise: it is called with the queue's lock held, and the messages are queued afterwards.
        """

    def headers(self, first: int) -> tuple[Header, ...]:
        """The headers of a batch whose first message has this number; they shift."""


class Countdown(Protocol):
    """What is to see some of the messages that could take the intake: see channel/observer.py."""

    passing: int
    """How many may take the intake before one has to take the long way; those that did are subtracted."""


class SendQueue:
    """What the application sent and the loop has not taken yet.

    queued: called after a put, without the lock, when the queue was empty or holds FULL_BYTES.
    """

    def __init__(self, queued: Callable[[], None], limit_bytes: int = LIMIT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self._nearly_full = limit_bytes - INTAKE_BYTES       # above it less is granted to the intake
        self.owner: int | None = None                        # thread id of the callbacks, see `put`
        self._queued = queued
        self.counted_bytes = 0                               # as `nbytes`, without what is in the intake
        self._sent = 0                                       # likewise
        self.payload_bytes = 0                               # of what was taken, and of messages in events
        self.uncounted: list[bytes] = []                     # what is in the intake
        self.intake = Intake(self.uncounted.append, self._tell)
        self._countdown: Countdown | None = None
        self._smallest = 0                                   # of the messages that were counted last, about
        self._intake_bytes = 0                               # what is granted to the intake at once
        self._granted = 0                                    # what was, last
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)      # room was made, receivers came or went, or it is closed
        self._blocked = 0                                    # threads that wait for `_changed`
        self._items: deque[QueuedBatch | tuple[Event, int]] = deque()
        self._open: QueuedBatch | None = None                # the last batch, while more may join it; also in
        self._opens: dict[Address | None, QueuedBatch] = {}  # destination -> the last batch to it, likewise
        self._refused: Callable[[], ChannelError] | None = None     # makes what every put raises
        self._too_few: GroupConnected | None = None          # there are too few receivers for multicasts
        self._gated = False                                  # one of the last two is set: puts must look closer
        self._waiting: list[Callable[[], None]] = []         # called once when there is room again

    @property
    def nbytes(self) -> int:
        """What waits for the loop, MESSAGE_COST a message included; of what is in the intake about, but not 0."""
        if self.uncounted and not self._gated:
            return self.counted_bytes + max(1, self._granted - self.intake.left)
        return self.counted_bytes

    @property
    def sent(self) -> int:
        """Messages put so far."""
        return self._sent + len(self.uncounted)

    # --- any thread puts --------------------------------------------------------------------------------------------

    def put(
        self, dest: Address | None, payload: bytes, flags: int, headers: tuple[Header, ...], timeout: float | None,
    ) -> None:
        """Queue one message; waits up to `timeout` seconds to be admitted (None: for ever, NOW: not at all).

        A callback must not wait for room that only its own return can make (its member grants no credits while its
        backlog is large), so the thread of the callbacks may overdraw the limit.

        Raises:
            SendTimeoutError: still no room; the message was not queued.
            ReceiversMissingError: FLOW has too few receivers for a multicast; the message was not queued.
            ChannelError: what `close` was given.
        """
        cost = len(payload) + MESSAGE_COST
        with self._lock:
            if self.uncounted:
                self._count_intake()
            if self._gated or self.counted_bytes + cost > self.limit_bytes:
                self._admit(cost, dest is None and not flags & NO_FC, timeout)
            batch = self._open
            if batch is None or batch.dest is not dest or batch.flags != flags or batch.headers != headers:
                batch = self._open_batch(dest, flags, headers)
            batch.payloads.append(payload)                   # written out in each put: a call costs a tenth of it
            batch.nbytes += cost
            self._sent += 1
            if batch.nbytes >= BATCH_BYTES:
                self._close_batch(batch)
            before = self.counted_bytes
            self.counted_bytes = before + cost
            if before + cost > self._nearly_full:
                self._grant()
        if not before or before + cost >= FULL_BYTES:
            self._queued()

    def put_all(
        self, dest: Address | None, payloads: Iterable[bytes], flags: int, headers: tuple[Header, ...],
        timeout: float | None,
    ) -> None:
        """Queue many messages, as `put` does one after the other, in as few batches as fit."""
        if isinstance(payloads, list):
            cost = sum(map(len, payloads)) + MESSAGE_COST * len(payloads)
            if payloads and cost < BATCH_BYTES:
                return self._put_piece(dest, payloads, cost, flags, headers, timeout)
        piece: list[bytes] = []
        cost = 0
        for payload in payloads:
            piece.append(payload)
            cost += len(payload) + MESSAGE_COST
            if cost >= BATCH_BYTES:
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
            if self.uncounted:
                self._count_intake()
            if self._gated or self.counted_bytes + cost > self.limit_bytes:
                self._admit(cost, dest is None and not flags & NO_FC, timeout)
            batch = self._open
            if batch is None or batch.dest is not dest or batch.flags != flags or batch.headers != headers:
                batch = self._open_batch(dest, flags, headers)
            batch.payloads += payloads
            batch.nbytes += cost
            self._sent += len(payloads)
            if batch.nbytes >= BATCH_BYTES:
                self._close_batch(batch)
            before = self.counted_bytes
            self.counted_bytes = before + cost
            if before + cost > self._nearly_full:
                self._grant()
        if not before or before + cost >= FULL_BYTES:
            self._queued()

    def put_numbered(
        self, stream: Stream, item: Any, payloads: Sequence[bytes], flags: int, timeout: float | None,
    ) -> None:
        """Queue messages of a stream, as `put` does.

        Their numbers are drawn when nothing can keep them from being queued any more, and before the loop can see
        them; so numbers have no gaps, and a thread that waits for an answer is registered before it can come.
        """
        count = len(payloads)
        cost = sum(map(len, payloads)) + MESSAGE_COST * count
        with self._lock:
            if self.uncounted:
                self._count_intake()
            if self._gated or self.counted_bytes + cost > self.limit_bytes:
                self._admit(cost, stream.dest is None and not flags & NO_FC, timeout)
            first = stream.number(item, count)
            batch = self._open
            if batch is None or batch.stream is not stream:
                batch = self._opens.get(stream.dest)
            if batch is None or batch.stream is not stream or batch.number != first or batch.flags != flags:
                batch = self._open_batch(stream.dest, flags, stream.headers(first))
                batch.stream = stream
            batch.number = first + count
            batch.payloads += payloads
            batch.nbytes += cost
            self._sent += count
            if batch.nbytes >= BATCH_BYTES:
                self._close_batch(batch)
            before = self.counted_bytes
            self.counted_bytes = before + cost
            if before + cost > self._nearly_full:
                self._grant()
        if not before or before + cost >= FULL_BYTES:
            self._queued()

    def put_event(
        self, event: Event, nbytes: int, timeout: float | None, *, multicast: bool = False, may_overdraw: bool = False,
        payload_bytes: int | None = None,
    ) -> None:
        """Queue an event for the stack, in order with the messages; one of `nbytes` > 0 is admitted as a message is.

        multicast: it carries a message to all members, for which there may be too few receivers. may_overdraw: as `put`
        does for the thread of the callbacks; not for the chunks of a state, which would fill the memory. payload_bytes:
        of the application's message that it carries, which counts as sent; None: it carries none.
        """
        with self._lock:
            if self.uncounted:
                self._count_intake()
            if self._gated or (nbytes and self.counted_bytes + nbytes > self.limit_bytes):
                self._admit(nbytes, multicast, timeout, may_overdraw)
            self._open = None                                # messages that follow must not join one before the event
            self._opens.clear()
            self._items.append((event, nbytes + MESSAGE_COST))
            idle = not self.counted_bytes
            self.counted_bytes += nbytes + MESSAGE_COST
            if self.counted_bytes > self._nearly_full:
                self._grant()
            if payload_bytes is not None:
                self._sent += 1
                self.payload_bytes += payload_bytes
        if idle:
            self._queued()

    def _admit(self, cost: int, multicast: bool, timeout: float | None, may_overdraw: bool = True) -> None:
        """With the lock held: return when an item of `cost` bytes may be queued, with one deadline for all waiting.

        Receivers come before room, and both are looked at again after every wake-up, because the lock was given back
        meanwhile:
        * A group that refuses multicasts does so at once, whether the queue is full or not. And while receivers are
          missing FLOW keeps multicasts back, which is what fills the queue: the error must name the cause.
        * A sender that found receivers and then waited for room may have lost them; one that waited for receivers may
          have lost the room to senders of unicasts. Queued on what was true before the wait, the first message would
          break the promise of FLOW, the second the bound.
        """
        limit = self.limit_bytes
        if may_overdraw and self.owner is not None and threading.get_ident() == self.owner:
            limit *= OVERDRAFT
        until = None if timeout is None or timeout == NOW else monotonic() + timeout
        self._blocked += 1                                   # under the lock, so nothing changes unnoticed from here on
        try:
            while True:
                if self._refused is not None:
                    raise self._refused()
                left = None if until is None else until - monotonic()
                over = left is not None and left <= 0
                if multicast and self._too_few is not None:
                    if self._too_few.raises or timeout == NOW or over:
                        raise ReceiversMissingError(self._too_few.receivers, self._too_few.wanted)
                elif not cost or not self.counted_bytes or self.counted_bytes + cost <= limit or timeout == NOW:
                    return                                   # larger than the queue: admitted when it is empty
                elif over:
                    raise SendTimeoutError(f"the send queue ({self.limit_bytes} bytes) stayed full for {timeout:g} s: "
                                           "the receivers are slower than this sender")
                self._changed.wait(left)
        finally:
            self._blocked -= 1

    def _open_batch(self, dest: Address | None, flags: int, headers: tuple[Header, ...]) -> QueuedBatch:
        batch = self._open = self._opens[dest] = QueuedBatch(dest, flags, headers)
        self._items.append(batch)
        return batch

    def _close_batch(self, batch: QueuedBatch) -> None:
        if self._open is batch:
            self._open = None
        if self._opens.get(batch.dest) is batch:
            del self._opens[batch.dest]

    # --- the intake ---------------------------------------------------------------------------------------------------

    def open_intake(self, largest: int) -> None:
        """Messages of up to `largest` bytes may take the intake, as far as INTAKE_BYTES allow."""
        with self._lock:
            self._intake_bytes = min(INTAKE_BYTES, largest + 1)
            self._grant()

    def count_down(self, countdown: Countdown | None) -> None:
        """Let no more messages into the intake than may pass, from now on; None: as many as there is room for."""
        with self._lock:
            if self.uncounted:
                self._count_intake()
            self._countdown = countdown
            self._grant()

    def renew(self) -> None:
        """Count what is in the intake, and let in what may pass now."""
        with self._lock:
            counted = bool(self.uncounted)
            if counted:
                self._count_intake()
            else:
                self._grant()
            much = counted and self.counted_bytes >= FULL_BYTES
        if much:
            self._queued()

    def _grant(self) -> None:
        """With the lock held: let INTAKE_BYTES more in, if there is room, and multicasts are not refused.

        With a countdown as many bytes as so many of the smallest messages cost that were counted last. Of larger ones
        fewer fit, and the next one takes the long way, where they are counted and the rest is granted. Of smaller ones
        more may pass than should.
        """
        room = 0 if self._gated else self.limit_bytes - self.counted_bytes - MESSAGE_COST
        nbytes = max(0, min(self._intake_bytes, room))
        if self._countdown is not None:
            nbytes = min(nbytes, max(0, self._countdown.passing) * (self._smallest + MESSAGE_COST))
        self._granted = self.intake.left = nbytes

    def _count_intake(self) -> None:
        """With the lock held: what is in the intake becomes a batch, or joins the last one, and is counted.

        While multicasts are refused, what is there came too late, and each sender takes its own message back (`_tell`).
        """
        if self._gated:
            return
        payloads = self.uncounted[:]
        cost = sum(map(len, payloads)) + MESSAGE_COST * len(payloads)
        batch = self._open
        if batch is None or batch.dest is not None or batch.flags or batch.headers:
            batch = self._open_batch(None, 0, ())
        batch.payloads += payloads
        batch.nbytes += cost
        if batch.nbytes >= BATCH_BYTES:
            self._close_batch(batch)
        self.counted_bytes += cost                                 # before they leave: the loop, which looks without
        self._sent += len(payloads)                          # the lock, must not see an empty queue in between
        if self._countdown is not None:
            self._countdown.passing -= len(payloads)
            self._smallest = min(map(len, payloads[::SAMPLED]))
        del self.uncounted[:len(payloads)]                  # others have appended meanwhile, at the end
        self._grant()

    def _tell(self, payload: bytes) -> bool:
        """By a sender that found `attend` set after it had appended `payload`; False: it must take the long way.

        A sender that finds the flag reset relies on it: the loop was told, or will be, and nothing was taken since. So
        the flag is reset before the loop is told, as a `take` in between sets it again; and only while something waits,
        as the loop may have taken this very message since it was appended, and sleeps.
        """
        with self._lock:
            if self._gated:
                if self._taken_back(payload):
                    return False
            elif self.counted_bytes or self.uncounted:
                self.intake.attend = False
        self._queued()
        return True

    def _taken_back(self, payload: bytes) -> bool:
        """With the lock held: remove a message that came too late from the intake; False: it was there in time.

        If two threads sent one and the same object, one of the two is removed. Which is the same to everybody else.
        """
        for at, found in enumerate(self.uncounted):
            if found is payload:
                del self.uncounted[at]
                return True
        return False

    def _gate(self) -> None:
        """With the lock held: multicasts are refused from now on, or no longer, by `_refused` and `_too_few`.

        What is in the intake already was queued in time; what a sender appends from now on it takes back: the flag was
        set before the intake was emptied, so that it finds it, and nothing but the end of the refusal resets it.
        """
        gated = self._refused is not None or self._too_few is not None
        if gated and not self._gated:
            self.intake.attend = True
            if self.uncounted:
                self._count_intake()
        self._gated = gated
        self._grant()

    # --- for senders that cannot block ------------------------------------------------------------------------------

    def has_room(self) -> bool:
        """Whether a message would be taken without waiting, or refused at once."""
        too_few = self._too_few
        return self.nbytes < self.limit_bytes and (too_few is None or too_few.raises)

    def when_room(self, call: Callable[[], None]) -> None:
        """Make the call once, from any thread, when there is room or the queue is closed; at once if so already."""
        with self._lock:
            waits = self._too_few is not None and not self._too_few.raises
            if (self.nbytes > self.limit_bytes // 2 or waits) and self._refused is None:
                self._waiting.append(call)
                return
        call()

    def lacking(self) -> ChannelError | None:
        """The error of a send that timed out waiting for receivers; None if it waited for room."""
        too_few = self._too_few
        return None if too_few is None else ReceiversMissingError(too_few.receivers, too_few.wanted)

    # --- the loop takes ---------------------------------------------------------------------------------------------

    def take(self, max_bytes: int) -> list[QueuedBatch | tuple[Event, int]]:
        """The oldest items, at least one if there is any, and no more than `max_bytes` with those after it."""
        with self._lock:
            self.intake.attend = True                        # before the intake is emptied, see Intake
            if self.uncounted:
                self._count_intake()
            taken: list[QueuedBatch | tuple[Event, int]] = []
            nbytes = 0
            items = self._items
            while items and nbytes < max_bytes:
                item = items.popleft()
                if isinstance(item, QueuedBatch):
                    nbytes += item.nbytes
                    self.payload_bytes += item.nbytes - MESSAGE_COST * len(item.payloads)
                    self._close_batch(item)
                else:
                    nbytes += item[1]
                taken.append(item)
            self.counted_bytes -= nbytes
            assert self.counted_bytes >= 0, "no more is taken than was put"
            self._grant()
            waits = self._blocked or self._waiting
            calls = self._wake() if waits and self.counted_bytes <= self.limit_bytes // 2 else []
        for call in calls:
            call()
        return taken

    def close(self, reason: Callable[[], ChannelError]) -> None:
        """Refuse everything from now on with what `reason` makes, waiting senders too; the loop may still take."""
        with self._lock:
            self._refused = reason
            self._gate()
            calls = self._wake()
        for call in calls:
            call()

    def connected(self, group: GroupConnected) -> None:
        """FLOW found enough receivers, or too few: then multicasts are refused, or wait for them."""
        with self._lock:
            self._too_few = None if group.connected else group
            self._gate()
            calls = self._wake()
        for call in calls:
            call()

    def _wake(self) -> list[Callable[[], None]]:
        """With the lock held: wake the senders that wait; the calls to make once the lock is given back."""
        if self._blocked:
            self._changed.notify_all()
        calls, self._waiting = self._waiting, []
        return calls
