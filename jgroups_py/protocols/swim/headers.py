"""The headers of SWIM: one class for each of memberlist's messages, with the same fields.

Updates (Suspected, Alive, Dead) are piggybacked: a frame with several of these messages is one batch with several
headers, and the codec of memberlist's own frames maps such a batch to one compound message. `node` is a member's name,
which it keeps through restarts; `member` is the address of one start of it. `source` is the name of the node that sent
the message first, `place` a physical address. Protocol versions are left to codecs.
"""
from __future__ import annotations

import attrs

from jgroups_py import wire
from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.batch import Header
from jgroups_py.model.errors import WireError
from jgroups_py.wire import field
from jgroups_py.wire.codec import Codec

SWIM_ID = 17

ALIVE, SUSPECT, DEAD, LEFT = range(4)
"""States of a node, with memberlist's values."""
STATE_NAMES = ("alive", "suspect", "failed", "left")


@wire.header(proto=SWIM_ID, kind=1)
class PingHeader(Header):
    """Requests a ProbeAck(number) from `node`, sent to `source` at `place` (None: where this came from)."""

    number: int = field(wire.U32)
    node: str = field(wire.NAME_IF_KNOWN)
    source: str = field(wire.NAME_IF_KNOWN)
    place: PhysicalAddress | None = field(wire.optional(wire.PHYSICAL))


@wire.header(proto=SWIM_ID, kind=2)
class PingFor(Header):
    """Requests that the receiver ping `node`, start `member`, at `target`, and send the ProbeAck on under `number`.

    nack: whether a Nack is expected if there is no answer. source, place: where the answer goes.
    """

    number: int = field(wire.U32)
    node: str = field(wire.NAME)
    target: PhysicalAddress | None = field(wire.optional(wire.PHYSICAL))
    member: Address = field(wire.ADDRESS)
    nack: bool = field(wire.BOOL)
    source: str = field(wire.NAME_IF_KNOWN)
    place: PhysicalAddress | None = field(wire.optional(wire.PHYSICAL))


@wire.header(proto=SWIM_ID, kind=3)
class ProbeAck(Header):
    """The answer to a PingHeader; payload: what the answering node adds (Serf: its coordinates)."""

    number: int = field(wire.U32)
    payload: bytes = field(wire.BYTES)


@wire.header(proto=SWIM_ID, kind=4)
class Nack(Header):
    """The answer to a PingFor whose ping got none: the helper runs and is reachable, the node does not answer it."""

    number: int = field(wire.U32)


@wire.header(proto=SWIM_ID, kind=5)
class SuspectedHeader(Header):
    """`source` got no answer from `node` with `incarnation`, on the paths `tried` (bits of model/swim_member.py)."""

    incarnation: int = field(wire.U32)
    node: str = field(wire.NAME)
    source: str = field(wire.NAME_IF_KNOWN)
    tried: int = field(wire.U8)


@wire.header(proto=SWIM_ID, kind=6)
class Alive(Header):
    """`node` is alive, first sent by itself: its physical address, the address of its start, and its metadata.

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
    """`node` failed as `source` found; source == node: it left."""

    incarnation: int = field(wire.U32)
    node: str = field(wire.NAME)
    source: str = field(wire.NAME_IF_KNOWN)


@attrs.frozen
class NodeState:
    """An entry of a member's table: the facts of an Alive, and the state of the node."""

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
        raise WireError(f"a node's state is {state}; allowed are 0 to {len(STATE_NAMES) - 1}")
    return NodeState(alive, state)


NODE_STATE = Codec(_write_node_state, _read_node_state, 4 + 2 + 1 + 16 + 1 + 4 + 1)
"""The fields of Alive, then a u8: 0 alive, 1 suspect, 2 failed, 3 left."""


@wire.header(proto=SWIM_ID, kind=8)
class PushPull(Header):
    """The sender's table of nodes, or one page of it; every page stands by itself.

    exchange: the requester's number, the same in all pages and in the answer. answer: this is one, and needs none in
    return. join: the requester is new. user: state of a layer above (Serf: clocks, events), in the first page only.
    """

    exchange: int = field(wire.U32)
    answer: bool = field(wire.BOOL)
    join: bool = field(wire.BOOL)
    states: tuple[NodeState, ...] = field(wire.sequence(NODE_STATE))
    user: bytes = field(wire.BYTES)


@wire.header(proto=SWIM_ID, kind=9)
class UserMessage(Header):
    """A message of a layer above, spread in the same way as updates (Serf's intents, events, queries)."""

    payload: bytes = field(wire.BYTES)
