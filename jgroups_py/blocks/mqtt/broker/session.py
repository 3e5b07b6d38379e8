"""One client: what is queued and in flight for it, in both directions, and its connection while there is one.

Packets towards the client (4.3, 4.4), as a table:

    stage       | on PUBACK | on PUBREC below 0x80 | on PUBREC from 0x80 | on PUBCOMP | on reconnect
    PUBLISHED_1 | done      | -                    | -                   | -          | PUBLISH again, DUP
    PUBLISHED_2 | -         | RELEASED, PUBREL     | done                | -          | PUBLISH again, DUP
    RELEASED    | -         | PUBREL again         | done                | done       | PUBREL again

A dash is counted as `unexpected_acks`. Packet ids in flight keep their order, which is the order of the first
transmission [MQTT-4.6.0-1], so all is repeated in it. There are never more in flight than the client allows (Receive
Maximum); the rest waits in the queue, which is bounded in messages and bytes.

Packets of QoS 2 from the client:

    stage    | on PUBLISH                      | the message is taken over | on PUBREL
    none     | route it, WAITING               | -                         | PUBCOMP (0x92 in version 5)
    WAITING  | PUBREC when it is taken over    | RECORDED, PUBREC          | PUBCOMP, none
    RECORDED | PUBREC again, nothing is routed | -                         | PUBCOMP, none
"""
from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterable
from typing import TypeVar

import attrs

from jgroups_py.blocks.mqtt.broker.counters import broker_counters
from jgroups_py.blocks.mqtt.broker.deadlines import Deadline
from jgroups_py.blocks.mqtt.broker.journal import SessionJournal
from jgroups_py.blocks.mqtt.broker.options import BrokerOptions, WhenFull
from jgroups_py.blocks.mqtt.broker.outputs import MoreToSend, Output, SendAcks, SendPacket, SendPublish
from jgroups_py.blocks.mqtt.broker.publication import NEVER, SECOND, Publication
from jgroups_py.blocks.mqtt.broker.subscription_tree import split_shared
from jgroups_py.blocks.mqtt.codec.encoder import PublishFrames
from jgroups_py.blocks.mqtt.codec.packets import (
    MAX_REMAINING_BYTES,
    Ack,
    PacketType,
    ProtocolVersion,
    PubRelPacket,
    ReasonCode,
    Will,
    acknowledgement,
)
from jgroups_py.model.counters import Counters

MAX_PACKET_ID = 65_535
MAX_RECEIVE_MAXIMUM = 65_535
MAX_PACKET_BYTES = MAX_REMAINING_BYTES + 5
V5 = ProtocolVersion.MQTT_5
FAILED = 0x80
NOTHING_SEEN: dict[int, int] = {}
"""Of a session that never moved; one object for all of them, which is never written."""
MAX_REMEMBERED = 10_000
"""Messages in LateMessages; the oldest is forgotten, and could come twice."""
ANY_ORIGIN = 0
"""In place of origins that a node does not know; no publication has it."""
PUMP_BYTES = 64 << 10
"""Sent to a client at once of what waits, whatever its transport takes: it can say no more only afterwards."""


K = TypeVar("K")


class DeliveryStage(enum.IntEnum):
    """Of a packet id towards the client; before its PUBREL it is the QoS."""

    PUBLISHED_1 = 1
    """PUBLISH of QoS 1 was sent."""
    PUBLISHED_2 = 2
    """PUBLISH of QoS 2 was sent."""
    RELEASED = 3
    """PUBREL was sent."""


class Then(enum.Enum):
    """What an acknowledgement leads to."""

    DONE = "the packet id is free"
    RELEASE = "send PUBREL"
    REFUSED = "the packet id is free, the client did not take the message"


ACKNOWLEDGED: dict[tuple[int, PacketType, bool], Then] = {
    (DeliveryStage.PUBLISHED_1, PacketType.PUBACK, True): Then.DONE,
    (DeliveryStage.PUBLISHED_1, PacketType.PUBACK, False): Then.REFUSED,
    (DeliveryStage.PUBLISHED_2, PacketType.PUBREC, True): Then.RELEASE,
    (DeliveryStage.PUBLISHED_2, PacketType.PUBREC, False): Then.REFUSED,
    (DeliveryStage.RELEASED, PacketType.PUBREC, True): Then.RELEASE,
    (DeliveryStage.RELEASED, PacketType.PUBREC, False): Then.DONE,
    (DeliveryStage.RELEASED, PacketType.PUBCOMP, True): Then.DONE,
    (DeliveryStage.RELEASED, PacketType.PUBCOMP, False): Then.DONE,
}
"""(stage, packet, its reason is a success) -> what follows."""


