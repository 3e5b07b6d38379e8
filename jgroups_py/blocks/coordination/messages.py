"""Commands, queries, results and notices of a coordination store, and their encoding.

A message is one byte for its kind and its fields. Commands are writes of a partition, queries are strong reads of it.
Every command of a session carries the number that its member gave it, `settled` (the member has the results of all
lower ones, or wants none), and `heard` (it knows the outcomes of its waits up to this number).
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, dataclass_transform

from jgroups_py.model.address import Address
from jgroups_py.wire import field
from jgroups_py.wire.codec import BOOL, BYTES, MEMBER, TEXT, U8, U32, U64, Codec, Interner, Reader, optional, sequence
from jgroups_py.wire.codec import record as record_of
from jgroups_py.wire.kinds import KindMessage, Kinds, encode_message

LOCK, SEMAPHORE, LEADER, BARRIER, QUEUE, OWNERS = range(6)
"""Spaces of names: what is waited for; of OWNERS, what is owned."""

SPACES = "lock", "semaphore", "leadership", "barrier", "queue", "set of partitions"
SET, COMPARE_AND_SET = range(2)
"""Verbs of WriteCell."""

INT_LIMIT = 1 << 63                        # counters are from -INT_LIMIT to INT_LIMIT - 1


def _write_int(value: int, out: bytearray) -> None:
    out += value.to_bytes(8, "big", signed=True)


def _read_int(reader: Reader) -> int:
    return int.from_bytes(reader.take(8), "big", signed=True)


I64 = Codec(_write_int, _read_int, 8)
OUTCOME = record_of(U64, U64, BYTES)
"""(place, number of the command that waited, result); see WaitEnded."""


class CoordinationMessage(KindMessage):
    """Base of all."""


M = TypeVar("M", bound=CoordinationMessage)
MESSAGES: Kinds[CoordinationMessage] = Kinds("a message of a coordination store")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def message(kind: int) -> Callable[[type[M]], type[M]]:
    """Class decorator: a message, encoded with this number."""
    return MESSAGES.add(kind)


def encode(item: CoordinationMessage) -> bytes:
    """A message as bytes."""
    return encode_message(item)


def decode(data: bytes, addresses: Interner | None = None) -> CoordinationMessage:
    """The message that the bytes encode.

    Raises:
        WireError: they encode no message.
    """
    return MESSAGES.decode(data, Interner() if addresses is None else addresses)


# --- commands: sessions -----------------------------------------------------------------------------------------------

@message(1)
class OpenSession(CoordinationMessage):
    """A session for `owner`. birth: of the store, the least number that it may give. Result: SessionOpened."""

    owner: Address = field(MEMBER)
    ttl_ms: int = field(U32)
    birth: int = field(U64)


@message(2)
class EndSession(CoordinationMessage):
    """From its member, which wants it no more; or from a leader: it has expired. Result: Carried."""

    session: int = field(U64)


# --- commands of a session --------------------------------------------------------------------------------------------

class SessionCommand(CoordinationMessage):
    """Base of those that count only in a session; see the module for the fields that all have."""

    session: int
    number: int
    settled: int
    heard: int


@message(3)
class Acquire(SessionCommand):
    """One of the `permits` of a name. Result: GrantResult, or Waits and an outcome; CommandRefused."""

    session: int = field(U64)
    number: int = field(U64)
    settled: int = field(U64)
    heard: int = field(U64)
    space: int = field(U8)
    name: str = field(TEXT)
    permits: int = field(U32)


@message(4)
class Release(SessionCommand):
    """Give back the grant `fence`, if the session has it; of a queue's item: back: it was not dealt with."""

    session: int = field(U64)
    number: int = field(U64)
    settled: int = field(U64)
    heard: int = field(U64)
    fence: int = field(U64)
    back: bool = field(BOOL)


@message(5)
class Withdraw(SessionCommand):
    """The command `wait` of this session does not wait any more. Result: Withdrawn, or the outcome that it had."""

    session: int = field(U64)
    number: int = field(U64)
    settled: int = field(U64)
    heard: int = field(U64)
    wait: int = field(U64)


@message(6)
class Arrive(SessionCommand):
    """At a barrier of `parties`. Result: Waits, GrantResult (all are there), or CommandRefused."""

    session: int = field(U64)
    number: int = field(U64)
    settled: int = field(U64)
    heard: int = field(U64)
    name: str = field(TEXT)
    parties: int = field(U32)


@message(7)
class WriteCell(SessionCommand):
    """SET, or COMPARE_AND_SET from `expected`. A value of None: there is none. Result: CellValue."""

    session: int = field(U64)
    number: int = field(U64)
    settled: int = field(U64)
    heard: int = field(U64)
    name: str = field(TEXT)
    verb: int = field(U8)
    expected: bytes | None = field(optional(BYTES))
    value: bytes | None = field(optional(BYTES))


@message(8)
class WriteCounter(SessionCommand):
    """Add `value`; or set it, if the counter is `expected` (None: whatever it is). Result: CounterValue, or
    CommandRefused."""

    session: int = field(U64)
    number: int = field(U64)
    settled: int = field(U64)
    heard: int = field(U64)
    name: str = field(TEXT)
    adds: bool = field(BOOL)
    expected: int | None = field(optional(I64))
    value: int = field(I64)


@message(9)
class PutItem(SessionCommand):
    """Append an item to a queue. Result: Carried."""

    session: int = field(U64)
    number: int = field(U64)
    settled: int = field(U64)
    heard: int = field(U64)
    name: str = field(TEXT)
    value: bytes = field(BYTES)


