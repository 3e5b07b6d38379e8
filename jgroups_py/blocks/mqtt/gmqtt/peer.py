"""One peer of the link to gmqtt: the stream to it, and the state of the stream from it.

To the peer:

    WAITING   --retry is due-->  GREETING  --ServerHello-->  STREAMING  --the stream breaks-->  WAITING

Sent are first the changes of filters since the last ones sent, then the retained messages of a clean start, then
messages in order. An event gets its id when it is first sent; ids are contiguous, from 0 in each session. It is kept
until it is acknowledged, and retransmitted from the peer's `next_event_id` on. A peer that does not know the session
(clean start) has no filters of this node: all are sent again, with ids from 0, then the messages that were not
acknowledged. Memory is bounded: filters by their number, messages by `queue_bytes`.

From the peer: the session that its Hello began, and the id of the next event.
"""
from __future__ import annotations

import enum
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping

import attrs

from jgroups_py.blocks.mqtt.broker.publication import NEVER, SECOND, Publication
from jgroups_py.blocks.mqtt.broker.subscription_tree import split_shared
from jgroups_py.blocks.mqtt.gmqtt.messages import message_of
from jgroups_py.blocks.mqtt.gmqtt.options import GmqttOptions
from jgroups_py.blocks.mqtt.gmqtt.wire import GmqttSubscribe, GmqttUnsubscribe, body_bytes, event_bytes
from jgroups_py.model.counters import Counters

OVERHEAD_BYTES = 200
"""What an event costs in memory besides its bytes."""


class GmqttState(enum.Enum):
    """Of the stream to a peer."""

    WAITING = "waiting"
    GREETING = "greeting"
    STREAMING = "streaming"


@attrs.define(eq=False, weakref_slot=False)
class OutboundEvent:
    """body: without its id; publication: of a message, also of a retained one; token: to be settled when the peer has
    it, 0: none; sync: it is sent for a clean start only."""

    body: bytes
    publication: Publication | None = None
    token: int = 0
    sync: bool = False

    @property
    def size(self) -> int:
        """Bytes that it counts in `queue_bytes`."""
        return len(self.body) + OVERHEAD_BYTES

    def is_expired(self, now_ns: int) -> bool:
        """Whether it is a message whose expiry interval is over."""
        return self.publication is not None and self.publication.is_expired(now_ns)

    def bytes_now(self, now_ns: int, counters: Counters) -> bytes:
        """The body to send now; a message that expires gets the remaining time."""
        if self.publication is None or self.publication.expires_ns == NEVER:
            return self.body
        return body_bytes(message_of(self.publication, now_ns, counters))