@attrs.frozen
class GrantedOptions:
    """The options of a subscription. identifiers: one or none (3.8.2.1.2)."""

    qos: int
    no_local: bool = False
    retain_as_published: bool = False
    identifiers: tuple[int, ...] = ()


@attrs.define(eq=False, weakref_slot=False)
class Delivery:
    """A message for sessions, queued or in flight. All sessions that get the same share one.

    group: "$share/..." of the shared subscription that chose the session; until_ns: the end of its time in queues, set
    when it is queued first.
    """

    publication: Publication
    qos: int
    retain: bool
    identifiers: tuple[int, ...] = ()
    group: str = ""
    until_ns: int = NEVER

    def is_late(self, now_ns: int) -> bool:
        """Whether its delivery must not begin any more."""
        return (self.until_ns != NEVER and now_ns >= self.until_ns) or self.publication.is_expired(now_ns)


NO_MESSAGE = Delivery(Publication("", b""), 2, False)
"""Stands in the place of a delivery of QoS 2 whose PUBREL was sent: the client has the message."""


@attrs.define(eq=False)
class LateSource:
    """A node that a session left before all others had passed its fence: what they have for that node comes late, or
    not at all if that node ends, so the session's node asks them for it then.

    claim: the number of the CONNECT for which it left; life: of that node; until_ns: how long something may come;
    numbers: origin -> the highest number that the session was given there, of the origins that may have more
    (ANY_ORIGIN: of all); asked: peers that have said what they have for that node; fenced: those that were asked to
    pass its fence, as they had been away; ending: those that have still to pass one here, when all have passed that.
    """

    claim: int
    life: int
    until_ns: int
    numbers: dict[int, int]
    asked: dict[str, None] = attrs.field(factory=dict)
    fenced: dict[str, None] = attrs.field(factory=dict)
    ending: list[str] = attrs.field(factory=list)

    def awaits(self, publication: Publication) -> bool:
        """Whether the session was not given a message there, and may be given it yet."""
        if publication.origin in self.numbers:
            return publication.number > self.numbers[publication.origin]
        return ANY_ORIGIN in self.numbers


class LateMessages:
    """What may come late for a session, since it left nodes early, and what of it the session has got since. Such
    messages come by the former node, and may come directly as well. They go with the session, and are in its copies.

    claim: the number of the CONNECT that it came here for; sources: the nodes that it left early; had: the messages of
    the origins that may be late, (origin, number); of_groups: those of shared subscriptions that came late, with the
    filter: what comes directly of these comes to one node alone.
    """

    __slots__ = ("_origins", "claim", "had", "of_groups", "sources")

    def __init__(
        self, claim: int, sources: dict[str, LateSource], had: Iterable[tuple[int, int]] = (),
        of_groups: Iterable[tuple[int, int, str]] = (),
    ) -> None:
        self.claim = claim
        self.sources = sources
        self.had: dict[tuple[int, int], None] = {}
        self.of_groups: dict[tuple[int, int, str], None] = dict.fromkeys(of_groups)
        self._origins: dict[int, None] = {}
        self._changed()
        for origin, number in had:
            self.note(origin, number)

    def join(self, other: LateMessages) -> None:
        """More may come, as another node knows."""
        self.claim = other.claim
        self.sources.update(other.sources)
        self._changed()
        for origin, number in other.had:
            self.note(origin, number)
        self.of_groups.update(other.of_groups)

    def forget(self, name: str) -> dict[int, int]:
        """Nothing comes late from a source any more. Returns the highest numbers that have come of the origins that
        nothing is expected of now."""
        self.sources.pop(name, None)
        self._changed()
        ended = [key for key in self.had if not self.expects(key[0])]
        highest: dict[int, int] = {}
        for origin, number in ended:
            del self.had[origin, number]
            highest[origin] = max(number, highest.get(origin, 0))
        return highest

    def _changed(self) -> None:
        self._origins = {origin: None for source in self.sources.values() for origin in source.numbers}

    def expects(self, origin: int) -> bool:
        """Whether messages of an origin may come late."""
        return origin in self._origins or ANY_ORIGIN in self._origins

    def note(self, origin: int, number: int) -> bool:
        """A message comes, late or directly; whether it has not come the other way."""
        if not self.expects(origin):
            return True
        return remember(self.had, (origin, number))

    def note_of_group(self, origin: int, number: int, group: str) -> bool:
        """The same of one for a shared subscription that comes late."""
        return remember(self.of_groups, (origin, number, group))

    def is_new(self, publication: Publication) -> bool:
        """The same of a publication."""
        return self.note(publication.origin, publication.number)

    def has(self, publication: Publication) -> bool:
        """Whether a message has come of an origin that may be late."""
        return (publication.origin, publication.number) in self.had

    def is_of(self, claim: int) -> bool:
        """Whether what was sent on for a CONNECT is for this session."""
        return claim == self.claim or any(claim == source.claim for source in self.sources.values())

    def takes(self, claim: int, publication: Publication, group: str) -> bool:
        """Whether a message that was sent on for a CONNECT is for this session, and has not come another way."""
        if not self.is_of(claim):
            return False
        if group:
            return self.note_of_group(publication.origin, publication.number, group)
        return self.expects(publication.origin) and self.is_new(publication)

    def expire(self, now_ns: int) -> bool:
        """Forget sources that nothing comes from any more; whether there are others."""
        ended = [name for name, source in self.sources.items() if now_ns >= source.until_ns]
        for name in ended:
            self.forget(name)
        return bool(self.sources)


