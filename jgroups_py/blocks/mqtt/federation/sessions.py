"""A session as bytes, for the node that it moves to: events OFFER, QUEUED and MOVED (handover.py).

What a node is sent is checked as what a client sends: filters, QoS and packet ids that no client could have are a
WireError.
"""
from __future__ import annotations

from collections.abc import Mapping

import attrs

from jgroups_py.blocks.mqtt.broker.publication import Publication
from jgroups_py.blocks.mqtt.broker.session import (
    MAX_PACKET_ID,
    NO_MESSAGE,
    ClientSession,
    Delivery,
    GrantedOptions,
    LateMessages,
)
from jgroups_py.blocks.mqtt.broker.subscription_tree import filter_matches, split_shared
from jgroups_py.blocks.mqtt.codec.packets import Will
from jgroups_py.blocks.mqtt.codec.text import topic_filter_fault
from jgroups_py.blocks.mqtt.federation.copy_bytes import read_late, read_will, write_late, write_will
from jgroups_py.blocks.mqtt.federation.wire import FILTER, ForwardedMessage, message_body, read_message
from jgroups_py.model.errors import WireError
from jgroups_py.wire.codec import BOOL, BYTES, TEXT, U8, U16, U32, U64, Interner, Reader, record, sequence

_NO_ADDRESSES = Interner(0)
_IDENTIFIERS = sequence(U32)
_SUBSCRIPTIONS = sequence(record(FILTER, U8, BOOL, BOOL, _IDENTIFIERS))
_PASSED = record(TEXT, U64)
_OFFER = record(TEXT, U64, U32, _SUBSCRIPTIONS)
_QUEUED = record(TEXT, U64, U8, U16, U8, BOOL, _IDENTIFIERS, TEXT, BYTES)
_MOVED = record(TEXT, U64, BOOL, BOOL, U16, sequence(U16), sequence(record(U64, U64)))
_FOLLOWED, _WITH_WILL = 1, 2
"""Bits of a byte behind a MOVED, unless it is 0. Behind the second the time and the will stand."""
_IN_QUEUE, _IN_FLIGHT, _RELEASED = range(3)


@attrs.frozen
class SessionOffer:
    """The subscriptions of a session that is to move, and how long it lives without a connection. last_id: the last
    packet id that it has used towards its client."""

    client_id: str
    claim: int
    expiry_s: int
    subscriptions: tuple[tuple[str, GrantedOptions], ...]
    last_id: int = 0

    def encode(self) -> bytes:
        """The body of an OFFER."""
        out = bytearray()
        _OFFER.write((self.client_id, self.claim, self.expiry_s, tuple(
            (filter, granted.qos, granted.no_local, granted.retain_as_published, granted.identifiers)
            for filter, granted in self.subscriptions)), out)
        if self.last_id:
            U16.write(self.last_id, out)
        return bytes(out)

    @staticmethod
    def decode(body: bytes) -> SessionOffer:
        """Raises WireError."""
        reader = Reader(body, _NO_ADDRESSES)
        client_id, claim, expiry_s, subscriptions = _OFFER.read(reader)
        last_id = U16.read(reader) if reader.pos < reader.stop else 0
        if reader.pos != reader.stop:
            raise WireError("an event is followed by more")
        found = tuple((filter, GrantedOptions(_qos(qos), no_local, retain, tuple(identifiers)))
                      for filter, qos, no_local, retain, identifiers in subscriptions)
        return SessionOffer(client_id, claim, expiry_s, found, last_id)


@attrs.frozen(eq=False)
class QueuedDelivery:
    """A message of a session that moves. packet_id 0: it is in the queue; else in flight under this id."""

    client_id: str
    claim: int
    packet_id: int
    delivery: Delivery

    def encode(self, now_ns: int) -> bytes:
        """The body of a QUEUED."""
        each, out = self.delivery, bytearray()
        stage = _RELEASED if each is NO_MESSAGE else _IN_FLIGHT if self.packet_id else _IN_QUEUE
        message = b"" if each is NO_MESSAGE else message_body(ForwardedMessage(each.publication), now_ns)
        _QUEUED.write((self.client_id, self.claim, stage, self.packet_id, each.qos, each.retain, each.identifiers,
                       each.group, message), out)
        return bytes(out)

    @staticmethod
    def decode(body: bytes, now_ns: int) -> QueuedDelivery:
        """Raises WireError."""
        client_id, claim, stage, packet_id, qos, retain, identifiers, group, message = _read(_QUEUED, body)
        if stage > _RELEASED or (stage == _IN_QUEUE) is not (packet_id == 0):
            raise WireError("a message neither queued nor in flight")
        if stage == _RELEASED:
            return QueuedDelivery(client_id, claim, packet_id, NO_MESSAGE)
        if group and topic_filter_fault(group):
            raise WireError("a shared subscription that no client may have")
        delivery = Delivery(read_message(message, now_ns).publication, _qos(qos), retain, tuple(identifiers), group)
        if packet_id and not qos:
            raise WireError("a message of QoS 0 in flight")
        return QueuedDelivery(client_id, claim, packet_id, delivery)


