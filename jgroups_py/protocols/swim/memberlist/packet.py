"""memberlist's datagrams: messages in envelopes, inside out: many in one, compressed, with a checksum, encrypted.

    compound:   7, u8 number of messages, their u16 lengths, the messages
    compressed: 9, msgpack {Algo: 0, Buf: LZW of a message or compound}
    checked:   12, u32 CRC-32 of what follows, a message, compound or compressed
    encrypted:  see sealing.py, around all that

Envelopes may nest. Bounded are the depth, and the bytes and messages that one datagram unpacks to, over all levels: a
compound of compounds, or of compressed messages that expand, could otherwise keep a processor busy with few datagrams.
"""
from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final
from zlib import crc32

from jgroups_py.model.batch import Header
from jgroups_py.model.errors import WireError
from jgroups_py.protocols.swim.memberlist.body import Body, packed, unpacked
from jgroups_py.protocols.swim.memberlist.lzw import compressed, decompressed
from jgroups_py.protocols.swim.memberlist.messages import (
    CHECKED,
    COMPOUND,
    COMPRESSED,
    LABELLED,
    CodecContext,
    read_message,
)

LZW: Final = 0                              # the only algorithm defined
MOST_BYTES: Final = 0xFFFF                  # of a datagram, compressed or not
MOST_MESSAGES: Final = 0xFF                 # in one compound
DEEPEST: Final = 4                          # envelopes around a message
LARGEST_PACKET: Final = DEEPEST * MOST_BYTES       # of all envelopes of a datagram and their contents
FULLEST_PACKET: Final = DEEPEST * MOST_MESSAGES    # envelopes and messages; no library nests compounds
COMPOUND_BYTES: Final = 2                   # of a compound, and
ENTRY_BYTES: Final = 2                      # of each message in it, besides the message
CHECK_BYTES: Final = 5
_CHECK = struct.Struct(">BI")


class Budget:
    """The bytes and items that a datagram may still unpack to."""

    __slots__ = ("items", "nbytes")

    def __init__(self) -> None:
        self.nbytes = LARGEST_PACKET
        self.items = FULLEST_PACKET

    def take(self, data: bytes) -> None:
        """Count one more envelope or message. Raises WireError when the budget is used up."""
        self.nbytes -= len(data)
        self.items -= 1
        if self.nbytes < 0 or self.items < 0:
            raise WireError(f"a datagram that unpacks to more than {LARGEST_PACKET} bytes or {FULLEST_PACKET} messages")


def read_packet(data: bytes, context: CodecContext) -> list[Header]:
    """The messages of a datagram, in order. Raises WireError."""
    plain = data if context.keyring is None else context.keyring.opened(data)
    return list(_opened(plain, context, DEEPEST, Budget()))


def _opened(data: bytes, context: CodecContext, deepest: int, budget: Budget) -> Iterator[Header]:
    budget.take(data)
    kind = data[0] if data else -1
    if kind not in (CHECKED, COMPRESSED, COMPOUND):
        if kind == LABELLED:
            raise WireError("a packet with a label; labels are not supported")
        yield read_message(data, context)
        return
    if not deepest:
        raise WireError("too many envelopes")
    if kind == COMPOUND:
        for message in _messages(data):
            yield from _opened(message, context, deepest - 1, budget)
    else:
        inside = unchecked(data) if kind == CHECKED else inflated(unpacked(data[1:]), min(MOST_BYTES, budget.nbytes))
        yield from _opened(inside, context, deepest - 1, budget)


def unchecked(data: bytes) -> bytes:
    """The contents of a checked message. Raises WireError."""
    if len(data) < CHECK_BYTES:
        raise WireError("truncated")
    inside = data[CHECK_BYTES:]
    if _CHECK.unpack_from(data)[1] != crc32(inside):
        raise WireError("wrong checksum")
    return inside


def inflated(body: Body, limit: int) -> bytes:
    """The contents of a compressed message. Raises WireError."""
    if body.number("Algo") != LZW:
        raise WireError(f"compressed with algorithm {body.number('Algo')}; only {LZW} (LZW) is supported")
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
    """The messages in order, in packets of up to `room` bytes; a message larger than that has a packet to itself."""
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
