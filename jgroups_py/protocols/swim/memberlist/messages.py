"""memberlist's messages as SWIM's headers: one byte says which it is, the body follows (numbers, fields as in net.go).

A frame does not carry our 16-byte addresses: a Dialect makes them of a node's name and place. What only our headers
have (which paths a suspicion is based on, listeners, numbers of exchanges) is left out on the way out.
"""
from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final

import attrs

from jgroups_py.address import ADDRESS_BYTES, Address, PhysicalAddress
from jgroups_py.batch import Header
from jgroups_py.errors import WireError
from jgroups_py.protocols.swim.headers import (
    STATE_NAMES,
    Ack,
    Alive,
    Dead,
    Nack,
    NodeState,
    Ping,
    PingFor,
    Suspected,
    UserMessage,
)
from jgroups_py.protocols.swim.memberlist.body import Body, packed, packed_host, unpacked
from jgroups_py.protocols.swim.memberlist.sealing import Keyring

(PING, INDIRECT_PING, ACK, SUSPECT, ALIVE, DEAD, PUSH_PULL, COMPOUND, USER, COMPRESSED, ENCRYPTED, NACK, CHECKED,
 FAILURE) = range(14)
LABELLED: Final = 244

MEMBERLIST_VERSIONS: Final = bytes((1, 5, 2))       # of the protocol: lowest, highest, the one we speak
SERF_VERSIONS: Final = bytes((2, 5, 4))             # of what Serf adds, likewise
PLAIN_VERSIONS: Final = bytes(3)                    # nothing is added
VERSIONS = 6
CHECKED_SINCE: Final = 5                            # who understands this version understands checksums


@attrs.frozen
class Failure(Header):
    """The other end of a stream could not do what it was asked to, and says why."""

    reason: str


@attrs.frozen
class Node:
    """Who is where, as told in a message; versions: as MEMBERLIST_VERSIONS, then as SERF_VERSIONS.

    What only an alive message says is empty in others.
    """

    name: str
    place: PhysicalAddress | None
    versions: bytes = b""
    incarnation: int = 0
    meta: bytes = b""


def address_of(name: str, place: PhysicalAddress | None) -> Address:
    """The address that we give to one start of a foreign node: the same at every member."""
    host, port = place or ("", 0)
    words = [word.encode() for word in (name, host, str(port))]
    digest = blake2b(digest_size=ADDRESS_BYTES)
    for word in words:
        digest.update(len(word).to_bytes(4, "big") + word)
    return Address(digest.digest(), name)


@attrs.frozen
class Dialect:
    """What one member knows and memberlist's messages leave to be known.

    address: who a node is; it is told of each node that a message speaks of. versions: what a node speaks. keyring:
    None: nothing is encrypted.
    """

    address: Callable[[Node], Address] = lambda node: address_of(node.name, node.place)
    versions: Callable[[Alive], bytes] = lambda alive: MEMBERLIST_VERSIONS + SERF_VERSIONS
    keyring: Keyring | None = None


# --- in -------------------------------------------------------------------------------------------------------------

def read_message(data: bytes, dialect: Dialect) -> Header:
    """One message that is no envelope. Raises WireError."""
    if not data:
        raise WireError("an empty message")
    if data[0] == USER:
        return UserMessage(data[1:])
    reader = _READERS.get(data[0])
    if reader is None:
        raise WireError(f"a message of type {data[0]}")
    return reader(unpacked(data[1:]), dialect)


def read_ping(body: Body, _: Dialect) -> Ping:
    """Also over a stream."""
    return Ping(body.number("SeqNo"), body.name("Node"), body.name("SourceNode"),
                body.place("SourceAddr", "SourcePort"))


def _read_ping_for(body: Body, dialect: Dialect) -> PingFor:
    name, target = body.name("Node"), body.place("Target", "Port")
    return PingFor(body.number("SeqNo"), name, target, dialect.address(Node(name, target)), body.flag("Nack"),
                   body.name("SourceNode"), body.place("SourceAddr", "SourcePort"))


def read_ack(body: Body, _: Dialect) -> Ack:
    """Also over a stream."""
    return Ack(body.number("SeqNo"), body.data("Payload"))


