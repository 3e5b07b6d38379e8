"""Frames of InfluxDB's gossip ("the original"): protobuf messages, one Frame to a datagram, coded by hand here.

    Frame        1 identity: 16 bytes   2 messages: repeated FrameMessage
    FrameMessage one of  1 Ping   2 Pong   3 UserPayload
    Ping         1 interests: uint64
    Pong         1 peers: repeated Peer   2 interests: uint64
    Peer         1 identity: bytes   2 address: string, "ip:port"   3 interests: uint64
    UserPayload  1 payload: bytes   2 topic: uint64, one bit

Interests are 64 bits, so topics by name do not fit: a broadcast about one cannot be written (ValueError), and of an
interest only the numbered topics are. Unknown fields are skipped, as protobuf requires; any other bytes are a
WireError. Checks against the classes that protobuf generates from this schema stand in tests/unit/protocols/pex.
"""
from __future__ import annotations

from collections.abc import Iterator

import attrs

from jgroups_py.model.address import ADDRESS_BYTES, Address, PhysicalAddress
from jgroups_py.model.errors import WireError
from jgroups_py.model.topics import Interest
from jgroups_py.wire.protobuf import bytes_field, bytes_in, fields, number_field, number_in
from jgroups_py.wire.topic_headers import from_bits, to_bits, topic_header

MAX_FRAME_BYTES = 10_240
USER_OVERHEAD_BYTES = 33             # of a frame with the largest payload; above topic 34 it takes up to 5 bytes more
MAX_USER_PAYLOAD_BYTES = MAX_FRAME_BYTES - USER_OVERHEAD_BYTES


@attrs.frozen
class InfluxPeer:
    """A peer as a Pong lists it."""

    identity: Address
    place: PhysicalAddress
    interest: Interest


@attrs.frozen
class InfluxPing:
    """Requests a Pong."""

    interest: Interest


@attrs.frozen
class InfluxPong:
    """The answer, with peers."""

    peers: tuple[InfluxPeer, ...]
    interest: Interest


@attrs.frozen
class InfluxPayload:
    """A broadcast. topic: a number from 0 to 63."""

    payload: bytes
    topic: int


InfluxMessage = InfluxPing | InfluxPong | InfluxPayload


@attrs.frozen
class InfluxFrame:
    """One datagram."""

    identity: Address
    messages: tuple[InfluxMessage, ...]


# --- writing ----------------------------------------------------------------------------------------------------------

def write_frame(frame: InfluxFrame) -> bytes:
    """The datagram.

    Raises:
        ValueError: it would exceed the original's largest frame, or has a topic that is not a number from 0 to 63.
    """
    messages = b"".join(bytes_field(2, _message(message)) for message in frame.messages)
    data = bytes_field(1, frame.identity.raw) + messages
    if len(data) > MAX_FRAME_BYTES:
        raise ValueError(f"a frame of {len(data)} bytes exceeds the {MAX_FRAME_BYTES} that the original reads")
    return data


def pongs(peers: tuple[InfluxPeer, ...], interest: Interest, identity: Address) -> Iterator[bytes]:
    """Pongs with all these peers, in as many datagrams as they need; at least one."""
    page: list[InfluxPeer] = []
    room = MAX_FRAME_BYTES // 2
    for peer in peers:
        if sum(len(bytes_field(1, _peer(one))) for one in (*page, peer)) > room:
            yield write_frame(InfluxFrame(identity, (InfluxPong(tuple(page), interest),)))
            page = []
        page.append(peer)
    yield write_frame(InfluxFrame(identity, (InfluxPong(tuple(page), interest),)))


def _message(message: InfluxMessage) -> bytes:
    match message:
        case InfluxPing(interest):
            return bytes_field(1, number_field(1, to_bits(interest)))
        case InfluxPong(peers, interest):
            listed = b"".join(bytes_field(1, _peer(peer)) for peer in peers)
            return bytes_field(2, listed + number_field(2, to_bits(interest)))
        case InfluxPayload(payload, topic):
            topic_header(topic)                          # raises ValueError for any other topic
            return bytes_field(3, (bytes_field(1, payload) if payload else b"") + number_field(2, 1 << topic))


def _peer(peer: InfluxPeer) -> bytes:
    host, port = peer.place
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return bytes_field(1, peer.identity.raw) + bytes_field(2, place.encode()) + number_field(3, to_bits(peer.interest))


# --- reading ----------------------------------------------------------------------------------------------------------

def read_frame(data: bytes) -> InfluxFrame:
    """The frame in a datagram.

    Raises:
        WireError: the bytes are not one.
    """
    identity, messages = b"", []
    for number, value in fields(data):
        if number == 1:
            identity = bytes_in(value)
        elif number == 2:
            message = _read_message(bytes_in(value))
            if message is not None:
                messages.append(message)
    return InfluxFrame(_identity(identity), tuple(messages))


def _identity(raw: bytes) -> Address:
    if len(raw) != ADDRESS_BYTES:
        raise WireError(f"an identity has {len(raw)} bytes, not {ADDRESS_BYTES}")
    return Address(raw)


def _read_message(data: bytes) -> InfluxMessage | None:
    """The last of the fields, as protobuf reads a oneof; None if there are only unknown ones."""
    found: InfluxMessage | None = None
    for number, value in fields(data):
        if number == 1:
            found = InfluxPing(from_bits(_last_number(bytes_in(value), 1)))
        elif number == 2:
            found = _read_pong(bytes_in(value))
        elif number == 3:
            found = _read_payload(bytes_in(value))
    return found


def _read_pong(data: bytes) -> InfluxPong:
    # One pass over the fields: a datagram has room for tens of thousands of tiny ones.
    peers, bits = [], 0
    for number, value in fields(data):
        if number == 1:
            peers.append(_read_peer(bytes_in(value)))
        elif number == 2:
            bits = number_in(value)
    return InfluxPong(tuple(peers), from_bits(bits))


def _read_payload(data: bytes) -> InfluxPayload:
    payload, bits = b"", 0
    for number, value in fields(data):
        if number == 1:
            payload = bytes_in(value)
        elif number == 2:
            bits = number_in(value)
    if bits.bit_count() != 1:
        raise WireError(f"a broadcast is about one topic, not {bits.bit_count()}")
    return InfluxPayload(payload, bits.bit_length() - 1)


def _read_peer(data: bytes) -> InfluxPeer:
    identity, place, bits = b"", b"", 0
    for number, value in fields(data):
        if number == 1:
            identity = bytes_in(value)
        elif number == 2:
            place = bytes_in(value)
        elif number == 3:
            bits = number_in(value)
    return InfluxPeer(_identity(identity), _place(place), from_bits(bits))


def _place(raw: bytes) -> PhysicalAddress:
    try:
        host, colon, port = raw.decode("ascii").rpartition(":")
        number = int(port) if port.isdigit() else -1
    except UnicodeDecodeError:
        raise WireError("a peer's address is not ASCII") from None
    if not colon or not host or not 0 < number < 1 << 16:
        raise WireError("a peer's address is not ip:port")
    return host.removeprefix("[").removesuffix("]"), number


def _last_number(data: bytes, wanted: int) -> int:
    found = 0
    for number, value in fields(data):
        if number == wanted:
            found = number_in(value)
    return found
