"""What hosts and clients say to each other about partitions, and how it is written.

A message is one byte for its kind and its fields, by the codecs of the wire format (big-endian, bounded readers). It
travels as the payload of a request or of a message to a service of the channel (blocks/rpc).
"""
from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, dataclass_transform

import attrs

from jgroups_py.address import Address
from jgroups_py.blocks.replicas.log import ENTRY, Entry
from jgroups_py.blocks.replicas.quorums import CONFIGURATION, Configuration
from jgroups_py.codec import (
    BOOL,
    BYTES,
    MEMBER,
    MEMBERS,
    TEXT,
    U8,
    U32,
    U64,
    Codec,
    Interner,
    Reader,
    optional,
    record,
    sequence,
)
from jgroups_py.errors import WireError
from jgroups_py.wire import field


class Message:
    """Base of all. Those about a partition have it as their first field."""

    kind: ClassVar[int]
    codecs: ClassVar[tuple[tuple[str, Codec[Any]], ...]]   # of the fields, in order


M = TypeVar("M", bound=Message)
_kinds: dict[int, type[Message]] = {}


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def message(kind: int) -> Callable[[type[M]], type[M]]:
    """Class decorator: a message, known by this number."""
    def decorate(cls: type[M]) -> type[M]:
        assert kind not in _kinds, f"kind {kind} is taken"
        made = attrs.frozen(cls)
        made.kind = kind
        made.codecs = tuple((a.name, a.metadata["codec"]) for a in attrs.fields(made))    # type: ignore[arg-type]
        _kinds[kind] = made
        return made
    return decorate


def encode(item: Message) -> bytes:
    """As bytes."""
    out = bytearray((item.kind,))
    for name, codec in item.codecs:
        codec.write(getattr(item, name), out)
    return bytes(out)


def decode(data: bytes, addresses: Interner) -> Message:
    """What the bytes say.

    Raises:
        WireError: they are no message.
    """
    cls = _kinds.get(data[0]) if data else None
    if cls is None:
        raise WireError("no message about partitions")
    reader = Reader(data, addresses, 1)
    values = [codec.read(reader) for _, codec in cls.codecs]
    if reader.pos != reader.stop:
        raise WireError("a message about partitions is followed by more")
    made: Any = cls
    return made(*values)                             # type: ignore[no-any-return]


def known_messages() -> list[type[Message]]:
    """All kinds, in order."""
    return [_kinds[kind] for kind in sorted(_kinds)]


# --- hosts ------------------------------------------------------------------------------------------------------------

STORE = record(BYTES, U32, U8)
"""(id, number of partitions, replicas of each)."""


@message(1)
class Hello(Message):
    """To all, in each new view: I host partitions, in proportion to `weight`; draining: none any more."""

    weight: int = field(U32)
    zone: str = field(TEXT)
    draining: bool = field(BOOL)
    store: tuple[bytes, int, int] | None = field(optional(STORE))


@message(2)
class Create(Message):
    """To all, once in the life of a store: its partitions, and who takes part (with what its Hello said)."""

    store: tuple[bytes, int, int] = field(STORE)
    hosts: tuple[tuple[Address, int, str], ...] = field(sequence(record(MEMBER, U32, TEXT)))


@message(3)
class Leads(Message):
    """To all: I lead the partition, and these have replicas or are getting one. For routing, and for dropping data.

    shown: the number of this message in its epoch; what a leader sends to replicas carries the latest one, so that it
    is known which came first.
    """

    partition: int = field(U32)
    epoch: int = field(U64)
    shown: int = field(U64)
    members: tuple[Address, ...] = field(MEMBERS)
    holders: tuple[Address, ...] = field(MEMBERS)


# --- electing ---------------------------------------------------------------------------------------------------------

@message(10)
class Canvass(Message):
    """Would you vote for me? My log reaches (last_epoch, stop)."""

    partition: int = field(U32)
    last_epoch: int = field(U64)
    stop: int = field(U64)


@message(11)
class Canvassed(Message):
    """I would, or would not; `epoch` is the highest that I know."""

    partition: int = field(U32)
    epoch: int = field(U64)
    yes: bool = field(BOOL)


@message(12)
class Vote(Message):
    """Vote for me in `epoch`."""

    partition: int = field(U32)
    epoch: int = field(U64)
    last_epoch: int = field(U64)
    stop: int = field(U64)


@message(13)
class Voted(Message):
    """My vote in `epoch`; an epoch beyond the one asked for is a refusal."""

    partition: int = field(U32)
    epoch: int = field(U64)
    yes: bool = field(BOOL)


@message(14)
class TakeOver(Message):
    """From the leader of `epoch`: you are the better one; stand for election now."""

    partition: int = field(U32)
    epoch: int = field(U64)


# --- leading ----------------------------------------------------------------------------------------------------------

@message(20)
class Append(Message):
    """Entries `first`, ...; the one before has `epoch_before`; what is below `committed` is. round: of reads."""

    partition: int = field(U32)
    epoch: int = field(U64)
    shown: int = field(U64)
    round: int = field(U64)
    first: int = field(U64)
    epoch_before: int = field(U64)
    committed: int = field(U64)
    entries: tuple[Entry, ...] = field(sequence(ENTRY))


@message(21)
class Appended(Message):
    """I have all below `stop` as you have it; or not ok: begin at `stop` (0: with the state)."""

    partition: int = field(U32)
    epoch: int = field(U64)
    round: int = field(U64)
    ok: bool = field(BOOL)
    stop: int = field(U64)


@message(22)
class State(Message):
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
class Stated(Message):
    """Of the state up to entry `stop` I have `offset` bytes."""

    partition: int = field(U32)
    epoch: int = field(U64)
    stop: int = field(U64)
    offset: int = field(U64)


# --- clients ----------------------------------------------------------------------------------------------------------

class Verb(enum.IntEnum):
    """What a client asks for. READ: of any replica; STRONG: of the leader, and nothing older than the question."""

    READ = 0
    STRONG = 1
    WRITE = 2


class Status(enum.IntEnum):
    """OK: done. REDIRECT: not by me, the leader is told if it is known. BUSY: later. UNKNOWN: it may come to pass."""

    OK = 0
    REDIRECT = 1
    BUSY = 2
    UNKNOWN = 3
    NO_STORE = 4


@message(30)
class Request(Message):
    """Question `number` of the source. request: the id of a write, the same when it is sent again; least: of a READ,
    the position that the replica must have reached."""

    partition: int = field(U32)
    number: int = field(U64)
    verb: int = field(U8)
    request: bytes = field(BYTES)
    least: int = field(U64)
    data: bytes = field(BYTES)


@message(31)
class Reply(Message):
    """To question `number`. position: where the partition stood; leader, members: as far as they are known."""

    partition: int = field(U32)
    number: int = field(U64)
    status: int = field(U8)
    position: int = field(U64)
    leader: Address | None = field(optional(MEMBER))
    members: tuple[Address, ...] = field(MEMBERS)
    data: bytes = field(BYTES)

    def numbered(self, number: int) -> Reply:
        """The same, to question `number`."""
        return attrs.evolve(self, number=number)             # type: ignore[misc]