def read_failure(body: Body, _: Dialect) -> Failure:
    """Over a stream only."""
    return Failure(body.text("Error"))


def read_alive(body: Body, dialect: Dialect, name: str = "Node") -> Alive:
    """Also as the state of a node in a push-pull, where the field of its name is called otherwise."""
    node = Node(body.name(name), body.place("Addr", "Port"), body.data("Vsn"), body.number("Incarnation"),
                body.data("Meta"))
    if node.versions and len(node.versions) != VERSIONS:
        raise WireError(f"{len(node.versions)} versions")
    return Alive(node.incarnation, node.name, node.place, dialect.address(node), None, node.meta)


def read_node_state(body: Body, dialect: Dialect) -> NodeState:
    """One node of a push-pull."""
    state = body.number("State")
    if state >= len(STATE_NAMES):
        raise WireError(f"a node in state {state}")
    return NodeState(read_alive(body, dialect, "Name"), state)


_READERS: dict[int, Callable[[Body, Dialect], Header]] = {
    PING: read_ping,
    INDIRECT_PING: _read_ping_for,
    ACK: read_ack,
    NACK: lambda body, _: Nack(body.number("SeqNo")),
    SUSPECT: lambda body, _: Suspected(body.number("Incarnation"), body.name("Node"), body.name("From"), 0),
    ALIVE: read_alive,
    DEAD: lambda body, _: Dead(body.number("Incarnation"), body.name("Node"), body.name("From")),
    FAILURE: read_failure,
}


# --- out ------------------------------------------------------------------------------------------------------------

def write_message(header: Header, dialect: Dialect) -> bytes:
    """The message that says what `header` says, without an envelope."""
    number, fields = _WRITERS[header.__class__](header, dialect)
    return bytes((number,)) + (fields if isinstance(fields, bytes) else packed(fields))


def _write_ping(header: Ping, _: Dialect) -> tuple[int, dict[str, Any]]:
    return PING, {"SeqNo": header.number, "Node": header.node, **_source(header)}


def _write_ping_for(header: PingFor, _: Dialect) -> tuple[int, dict[str, Any]]:
    host, port = header.target or ("", 0)
    return INDIRECT_PING, {"SeqNo": header.number, "Target": packed_host(host), "Port": port, "Node": header.node,
                           "Nack": header.nack, **_source(header)}


def _source(header: Ping | PingFor) -> dict[str, Any]:
    """Where the answer shall go; left out where that is where the question came from."""
    fields: dict[str, Any] = {}
    if header.place is not None:
        fields = {"SourceAddr": packed_host(header.place[0]), "SourcePort": header.place[1]}
    if header.source:
        fields["SourceNode"] = header.source
    return fields


def alive_fields(alive: Alive, dialect: Dialect, name: str = "Node") -> dict[str, Any]:
    """The fields of an alive message, and of a node's state in a push-pull."""
    host, port = alive.place or ("", 0)
    return {"Incarnation": alive.incarnation, name: alive.node, "Addr": packed_host(host), "Port": port,
            "Meta": alive.meta, "Vsn": dialect.versions(alive)}


def _accusation(header: Suspected | Dead) -> dict[str, Any]:
    return {"Incarnation": header.incarnation, "Node": header.node, "From": header.source}


_WRITERS: dict[type[Header], Callable[[Any, Dialect], tuple[int, dict[str, Any] | bytes]]] = {
    Ping: _write_ping,
    PingFor: _write_ping_for,
    Ack: lambda header, _: (ACK, {"SeqNo": header.number, "Payload": header.payload}),
    Nack: lambda header, _: (NACK, {"SeqNo": header.number}),
    Suspected: lambda header, _: (SUSPECT, _accusation(header)),
    Alive: lambda header, dialect: (ALIVE, alive_fields(header, dialect)),
    Dead: lambda header, _: (DEAD, _accusation(header)),
    UserMessage: lambda header, _: (USER, header.payload),
    Failure: lambda header, _: (FAILURE, {"Error": header.reason}),
}

WRITABLE: Final = frozenset(_WRITERS)
"""The headers that a datagram can carry."""
