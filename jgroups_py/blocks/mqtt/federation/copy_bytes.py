"""Copies of sessions as bytes: what their owner sends, and what nodes ask each other once it has ended.

A COPY event has parts of sessions: the changes of one turn of the event loop, or a whole session, which begins with
`is_whole`. A copy keeps messages as they came, and reads them when it becomes a session; what it cannot read then is
dropped and counted.
"""
from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

import attrs

from jgroups_py.blocks.mqtt.broker.journal import Entry, SessionChange
from jgroups_py.blocks.mqtt.broker.session import (
    MAX_REMEMBERED,
    NO_MESSAGE,
    ClientSession,
    Delivery,
    GrantedOptions,
    LateMessages,
    LateSource,
)
from jgroups_py.blocks.mqtt.codec.packets import MqttError, PacketType, Will
from jgroups_py.blocks.mqtt.codec.properties import property_bytes, read_properties
from jgroups_py.blocks.mqtt.codec.text import PacketReader, topic_filter_fault, topic_name_fault
from jgroups_py.blocks.mqtt.federation.wire import (
    FILTER,
    MAX_USER_PROPERTIES,
    ForwardedMessage,
    message_body,
    read_message,
)
from jgroups_py.model.errors import WireError
from jgroups_py.wire.codec import BOOL, BYTES, TEXT, U8, U16, U32, U64, Interner, Reader, record, sequence

_NO_ADDRESSES = Interner(0)
_IDENTIFIERS = sequence(U32)
_DELIVERY = record(U8, BOOL, _IDENTIFIERS, TEXT, BYTES)
_GRANTED = record(FILTER, U8, BOOL, BOOL, _IDENTIFIERS)
_CONNECTION = record(U32, BOOL, BOOL)
_WILL = record(TEXT, BYTES, U8, BOOL, BYTES)
_PART = record(TEXT, U64, U64, BOOL, BOOL, BYTES)
_HERE = record(TEXT, BOOL, sequence(record(TEXT, U8, U64, U64)))
_WANTED = record(TEXT, TEXT, U64)
_ORIGIN = struct.Struct(">BQQ")
_NUMBERS = sequence(record(U64, U64))
_SOURCES = sequence(record(TEXT, U64, U64, U64, _NUMBERS))
_LATE_MESSAGES = record(U64, _SOURCES, _NUMBERS, sequence(record(U64, U64, TEXT)))
_SEEN, _LAST_ID, _LATE = 20, 21, 22
"""Changes that only a whole session has: origin and highest number; the last packet id; what may come late."""
MAX_SOURCES = 100
"""Nodes that a session may have left early; the oldest are forgotten."""
PART_BYTES = 64 << 10
"""About the size of an event of copies."""


@attrs.frozen(eq=False)
class StoredDelivery:
    """A message of a copy, as it came, and when."""

    data: bytes
    at_ns: int


@attrs.define(eq=False)
class SessionCopy:
    """A session at another node, as its owner sent it. begin: since when its owner has it, by the owner's wall clock;
    turn: the number of the owner's latest changes; since_ns: when the connection began or ended; in_flight: None for a
    message of QoS 2 whose PUBREL was sent; seen: the highest number of each origin that is in it; late: what may come
    late, and what of that is in it."""

    begin: int
    turn: int = 0
    expiry_s: int = 0
    is_connected: bool = False
    since_ns: int = 0
    will: Will | None = None
    subscriptions: dict[str, GrantedOptions] = attrs.field(factory=dict)
    recorded: dict[int, None] = attrs.field(factory=dict)
    in_flight: dict[int, StoredDelivery | None] = attrs.field(factory=dict)
    queue: deque[StoredDelivery] = attrs.field(factory=deque)
    last_id: int = 0
    seen: dict[int, int] = attrs.field(factory=dict)
    late: LateMessages | None = None

    def apply(self, data: bytes, now_ns: int) -> None:
        """Carry out changes. Raises WireError."""
        reader = Reader(data, _NO_ADDRESSES)
        while reader.pos < reader.stop:
            kind = U8.read(reader)
            carry_out = _CHANGES.get(kind)
            if carry_out is None:
                raise WireError("a change of a session of no known kind")
            carry_out(self, reader, now_ns)

    def note(self, stored: StoredDelivery) -> None:
        """A message is in it: remember its number, unless it is of a shared subscription, which are in no order."""
        reader = Reader(stored.data, _NO_ADDRESSES)
        _, _, _, group, message = _DELIVERY.read(reader)
        if len(message) < _ORIGIN.size:
            raise WireError("truncated")
        _, origin, number = _ORIGIN.unpack_from(message)
        if group:
            if self.late is not None:
                self.late.note_of_group(origin, number, group)
            return
        if number > self.seen.get(origin, 0):
            self.seen[origin] = number
        if self.late is not None:
            self.late.note(origin, number)

    def away_ns(self, now_ns: int) -> int:
        """For how long the client has had no connection, if its owner has ended now."""
        return 0 if self.is_connected else max(0, now_ns - self.since_ns)