@attrs.frozen
class SessionMoved:
    """The end of a move. is_found: whether there was a session; is_redirected: it goes to yet another node;
    recorded: packet ids of QoS 2 of the client; seen: the highest number of each origin that the former node had, so
    which messages are in what it sent; is_followed: more may come behind this (handover.LeftEarly); will: that waits
    for its delay, will_ns: how much of that is left."""

    client_id: str
    claim: int
    is_found: bool
    is_redirected: bool = False
    last_id: int = 0
    recorded: tuple[int, ...] = ()
    seen: tuple[tuple[int, int], ...] = ()
    is_followed: bool = False
    will: Will | None = None
    will_ns: int = 0

    def encode(self) -> bytes:
        """The body of a MOVED."""
        out = bytearray()
        _MOVED.write((self.client_id, self.claim, self.is_found, self.is_redirected, self.last_id, self.recorded,
                      self.seen), out)
        flags = _FOLLOWED * self.is_followed | _WITH_WILL * (self.will is not None)
        if flags:
            out.append(flags)
        if self.will is not None:
            U64.write(max(0, self.will_ns), out)
            write_will(self.will, out)
        return bytes(out)

    @staticmethod
    def decode(body: bytes) -> SessionMoved:
        """Raises WireError."""
        reader = Reader(body, _NO_ADDRESSES)
        client_id, claim, is_found, is_redirected, last_id, recorded, seen = _MOVED.read(reader)
        flags, will, will_ns = 0, None, 0
        if reader.pos < reader.stop:
            flags = U8.read(reader)
            if not 0 < flags <= _FOLLOWED | _WITH_WILL:
                raise WireError("an event is followed by more")
        if flags & _WITH_WILL:
            will_ns, will = U64.read(reader), read_will(reader)
        if reader.pos != reader.stop:
            raise WireError("an event is followed by more")
        return SessionMoved(client_id, claim, is_found, is_redirected, last_id, tuple(recorded),
                            tuple(map(tuple, seen)), bool(flags & _FOLLOWED), will, will_ns)


def followed_body(client_id: str, late: LateMessages, now_ns: int) -> bytes:
    """The body of a FOLLOWED: what may come late for a session that moves, in front of its MOVED."""
    out = bytearray()
    TEXT.write(client_id, out)
    write_late(late, now_ns, out)
    return bytes(out)


def read_followed(body: bytes, now_ns: int) -> tuple[str, LateMessages]:
    """(client id, what may come late). Raises WireError."""
    reader = Reader(body, _NO_ADDRESSES)
    client_id, late = TEXT.read(reader), read_late(reader, now_ns)
    if reader.pos != reader.stop:
        raise WireError("an event is followed by more")
    return client_id, late


def passed_body(client_id: str, claim: int) -> bytes:
    """The body of a FENCE_PASSED."""
    out = bytearray()
    _PASSED.write((client_id, claim), out)
    return bytes(out)


def read_passed(body: bytes) -> tuple[str, int]:
    """(client id, claim). Raises WireError."""
    client_id, claim = _read(_PASSED, body)
    return client_id, claim


def deliveries_of(session: ClientSession, claim: int) -> list[QueuedDelivery]:
    """All that a session has for its client, in order."""
    client_id = session.client_id
    return [*(QueuedDelivery(client_id, claim, packet_id, each) for packet_id, each in session.in_flight.items()),
            *(QueuedDelivery(client_id, claim, 0, each) for each in session.queue)]


def delivery_for(
    client_id: str, publication: Publication, subscriptions: Mapping[str, GrantedOptions],
) -> Delivery | None:
    """A message for a session that is not here, by its plain subscriptions; None: none matches, or with QoS 0 alone."""
    found = [granted for filter, granted in subscriptions.items()
             if not split_shared(filter)[0] and filter_matches(filter, publication.topic)
             and not (granted.no_local and publication.publisher == client_id)]
    qos = min(publication.qos, max((each.qos for each in found), default=0))
    if not qos:
        return None
    return Delivery(publication, qos,
                    publication.wants_retain and any(each.retain_as_published for each in found),
                    tuple(identifier for each in found for identifier in each.identifiers))


def _read(codec: object, body: bytes) -> tuple:          # type: ignore[type-arg]
    reader = Reader(body, _NO_ADDRESSES)
    values: tuple = codec.read(reader)                   # type: ignore[attr-defined, type-arg]
    if reader.pos != reader.stop:
        raise WireError("an event is followed by more")
    return values


def _qos(value: int) -> int:
    if value > 2:
        raise WireError("QoS 3")
    return value


assert MAX_PACKET_ID == 0xFFFF, "packet ids are U16"
