"""The original's frames: protobuf messages, one Frame to a datagram. Read and written by hand, without protobuf.

    Frame        1 identity: 16 bytes   2 messages: repeated FrameMessage
    FrameMessage one of  1 Ping   2 Pong   3 UserPayload
    Ping         1 interests: uint64
    Pong         1 peers: repeated Peer   2 interests: uint64
    Peer         1 identity: bytes   2 address: string, "ip:port"   3 interests: uint64
    UserPayload  1 payload: bytes   2 topic: uint64, one bit

Interests are 64 bits, so topics by name do not fit: a broadcast about one cannot be said (ValueError), and an interest
in names is told as the numbers in it. Unknown fields are skipped, as protobuf has it. Whoever reads gets WireError for
anything else. The checks against classes that protobuf makes of this schema stand in tests/unit/protocols/pex.
"""
from __future__ import annotations

from collections.abc import Iterator

import attrs

from jgroups_py.address import ADDRESS_BYTES, Address, PhysicalAddress
from jgroups_py.errors import WireError
from jgroups_py.topics import Interest, from_bits, to_bits, topic_header

MAX_FRAME_BYTES = 10_240
USER_OVERHEAD_BYTES = 33             # of a frame with the largest payload; above topic 34 it takes up to 5 bytes more
MAX_USER_PAYLOAD_BYTES = MAX_FRAME_BYTES - USER_OVERHEAD_BYTES
MAX_VARINT_BYTES = 10
MAX_FIELD = (1 << 29) - 1
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
FIXED_BYTES = {FIXED64: 8, FIXED32: 4}


@attrs.frozen
class InfluxPeer:
    """A peer as a Pong lists it."""

    identity: Address
    place: PhysicalAddress
    interest: Interest


@attrs.frozen
class InfluxPing:
    """Are you there?"""

    interest: Interest


