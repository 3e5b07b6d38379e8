"""memberlist's datagrams: messages in envelopes, inside out: many in one, compressed, with a checksum, encrypted.

    compound:   7, u8 number of messages, their u16 lengths, the messages
    compressed: 9, msgpack {Algo: 0, Buf: LZW of a message or compound}
    checked:   12, u32 CRC-32 of what follows, a message, compound or compressed
    encrypted:  see sealing.py, around all that

Envelopes may nest; how deep is bounded, and how many bytes and messages one datagram may stand for in all, at all
levels: a compound of compounds, or of compressed messages that grow, would hold a processor with few datagrams.
"""
from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final
from zlib import crc32

from jgroups_py.batch import Header
from jgroups_py.errors import WireError
from jgroups_py.protocols.swim.memberlist.body import Body, packed, unpacked
from jgroups_py.protocols.swim.memberlist.lzw import compressed, decompressed
from jgroups_py.protocols.swim.memberlist.messages import (
    CHECKED,
    COMPOUND,
    COMPRESSED,
    LABELLED,
    Dialect,
    read_message,
)

LZW: Final = 0                              # the one algorithm there is
MOST_BYTES: Final = 0xFFFF                  # of a datagram, compressed or not
MOST_MESSAGES: Final = 0xFF                 # in one compound
DEEPEST: Final = 4                          # envelopes around a message
LARGEST_PACKET: Final = DEEPEST * MOST_BYTES       # of all envelopes of a datagram and what is in them
FULLEST_PACKET: Final = DEEPEST * MOST_MESSAGES    # envelopes and messages; nobody's library nests compounds
COMPOUND_BYTES: Final = 2                   # of a compound, and
ENTRY_BYTES: Final = 2                      # of each message in it, besides the message
CHECK_BYTES: Final = 5
_CHECK = struct.Struct(">BI")


class Budget:
    """What a datagram may still stand for."""

    __slots__ = ("items", "nbytes")

    def __init__(self) -> None:
        self.nbytes = LARGEST_PACKET
        self.items = FULLEST_PACKET

    def take(self, data: bytes) -> None:
        """One more envelope or message. Raises WireError."""
        self.nbytes -= len(data)
        self.items -= 1
        if self.nbytes < 0 or self.items < 0:
            raise WireError("a datagram that stands for too much")


def read_packet(data: bytes, dialect: Dialect) -> list[Header]:
    """The messages of a datagram, in order. Raises WireError."""
    plain = data if dialect.keyring is None else dialect.keyring.opened(data)
    return list(_opened(plain, dialect, DEEPEST, Budget()))


def _opened(data: bytes, dialect: Dialect, deepest: int, budget: Budget) -> Iterator[Header]:
    budget.take(data)
    kind = data[0] if data else -1
    if kind not in (CHECKED, COMPRESSED, COMPOUND):
        if kind == LABELLED:
            raise WireError("a packet with a label; labels are not spoken here")
        yield read_message(data, dialect)
        return
    if not deepest:
        raise WireError("too many envelopes")
    if kind == COMPOUND:
        for message in _messages(data):
            yield from _opened(message, dialect, deepest - 1, budget)
    else:
        inside = unchecked(data) if kind == CHECKED else inflated(unpacked(data[1:]), min(MOST_BYTES, budget.nbytes))
        yield from _opened(inside, dialect, deepest - 1, budget)


def unchecked(data: bytes) -> bytes:
    """What a checksum protects. Raises WireError."""
    if len(data) < CHECK_BYTES:
        raise WireError("truncated")
    inside = data[CHECK_BYTES:]
    if _CHECK.unpack_from(data)[1] != crc32(inside):
        raise WireError("wrong checksum")
    return inside


def inflated(body: Body, limit: int) -> bytes:
    """What a compressed message stands for. Raises WireError."""
    if body.number("Algo") != LZW:
        raise WireError(f"compressed in way {body.number('Algo')}")
    return decompressed(body.data("Buf"), limit)


def _messages(data: bytes) -> list[bytes]:
    """The messages of a compound."""
    if len(data) < COMPOUND_BYTES:
        raise WireError("truncated")
    number = data[1]
    at = COMPOUND_BYTES + number * ENTRY_BYTES
    if len(data) < at:
        raise WireError("truncated")
    messages = []
    for length in struct.unpack_from(f">{number}H", data, COMPOUND_BYTES):
        messages.append(data[at:at + length])
        at += length
    if len(data) != at:
        raise WireError("the lengths in a compound do not add up")
    return messages


def write_packet(messages: Sequence[bytes], *, compress: bool, check: bool) -> bytes:
    """One datagram with these messages; compressed if that makes it shorter."""
    data = messages[0] if len(messages) == 1 else _compound(messages)
    if compress:
        data = min(data, deflated(data), key=len)
    if check:
        data = _CHECK.pack(CHECKED, crc32(data)) + data
    return data


def _compound(messages: Sequence[bytes]) -> bytes:
    lengths = struct.pack(f">{len(messages)}H", *map(len, messages))
    return b"".join((bytes((COMPOUND, len(messages))), lengths, *messages))


def deflated(data: bytes) -> bytes:
    """`data` as a compressed message."""
    return bytes((COMPRESSED,)) + packed({"Algo": LZW, "Buf": compressed(data)})


def fitting(messages: Sequence[bytes], room: int) -> Iterator[list[bytes]]:
    """The messages in order, as many in one packet of `room` bytes as fit; one that does not fit at all comes alone."""
    taken: list[bytes] = []
    used = COMPOUND_BYTES
    for message in messages:
        if taken and (used + ENTRY_BYTES + len(message) > room or len(taken) == MOST_MESSAGES):
            yield taken
            taken, used = [], COMPOUND_BYTES
        taken.append(message)
        used += ENTRY_BYTES + len(message)
    if taken:
        yield taken
