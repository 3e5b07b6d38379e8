"""What brokers of a federation send each other, byte by byte; design/mqtt.md has the table.

A frame is the version, a byte for its kind, and its fields by the codecs of the wire format (big-endian, bounded
readers). Frame PeerEvents carries the events of one peer's stream, each behind its kind and length, so that a reader
may pass over what it does not know. Any bytes give a value or a WireError: topics and filters that clients could not
have sent, QoS 3 and numbers beyond all counting are errors here, once.
"""
from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeVar, dataclass_transform

import attrs

from jgroups_py.blocks.mqtt.broker.publication import NEVER, Publication
from jgroups_py.blocks.mqtt.codec.packets import NO_PROPERTIES, MqttError, PacketType, Properties
from jgroups_py.blocks.mqtt.codec.properties import property_bytes, read_properties
from jgroups_py.blocks.mqtt.codec.text import SHARED, PacketReader, topic_filter_fault, topic_name_fault
from jgroups_py.model.errors import WireError
from jgroups_py.wire import field
from jgroups_py.wire.codec import BOOL, BYTES, TEXT, U8, U64, Codec, Interner, Reader, record, sequence
from jgroups_py.wire.kinds import KindMessage, Kinds, encode_message

VERSION = 1
MAX_USER_PROPERTIES = 1_000
MAX_GROUP_MEMBERS = 1_000_000_000
NS_PER_MS = 1_000_000
_NO_ADDRESSES = Interner(0)
_EVENT = struct.Struct(">BI")
_MESSAGE = struct.Struct(">BQQHHI")
_MESSAGE_EVENT = struct.Struct(">BIBQQHHI")
_HEAD_BYTES, _UNPACK_MESSAGE = _MESSAGE.size, _MESSAGE.unpack_from
EVENT_HEAD_BYTES, _UNPACK_EVENT = _EVENT.size, _EVENT.unpack_from
MAX_TOPICS = 4096
MAX_TOPIC_BYTES = 256
"""Topics of messages that are remembered, and the bytes of the longest."""
_U64 = struct.Struct(">Q")
MAX_NUMBER = 1 << 62


# --- filters and targets ----------------------------------------------------------------------------------------------

def _write_filter(value: str, out: bytearray) -> None:
    TEXT.write(value, out)


def _read_filter(reader: Reader) -> str:
    text = TEXT.read(reader)
    if topic_filter_fault(text):
        raise WireError("a topic filter that no client may have")
    return text


FILTER = Codec(_write_filter, _read_filter, 2)
"""A filter as subscribed, with $share/GROUP/ if it is shared."""


@attrs.frozen
class GroupCount:
    """How many members of a shared subscription a node has. Of a plain filter (1, 1)."""

    members: int
    online: int


ONE = GroupCount(1, 1)
_COUNT = record(FILTER, U64, U64)


def _write_delta(value: tuple[str, GroupCount], out: bytearray) -> None:
    _COUNT.write((value[0], value[1].members, value[1].online), out)


def _read_delta(reader: Reader) -> tuple[str, GroupCount]:
    filter, members, online = _COUNT.read(reader)
    if online > members or members > MAX_GROUP_MEMBERS:
        raise WireError("more members of a shared subscription than there can be")
    return filter, GroupCount(members, online)


DELTAS = sequence(Codec(_write_delta, _read_delta, 18))
"""Filters with the numbers that hold now; no members: the filter has ended."""

Target = tuple[str, str]
"""(group, filter) of a shared subscription that is served at the receiver."""


# --- frames -----------------------------------------------------------------------------------------------------------

class PeerFrame(KindMessage):
    """Base of all frames."""


F = TypeVar("F", bound=PeerFrame)
FRAMES: Kinds[PeerFrame] = Kinds("a frame")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frame(kind: int) -> Callable[[type[F]], type[F]]:
    """Class decorator: a frame, known by this number."""
    return FRAMES.add(kind)


@frame(1)
class PeerHello(PeerFrame):
    """Begins or resumes the sender's stream to the receiver. session: of this stream; first: the oldest event that the
    sender still has; incarnation: of the sender."""

    incarnation: int = field(U64)
    session: int = field(U64)
    first: int = field(U64)


@frame(2)
class PeerWelcome(PeerFrame):
    """Answers PeerHello: the event of stream `session` that is to come next. is_known: its sender had that session
    before."""

    incarnation: int = field(U64)
    session: int = field(U64)
    is_known: bool = field(BOOL)
    next: int = field(U64)


