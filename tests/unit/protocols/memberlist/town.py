"""Nodes of [MEMBERLIST, SWIM, SERF] on a virtual network with datagrams and streams, in virtual time."""
from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from random import Random
from typing import Any

from jgroups_py.config.load import load
from jgroups_py.model.events import StreamClosed, StreamData, StreamOpened
from jgroups_py.model.outputs import (
    CloseStream,
    Frame,
    LogEntry,
    MemberChanged,
    OpenStream,
    OpenTransport,
    Output,
    UserEvent,
    WriteStream,
)
from jgroups_py.model.ports import MemberTable
from jgroups_py.model.swim_member import Member
from jgroups_py.model.units import millis, seconds
from jgroups_py.node.node import Node

WIRE_NS = millis(1)
PIECE_BYTES = 100                         # of what is written to a stream, so that nothing arrives in one piece
Place = tuple[str, int]


class Town:
    """loss: of datagrams. `frames`, `written`: all that was sent, as (from, to, bytes)."""

    def __init__(self, loss: float = 0.0, seed: int = 1) -> None:
        self.loss, self.rng, self.now_ns = loss, Random(seed), 0
        self.nodes: dict[Place, Node] = {}
        self.places: dict[str, Place] = {}
        self.apart: dict[Place, int] = {}                              # in a split: place -> the part that it is in
        self.told: dict[str, list[Output]] = {}
        self.frames: list[tuple[Place, Place, bytes]] = []
        self.ends: dict[tuple[Place, int], tuple[Place, int]] = {}     # one end of a stream -> the other
        self.numbers = itertools.count(-1, -1)
        self.due: list[tuple[int, int, Callable[[], None]]] = []
        self.order = itertools.count()

    def start(
        self, name: str, seeds: str = "", serf: bool = True, tags: str = "", **transport: Any,
    ) -> Node:
        """Start a node; one that starts again gets its former physical address."""
        layers = [("MEMBERLIST", {**transport}), ("SWIM", {"initial_hosts": seeds, "tags": tags or f"is={name}"})]
        spec = load(layers + ([("SERF", {})] if serf else []))
        place = self.places.setdefault(name, (f"10.0.0.{len(self.places) + 1}", 7946))
        node = self.nodes[place] = Node(spec, "town", name, f"{self.rng.random()}", self.now_ns)
        self.told[name] = []
        self.settle(place)
        return node

    def place_of(self, name: str) -> Place:
        return next(place for place, node in self.nodes.items() if node.name == name)

    def kill(self, name: str) -> None:
        del self.nodes[self.place_of(name)]

    # --- time ---------------------------------------------------------------------------------------------------------

    def run(self, duration: float) -> None:
        """Let so many seconds pass."""
        until_ns = self.now_ns + seconds(duration)
        while True:
            deadlines = [(node.next_deadline_ns, place) for place, node in self.nodes.items()
                         if node.next_deadline_ns is not None]
            next_ns = min([deadline for deadline, _ in deadlines] + [at for at, *_ in self.due[:1]], default=until_ns)
            if next_ns > until_ns:
                break
            self.now_ns = max(self.now_ns, next_ns)
            while self.due and self.due[0][0] <= self.now_ns:
                heapq.heappop(self.due)[2]()
            for place, node in list(self.nodes.items()):
                node.advance(self.now_ns)
                self.settle(place)
        self.now_ns = until_ns

    def soon(self, action: Callable[[], None]) -> None:
        heapq.heappush(self.due, (self.now_ns + WIRE_NS, next(self.order), action))

    # --- carrying out -------------------------------------------------------------------------------------------------

    def settle(self, place: Place) -> None:
        """Carry out all outputs of a node."""
        node = self.nodes[place]
        while outputs := node.drain():
            for output in outputs:
                self.carry_out(place, node, output)

    def carry_out(self, place: Place, node: Node, output: Output) -> None:
        match output:
            case OpenTransport():
                node.bound(0, place, self.now_ns)
            case Frame():
                assert output.to is not None
                self.send(place, output.to, b"".join(output.data))
            case OpenStream():
                self.open(place, output)
            case WriteStream():
                self.write(place, output)
            case CloseStream():
                self.hang_up(place, output.stream)
            case _:
                self.told[node.name].append(output)

    def send(self, place: Place, to: Place, data: bytes) -> None:
        self.frames.append((place, to, data))
        if self.rng.random() >= self.loss and self.joined(place, to):
            self.soon(lambda: self.give(to, lambda node: node.receive([(data, place)], self.now_ns)))

    def joined(self, place: Place, other: Place) -> bool:
        return self.apart.get(place) == self.apart.get(other)

    def give(self, place: Place, what: Callable[[Node], None]) -> None:
        if place in self.nodes:
            what(self.nodes[place])
            self.settle(place)

    def notify(self, place: Place, event: Any) -> None:
        self.soon(lambda: self.give(place, lambda node: node.notify(event, self.now_ns)))

    def open(self, place: Place, asked: OpenStream) -> None:
        if asked.to not in self.nodes or not self.joined(place, asked.to):
            return self.notify(place, StreamClosed(asked.stream, "refused"))
        there = asked.to, next(self.numbers)
        self.ends[place, asked.stream], self.ends[there] = there, (place, asked.stream)
        return self.notify(asked.to, StreamOpened(there[1], place))

    def write(self, place: Place, asked: WriteStream) -> None:
        other = self.ends.get((place, asked.stream))
        for at in range(0, len(asked.data) if other else 0, PIECE_BYTES):
            self.notify(other[0], StreamData(other[1], asked.data[at:at + PIECE_BYTES]))

    def hang_up(self, place: Place, stream: int) -> None:
        other = self.ends.pop((place, stream), None)
        if other is not None:
            self.ends.pop(other, None)
            self.notify(other[0], StreamClosed(other[1]))

    # --- what tests inspect -------------------------------------------------------------------------------------------

    def members(self, name: str) -> dict[str, Member]:
        table = self.nodes[self.place_of(name)].local.find(MemberTable)
        return {member.name: member for member in table.known_members()}

    def states(self, name: str) -> dict[str, str]:
        return {member.name: member.state for member in self.members(name).values()}

    def events(self, name: str) -> list[tuple[str, bytes]]:
        return [(output.name, output.payload) for output in self.told[name] if isinstance(output, UserEvent)]

    def changes(self, name: str) -> list[tuple[str, str]]:
        return [(output.change, output.member.name) for output in self.told[name] if isinstance(output, MemberChanged)]

    def notes(self, name: str) -> list[str]:
        return [output.text for output in self.told[name] if isinstance(output, LogEntry)]

    def inject(self, name: str, event: Any) -> None:
        place = self.place_of(name)
        self.nodes[place].inject(event, self.now_ns)
        self.settle(place)

    def leave(self, name: str) -> None:
        place = self.place_of(name)
        self.nodes[place].disconnect(self.now_ns)
        self.settle(place)