def remember(had: dict[K, None], key: K) -> bool:
    """Whether it is new; the oldest is forgotten for it."""
    if key in had:
        return False
    if len(had) >= MAX_REMEMBERED:
        del had[next(iter(had))]
    had[key] = None
    return True


def had_elsewhere(seen: dict[int, int], late: LateMessages | None, publication: Publication) -> bool:
    """Whether a session has had what comes directly: at its former node, or by way of that. If not, it has now."""
    return bool(publication.number) and (publication.number <= seen.get(publication.origin, 0)
                                         or (late is not None and not late.is_new(publication)))


@attrs.define(eq=False, weakref_slot=False)
class HeldAck:
    """PUBACKs or PUBRECs in a row that wait for peers, or for those before them [MQTT-4.6.0-2]. token: of all of them,
    0 for none."""

    packet_ids: list[int]
    qos: int
    reason: ReasonCode
    token: int = 0
    is_ready: bool = False


class Outbox:
    """What sessions and broker have to say: outputs in order, counters, and the sessions that became too full."""

    def __init__(self) -> None:
        self.outputs: list[Output] = []
        self.counters = broker_counters()
        self.sent = self.received = self.received_bytes = 0     # not in the counters yet: see `counted`
        self.round = 0                                   # how often the outputs were taken
        self.full: dict[ClientSession, None] = {}

    def counted(self) -> Counters:
        """The counters with all that was counted."""
        for name, number in (("sent", self.sent), ("received", self.received),
                             ("received_bytes", self.received_bytes)):
            if number:
                self.counters.add(name, number)
        self.sent = self.received = self.received_bytes = 0
        return self.counters