@frame(3)
class PeerEvents(PeerFrame):
    """Events `first`, `first` + 1, ... of the sender's stream `session`."""

    session: int = field(U64)
    first: int = field(U64)
    events: bytes = field(BYTES)


@frame(4)
class PeerAck(PeerFrame):
    """The sender of this has all events of stream `session` below `next`."""

    session: int = field(U64)
    next: int = field(U64)


@frame(5)
class InterestChange(PeerFrame):
    """To all peers: changes of the sender's filters. number: how many there have been in its life, with these."""

    incarnation: int = field(U64)
    number: int = field(U64)
    deltas: tuple[tuple[str, GroupCount], ...] = field(DELTAS)


@frame(6)
class InterestTree(PeerFrame):
    """All filters of the sender after change `number`."""

    incarnation: int = field(U64)
    number: int = field(U64)
    filters: tuple[tuple[str, GroupCount], ...] = field(DELTAS)


@frame(7)
class InterestDigest(PeerFrame):
    """To all peers, now and then: how many changes of the sender's filters there have been."""

    incarnation: int = field(U64)
    number: int = field(U64)


@frame(8)
class WantTree(PeerFrame):
    """Asks for an InterestTree."""


@frame(9)
class TableExchange(PeerFrame):
    """What copies of a shared table exchange (blocks/anti_entropy). table: TABLES."""

    table: int = field(U8)
    message: bytes = field(BYTES)


RETAINED, OWNERS = 1, 2
"""Tables: topic -> retained message; client id -> the node that has its session."""
GIVEN, TAKEN = 3, 4
"""Of RETAINED, what the sender's site gives to the receiver's, and what that has of it (site_tables.py)."""


@frame(10)
class RouteFence(PeerFrame):
    """To all peers, behind all changes of the sender's filters: each puts FENCE_PASSED into its stream to `holder`."""

    holder: str = field(TEXT)
    client_id: str = field(TEXT)
    claim: int = field(U64)


# --- between sites: multicast by RELAY, but for TableExchange, which also goes to one member --------------------------

_SITE_TARGETS = sequence(record(TEXT, FILTER))
_RULES = sequence(FILTER)


@frame(11)
class SiteMessage(PeerFrame):
    """A publication, for all sites. expires_ns: by the wall clock, since RELAY may hold it long; 0: never. body: as of
    an event. targets: (site, filter with $share) of the shared subscriptions that are served there."""

    expires_ns: int = field(U64)
    body: bytes = field(BYTES)
    targets: tuple[tuple[str, str], ...] = field(_SITE_TARGETS)


@frame(12)
class SiteFilters(PeerFrame):
    """What the brokers of the sender's site want together. epoch: of the view whose coordinator says so; is_whole: all
    filters after change `number` of the coordinator's life, else the changes up to it. lets_in, lets_out: if it is
    whole, topics_in and topics_out of that site."""

    epoch: int = field(U64)
    incarnation: int = field(U64)
    number: int = field(U64)
    is_whole: bool = field(BOOL)
    deltas: tuple[tuple[str, GroupCount], ...] = field(DELTAS)
    lets_in: tuple[str, ...] = field(_RULES, default=())
    lets_out: tuple[str, ...] = field(_RULES, default=())


@frame(13)
class SiteDigest(PeerFrame):
    """Now and then: so many changes of the filters of the sender's site."""

    epoch: int = field(U64)
    incarnation: int = field(U64)
    number: int = field(U64)


@frame(14)
class WantSiteFilters(PeerFrame):
    """The coordinator of `site` is to send all filters of it."""

    site: str = field(TEXT)


@frame(15)
class SiteServed(PeerFrame):
    """To the own site: (origin, number) of messages of other sites whose shared subscriptions were served here."""

    messages: tuple[tuple[int, int], ...] = field(sequence(record(U64, U64)))


@frame(16)
class OrphanFence(PeerFrame):
    """To all peers, behind all changes of the sender's filters: each puts what it still has for `name`, a node that has
    ended, into its stream to the sender, and then ORPHANS_PASSED."""

    name: str = field(TEXT)
    number: int = field(U64)


@frame(17)
class CopyAck(PeerFrame):
    """The sender of this has all events COPY of the receiver up to this number. PeerAck says so too, but waits for the
    copies of the sender's own sessions, so two nodes would wait for each other."""

    number: int = field(U64)


@frame(18)
class PeerReceived(PeerFrame):
    """All events of stream `session` below `next` have come. Those that are not acknowledged yet leave the window of
    their sender, which keeps them."""

    session: int = field(U64)
    next: int = field(U64)


