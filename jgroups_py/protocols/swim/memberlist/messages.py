"""memberlist's messages as SWIM's headers: one byte for the kind, then the body (numbers, fields as in net.go).

Frames of memberlist have no field for the 16-byte addresses of members: a CodecContext makes them from a node's name
and physical address. Fields that only SWIM's headers have (the paths of a suspicion, listeners, numbers of exchanges)
are not written.
"""
from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final

import attrs

from jgroups_py.model.address import ADDRESS_BYTES, Address, PhysicalAddress
from jgroups_py.model.batch import Header
from jgroups_py.model.errors import WireError
from jgroups_py.protocols.swim.headers import (
    STATE_NAMES,
    Alive,
    Dead,
    Nack,
    NodeState,
    PingFor,
    PingHeader,
    ProbeAck,
    SuspectedHeader,
    UserMessage,
)
from jgroups_py.protocols.swim.memberlist.body import Body, packed, packed_host, unpacked
from jgroups_py.protocols.swim.memberlist.sealing import Keyring

(PING, INDIRECT_PING, ACK, SUSPECT, ALIVE, DEAD, PUSH_PULL, COMPOUND, USER, COMPRESSED, ENCRYPTED, NACK, CHECKED,
 FAILURE) = range(14)
LABELLED: Final = 244

MEMBERLIST_VERSIONS: Final = bytes((1, 5, 2))       # of the protocol: lowest, highest, current
SERF_VERSIONS: Final = bytes((2, 5, 4))             # of what Serf adds, the same three
PLAIN_VERSIONS: Final = bytes(3)                    # without Serf
VERSIONS = 6
CHECKED_SINCE: Final = 5                            # members that read this version read checksums


@attrs.frozen
class StreamFailure(Header):
    """The other end of a stream could not handle the request, with the reason."""

    reason: str


@attrs.frozen
class NodeRecord:
    """A node as named in a message; versions: as MEMBERLIST_VERSIONS, then as SERF_VERSIONS.

    The last three fields come from alive messages only, and are empty otherwise.
    """

    name: str
    place: PhysicalAddress | None
    versions: bytes = b""
    incarnation: int = 0
    meta: bytes = b""


def address_of(name: str, place: PhysicalAddress | None) -> Address:
    """The address of a node of memberlist: a hash of name and place, so that it is the same at every member."""
    host, port = place or ("", 0)
    words = [word.encode() for word in (name, host, str(port))]
    digest = blake2b(digest_size=ADDRESS_BYTES)
    for word in words:
        digest.update(len(word).to_bytes(4, "big") + word)
    return Address(digest.digest(), name)


@attrs.frozen
class CodecContext:
    """What one member adds to memberlist's messages, which lack it.

    address: gives a node's address, and is called for each node named in a message. versions: gives the protocol
    versions of a node. keyring: None if frames are not encrypted.
    """

    address: Callable[[NodeRecord], Address] = lambda node: address_of(node.name, node.place)
    versions: Callable[[Alive], bytes] = lambda alive: MEMBERLIST_VERSIONS + SERF_VERSIONS
    keyring: Keyring | None = None


# --- in -------------------------------------------------------------------------------------------------------------

def read_message(data: bytes, context: CodecContext) -> Header:
    """One message that is not an envelope. Raises WireError."""
    if not data:
        raise WireError("an empty message")
    if data[0] == USER:
        return UserMessage(data[1:])
    reader = _READERS.get(data[0])
    if reader is None:
        raise WireError(f"a message of unknown type {data[0]}")
    return reader(unpacked(data[1:]), context)


def read_ping(body: Body, _: CodecContext) -> PingHeader:
    """Used for datagrams and streams."""
    return PingHeader(body.number("SeqNo"), body.name("Node"), body.name("SourceNode"),
                      body.place("SourceAddr", "SourcePort"))


def _read_ping_for(body: Body, context: CodecContext) -> PingFor:
    name, target = body.name("Node"), body.place("Target", "Port")
    return PingFor(body.number("SeqNo"), name, target, context.address(NodeRecord(name, target)), body.flag("Nack"),
                   body.name("SourceNode"), body.place("SourceAddr", "SourcePort"))


def read_ack(body: Body, _: CodecContext) -> ProbeAck:
    """Used for datagrams and streams."""
    return ProbeAck(body.number("SeqNo"), body.data("Payload"))