class ClientConnection:
    """A network connection, from its beginning; with a session from its CONNECT on."""

    __slots__ = ("ack_round", "acks", "alias_limit", "aliases", "client_aliases", "connected_ns", "deadline", "held",
                 "held_number", "in_flight",
                 "is_blocked", "is_plain", "keep_alive_ns", "last_ns", "max_packet_bytes", "number", "peer",
                 "receive_maximum", "repeat", "retained", "session", "version")

    def __init__(self, number: int, peer: str, now_ns: int) -> None:
        self.number = number
        self.peer = peer
        self.session: ClientSession | None = None
        self.version = V5
        self.last_ns = now_ns                            # something was received
        self.connected_ns = now_ns
        self.keep_alive_ns = 0                           # 1.5 times what was agreed on; 0: none
        self.deadline: Deadline | None = None            # of CONNECT, then of the keep-alive
        # Towards the client.
        self.receive_maximum = MAX_RECEIVE_MAXIMUM
        self.max_packet_bytes = MAX_PACKET_BYTES
        self.alias_limit = 0
        self.is_plain = True                             # gets the same bytes as others: no alias, no limit of size
        self.in_flight = 0
        self.repeat: dict[int, None] = {}                # packet ids to be sent again
        self.is_blocked = False                          # the transport takes nothing now
        self.retained: deque[tuple[deque[Publication], GrantedOptions]] = deque()   # to be sent before the queue
        self.aliases: dict[str, int] = {}
        # From the client.
        self.client_aliases: dict[int, str] = {}
        self.held: list[HeldAck] = []
        self.held_number = 0                             # packet ids in these that are not in session.recorded
        self.acks: SendAcks | None = None                # of outputs of round `ack_round`; more may join it
        self.ack_round = 0

    def allow(self, receive_maximum: int, alias_limit: int, max_packet_bytes: int | None) -> None:
        """What CONNECT allows us. max_packet_bytes: None for any size."""
        self.receive_maximum = receive_maximum
        self.alias_limit = alias_limit
        self.max_packet_bytes = MAX_PACKET_BYTES if max_packet_bytes is None else max_packet_bytes
        self.is_plain = not alias_limit and max_packet_bytes is None