class GmqttPeer:
    """See the module. settle: called with each token of messages that are gone."""

    def __init__(
        self, name: str, options: GmqttOptions, counters: Counters, session: str, settle: Callable[[int], None],
    ) -> None:
        self.name = name
        self.address = ""
        self.is_alive = False
        self.gone_ns: int | None = None                  # when it is forgotten, if it failed
        self.state = GmqttState.WAITING
        self.why = "it has just joined"                  # why it is not STREAMING, for operators
        self.session = session
        self.attempt = 0                                 # of the stream; results of earlier attempts are ignored
        self.retry_ns = 0
        self.next_id = 0
        self.under_way: deque[OutboundEvent] = deque()   # ids next_id - len .. next_id - 1
        self.under_way_bytes = 0
        self.queue: deque[OutboundEvent] = deque()
        self.queue_bytes = 0
        self.told: dict[str, None] = {}                  # the filters that the peer has, or that are under way to it
        self.changed: dict[str, None] = {}               # filters that may differ from these
        self.sync: deque[Publication] = deque()
        self.accepted = 0
        self.total_acknowledged = 0
        self.dropped: Counter[str] = Counter()
        self.failed_hellos = 0
        self.incoming: GmqttIncoming | None = None
        self.quiet_ns: int | None = None                 # since when it has no stream to this node, and sent no Hello
        self._options = options
        self._counters = counters
        self._settle = settle

    # --- sending ------------------------------------------------------------------------------------------------------

    def accept(self, body: bytes, publication: Publication, token: int) -> None:
        """Queue a message."""
        event = OutboundEvent(body, publication, token)
        self.accepted += 1
        while self.queue and self.queue_bytes + event.size > self._options.queue_bytes:
            self._drop(self._pop(), "dropped_queue_full")
        self.queue.append(event)
        self.queue_bytes += event.size

    def pump(self, own: Mapping[str, object], now_ns: int) -> list[bytes]:
        """Take the events that may be sent now. own: the filters of this node."""
        if self.state is not GmqttState.STREAMING:
            return []
        found: list[bytes] = []
        while self._has_room():
            event = self._next(own, now_ns)
            if event is None:
                break
            found.append(event_bytes(self.next_id, event.bytes_now(now_ns, self._counters)))
            self.next_id += 1
            self.under_way.append(event)
            self.under_way_bytes += event.size
            self._counters.add("events_sent")
            if event.publication is not None:
                self._counters.add("messages_sent")
        return found

    def _has_room(self) -> bool:
        return (len(self.under_way) < self._options.window_events
                and (not self.under_way or self.under_way_bytes < self._options.window_bytes))

    def _next(self, own: Mapping[str, object], now_ns: int) -> OutboundEvent | None:
        while self.changed:
            filter = next(iter(self.changed))
            del self.changed[filter]
            if filter in own and filter not in self.told:
                self.told[filter] = None
                return OutboundEvent(body_bytes(GmqttSubscribe(*split_shared(filter))))
            if filter in self.told and filter not in own:
                del self.told[filter]
                return OutboundEvent(body_bytes(GmqttUnsubscribe(filter)))
        while self.sync:
            publication = self.sync.popleft()
            if not publication.is_expired(now_ns):
                kept = attrs.evolve(publication, wants_retain=True)
                return OutboundEvent(body_bytes(message_of(kept, now_ns, self._counters)), kept, sync=True)
        while self.queue:
            event = self._pop()
            if not event.is_expired(now_ns):
                return event
            self._drop(event, "dropped_expired")
        return None

    def _pop(self) -> OutboundEvent:
        event = self.queue.popleft()
        self.queue_bytes -= event.size
        return event

    # --- its answers --------------------------------------------------------------------------------------------------

    @property
    def first_id(self) -> int:
        """The first id that is not acknowledged."""
        return self.next_id - len(self.under_way)

    def acknowledge(self, next_id: int) -> None:
        """The peer has acknowledged all events below this id."""
        for _ in range(min(next_id - self.first_id, len(self.under_way))):
            event = self.under_way.popleft()
            self.under_way_bytes -= event.size
            self._counters.add("events_acknowledged")
            if event.publication is not None and not event.sync:
                self.total_acknowledged += 1
            self._release(event)

    def can_resume(self, next_id: int) -> bool:
        """Whether this node still has the peer's next event; if not, the session cannot go on."""
        return self.first_id <= next_id <= self.next_id

    def resume(self, next_id: int, now_ns: int) -> list[bytes]:
        """Go on at the peer's next id; returns the events to retransmit."""
        self.acknowledge(next_id)
        self._counters.add("events_resent", len(self.under_way))
        return [event_bytes(self.first_id + at, event.bytes_now(now_ns, self._counters))
                for at, event in enumerate(self.under_way)]

    def begin_again(self, own: Iterable[str], retained: Iterable[Publication]) -> None:
        """Clean start: ids from 0, all filters, all retained messages, then what was not acknowledged."""
        left, self.under_way = self.under_way, deque()
        self.next_id = self.under_way_bytes = 0
        self.told.clear()
        self.changed = dict.fromkeys(own)
        self.sync = deque(retained)
        fresh = {id(publication): None for publication in self.sync}
        again = []
        for event in left:
            if event.publication is None or event.sync:
                continue
            if event.publication.qos == 0:
                self._drop(event, "dropped_in_flight_qos_0")
            elif id(event.publication) in fresh:
                self.total_acknowledged += 1             # the retained messages bring it
                self._release(event)
            else:
                again.append(event)
        self.queue.extendleft(reversed(again))
        self.queue_bytes += sum(event.size for event in again)
        # Retained messages are sent above; an older message behind them must not replace one.
        self.queue = deque(self._without_retain(event) for event in self.queue)
        self.queue_bytes = sum(event.size for event in self.queue)

    def _without_retain(self, event: OutboundEvent) -> OutboundEvent:
        publication = event.publication
        if publication is None or not publication.wants_retain:
            return event
        plain = attrs.evolve(publication, wants_retain=False)
        return OutboundEvent(body_bytes(message_of(plain, 0, self._counters)), plain, event.token)

    def give_up(self, why: str) -> None:
        """Drop what is queued or under way."""
        for event in (*self.under_way, *self.queue):
            if event.publication is not None and not event.sync:
                self._drop(event, why)
        self.under_way.clear()
        self.queue.clear()
        self.sync.clear()
        self.under_way_bytes = self.queue_bytes = 0

    def wait(self, now_ns: int, why: str) -> None:
        """Plan the next Hello: at once, then with growing backoff, as gmqtt does."""
        self.state, self.why = GmqttState.WAITING, why
        delay_s = min(self._options.retry_most_s, self.failed_hellos * self._options.retry_s)
        self.retry_ns = now_ns + round(delay_s * SECOND)
        self.failed_hellos += 1

    def _drop(self, event: OutboundEvent, why: str) -> None:
        self._counters.add(why)
        self.dropped[why] += 1
        self._release(event)

    def _release(self, event: OutboundEvent) -> None:
        if event.token:
            token, event.token = event.token, 0
            self._settle(token)


@attrs.define(eq=False)
class GmqttIncoming:
    """The session that a Hello of the peer began. stream: the number of its stream, 0: none; syncing_until_ns: until
    then a retained message may belong to its clean start; synced: topics of these so far."""

    session: str
    next_id: int = 0
    stream: int = 0
    syncing_until_ns: int = 0
    synced: dict[str, None] = attrs.field(factory=dict)
    filters: dict[str, None] = attrs.field(factory=dict)

    def is_sync(self, topic: str, now_ns: int) -> bool:
        """Whether a retained message belongs to the clean start: it comes in time, and is the first of its topic."""
        if now_ns >= self.syncing_until_ns or topic in self.synced:
            self.end_sync()
            return False
        self.synced[topic] = None
        return True

    def end_sync(self) -> None:
        """The clean start is over: later retained messages are changes."""
        self.syncing_until_ns = 0
        self.synced.clear()