# --- changes, and how a copy carries them out -------------------------------------------------------------------------

def _connection(copy: SessionCopy, reader: Reader, now_ns: int) -> None:
    copy.expiry_s, copy.is_connected, has_will = _CONNECTION.read(reader)
    copy.since_ns = now_ns
    copy.will = read_will(reader) if has_will else None


def _subscribed(copy: SessionCopy, reader: Reader, now_ns: int) -> None:
    filter, qos, no_local, retain, identifiers = _GRANTED.read(reader)
    copy.subscriptions[filter] = GrantedOptions(_qos(qos), no_local, retain, tuple(identifiers))


def _unsubscribed(copy: SessionCopy, reader: Reader, now_ns: int) -> None:
    copy.subscriptions.pop(FILTER.read(reader), None)


def _recorded(copy: SessionCopy, reader: Reader, now_ns: int) -> None:
    copy.recorded[U16.read(reader)] = None


def _unrecorded(copy: SessionCopy, reader: Reader, now_ns: int) -> None:
    copy.recorded.pop(U16.read(reader), None)


def _queued(copy: SessionCopy, reader: Reader, now_ns: int) -> None:
    stored = StoredDelivery(BYTES.read(reader), now_ns)
    copy.note(stored)
    copy.queue.append(stored)


def _unqueued(copy: SessionCopy, reader: Reader, now_ns: int) -> None:
    _first(copy)


def _taken(copy: SessionCopy, reader: Reader, now_ns: int) -> None:
    _in_flight(copy, U16.read(reader), _first(copy))


def _sent(copy: SessionCopy, reader: Reader, now_ns: int) -> None:
    packet_id, stored = U16.read(reader), StoredDelivery(BYTES.read(reader), now_ns)
    copy.note(stored)
    _in_flight(copy, packet_id, stored)


def _released(copy: SessionCopy, reader: Reader, now_ns: int) -> None:
    copy.in_flight[_packet_id(U16.read(reader))] = None


def _done(copy: SessionCopy, reader: Reader, now_ns: int) -> None:
    copy.in_flight.pop(U16.read(reader), None)


def _seen(copy: SessionCopy, reader: Reader, now_ns: int) -> None:
    origin, number = U64.read(reader), U64.read(reader)
    copy.seen[origin] = max(number, copy.seen.get(origin, 0))


def _last_id(copy: SessionCopy, reader: Reader, now_ns: int) -> None:
    copy.last_id = U16.read(reader)


def _late(copy: SessionCopy, reader: Reader, now_ns: int) -> None:
    copy.late = read_late(reader, now_ns)


_CHANGES: dict[int, Callable[[SessionCopy, Reader, int], None]] = {
    SessionChange.CONNECTION: _connection, SessionChange.SUBSCRIBED: _subscribed,
    SessionChange.UNSUBSCRIBED: _unsubscribed, SessionChange.RECORDED: _recorded,
    SessionChange.UNRECORDED: _unrecorded, SessionChange.QUEUED: _queued, SessionChange.UNQUEUED: _unqueued,
    SessionChange.TAKEN: _taken, SessionChange.SENT: _sent, SessionChange.RELEASED: _released,
    SessionChange.DONE: _done, _SEEN: _seen,
    _LAST_ID: _last_id, _LATE: _late}


def _first(copy: SessionCopy) -> StoredDelivery:
    if not copy.queue:
        raise WireError("nothing is queued in the copy of a session")
    return copy.queue.popleft()


def _in_flight(copy: SessionCopy, packet_id: int, stored: StoredDelivery) -> None:
    copy.in_flight[_packet_id(packet_id)] = stored
    copy.last_id = packet_id


def _packet_id(value: int) -> int:
    if not value:
        raise WireError("packet id 0")
    return value


def _qos(value: int) -> int:
    if value > 2:
        raise WireError("QoS 3")
    return value