class ClientSession:
    """What the server keeps of a client between connections (4.1)."""

    __slots__ = ("_options", "_outbox", "client_id", "connection", "ends", "expiry_s", "had_client", "in_flight",
                 "is_stalled", "is_untouched", "journal", "last_id", "late", "queue", "queue_bytes", "recorded", "seen",
                 "subscriptions", "unheard_ns", "username", "will", "will_due")

    def __init__(self, client_id: str, options: BrokerOptions, outbox: Outbox) -> None:
        self.client_id = client_id
        self.username: str | None = None
        self.connection: ClientConnection | None = None
        self.subscriptions: dict[str, GrantedOptions] = {}
        self.expiry_s = 0
        self.ends: Deadline | None = None                # while there is no connection
        self.will: Will | None = None                    # of the connection, or waiting for its delay
        self.will_due: Deadline | None = None
        self.queue: deque[Delivery] = deque()
        self.queue_bytes = 0
        self.in_flight: dict[int, Delivery] = {}
        self.recorded: dict[int, int] = {}               # QoS 2 from the client: packet id -> token; 0: PUBREC was sent
        self.is_stalled = False                          # publishers have waited long enough
        self.last_id = 0
        self.seen: dict[int, int] = NOTHING_SEEN         # of a session that came from elsewhere: what it had there
        self.late: LateMessages | None = None            # for some time after it came, if some may come yet
        self.journal: SessionJournal | None = None       # if other nodes have copies of it
        self.had_client = False                          # a client has connected to it here
        self.is_untouched = False                        # made of a copy, and no client has connected since
        self.unheard_ns: int | None = None               # when it was begun in place of one that did not come in time
        self._options = options
        self._outbox = outbox

    # --- the connection -----------------------------------------------------------------------------------------------

    def attach(self, connection: ClientConnection, now_ns: int) -> None:
        """Begin to send: what is in flight again, in order, then the queue."""
        self.connection = connection
        self.had_client, self.is_untouched = True, False
        connection.session = self
        connection.repeat = dict.fromkeys(self.in_flight)
        connection.in_flight = 0
        self.pump(now_ns)

    @property
    def is_unheard(self) -> bool:
        """It was begun in place of one that did not come in time, and its client may not have got CONNACK: nothing has
        come from it since."""
        return self.unheard_ns is not None and self.connection is not None and (
            self.connection.last_ns == self.unheard_ns
            and not (self.subscriptions or self.queue or self.in_flight or self.recorded))

    def detach(self, now_ns: int) -> None:
        """The connection is no more. What is in flight stays so."""
        connection, self.connection = self.connection, None
        if self.journal is not None:
            self.journal.forget_held()
        if connection is not None:
            for publications, granted in connection.retained:
                for each in publications:
                    if min(each.qos, granted.qos):
                        self._enqueue(_retained(each, granted), now_ns)
        self.is_stalled = False
        if not self._options.queue_qos_0:
            kept = deque(each for each in self.queue if each.qos)
            self._outbox.counters.add("dropped_offline_qos_0", len(self.queue) - len(kept))
            self.queue = kept
            self.queue_bytes = sum(each.publication.size for each in kept)

    # --- towards the client -------------------------------------------------------------------------------------------

    def deliver(self, delivery: Delivery, now_ns: int) -> None:
        """Send a message, or queue it: behind others, without a connection, or with as many in flight as may be."""
        connection = self.connection
        if (self.seen or self.late is not None) and not delivery.group and had_elsewhere(
                self.seen, self.late, delivery.publication):
            self._outbox.counters.add("dropped_had_elsewhere")
            return
        if (connection is not None and not self.queue and not connection.is_blocked and not connection.retained and (
                not delivery.qos or (connection.in_flight < connection.receive_maximum and not connection.repeat))):
            self._begin(connection, delivery, now_ns)
        else:
            self._enqueue(delivery, now_ns)

    def deliver_late(self, delivery: Delivery, now_ns: int) -> None:
        """Send a message that was published before others which the session has got, or queue it."""
        self._enqueue(delivery, now_ns)
        self.pump(now_ns)

    def take_back(self, publication: Publication) -> None:
        """Take what has just been queued out again, if this is it; no connection and no copy has it yet. It comes late,
        and is new then (mqtt 1010205)."""
        if self.queue and self.queue[-1].publication is publication and not self.queue[-1].group:
            self.queue.pop()
            self.queue_bytes -= publication.size
            if self.late is not None:
                self.late.had.pop((publication.origin, publication.number), None)

    def send_retained(self, publications: Iterable[Publication], granted: GrantedOptions, now_ns: int) -> None:
        """Send what a new subscription gets, all of it, before what comes from now on."""
        connection = self.connection
        assert connection is not None, "it has just subscribed"
        found = deque(publications)
        if found:
            connection.retained.append((found, granted))
            self.pump(now_ns)

    def pump(self, now_ns: int) -> None:
        """Send what may be sent now; not all at once, if it is much."""
        connection = self.connection
        if connection is None:
            return
        room = PUMP_BYTES
        while connection.repeat and connection.in_flight < connection.receive_maximum and not connection.is_blocked:
            packet_id = next(iter(connection.repeat))
            del connection.repeat[packet_id]
            connection.in_flight += 1
            room -= self.in_flight[packet_id].publication.size
            self._repeat(connection, packet_id, now_ns)
            self._stop_pump(connection, room)
        while not connection.is_blocked and not connection.repeat:
            delivery = self._next(connection)
            if delivery is None:
                return
            room -= delivery.publication.size
            if delivery.is_late(now_ns):
                self._outbox.counters.add("dropped_expired")
            else:
                self._begin(connection, delivery, now_ns)
            self._stop_pump(connection, room)

    def _next(self, connection: ClientConnection) -> Delivery | None:
        """Take the next one that may be sent now: retained messages, then the queue."""
        if not connection.retained:
            if not self.queue or (self.queue[0].qos and connection.in_flight >= connection.receive_maximum):
                return None
            delivery = self.queue.popleft()
            self.queue_bytes -= delivery.publication.size
            if self.journal is not None:
                self.journal.unqueued(delivery)
            return delivery
        publications, granted = connection.retained[0]
        delivery = _retained(publications[0], granted)
        if delivery.qos and connection.in_flight >= connection.receive_maximum:
            return None
        publications.popleft()
        if not publications:
            connection.retained.popleft()
        return delivery

    def _stop_pump(self, connection: ClientConnection, room: int) -> None:
        """Go on when the transport has written it, if that was much."""
        if room <= 0 and not connection.is_blocked and (connection.repeat or connection.retained or self.queue):
            connection.is_blocked = True
            self._outbox.outputs.append(MoreToSend(connection.number))

    def arrived(self, connection: ClientConnection, packet_id: int) -> bool:
        """PUBACK of success for a message in flight with QoS 1, the most frequent row of the table. Returns False if it
        is another row, and does nothing then."""
        delivery = self.in_flight.get(packet_id)
        if delivery is None or delivery.qos != 1:
            return False
        if connection.repeat or self.journal is not None:
            self._done(connection, packet_id)
        else:                                            # what _done comes to then, without a call
            del self.in_flight[packet_id]
            connection.in_flight -= 1
        return True

    def acknowledged(self, kind: PacketType, packet_id: int, reason: ReasonCode, now_ns: int) -> None:
        """PUBACK, PUBREC or PUBCOMP of the client: see the table."""
        connection = self.connection
        assert connection is not None, "acknowledgements come by a connection"
        delivery = self.in_flight.get(packet_id)
        stage = 0 if delivery is None else delivery.qos if delivery is not NO_MESSAGE else DeliveryStage.RELEASED
        then = ACKNOWLEDGED.get((stage, kind, reason < FAILED))
        if then is None:
            self._outbox.counters.add("unexpected_acks")
            if kind is PacketType.PUBREC and reason < FAILED and delivery is None:
                # [MQTT-4.3.3-7]: the answer ends the exchange for a client that still has it.
                self._send(connection, PubRelPacket(packet_id, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND))
            return
        if then is Then.RELEASE:
            self.in_flight[packet_id] = NO_MESSAGE
            if self.journal is not None:
                self.journal.released(packet_id)
            if packet_id in connection.repeat:           # acknowledged before it was repeated
                del connection.repeat[packet_id]
                connection.in_flight += 1
            self._send(connection, acknowledgement(PubRelPacket, packet_id))
            return
        if then is Then.REFUSED:
            self._outbox.counters.add("dropped_by_client")
        self._done(connection, packet_id)
        if self.queue or connection.repeat or connection.retained:
            self.pump(now_ns)

    def end(self) -> list[Delivery]:
        """Forget all that was to be sent. Returns what other members of shared subscriptions may have instead: all but
        messages of QoS 2 whose delivery has begun, since these may have arrived [MQTT-4.8.2-5]."""
        movable = [each for each in self.in_flight.values() if each.group and each.qos == 1]
        movable += [each for each in self.queue if each.group]
        self._outbox.counters.add("dropped_session_ended", len(self.in_flight) + len(self.queue) - len(movable))
        self.in_flight.clear()
        self.queue.clear()
        self.queue_bytes = 0
        return movable

    def pass_ids(self, last_id: int) -> None:
        """Another session of the client has given packet ids up to this one, which it may have QoS 2 of: those of this
        session go on behind them, unless they have passed them already. Ids begin again behind the largest one. 0: none
        was given."""
        if last_id and (last_id - self.last_id) % MAX_PACKET_ID <= MAX_PACKET_ID // 2:
            self.last_id = last_id

    @property
    def has_room(self) -> bool:
        """Whether the queue is at most half full: publishers that wait may go on."""
        return (2 * len(self.queue) <= self._options.queue_messages
                and 2 * self.queue_bytes <= self._options.queue_bytes)

    def groups(self) -> list[str]:
        """The shared subscriptions."""
        return [filter for filter in self.subscriptions if split_shared(filter)[0]]

    def _begin(self, connection: ClientConnection, delivery: Delivery, now_ns: int) -> None:
        """The first transmission."""
        qos, packet_id, publication = delivery.qos, 0, delivery.publication
        if qos:
            in_flight = self.in_flight
            packet_id = self.last_id % MAX_PACKET_ID + 1
            while packet_id in in_flight:                # [MQTT-2.2.1-3]; fewer are in flight than there are ids
                packet_id = packet_id % MAX_PACKET_ID + 1
            self.last_id = packet_id
            in_flight[packet_id] = delivery
            connection.in_flight += 1
            if self.journal is not None:
                self.journal.began(packet_id, delivery)
        if connection.is_plain and not publication.expires_ns and not delivery.identifiers:
            # The common case: all subscribers get the same bytes.
            outbox = self._outbox
            outbox.sent += 1
            output = SendPublish(
                connection.number, publication.frames_for(connection.version), qos, packet_id, delivery.retain, False)
            if self.journal is None:
                outbox.outputs.append(output)
            else:
                self.journal.put(output, qos == 2)
        elif not self._transmit(connection, delivery, packet_id, False, now_ns) and qos:
            self._done(connection, packet_id)

    def _repeat(self, connection: ClientConnection, packet_id: int, now_ns: int) -> None:
        delivery = self.in_flight[packet_id]
        self._outbox.counters.add("resent")
        if delivery is NO_MESSAGE:
            self._send(connection, acknowledgement(PubRelPacket, packet_id))
        elif not self._transmit(connection, delivery, packet_id, True, now_ns):
            self._done(connection, packet_id)

    def _transmit(
        self, connection: ClientConnection, delivery: Delivery, packet_id: int, dup: bool, now_ns: int,
    ) -> bool:
        """Write PUBLISH, unless it is larger than the client takes [MQTT-3.1.2-24]; whether it was written."""
        frames = self._frames(connection, delivery, now_ns)
        if frames.size(delivery.qos) > connection.max_packet_bytes:
            self._outbox.counters.add("dropped_too_large")
            return False
        if not dup:
            self._outbox.sent += 1
        output = SendPublish(connection.number, frames, delivery.qos, packet_id, delivery.retain, dup)
        if self.journal is None:
            self._outbox.outputs.append(output)
        else:
            # What tells an alias must not be overtaken by what uses it.
            self.journal.put(output, delivery.qos == 2 or (connection.alias_limit > 0 and self.journal.holds))
        return True

    def _frames(self, connection: ClientConnection, delivery: Delivery, now_ns: int) -> PublishFrames:
        """What is shared, or frames for this client alone, if what it gets differs: see Publication.frames_with."""
        publication = delivery.publication
        if connection.version is not V5 or not (delivery.identifiers or connection.alias_limit or (
                publication.expires_ns != NEVER
                and publication.seconds_left(now_ns) != publication.properties.message_expiry_interval)):
            return publication.frames_for(connection.version)
        alias = connection.aliases.get(publication.topic, 0)
        if not alias and len(connection.aliases) < connection.alias_limit:
            # What is dropped for its size must not be the one that tells the alias, so that is sent with its topic.
            frames = publication.frames_with(now_ns, delivery.identifiers, len(connection.aliases) + 1)
            if frames.size(delivery.qos) <= connection.max_packet_bytes:
                connection.aliases[publication.topic] = len(connection.aliases) + 1
            return frames
        return publication.frames_with(now_ns, delivery.identifiers, alias, with_topic=not alias)

    def _enqueue(self, delivery: Delivery, now_ns: int) -> None:
        connection, options = self.connection, self._options
        if connection is None and not delivery.qos and not options.queue_qos_0:
            self._outbox.counters.add("dropped_offline_qos_0")
            return
        if options.max_queued_s and delivery.until_ns == NEVER:
            delivery.until_ns = now_ns + round(options.max_queued_s * SECOND)
        self.queue.append(delivery)
        self.queue_bytes += delivery.publication.size
        if self.journal is not None:
            self.journal.queued(delivery)
        if len(self.queue) <= options.queue_messages and self.queue_bytes <= options.queue_bytes:
            return
        most = 1
        if connection is not None and options.when_full is not WhenFull.DROP_OLDEST and not self.is_stalled:
            self._outbox.full[self] = None
            # What was read before the publishers stopped has its place: as much again, and no more.
            most = 2 if options.when_full is WhenFull.BLOCK else 1
        while self.queue and (len(self.queue) > most * options.queue_messages
                              or self.queue_bytes > most * options.queue_bytes):
            oldest = self.queue.popleft()
            self.queue_bytes -= oldest.publication.size
            if self.journal is not None:
                self.journal.unqueued(oldest)
            self._outbox.counters.add("dropped_expired" if oldest.is_late(now_ns) else "dropped_queue_full")

    def _done(self, connection: ClientConnection, packet_id: int) -> None:
        del self.in_flight[packet_id]
        if self.journal is not None:
            self.journal.done(packet_id)
        if packet_id in connection.repeat:
            del connection.repeat[packet_id]
        else:
            connection.in_flight -= 1

    def _send(self, connection: ClientConnection, packet: Ack) -> None:
        self.send_behind(SendPacket(connection.number, packet, connection.version))

    def send_behind(self, output: Output) -> None:
        """Send something that the client may rely on, once the copies of the session have the changes that led to
        it."""
        if self.journal is None:
            self._outbox.outputs.append(output)
        else:
            self.journal.put(output, True)


def _retained(publication: Publication, granted: GrantedOptions) -> Delivery:
    """A retained message for a subscription."""
    return Delivery(publication, min(publication.qos, granted.qos), True, granted.identifiers)
