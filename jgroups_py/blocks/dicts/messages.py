"""Messages between the copies of a ReplicatedDict, and their encoding. All but DictSnapshot are ordered multicasts."""
from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeVar, dataclass_transform

from jgroups_py.model.address import Address
from jgroups_py.wire import field
from jgroups_py.wire.codec import ADDRESS, BOOL, BYTES, NUMBER_LIMIT, U8, U64, optional, record, sequence
from jgroups_py.wire.kinds import KindMessage, Kinds, encode_message

PUT, DELETE, SET_DEFAULT, POP, INCREMENT, COMPARE = range(6)
"""Verbs of operations. POP is a DELETE whose answer is the value; INCREMENT and COMPARE take `argument`."""

OPERATION = record(U8, BYTES, BYTES, optional(BYTES), U64)
"""(verb, key, value, argument, time to live in ms; 0: for ever)."""

ENTRY = record(BYTES, BYTES, ADDRESS, U64, U64)
"""(key, value, its writer, its version, time to live that is left in ms; 0: for ever)."""

WRITTEN = record(ADDRESS, U64)
"""(a writer, the number of its last write in this past)."""

UNTOLD = record(ADDRESS, BYTES, U64, U64, BOOL)
"""A change that a merge took back while its writer may have been away: (the writer, the key, after, until: of numbers
of its writes, after < number <= until; only its increments: another past has the same value)."""

Operation = tuple[int, bytes, bytes, bytes | None, int]
PackedEntry = tuple[bytes, bytes, Address, int, int]
PackedUntold = tuple[Address, bytes, int, int, bool]


class DictMessage(KindMessage):
    """Base of all messages. view: raw id of the view in which it was sent; it counts in no other."""


M = TypeVar("M", bound=DictMessage)
MESSAGES: Kinds[DictMessage] = Kinds("a message about a dict")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def message(kind: int) -> Callable[[type[M]], type[M]]:
    """Class decorator: a message, encoded with this number."""
    return MESSAGES.add(kind)


def encode(item: DictMessage) -> bytes:
    """A message as bytes."""
    return encode_message(item)


@message(1)
class DictWrite(DictMessage):
    """Carry out all of these operations at one place; number: chosen by the writer, for the answer."""

    view: bytes = field(BYTES)
    number: int = field(U64)
    operations: tuple[Operation, ...] = field(sequence(OPERATION))


# Most writes have one operation without an argument. These read and write them in one go, in the same bytes.
_HEAD = struct.Struct(">BI")
_ONE = struct.Struct(">QIBI")
"""number, count, verb, length of the key."""
_LENGTH, _TTL = struct.Struct(">I"), struct.Struct(">BQ")


def write_head(view: bytes) -> bytes:
    """What each DictWrite of a view begins with."""
    return _HEAD.pack(DictWrite.kind, len(view)) + view


def one_as_bytes(head: bytes, number: int, operation: Operation) -> bytes:
    """A DictWrite with one operation that has no argument. head: of `write_head`."""
    verb, key, value, _, ttl_ms = operation
    return b"".join((head, _ONE.pack(number, 1, verb, len(key)), key, _LENGTH.pack(len(value)), value,
                     _TTL.pack(0, ttl_ms)))


def read_one(head: bytes, data: bytes) -> tuple[int, Operation] | None:
    """Number and operation of such a write of this view; None: it is something else, or malformed."""
    size, at = len(data), len(head)
    if not data.startswith(head) or size < at + _ONE.size + _LENGTH.size + _TTL.size:
        return None
    number, count, verb, key_size = _ONE.unpack_from(data, at)
    key_at = at + _ONE.size
    value_at = key_at + key_size + _LENGTH.size
    if count != 1 or value_at > size:
        return None
    end = value_at + _LENGTH.unpack_from(data, value_at - _LENGTH.size)[0]
    if end + _TTL.size != size:
        return None
    has_argument, ttl_ms = _TTL.unpack_from(data, end)
    if has_argument or number >= NUMBER_LIMIT or ttl_ms >= NUMBER_LIMIT:
        return None
    return number, (verb, data[key_at:value_at - _LENGTH.size], data[value_at:end], None, ttl_ms)


@message(2)
class DictClaim(DictMessage):
    """In a new view: the history that the sender's copy has.

    base: of its copy (two copies with one base are equal); empty: it has no copy. primary: its part may write; applied:
    writes in it; gone: as coordinator, members of the last view that have left on request.
    """

    view: bytes = field(BYTES)
    base: bytes = field(BYTES)
    primary: bool = field(BOOL)
    applied: int = field(U64)
    gone: tuple[Address, ...] = field(sequence(ADDRESS))


@message(3)
class DictExpiry(DictMessage):
    """From the coordinator: these entries expire, if they still have these versions."""

    view: bytes = field(BYTES)
    entries: tuple[tuple[bytes, int], ...] = field(sequence(record(BYTES, U64)))


@message(4)
class DictSnapshot(DictMessage):
    """To a member without a copy: the copy, as it was when the claims of `view` were complete."""

    view: bytes = field(BYTES)
    applied: int = field(U64)
    primary: bool = field(BOOL)
    electorate: tuple[Address, ...] = field(sequence(ADDRESS))
    entries: tuple[PackedEntry, ...] = field(sequence(ENTRY))
    written: tuple[tuple[Address, int], ...] = field(sequence(WRITTEN))
    untold: tuple[PackedUntold, ...] = field(sequence(UNTOLD))


@message(5)
class DictOffer(DictMessage):
    """After a merge: the entries of a part that was not chosen, from its first member, to be merged."""

    view: bytes = field(BYTES)
    entries: tuple[PackedEntry, ...] = field(sequence(ENTRY))
    written: tuple[tuple[Address, int], ...] = field(sequence(WRITTEN))
    untold: tuple[PackedUntold, ...] = field(sequence(UNTOLD))