# --- changes as bytes -------------------------------------------------------------------------------------------------

def change_bytes(entry: Entry, now_ns: int) -> bytes:
    """A change of a journal."""
    kind, out = entry[0], bytearray()
    out.append(kind)
    if kind is SessionChange.QUEUED:
        BYTES.write(delivery_bytes(entry[1], now_ns), out)
    elif kind is SessionChange.SENT:
        U16.write(entry[1], out)
        BYTES.write(delivery_bytes(entry[2], now_ns), out)
    elif kind is SessionChange.SUBSCRIBED:
        granted = entry[2]
        _GRANTED.write((entry[1], granted.qos, granted.no_local, granted.retain_as_published, granted.identifiers), out)
    elif kind is SessionChange.UNSUBSCRIBED:
        FILTER.write(entry[1], out)
    elif kind is SessionChange.CONNECTION:
        _, expiry_s, is_connected, will = entry
        _CONNECTION.write((expiry_s, is_connected, will is not None), out)
        if will is not None:
            write_will(will, out)
    elif kind is not SessionChange.UNQUEUED:
        U16.write(entry[1], out)
    return bytes(out)


def whole_session(session: ClientSession, seen: dict[int, int], now_ns: int) -> Iterator[bytes]:
    """All of a session, change by change. seen: origin -> the highest number that it was given."""
    is_connected = session.connection is not None
    yield change_bytes((SessionChange.CONNECTION, session.expiry_s, is_connected, session.will), now_ns)
    if not session.expiry_s:
        return                                           # it ends with its connection: there is its will alone
    for filter, granted in session.subscriptions.items():
        yield change_bytes((SessionChange.SUBSCRIBED, filter, granted), now_ns)
    for packet_id in session.recorded:
        yield change_bytes((SessionChange.RECORDED, packet_id), now_ns)
    for origin, number in seen.items():
        out = bytearray((_SEEN,))
        U64.write(origin, out)
        U64.write(number, out)
        yield bytes(out)
    if session.late is not None:
        out = bytearray((_LATE,))
        write_late(session.late, now_ns, out)
        yield bytes(out)
    for packet_id, delivery in session.in_flight.items():
        if delivery is NO_MESSAGE:
            yield change_bytes((SessionChange.RELEASED, packet_id), now_ns)
        else:
            yield change_bytes((SessionChange.SENT, packet_id, delivery), now_ns)
    for delivery in session.queue:
        if delivery.qos:
            yield change_bytes((SessionChange.QUEUED, delivery), now_ns)
    yield bytes((_LAST_ID,)) + session.last_id.to_bytes(2, "big")


def delivery_bytes(delivery: Delivery, now_ns: int) -> bytes:
    """A message of a session."""
    out = bytearray()
    _DELIVERY.write((delivery.qos, delivery.retain, delivery.identifiers, delivery.group,
                     message_body(ForwardedMessage(delivery.publication), now_ns)), out)
    return bytes(out)


def read_delivery(stored: StoredDelivery) -> Delivery:
    """Raises WireError."""
    reader = Reader(stored.data, _NO_ADDRESSES)
    qos, retain, identifiers, group, message = _DELIVERY.read(reader)
    if reader.pos != reader.stop or (group and topic_filter_fault(group)) or not qos:
        raise WireError("a message that no session could have")
    return Delivery(read_message(message, stored.at_ns).publication, _qos(qos), retain, tuple(identifiers), group)


def write_late(late: LateMessages, now_ns: int, out: bytearray) -> None:
    """What may come late for a session, and what of it has come."""
    _LATE_MESSAGES.write((late.claim, tuple(
        (name, source.claim, source.life, max(0, source.until_ns - now_ns), tuple(source.numbers.items()))
        for name, source in list(late.sources.items())[-MAX_SOURCES:]), tuple(late.had), tuple(late.of_groups)), out)


def read_late(reader: Reader, now_ns: int) -> LateMessages:
    """Raises WireError."""
    claim, sources, had, of_groups = _LATE_MESSAGES.read(reader)
    if len(sources) > MAX_SOURCES or max(len(had), len(of_groups)) > MAX_REMEMBERED:
        raise WireError("a session to which more comes late than may")
    return LateMessages(claim, {name: LateSource(of_claim, life, now_ns + left_ns, dict(map(tuple, numbers)))
                                for name, of_claim, life, left_ns, numbers in sources},
                        map(tuple, had), map(tuple, of_groups))


