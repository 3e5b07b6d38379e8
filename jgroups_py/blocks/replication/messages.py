"""Messages between hosts and clients about partitions, and their encoding.

A message is one byte for its kind and its fields, by the codecs of the wire format (big-endian, bounded readers). It
travels as the payload of a request or of a message to a service of the channel (blocks/rpc).
"""
from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TypeVar, dataclass_transform

import attrs

from jgroups_py.blocks.replication.log import ENTRY, ReplicatedEntry
from jgroups_py.blocks.replication.quorums import CONFIGURATION, Configuration
from jgroups_py.model.address import Address
from jgroups_py.wire import field
from jgroups_py.wire.codec import (
    BOOL,
    BYTES,
    MEMBER,
    MEMBERS,
    TEXT,
    U8,
    U32,
    U64,
    Interner,
    optional,
    record,
    sequence,
)
from jgroups_py.wire.kinds import KindMessage, Kinds, encode_message


class ReplicationMessage(KindMessage):
    """Base of all messages. Those about a partition have its number as their first field."""


M = TypeVar("M", bound=ReplicationMessage)
MESSAGES: Kinds[ReplicationMessage] = Kinds("a message about partitions")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def message(kind: int) -> Callable[[type[M]], type[M]]:
    """Class decorator: a message, encoded with this number."""
    return MESSAGES.add(kind)


def encode(item: ReplicationMessage) -> bytes:
    """A message as bytes."""
    return encode_message(item)


def decode(data: bytes, addresses: Interner) -> ReplicationMessage:
    """The message that the bytes encode.

    Raises:
        WireError: they encode no message.
    """
    return MESSAGES.decode(data, addresses)


def known_messages() -> list[type[ReplicationMessage]]:
    """All kinds, in order."""
    return MESSAGES.known()


# --- hosts ------------------------------------------------------------------------------------------------------------

STORE = record(BYTES, U32, U8)
"""(id, number of partitions, replicas of each)."""


@message(1)
class HostHello(ReplicationMessage):
    """To all, in each new view: the source hosts partitions, in proportion to `weight`; draining: no longer."""

    weight: int = field(U32)
    zone: str = field(TEXT)
    draining: bool = field(BOOL)
    store: tuple[bytes, int, int] | None = field(optional(STORE))


@message(2)
class Create(ReplicationMessage):
    """To all, once in the life of a store: its partitions and hosts (with what each HostHello announced)."""

    store: tuple[bytes, int, int] = field(STORE)
    hosts: tuple[tuple[Address, int, str], ...] = field(sequence(record(MEMBER, U32, TEXT)))


@message(3)
class Leads(ReplicationMessage):
    """To all: the source leads the partition; members: its replicas; holders: those, and hosts that are getting one.
    For routing, and so that all other hosts drop their data.

    shown: the number of this message in its epoch. All that a leader sends to replicas carries the latest one, so that
    a replica can detect what was sent before.
    """

    partition: int = field(U32)
    epoch: int = field(U64)
    shown: int = field(U64)
    members: tuple[Address, ...] = field(MEMBERS)
    holders: tuple[Address, ...] = field(MEMBERS)


# --- electing ---------------------------------------------------------------------------------------------------------

@message(10)
class PreVote(ReplicationMessage):
    """Pre-vote: requests consent to an election; the log of the source reaches (last_epoch, stop)."""

    partition: int = field(U32)
    last_epoch: int = field(U64)
    stop: int = field(U64)


@message(11)
class PreVoted(ReplicationMessage):
    """Answer to PreVote: consent or refusal; `epoch` is the highest known."""

    partition: int = field(U32)
    epoch: int = field(U64)
    yes: bool = field(BOOL)


@message(12)
class Vote(ReplicationMessage):
    """The source is a candidate in `epoch` and requests a vote."""

    partition: int = field(U32)
    epoch: int = field(U64)
    last_epoch: int = field(U64)
    stop: int = field(U64)