def encode_frame(item: PeerFrame) -> bytes:
    """As bytes."""
    return encode_message(item, bytes((VERSION,)))


def decode_frame(data: bytes) -> PeerFrame:
    """The frame that the bytes encode.

    Raises:
        WireError: they are no frame of this version.
    """
    if len(data) < 2 or data[0] != VERSION:
        raise WireError("no frame of this version")
    return FRAMES.decode(data, _NO_ADDRESSES, 1)


def known_frames() -> list[type[PeerFrame]]:
    """All kinds, in order."""
    return FRAMES.known()


# --- events -----------------------------------------------------------------------------------------------------------

class EventKind:
    """The kinds of events in a stream."""

    MESSAGE = 1
    FENCE_PASSED = 2
    OFFER = 3
    QUEUED = 4
    MOVED = 5
    COPY = 6
    COPIES_VOID = 7
    COPIES_HERE = 8
    COPY_WANTED = 9
    ORPHANED = 10
    ORPHANS_PASSED = 11
    FOLLOWED = 12
    ORPHANED_QUEUED = 13
    ALL_PASSED = 14


def event_bytes(kind: int, body: bytes) -> bytes:
    """An event as it stands in PeerEvents."""
    return _EVENT.pack(kind, len(body)) + body


def split_events(data: bytes) -> list[tuple[int, int, int]]:
    """(kind, where its body begins and where it ends) of the events of a PeerEvents.

    Raises:
        WireError: a length is beyond the end.
    """
    found, at, stop = [], 0, len(data)
    while at < stop:
        begin = at + EVENT_HEAD_BYTES
        if begin > stop:
            raise WireError("truncated")
        kind, size = _UNPACK_EVENT(data, at)
        at = begin + size
        if at > stop:
            raise WireError("truncated")
        found.append((kind, begin, at))
    return found


QOS, RETAIN, HAS_TARGETS, HAS_EXPIRY, HAS_PROPERTIES, SHARED_ONLY, IS_MOVED = 3, 4, 8, 16, 32, 64, 128
_PLAIN = QOS | RETAIN                                    # the lowest bits
_TARGETS = sequence(record(TEXT, TEXT))


@attrs.define(eq=False, weakref_slot=False)
class ForwardedMessage:
    """A publication at a peer. targets: of shared subscriptions, those that are served there; shared_only: plain
    subscribers there have had it; is_moved: it was at another node first, which had no member any more."""

    publication: Publication
    targets: tuple[Target, ...] = ()
    shared_only: bool = False
    is_moved: bool = False


