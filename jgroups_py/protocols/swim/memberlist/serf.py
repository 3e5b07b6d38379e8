"""What Serf adds to memberlist, as bytes: intents, events and queries in user messages, its clocks in a push-pull.

Each begins with one byte for its kind; a msgpack map follows (numbers, fields as in Serf's messages.go). Lamport times
order the join and leave intents of a node, and distinguish a new event from one that is received again.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import attrs

from jgroups_py.model.errors import WireError
from jgroups_py.protocols.swim.memberlist.body import TIME_MOST, Body, body_of, name_of, packed, unpacked

LEAVE, JOIN, STATE, EVENT, QUERY = range(5)
MOST_NODES: Final = 1 << 17                 # of a state


@attrs.frozen
class SerfJoin:
    """`node` joined at `ltime`."""

    ltime: int
    node: str


@attrs.frozen
class SerfLeave:
    """`node` is about to leave, or left according to an operator (force-leave); prune: forget it at once."""

    ltime: int
    node: str
    prune: bool = False


@attrs.frozen
class SerfEvent:
    """A user event; coalesce: of several with the same name the newest is enough."""

    ltime: int
    name: str
    payload: bytes
    coalesce: bool = False


@attrs.frozen
class Query:
    """A query to all nodes; passed on, but not answered here."""

    ltime: int
    number: int
    name: str


Message = SerfJoin | SerfLeave | SerfEvent | Query


@attrs.frozen
class SerfState:
    """A node's state: its three clocks, node -> Lamport time of its latest intent, nodes that left, newest events."""

    ltime: int
    joined: Mapping[str, int]
    left: tuple[str, ...]
    event_ltime: int
    events: tuple[SerfEvent, ...]
    query_ltime: int


# --- in -------------------------------------------------------------------------------------------------------------

def read_message(data: bytes) -> Message | None:
    """A user message; None: of a kind that is not handled here (answers to queries, keys). Raises WireError."""
    if not data:
        raise WireError("an empty user message")
    reader = _READERS.get(data[0])
    return None if reader is None else reader(unpacked(data[1:]))


def _ltime(body: Body, name: str = "LTime") -> int:
    return body.number(name, TIME_MOST)


_READERS: dict[int, Callable[[Body], Message]] = {
    JOIN: lambda body: SerfJoin(_ltime(body), body.name("Node")),
    LEAVE: lambda body: SerfLeave(_ltime(body), body.name("Node"), body.flag("Prune")),
    EVENT: lambda body: SerfEvent(_ltime(body), body.text("Name"), body.data("Payload"), body.flag("CC")),
    QUERY: lambda body: Query(_ltime(body), body.number("ID"), body.text("Name")),
}


def read_state(data: bytes) -> SerfState:
    """The user state of a push-pull. Raises WireError."""
    if not data or data[0] != STATE:
        raise WireError("not a state of Serf")
    body = unpacked(data[1:], MOST_NODES)
    joined = {name_of(name, "a node"): _time(ltime) for name, ltime in body.mapping("StatusLTimes").items()}
    left = tuple(name_of(name, "a node that left") for name in body.items("LeftMembers"))
    events = tuple(event for item in body.items("Events") if item is not None for event in _events(body_of(item)))
    return SerfState(_ltime(body), joined, left, _ltime(body, "EventLTime"), events, _ltime(body, "QueryLTime"))


def _time(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= TIME_MOST:
        raise WireError(f"a Lamport time is not a number from 0 to {TIME_MOST}")
    return value


def _events(body: Body) -> list[SerfEvent]:
    """The events of one Lamport time."""
    ltime, bodies = _ltime(body), [body_of(item) for item in body.items("Events")]
    return [SerfEvent(ltime, event.text("Name"), event.data("Payload")) for event in bodies]


# --- out ------------------------------------------------------------------------------------------------------------

def write_message(message: Message) -> bytes:
    """A user message; a Query is never written, since this member makes none."""
    match message:
        case SerfJoin():
            return _written(JOIN, LTime=message.ltime, Node=message.node)
        case SerfLeave():
            return _written(LEAVE, LTime=message.ltime, Node=message.node, Prune=message.prune)
        case SerfEvent():
            return _written(EVENT, LTime=message.ltime, Name=message.name, Payload=message.payload,
                            CC=message.coalesce)
        case Query():
            raise AssertionError("a query is passed on with the bytes that it came with")


def write_state(state: SerfState) -> bytes:
    """The user state of a push-pull."""
    by_time: dict[int, list[dict[str, object]]] = {}
    for event in state.events:
        by_time.setdefault(event.ltime, []).append({"Name": event.name, "Payload": event.payload})
    events = [{"LTime": ltime, "Events": found} for ltime, found in by_time.items()]
    return _written(STATE, LTime=state.ltime, StatusLTimes=dict(state.joined), LeftMembers=list(state.left),
                    EventLTime=state.event_ltime, Events=events, QueryLTime=state.query_ltime)


def _written(kind: int, **fields: object) -> bytes:
    return bytes((kind,)) + packed(fields)
