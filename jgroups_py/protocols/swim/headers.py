"""What SWIM members say to each other: one class for each of memberlist's messages, with the same facts in it.

News (Suspected, Alive, Dead) rides along: a frame with several of our messages is one batch with several headers, and
a codec for memberlist's own frames maps such a batch to one compound message. `node` is a member's name, by which it
is known through restarts; `member` is the address of one start of it. Protocol versions are left to codecs.
"""
from __future__ import annotations

import attrs

from jgroups_py import wire
from jgroups_py.address import Address, PhysicalAddress
from jgroups_py.batch import Header
from jgroups_py.codec import Codec
from jgroups_py.errors import WireError
from jgroups_py.wire import field

SWIM_ID = 17

ALIVE, SUSPECT, DEAD, LEFT = range(4)
"""States of a node, with memberlist's values."""
STATE_NAMES = ("alive", "suspect", "failed", "left")


@wire.header(proto=SWIM_ID, kind=1)
class Ping(Header):
    """Are you there, `node`? Answer Ack(number) to `source`, which receives at `place` (None: where this came from)."""

    number: int = field(wire.U32)
    node: str = field(wire.NAME_IF_KNOWN)
    source: str = field(wire.NAME_IF_KNOWN)
    place: PhysicalAddress | None = field(wire.optional(wire.PHYSICAL))


@wire.header(proto=SWIM_ID, kind=2)
class PingFor(Header):
    """Ping `node`, which receives at `target`, for us, and pass its Ack on as Ack(number). nack: say so if not."""

    number: int = field(wire.U32)
    node: str = field(wire.NAME)
    target: PhysicalAddress | None = field(wire.optional(wire.PHYSICAL))
    member: Address = field(wire.ADDRESS)
    nack: bool = field(wire.BOOL)
    source: str = field(wire.NAME_IF_KNOWN)
    place: PhysicalAddress | None = field(wire.optional(wire.PHYSICAL))


@wire.header(proto=SWIM_ID, kind=3)
class Ack(Header):
    """The answer to a Ping; payload: what the one who answers adds (Serf: its coordinates)."""

    number: int = field(wire.U32)
    payload: bytes = field(wire.BYTES)


@wire.header(proto=SWIM_ID, kind=4)
class Nack(Header):
    """The one that you asked us to ping has not answered us either; but we are there."""

    number: int = field(wire.U32)


@wire.header(proto=SWIM_ID, kind=5)
class Suspected(Header):
    """`source` got no answer of `node`, of which it knew `incarnation`, on the paths `tried` (members.py)."""

    incarnation: int = field(wire.U32)
    node: str = field(wire.NAME)
    source: str = field(wire.NAME_IF_KNOWN)
    tried: int = field(wire.U8)


@wire.header(proto=SWIM_ID, kind=6)
class Alive(Header):
    """`node` lives (said by itself at first): where it receives, who it is, and its metadata.

    listener: where it accepts links (None: nowhere); meta: tags and weight as metadata.py packs them.
    """

    incarnation: int = field(wire.U32)
    node: str = field(wire.NAME)
    place: PhysicalAddress | None = field(wire.optional(wire.PHYSICAL))
    member: Address = field(wire.ADDRESS)
    listener: PhysicalAddress | None = field(wire.optional(wire.PHYSICAL))
    meta: bytes = field(wire.BYTES)


@wire.header(proto=SWIM_ID, kind=7)
class Dead(Header):
    """`node` failed, says `source`; from itself: it left."""

    incarnation: int = field(wire.U32)
    node: str = field(wire.NAME)
    source: str = field(wire.NAME_IF_KNOWN)


@attrs.frozen
class NodeState:
    """What a member knows of a node: an Alive and the state it is in."""

    alive: Alive
    state: int


_ALIVE_FIELDS = [(item.name, item.metadata["codec"]) for item in attrs.fields(Alive)]      # type: ignore[arg-type]


def _write_node_state(value: NodeState, out: bytearray) -> None:
    alive = value.alive
    for name, codec in _ALIVE_FIELDS:
        codec.write(getattr(alive, name), out)
    out.append(value.state)


def _read_node_state(reader: wire.Reader) -> NodeState:
    alive = Alive(*[codec.read(reader) for _, codec in _ALIVE_FIELDS])
    state = reader.take(1)[0]
    if state >= len(STATE_NAMES):
        raise WireError("a node is in no state that we know")
    return NodeState(alive, state)


NODE_STATE = Codec(_write_node_state, _read_node_state, 4 + 2 + 1 + 16 + 1 + 4 + 1)
"""The fields of Alive, then a u8: 0 alive, 1 suspect, 2 failed, 3 left."""


@wire.header(proto=SWIM_ID, kind=8)
class PushPull(Header):
    """All that the sender knows of nodes, or one page of it; every page stands by itself.

    exchange: the asker's number, the same in all pages and in the answer. answer: wants none in return. join: the
    asker is new. user: what a layer above keeps (Serf: its own clocks and events); in the first page only.
    """

    exchange: int = field(wire.U32)
    answer: bool = field(wire.BOOL)
    join: bool = field(wire.BOOL)
    states: tuple[NodeState, ...] = field(wire.sequence(NODE_STATE))
    user: bytes = field(wire.BYTES)


@wire.header(proto=SWIM_ID, kind=9)
class UserMessage(Header):
    """Something of a layer above that travels as news do (Serf's intents, events, queries)."""

    payload: bytes = field(wire.BYTES)