@message(10)
class TakeItem(SessionCommand):
    """Lease the first item of a queue. Result: GrantResult, or Waits and an outcome."""

    session: int = field(U64)
    number: int = field(U64)
    settled: int = field(U64)
    heard: int = field(U64)
    name: str = field(TEXT)


@message(11)
class WatchCell(SessionCommand):
    """Send the session a notice whenever the cell changes; off: no more. Result: CellValue."""

    session: int = field(U64)
    number: int = field(U64)
    settled: int = field(U64)
    heard: int = field(U64)
    name: str = field(TEXT)
    on: bool = field(BOOL)


@message(12)
class JoinOwners(SessionCommand):
    """Take part in a set of partitions, or change how. label: what the placement draws for. Result: Carried, or
    CommandRefused; what it owns comes as outcomes."""

    session: int = field(U64)
    number: int = field(U64)
    settled: int = field(U64)
    heard: int = field(U64)
    name: str = field(TEXT)
    partitions: int = field(U32)
    weight: int = field(U32)
    label: str = field(TEXT)


@message(13)
class LeaveOwners(SessionCommand):
    """Take part no more: the partitions of the session are asked back. Result: Carried."""

    session: int = field(U64)
    number: int = field(U64)
    settled: int = field(U64)
    heard: int = field(U64)
    name: str = field(TEXT)


# --- queries ----------------------------------------------------------------------------------------------------------

@message(20)
class Renew(CoordinationMessage):
    """The member of the session lives; since: it has the outcomes up to this number. Result: Renewed or NoSession."""

    session: int = field(U64)
    since: int = field(U64)


@message(21)
class ReadCell(CoordinationMessage):
    """Result: CellValue."""

    name: str = field(TEXT)


@message(22)
class ReadCounter(CoordinationMessage):
    """Result: CounterValue."""

    name: str = field(TEXT)


@message(23)
class ReadHolders(CoordinationMessage):
    """The holders of a name. Result: Holders."""

    space: int = field(U8)
    name: str = field(TEXT)


@message(24)
class ReadOwners(CoordinationMessage):
    """The owners of a set of partitions. Result: OwnersTable."""

    name: str = field(TEXT)


# --- results ----------------------------------------------------------------------------------------------------------

@message(30)
class SessionOpened(CoordinationMessage):
    """Its number. known: the highest number of outcomes so far."""

    session: int = field(U64)
    known: int = field(U64)


@message(31)
class Carried(CoordinationMessage):
    """Done; changed: it had an effect."""

    changed: bool = field(BOOL)


@message(32)
class Waits(CoordinationMessage):
    """The command waits; its outcome comes as a notice, and with renewals."""


@message(33)
class GrantResult(CoordinationMessage):
    """The number of the grant, higher than all earlier ones of the name. value, attempt: of a queue's item."""

    fence: int = field(U64)
    value: bytes = field(BYTES)
    attempt: int = field(U32)


@message(34)
class Withdrawn(CoordinationMessage):
    """The command does not wait, and will get no grant."""


@message(35)
class NoSession(CoordinationMessage):
    """The session has ended: nothing was done."""


@message(36)
class Stale(CoordinationMessage):
    """The member has settled this number: nothing was done now."""


@message(37)
class CommandRefused(CoordinationMessage):
    """The command makes no sense: nothing was done."""

    why: str = field(TEXT)


@message(38)
class CellValue(CoordinationMessage):
    """version: how often it was changed; value None: it has none. changed: the command changed it."""

    version: int = field(U64)
    value: bytes | None = field(optional(BYTES))
    changed: bool = field(BOOL)


@message(39)
class CounterValue(CoordinationMessage):
    """The value, after the command; changed: the command changed it."""

    value: int = field(I64)
    changed: bool = field(BOOL)


@message(40)
class Renewed(CoordinationMessage):
    """The session goes on. place: outcomes up to here have been sent; outcomes: (place, number, result)."""

    place: int = field(U64)
    outcomes: tuple[tuple[int, int, bytes], ...] = field(sequence(OUTCOME))


@message(41)
class Holders(CoordinationMessage):
    """(owner, fence) of all grants of a name, and how many wait."""

    holders: tuple[tuple[Address, int], ...] = field(sequence(record_of(MEMBER, U64)))
    waiting: int = field(U32)


@message(42)
class OwnersTable(CoordinationMessage):
    """(partition, owner, fence) of those that have an owner, of so many; and how many members take part."""

    partitions: int = field(U32)
    members: int = field(U32)
    owners: tuple[tuple[int, Address, int], ...] = field(sequence(record_of(U32, MEMBER, U64)))


@message(43)
class PartitionGranted(CoordinationMessage):
    """An outcome: the session owns a partition of a set. fence: higher than of all earlier owners."""

    name: str = field(TEXT)
    partition: int = field(U32)
    fence: int = field(U64)


@message(44)
class PartitionRevoked(CoordinationMessage):
    """An outcome: the session is to give back what it owns; nobody else gets it before."""

    fence: int = field(U64)


# --- notices ----------------------------------------------------------------------------------------------------------

@message(50)
class WaitEnded(CoordinationMessage):
    """The outcome of a command that waited; number 0: of none, but news of partitions that the session owns."""

    session: int = field(U64)
    place: int = field(U64)
    number: int = field(U64)
    result: bytes = field(BYTES)


@message(51)
class CellChanged(CoordinationMessage):
    """A cell that the session watches has changed."""

    session: int = field(U64)
    name: str = field(TEXT)
    version: int = field(U64)
    value: bytes | None = field(optional(BYTES))
