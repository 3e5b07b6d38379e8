"""The events for one peer, which lose nothing and bring nothing twice while either end lives.

    queued  --transmit-->  under way  --PeerAck-->  gone
       ^                       |
       +----- PeerWelcome -----+    after a break: what the peer does not have is sent again

PeerAck may wait until other nodes have copies of what came. So that the window does not wait too, behind which the
copies of the other direction may be, PeerReceived says what has come.

A carrier gives frames in order or loses them; a stream asks where the peer stands when it comes back, and when nothing
was acknowledged for a while. The stream goes on under the peer's name: a pause, an exclusion from the group or a new
connection end nothing. Every event is in the ledger: accepted = acknowledged + held + dropped (by reason).
"""
from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator

import attrs

from jgroups_py.blocks.mqtt.broker.publication import NEVER
from jgroups_py.blocks.mqtt.federation.wire import (
    EVENT_HEAD_BYTES,
    ForwardedMessage,
    PeerEvents,
    encode_frame,
    event_bytes,
    message_event_bytes,
)
from jgroups_py.model.errors import WireError

OVERHEAD_BYTES = 100
"""What an event costs in memory besides its bytes."""


@attrs.define(eq=False, weakref_slot=False)
class PeerEvent:
    """An event for one peer, with kind and length. item: of a message; token: what is released when the peer has it, 0
    for nothing."""

    data: bytes
    item: ForwardedMessage | None = None
    token: int = 0

    @property
    def size(self) -> int:
        """Bytes that it is counted with."""
        return len(self.data) + OVERHEAD_BYTES

    @property
    def body(self) -> bytes:
        """The bytes behind kind and length."""
        return self.data[EVENT_HEAD_BYTES:]

    def is_expired(self, now_ns: int) -> bool:
        """Whether it is a message that nobody may have any more."""
        return self.item is not None and self.item.publication.is_expired(now_ns)

    def bytes_now(self, now_ns: int) -> bytes:
        """As it is sent: a message that expires with the time that it has left."""
        if self.item is None or self.item.publication.expires_ns == NEVER:
            return self.data
        return message_event_bytes(self.item, now_ns)


class OnwardEvent(PeerEvent):
    """A message that came late for a session which had gone on to the peer."""

    __slots__ = ()


def control_event(kind: int, body: bytes) -> PeerEvent:
    """An event that is no message."""
    return PeerEvent(event_bytes(kind, body))


def onward_event(kind: int, body: bytes) -> OnwardEvent:
    """The same of one that is asked for if the peer ends."""
    return OnwardEvent(event_bytes(kind, body))


def message_event(item: ForwardedMessage, now_ns: int) -> PeerEvent:
    """An event of a message."""
    return PeerEvent(message_event_bytes(item, now_ns), item)


@attrs.frozen(eq=False)
class SentEvents:
    """A frame of events: how many of them go for the first time, how many of these are messages, how many go again."""

    frame: bytes
    first_time: int
    messages: int
    again: int