def write_will(will: Will, out: bytearray) -> None:
    """Behind what has it."""
    _WILL.write((will.topic, will.payload, will.qos, will.retain, property_bytes(will.properties)), out)


def read_will(reader: Reader) -> Will:
    """Raises WireError."""
    topic, payload, qos, retain, raw = _WILL.read(reader)
    if topic_name_fault(topic):
        raise WireError("a will to a topic that no client may publish to")
    body = PacketReader(raw, 0, len(raw), "will")
    try:
        properties = read_properties(body, PacketType.WILL, MAX_USER_PROPERTIES)
    except MqttError as error:
        raise WireError(f"properties of a will: {error}") from None
    return Will(topic, payload, _qos(qos), retain, properties)


# --- events -----------------------------------------------------------------------------------------------------------

@attrs.frozen
class CopyPart:
    """Changes of one session. is_whole: it begins here; is_last: all of turn `turn` is here with this part."""

    client_id: str
    begin: int
    turn: int
    is_whole: bool
    is_last: bool
    changes: bytes


def parts_of(
    client_id: str, begin: int, turn: int, is_whole: bool, changes: Iterable[bytes],
) -> Iterator[CopyPart]:
    """Parts of PART_BYTES or a little more."""
    size, batch = 0, list[bytes]()
    for each in changes:
        if size >= PART_BYTES:
            yield CopyPart(client_id, begin, turn, is_whole, False, b"".join(batch))
            size, batch, is_whole = 0, [], False
        batch.append(each)
        size += len(each)
    yield CopyPart(client_id, begin, turn, is_whole, True, b"".join(batch))


def number_bytes(number: int) -> bytes:
    """Of a COPY, in front of its parts."""
    return number.to_bytes(8, "big")


def part_bytes(part: CopyPart) -> bytes:
    """A part; several make the rest of a COPY."""
    out = bytearray()
    _PART.write((part.client_id, part.begin, part.turn, part.is_whole, part.is_last, part.changes), out)
    return bytes(out)


def read_parts(body: bytes) -> tuple[int, list[CopyPart]]:
    """(number, parts). Raises WireError."""
    reader, found = Reader(body, _NO_ADDRESSES), []
    number = U64.read(reader)
    while reader.pos < reader.stop:
        found.append(CopyPart(*_PART.read(reader)))
    return number, found


@attrs.frozen(order=True)
class CopyRank:
    """Which of several copies is the best: is_owners: made by the node that has ended itself; begin, turn: of it."""

    is_owners: int
    begin: int
    turn: int


def here_body(owner: str, is_last: bool, copies: Sequence[tuple[str, CopyRank]]) -> bytes:
    """The body of a COPIES_HERE: the copies that this node has of sessions of a node that has ended; is_last: no more
    follow."""
    out = bytearray()
    _HERE.write((owner, is_last, tuple((client_id, rank.is_owners, rank.begin, rank.turn)
                                       for client_id, rank in copies)), out)
    return bytes(out)


def read_here(body: bytes) -> tuple[str, bool, dict[str, CopyRank]]:
    """(owner, is_last, client id -> rank). Raises WireError."""
    owner, is_last, copies = _whole(_HERE, body)
    return owner, is_last, {client_id: CopyRank(*rank) for client_id, *rank in copies}


def wanted_body(owner: str, client_id: str, claim: int) -> bytes:
    """The body of a COPY_WANTED: this node claims a session of a node that has ended."""
    out = bytearray()
    _WANTED.write((owner, client_id, claim), out)
    return bytes(out)


def read_wanted(body: bytes) -> tuple[str, str, int]:
    """(owner, client id, claim). Raises WireError."""
    owner, client_id, claim = _whole(_WANTED, body)
    return owner, client_id, claim


def text_body(text: str, number: int) -> bytes:
    """The body of COPIES_VOID (client id, 0) and ORPHANS_PASSED (name, number)."""
    out = bytearray()
    TEXT.write(text, out)
    U64.write(number, out)
    return bytes(out)


def read_text(body: bytes) -> tuple[str, int]:
    """Raises WireError."""
    text, number = _whole(record(TEXT, U64), body)
    return text, number


def _whole(codec: object, body: bytes) -> tuple:         # type: ignore[type-arg]
    reader = Reader(body, _NO_ADDRESSES)
    values: tuple = codec.read(reader)                   # type: ignore[attr-defined, type-arg]
    if reader.pos != reader.stop:
        raise WireError("an event is followed by more")
    return values