@message(13)
class Voted(ReplicationMessage):
    """Answer to Vote, in `epoch`; one above the candidate's is a refusal."""

    partition: int = field(U32)
    epoch: int = field(U64)
    yes: bool = field(BOOL)


@message(14)
class TakeOver(ReplicationMessage):
    """From the leader of `epoch` to the preferred replica: stand for election now."""

    partition: int = field(U32)
    epoch: int = field(U64)


@message(15)
class LeaderContact(ReplicationMessage):
    """Before a vote in `epoch`: the source last answered a leader, or led, so long ago. Without it the source may have
    done so until its vote arrived."""

    partition: int = field(U32)
    epoch: int = field(U64)
    ago_ms: int = field(U64)


# --- leading ----------------------------------------------------------------------------------------------------------

@message(20)
class Append(ReplicationMessage):
    """Entries `first`, ...; the one before has `epoch_before`; entries below `committed` are committed. round: of
    reads."""

    partition: int = field(U32)
    epoch: int = field(U64)
    shown: int = field(U64)
    round: int = field(U64)
    first: int = field(U64)
    epoch_before: int = field(U64)
    committed: int = field(U64)
    entries: tuple[ReplicatedEntry, ...] = field(sequence(ENTRY))


@message(21)
class Appended(ReplicationMessage):
    """Answer to Append: the log below `stop` equals the leader's; not ok: begin at `stop` (0: with the state)."""

    partition: int = field(U32)
    epoch: int = field(U64)
    round: int = field(U64)
    ok: bool = field(BOOL)
    stop: int = field(U64)


@message(22)
class ContentPiece(ReplicationMessage):
    """A piece, from byte `offset` of `total`, of the state up to entry `stop`."""

    partition: int = field(U32)
    epoch: int = field(U64)
    shown: int = field(U64)
    stop: int = field(U64)
    last_epoch: int = field(U64)
    configuration: Configuration = field(CONFIGURATION)
    offset: int = field(U64)
    total: int = field(U64)
    data: bytes = field(BYTES)


@message(23)
class ContentStored(ReplicationMessage):
    """Answer to ContentPiece: of the state up to entry `stop` `offset` bytes have arrived."""

    partition: int = field(U32)
    epoch: int = field(U64)
    stop: int = field(U64)
    offset: int = field(U64)


# --- clients ----------------------------------------------------------------------------------------------------------

class Verb(enum.IntEnum):
    """The kind of a request. READ: at any replica; STRONG: at the leader, linearizable; WRITE."""

    READ = 0
    STRONG = 1
    WRITE = 2


class ReplyStatus(enum.IntEnum):
    """OK: done. REDIRECT: another host leads. BUSY: try later. UNKNOWN: a write may or may not be carried out.

    NO_STORE: the host has no such partition.
    """

    OK = 0
    REDIRECT = 1
    BUSY = 2
    UNKNOWN = 3
    NO_STORE = 4


@message(30)
class PartitionRequest(ReplicationMessage):
    """Request `number` of the source. request: the id of a write, the same when it is repeated; least: of a READ, the
    position that the replica must have reached."""

    partition: int = field(U32)
    number: int = field(U64)
    verb: int = field(U8)
    request: bytes = field(BYTES)
    least: int = field(U64)
    data: bytes = field(BYTES)


@message(31)
class PartitionReply(ReplicationMessage):
    """Answer to request `number`. position: of the partition, when it answered; leader, members: as far as known."""

    partition: int = field(U32)
    number: int = field(U64)
    status: int = field(U8)
    position: int = field(U64)
    leader: Address | None = field(optional(MEMBER))
    members: tuple[Address, ...] = field(MEMBERS)
    data: bytes = field(BYTES)

    def numbered(self, number: int) -> PartitionReply:
        """The same answer, to request `number`."""
        return attrs.evolve(self, number=number)             # type: ignore[misc]


@message(32)
class PartitionNotice(ReplicationMessage):
    """To a member, from a leader: a write that was carried out concerns it (Machine.take_notices)."""

    partition: int = field(U32)
    data: bytes = field(BYTES)