def read_failure(body: Body, _: CodecContext) -> StreamFailure:
    """Used for streams only."""
    return StreamFailure(body.text("Error"))


def read_alive(body: Body, context: CodecContext, name: str = "Node") -> Alive:
    """An alive message; also a node's state in a push-pull, where `name` is the name of another field."""
    node = NodeRecord(body.name(name), body.place("Addr", "Port"), body.data("Vsn"), body.number("Incarnation"),
                      body.data("Meta"))
    if node.versions and len(node.versions) != VERSIONS:
        raise WireError(f"a node has {len(node.versions)} version numbers, not {VERSIONS}")
    return Alive(node.incarnation, node.name, node.place, context.address(node), None, node.meta)


def read_node_state(body: Body, context: CodecContext) -> NodeState:
    """One node of a push-pull."""
    state = body.number("State")
    if state >= len(STATE_NAMES):
        raise WireError(f"a node's state is {state}; allowed are 0 to {len(STATE_NAMES) - 1}")
    return NodeState(read_alive(body, context, "Name"), state)


_READERS: dict[int, Callable[[Body, CodecContext], Header]] = {
    PING: read_ping,
    INDIRECT_PING: _read_ping_for,
    ACK: read_ack,
    NACK: lambda body, _: Nack(body.number("SeqNo")),
    SUSPECT: lambda body, _: SuspectedHeader(body.number("Incarnation"), body.name("Node"), body.name("From"), 0),
    ALIVE: read_alive,
    DEAD: lambda body, _: Dead(body.number("Incarnation"), body.name("Node"), body.name("From")),
    FAILURE: read_failure,
}


# --- out ------------------------------------------------------------------------------------------------------------

def write_message(header: Header, context: CodecContext) -> bytes:
    """The message of `header`, without an envelope."""
    number, fields = _WRITERS[header.__class__](header, context)
    return bytes((number,)) + (fields if isinstance(fields, bytes) else packed(fields))


def _write_ping(header: PingHeader, _: CodecContext) -> tuple[int, dict[str, Any]]:
    return PING, {"SeqNo": header.number, "Node": header.node, **_source(header)}


def _write_ping_for(header: PingFor, _: CodecContext) -> tuple[int, dict[str, Any]]:
    host, port = header.target or ("", 0)
    return INDIRECT_PING, {"SeqNo": header.number, "Target": packed_host(host), "Port": port, "Node": header.node,
                           "Nack": header.nack, **_source(header)}


def _source(header: PingHeader | PingFor) -> dict[str, Any]:
    """The fields for the destination of the answer; left out if it goes where the request came from."""
    fields: dict[str, Any] = {}
    if header.place is not None:
        fields = {"SourceAddr": packed_host(header.place[0]), "SourcePort": header.place[1]}
    if header.source:
        fields["SourceNode"] = header.source
    return fields


def alive_fields(alive: Alive, context: CodecContext, name: str = "Node") -> dict[str, Any]:
    """The fields of an alive message, and of a node's state in a push-pull."""
    host, port = alive.place or ("", 0)
    return {"Incarnation": alive.incarnation, name: alive.node, "Addr": packed_host(host), "Port": port,
            "Meta": alive.meta, "Vsn": context.versions(alive)}


def _accusation(header: SuspectedHeader | Dead) -> dict[str, Any]:
    return {"Incarnation": header.incarnation, "Node": header.node, "From": header.source}


_WRITERS: dict[type[Header], Callable[[Any, CodecContext], tuple[int, dict[str, Any] | bytes]]] = {
    PingHeader: _write_ping,
    PingFor: _write_ping_for,
    ProbeAck: lambda header, _: (ACK, {"SeqNo": header.number, "Payload": header.payload}),
    Nack: lambda header, _: (NACK, {"SeqNo": header.number}),
    SuspectedHeader: lambda header, _: (SUSPECT, _accusation(header)),
    Alive: lambda header, context: (ALIVE, alive_fields(header, context)),
    Dead: lambda header, _: (DEAD, _accusation(header)),
    UserMessage: lambda header, _: (USER, header.payload),
    StreamFailure: lambda header, _: (FAILURE, {"Error": header.reason}),
}

WRITABLE: Final = frozenset(_WRITERS)
"""The headers that a datagram can carry."""