def message_body(item: ForwardedMessage, now_ns: int) -> bytes:
    """As the body of an event. The time to live is what is left now."""
    publication = item.publication
    topic, publisher = publication.topic.encode(), publication.publisher.encode()
    flags = (publication.qos | (RETAIN if publication.wants_retain else 0)
             | (SHARED_ONLY if item.shared_only else 0) | (IS_MOVED if item.is_moved else 0))
    tail = b""
    if publication.expires_ns != NEVER:
        flags |= HAS_EXPIRY
        tail = _U64.pack(max(0, publication.expires_ns - now_ns) // NS_PER_MS)
    if publication.properties is not NO_PROPERTIES:
        flags |= HAS_PROPERTIES
        tail += property_bytes(publication.properties)
    if item.targets:
        flags |= HAS_TARGETS
        out = bytearray()
        _TARGETS.write(item.targets, out)
        tail += out
    return b"".join((_MESSAGE.pack(flags, publication.origin, publication.number, len(topic), len(publisher),
                                   len(publication.payload)),
                     topic, publisher, publication.payload, tail))


def message_event_bytes(item: ForwardedMessage, now_ns: int) -> bytes:
    """A message as an event, with kind and length."""
    publication = item.publication
    if (item.targets or item.shared_only or item.is_moved or publication.expires_ns != NEVER
            or publication.properties is not NO_PROPERTIES):
        return event_bytes(EventKind.MESSAGE, message_body(item, now_ns))
    # The common case, written in one go.
    topic, publisher, payload = publication.topic.encode(), publication.publisher.encode(), publication.payload
    topic_size, publisher_size, payload_size = len(topic), len(publisher), len(payload)
    return _MESSAGE_EVENT.pack(
        EventKind.MESSAGE, _HEAD_BYTES + topic_size + publisher_size + payload_size,
        publication.qos | RETAIN if publication.wants_retain else publication.qos, publication.origin,
        publication.number, topic_size, publisher_size, payload_size) + topic + publisher + payload


class KnownTopics(dict[bytes, str]):
    """Topics that came before, by their bytes: they need no check again."""

    def __missing__(self, raw: bytes) -> str:
        try:
            topic = raw.decode()
        except UnicodeDecodeError:
            raise WireError("text is not UTF-8") from None
        if topic_name_fault(topic):
            raise WireError("a topic that no client may publish to")
        if len(raw) <= MAX_TOPIC_BYTES:
            if len(self) >= MAX_TOPICS:
                self.clear()
            self[raw] = topic
        return topic


def read_plain_message(data: bytes, begin: int, end: int, topics: KnownTopics) -> Publication | None:
    """The publication of a message without properties, expiry, targets and the like, which most messages are; its body
    is data[begin:end]. None: it has some of these, or makes no sense."""
    topic_at = begin + _HEAD_BYTES
    if topic_at > end:
        return None
    flags, origin, number, topic_size, publisher_size, payload_size = _UNPACK_MESSAGE(data, begin)
    publisher_at = topic_at + topic_size
    payload_at = publisher_at + publisher_size
    if flags > _PLAIN or flags & QOS == QOS or payload_at + payload_size != end or (
            number >= MAX_NUMBER or origin >= MAX_NUMBER):
        return None
    try:
        publisher = data[publisher_at:payload_at].decode()
    except UnicodeDecodeError:
        return None
    return Publication(topics[data[topic_at:publisher_at]], data[payload_at:end], flags & QOS, flags > QOS,
                       NO_PROPERTIES, publisher, NEVER, origin, number)


def read_message(body: bytes, now_ns: int, topics: KnownTopics | None = None) -> ForwardedMessage:
    """Raises WireError. topics: those that were read before."""
    if len(body) < _MESSAGE.size:
        raise WireError("truncated")
    flags, origin, number, topic_size, publisher_size, payload_size = _MESSAGE.unpack_from(body)
    at = _MESSAGE.size
    payload_at = at + topic_size + publisher_size
    end = payload_at + payload_size
    if end > len(body) or flags & QOS == QOS or number >= MAX_NUMBER or origin >= MAX_NUMBER:
        raise WireError("a message that is too short, or of QoS 3")
    topic = (KnownTopics() if topics is None else topics)[body[at:at + topic_size]]
    try:
        publisher = body[at + topic_size:payload_at].decode()
    except UnicodeDecodeError:
        raise WireError("text is not UTF-8") from None
    expires_ns, properties = NEVER, NO_PROPERTIES
    targets: tuple[Target, ...] = ()
    if flags & HAS_EXPIRY:
        if end + 8 > len(body):
            raise WireError("truncated")
        left_ms = _U64.unpack_from(body, end)[0]
        if left_ms >= MAX_NUMBER // NS_PER_MS:
            raise WireError("a time to live that is too long")
        expires_ns = max(1, now_ns + left_ms * NS_PER_MS)
        end += 8
    if flags & HAS_PROPERTIES:
        properties, end = _read_properties(body, end)
    if flags & HAS_TARGETS:
        targets, end = _read_targets(body, end)
    if end != len(body):
        raise WireError("a message is followed by more")
    publication = Publication(topic, body[payload_at:payload_at + payload_size], flags & QOS, bool(flags & RETAIN),
                              properties, publisher, expires_ns)
    publication.origin, publication.number = origin, number
    return ForwardedMessage(publication, targets, bool(flags & SHARED_ONLY), bool(flags & IS_MOVED))


def _read_properties(body: bytes, at: int) -> tuple[Properties, int]:
    reader = PacketReader(body, at, len(body), "message")
    try:
        properties = read_properties(reader, PacketType.PUBLISH, MAX_USER_PROPERTIES)
    except MqttError as error:
        raise WireError(f"properties of a message: {error}") from None
    if properties.topic_alias is not None or properties.subscription_identifiers:
        raise WireError("properties that are one client's")
    return properties, reader.at


def _read_targets(body: bytes, at: int) -> tuple[tuple[Target, ...], int]:
    reader = Reader(body, _NO_ADDRESSES, at)
    targets: tuple[Target, ...] = _TARGETS.read(reader)
    for group, filter in targets:
        if topic_filter_fault(f"{SHARED}{group}/{filter}"):
            raise WireError("a shared subscription that no client may have")
    return targets, reader.pos