@attrs.frozen
class InfluxPong:
    """I am, and so are these."""

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
        ValueError: it would exceed the original's largest frame, or has a topic that is no number from 0 to 63.
    """
    messages = b"".join(_field(2, _message(message)) for message in frame.messages)
    data = _field(1, frame.identity.raw) + messages
    if len(data) > MAX_FRAME_BYTES:
        raise ValueError(f"a frame of {len(data)} bytes exceeds the {MAX_FRAME_BYTES} that the original reads")
    return data


def pongs(peers: tuple[InfluxPeer, ...], interest: Interest, identity: Address) -> Iterator[bytes]:
    """As many datagrams as it takes to tell of all these peers; at least one."""
    page: list[InfluxPeer] = []
    room = MAX_FRAME_BYTES // 2
    for peer in peers:
        if sum(len(_field(1, _peer(one))) for one in (*page, peer)) > room:
            yield write_frame(InfluxFrame(identity, (InfluxPong(tuple(page), interest),)))
            page = []
        page.append(peer)
    yield write_frame(InfluxFrame(identity, (InfluxPong(tuple(page), interest),)))


def _message(message: InfluxMessage) -> bytes:
    match message:
        case InfluxPing(interest):
            return _field(1, _number(1, to_bits(interest)))
        case InfluxPong(peers, interest):
            return _field(2, b"".join(_field(1, _peer(peer)) for peer in peers) + _number(2, to_bits(interest)))
        case InfluxPayload(payload, topic):
            topic_header(topic)                          # says so if there is no such topic
            return _field(3, (_field(1, payload) if payload else b"") + _number(2, 1 << topic))


def _peer(peer: InfluxPeer) -> bytes:
    host, port = peer.place
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return _field(1, peer.identity.raw) + _field(2, place.encode()) + _number(3, to_bits(peer.interest))


def _field(number: int, body: bytes) -> bytes:
    return _varint(number << 3 | BYTES) + _varint(len(body)) + body


def _number(number: int, value: int) -> bytes:
    """A field that is left out when it is 0, as proto3 has it."""
    return _varint(number << 3 | VARINT) + _varint(value) if value else b""


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# --- reading ----------------------------------------------------------------------------------------------------------

def read_frame(data: bytes) -> InfluxFrame:
    """The frame in a datagram.

    Raises:
        WireError: it is none.
    """
    identity, messages = b"", []
    for number, value in _fields(data):
        if number == 1:
            identity = _bytes(value)
        elif number == 2:
            message = _read_message(_bytes(value))
            if message is not None:
                messages.append(message)
    return InfluxFrame(_identity(identity), tuple(messages))


def _identity(raw: bytes) -> Address:
    if len(raw) != ADDRESS_BYTES:
        raise WireError("an identity has 16 bytes")
    return Address(raw)


def _read_message(data: bytes) -> InfluxMessage | None:
    """The last of its fields, as protobuf reads a oneof; None: only unknown ones."""
    found: InfluxMessage | None = None
    for number, value in _fields(data):
        if number == 1:
            found = InfluxPing(from_bits(_last_number(_bytes(value), 1)))
        elif number == 2:
            found = _read_pong(_bytes(value))
        elif number == 3:
            found = _read_payload(_bytes(value))
    return found


def _read_pong(data: bytes) -> InfluxPong:
    # Fields are gone through once: a datagram has room for tens of thousands of tiny ones.
    peers, bits = [], 0
    for number, value in _fields(data):
        if number == 1:
            peers.append(_read_peer(_bytes(value)))
        elif number == 2:
            bits = _number_in(value)
    return InfluxPong(tuple(peers), from_bits(bits))


def _read_payload(data: bytes) -> InfluxPayload:
    payload, bits = b"", 0
    for number, value in _fields(data):
        if number == 1:
            payload = _bytes(value)
        elif number == 2:
            bits = _number_in(value)
    if bits.bit_count() != 1:
        raise WireError("a broadcast is about one topic")
    return InfluxPayload(payload, bits.bit_length() - 1)


def _read_peer(data: bytes) -> InfluxPeer:
    identity, place, bits = b"", b"", 0
    for number, value in _fields(data):
        if number == 1:
            identity = _bytes(value)
        elif number == 2:
            place = _bytes(value)
        elif number == 3:
            bits = _number_in(value)
    return InfluxPeer(_identity(identity), _place(place), from_bits(bits))


def _place(raw: bytes) -> PhysicalAddress:
    try:
        host, colon, port = raw.decode("ascii").rpartition(":")
        number = int(port) if port.isdigit() else -1
    except UnicodeDecodeError:
        raise WireError("a peer's address is not ASCII") from None
    if not colon or not host or not 0 < number < 1 << 16:
        raise WireError("a peer's address is no ip:port")
    return host.removeprefix("[").removesuffix("]"), number


def _last_number(data: bytes, wanted: int) -> int:
    found = 0
    for number, value in _fields(data):
        if number == wanted:
            found = _number_in(value)
    return found


def _number_in(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise WireError("a number has the wrong type")
    return value


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise WireError("a field has the wrong type")
    return value


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(number, value) of each field; of fields of fixed width, which the schema has none of, their bytes."""
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        number, kind = key >> 3, key & 7
        if not 0 < number <= MAX_FIELD:
            raise WireError("there is no such field")
        if kind == VARINT:
            value, at = _read_varint(data, at)
            yield number, value
            continue
        if kind == BYTES:
            length, at = _read_varint(data, at)
        elif kind in FIXED_BYTES:
            length = FIXED_BYTES[kind]
        else:
            raise WireError("a field of an unknown type")
        if at + length > len(data):
            raise WireError("truncated")
        yield number, data[at:at + length]
        at += length


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    if at < len(data) and data[at] < 0x80:               # most are one byte
        return data[at], at + 1
    value = 0
    for shift in range(MAX_VARINT_BYTES):
        if at >= len(data):
            raise WireError("truncated")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            if value >> 64:
                raise WireError("a number exceeds 64 bits")
            return value, at
    raise WireError("a number exceeds 64 bits")