class OutgoingStream:
    """See the module. settle: called with the tokens of events that are gone, and of how many events in a row."""

    def __init__(self, session: int, settle: Callable[[int, int], None]) -> None:
        self.session = session
        self.next = 1                                    # the id of the next event under way
        self.queued: deque[PeerEvent] = deque()
        self.under_way: deque[PeerEvent] = deque()       # ids next - len .. next - 1
        self.resend_from = self.resend_until = 0         # ids; 0: nothing is to be sent again
        self.queued_bytes = 0
        self.under_way_bytes = 0
        self.window_used_bytes = 0                       # of frames that have not come, as far as is known
        self.accepted = 0
        self.total_acknowledged = 0
        self.dropped: Counter[str] = Counter()
        self._settle = settle
        self._window: deque[tuple[int, int]] = deque()   # those frames: (the id behind their events, bytes)

    @property
    def first(self) -> int:
        """The first id that is still here."""
        return self.next - len(self.under_way)

    @property
    def held(self) -> int:
        """Events that are neither acknowledged nor dropped."""
        return len(self.queued) + len(self.under_way)

    @property
    def size(self) -> int:
        """Bytes of them."""
        return self.queued_bytes + self.under_way_bytes

    def accept(self, event: PeerEvent) -> int:
        """A new event; the bytes of all that are held now."""
        self.accepted += 1
        self.queued.append(event)
        queued_bytes = self.queued_bytes = self.queued_bytes + len(event.data) + OVERHEAD_BYTES
        return queued_bytes + self.under_way_bytes

    def acknowledge(self, next: int) -> int:
        """The peer has all below `next`; how many events that were."""
        self.received(next)
        number = max(0, min(next - self.first, len(self.under_way)))
        take, size, token, in_row = self.under_way.popleft, 0, 0, 0
        for _ in range(number):
            event = take()
            size += len(event.data) + OVERHEAD_BYTES
            if event.token == token:
                in_row += 1
            else:
                if token:
                    self._settle(token, in_row)
                token, in_row = event.token, 1
            event.token = 0
        if token:
            self._settle(token, in_row)
        self.under_way_bytes -= size
        self.total_acknowledged += number
        return number

    def check(self, next: int) -> None:
        """Raises WireError if the peer says that it has an event which was never sent."""
        if next > self.next:
            raise WireError("the peer has events that were never sent")

    def received(self, next: int) -> None:
        """All below `next` has come to the peer."""
        window = self._window
        while window and window[0][0] <= next:
            self.window_used_bytes -= window.popleft()[1]

    def drop_oldest(self, most_bytes: int) -> int:
        """Make room: drop queued messages, the oldest first. What is under way stays. Returns how many were dropped."""
        number = 0
        kept: list[PeerEvent] = []
        while self.size > most_bytes and self.queued:
            event = self.queued.popleft()
            self.queued_bytes -= event.size
            if event.item is not None:
                number += 1
                self._drop(event, "queue_full")
            else:
                kept.append(event)
        for event in reversed(kept):
            self.queued.appendleft(event)
            self.queued_bytes += event.size
        return number

    def drop_controls(self, reason: str) -> None:
        """Drop what is queued and is no message."""
        controls = [event for event in self.queued if event.item is None]
        if controls:
            self.queued = deque(event for event in self.queued if event.item is not None)
            self.queued_bytes -= sum(event.size for event in controls)
            self.give_up(controls, reason)

    def take_all(self) -> list[PeerEvent]:
        """Everything out, in order: to be put back by `accept_again` or given up by `give_up`."""
        found = [*self.under_way, *self.queued]
        self.under_way.clear()
        self.queued.clear()
        self._window.clear()
        self.queued_bytes = self.under_way_bytes = self.window_used_bytes = 0
        return found

    def accept_again(self, event: PeerEvent) -> None:
        """Put back what was taken out."""
        self.queued.append(event)
        self.queued_bytes += event.size

    def give_up(self, events: Iterable[PeerEvent], reason: str) -> int:
        """Count events that were taken out as dropped; how many."""
        number = 0
        for event in events:
            number += 1
            self._drop(event, reason)
        return number

    def release_tokens(self) -> None:
        """The peer is away: no acknowledgement waits for it any more."""
        for events in (self.under_way, self.queued):
            for event in events:
                self._release(event)

    def release_messages(self) -> int:
        """The peer is silent: no acknowledgement waits for messages to it. Returns for how many one did."""
        number = 0
        for events in (self.under_way, self.queued):
            for event in events:
                if event.token and event.item is not None:
                    number += 1
                    self._release(event)
        return number

    def begin_again(self, session: int) -> None:
        """A new session of the same stream; nothing is under way."""
        assert not self.under_way, "what was under way has been taken out"
        self.session, self.next, self.resend_from = session, 1, 0

    def resend(self, next: int, until: int) -> None:
        """The peer has all below `next`, and of what was sent below `until` nothing else."""
        self.acknowledge(next)
        self.resend_from, self.resend_until = (self.first, until) if self.first < until else (0, 0)

    def frames(self, window_bytes: int, batch_bytes: int, now_ns: int) -> Iterator[SentEvents]:
        """What may be sent now."""
        if self.resend_from:
            number = max(self.resend_from, self.first)
            again = list(self.under_way)[number - self.first:max(0, self.resend_until - self.first)]
            self.resend_from = 0
            for batch in _batches(again, batch_bytes):
                yield SentEvents(self._frame(number, batch, now_ns), 0, 0, len(batch))
                number += len(batch)
        while self.queued and self.window_used_bytes < window_bytes:
            batch, parts = [], []
            size = taken = messages = 0
            queued, first = self.queued, self.next
            while queued and size < batch_bytes:
                event = queued.popleft()
                data, item, cost = event.data, event.item, len(event.data) + OVERHEAD_BYTES
                taken += cost
                if item is not None:
                    if item.publication.expires_ns != NEVER:
                        if event.is_expired(now_ns):
                            self._drop(event, "expired")
                            continue
                        data = event.bytes_now(now_ns)
                    messages += 1
                batch.append(event)
                parts.append(data)
                size += cost
            self.queued_bytes -= taken
            self.under_way += batch
            self.under_way_bytes += size
            self.next += len(batch)
            if batch:
                self._window.append((self.next, size))
                self.window_used_bytes += size
                frame = encode_frame(PeerEvents(self.session, first, b"".join(parts)))
                yield SentEvents(frame, len(batch), messages, 0)

    def _frame(self, first: int, batch: list[PeerEvent], now_ns: int) -> bytes:
        return encode_frame(PeerEvents(self.session, first, b"".join([event.bytes_now(now_ns) for event in batch])))

    def _drop(self, event: PeerEvent, reason: str) -> None:
        self.dropped[reason] += 1
        self._release(event)

    def _release(self, event: PeerEvent) -> None:
        if event.token:
            token, event.token = event.token, 0
            self._settle(token, 1)


def _batches(events: list[PeerEvent], most_bytes: int) -> Iterator[list[PeerEvent]]:
    batch: list[PeerEvent] = []
    size = 0
    for event in events:
        batch.append(event)
        size += event.size
        if size >= most_bytes:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
