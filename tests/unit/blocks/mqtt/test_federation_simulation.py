"""Nodes that crash, pause, restart, part and heal, with clients that publish, subscribe and come again, by a seed.

Checkers Q1, Q2, Q3, Q4, Q11, Q12 and Q14 of design/mqtt.md. Every payload is a number of its own.
"""
from __future__ import annotations

from collections import defaultdict
from typing import Any

import attrs
import pytest

from jgroups_py.blocks.mqtt.codec.packets import Packet, PubAckPacket, PubCompPacket, PublishPacket, PubRecPacket
from jgroups_py.blocks.mqtt.federation.core import FederationCore
from jgroups_py.blocks.mqtt.federation.parked import ParkedMessages
from jgroups_py.blocks.mqtt.federation.stream import OutgoingStream
from tests.unit.blocks.mqtt.clients import SECOND, V5, Client
from tests.unit.blocks.mqtt.federation_world import FederationWorld, Node
from tests.unit.blocks.mqtt.test_subscription_tree import naive

NAMES = "ABC"
TOPICS = ("a/1", "a/2", "b/1", "b")
FILTERS = ("a/+", "a/1", "#", "+/1", "b/#", "+")
SESSION = {"clean_start": False, "session_expiry_interval": 100_000}
ACK_TIMEOUT_S = 2.0


@attrs.define(eq=False)
class Sent:
    """A publication. due: for each time that a node routed it, the lives of sessions that had to get it, with the node
    that each is at; taken: nodes (by handle) that had it when the publisher got its acknowledgement."""

    number: int
    publisher: str
    node: Node
    topic: str
    qos: int
    at_ns: int
    due: dict[str, Node] = attrs.field(factory=dict)
    routed: int = 0
    acknowledged_ns: int = 0
    up: tuple[str, ...] = ()


class Roamer(Client):
    """A client of one node, which comes back to it after it has restarted. life: of its session."""

    def __init__(self, world: ModelWorld, name: str, home: str) -> None:
        super().__init__(world.nodes[home], name, V5)
        self.world = world
        self.home = home
        self.filters: dict[str, int] = {}
        self.life = 0
        self.unacknowledged: dict[int, PublishPacket] = {}
        self.seen: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)   # life -> (number, QoS)

    @property
    def session(self) -> str:
        return f"{self.client_id}/{self.life}"

    def come(self) -> None:
        """Connect to the node as it is now; a session that is new is furnished as the old one was."""
        self.bench = self.world.nodes[self.home]
        answer = self.connect(**SESSION)
        if not answer.session_present:
            self.life += 1
            for filter, qos in self.filters.items():
                self.subscribe(filter, qos)
            for packet in list(self.unacknowledged.values()):
                self.world.route(self, attrs.evolve(packet, dup=True))

    def receive(self, packet: Packet) -> None:
        if isinstance(packet, PublishPacket):
            self.seen[self.session].append((int(packet.payload), packet.qos))
            if packet.qos:
                self.reply((PubAckPacket if packet.qos == 1 else PubRecPacket)(packet.packet_id))
            return
        if isinstance(packet, PubAckPacket | PubRecPacket) and packet.packet_id in self.unacknowledged:
            self.world.acknowledged(int(self.unacknowledged[packet.packet_id].payload))
        if isinstance(packet, PubAckPacket | PubCompPacket):
            self.unacknowledged.pop(packet.packet_id, None)
        super().receive(packet)


class ModelWorld(FederationWorld):
    """Nodes, clients, what was sent, and the faults of a seed."""

    def __init__(self, seed: int) -> None:
        super().__init__(NAMES, seed, broker={"ack_timeout_s": ACK_TIMEOUT_S, "receive_maximum": 1_000},
                         keep_peer_s=30.0, silent_s=(0.05, 60.0)[seed % 2])
        self.facts: dict[int, Sent] = {}
        self.roamers = [Roamer(self, f"c{number}", NAMES[number % len(NAMES)]) for number in range(6)]
        self.faults: defaultdict[str, int] = defaultdict(int)
        self.wanted: defaultdict[str, dict[str, None]] = defaultdict(dict)   # client id -> filters that it ever had
        for roamer in self.roamers:
            roamer.come()

    # --- clients ------------------------------------------------------------------------------------------------------

    def publish(self, roamer: Roamer) -> None:
        topic, qos = self.rng.choice(TOPICS), self.rng.choice((0, 1, 2))
        number = len(self.facts) + 1
        self.facts[number] = Sent(number, roamer.client_id, self.nodes[roamer.home], topic, qos, self.now_ns)
        packet_id = 0
        if qos:
            roamer.last_id += 1
            packet_id = roamer.last_id
        packet = PublishPacket(topic, b"%d" % number, qos, packet_id=packet_id)
        if qos:
            roamer.unacknowledged[packet_id] = packet
        self.route(roamer, packet)

    def route(self, roamer: Roamer, packet: PublishPacket) -> None:
        """A node gets a PUBLISH: whom it must reach is what that node knows now."""
        fact, node = self.facts[int(packet.payload)], self.nodes[roamer.home]
        fact.routed += 1
        fact.node, fact.at_ns, fact.due = node, self.now_ns, {}
        for other in self.roamers:
            home = self.nodes[other.home]
            wanted = [filter for filter in other.filters if naive(filter, fact.topic)]
            if home is not node:
                wanted = [filter for filter in wanted if self.knows(node, home, filter)]
            if wanted and home.runs and other.number:
                fact.due[other.session] = home
        fact.up = tuple(node.view.values())
        roamer.send(packet)

    def knows(self, node: Node, home: Node, filter: str) -> bool:
        """Whether a node has to take a filter of another one into account: its filters have come with it, or are on
        their way with it."""
        known = node.federation.interest_of_peers.peers.get(home.name)
        if known is None or known.incarnation != home.federation.incarnation:
            if node.view.get(home.name) != home.handle or home.view.get(node.name) != node.handle:
                return False
            return home.set_ns.get(filter, self.now_ns) < home.since[node.name]
        return known.incarnation == home.federation.incarnation and filter in known.filters

    def acknowledged(self, number: int) -> None:
        """Q1, at once: who could answer has it."""
        fact = self.facts[number]
        if fact.acknowledged_ns:
            return
        fact.acknowledged_ns = self.now_ns
        if self.now_ns - fact.at_ns >= ACK_TIMEOUT_S * SECOND:
            return
        for session, home in fact.due.items():
            since_ns = fact.node.since.get(home.name, self.now_ns)
            if fact.node.view.get(home.name) != home.handle or since_ns >= fact.at_ns:
                continue                                 # it was away meanwhile: nothing waits for it
            if home is not fact.node:
                peer = fact.node.federation.peers[home.name]
                if not peer.is_awaited or peer.awaited_since_ns >= fact.at_ns:
                    continue                             # it was silent meanwhile
            if home is not fact.node and home.handle in fact.up:
                assert b"%d" % number in home.taken, f"Q1: {fact} was acknowledged, {session} at {home.handle}"

    # --- a run --------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        roamer = self.rng.choice(self.roamers)
        node = self.nodes[roamer.home]
        if not roamer.number and node.is_live:
            roamer.come()
        elif node.is_live:
            action, = self.rng.choices(("publish", "subscribe", "unsubscribe"), (20, 2, 1))
            filter = self.rng.choice(FILTERS)
            if action == "publish":
                self.publish(roamer)
            elif action == "subscribe" and filter not in roamer.filters:
                qos = 2
                self.wanted[roamer.client_id][filter] = None
                roamer.subscribe(filter, qos)
                roamer.filters[filter] = qos
            elif action == "unsubscribe" and filter in roamer.filters:
                roamer.unsubscribe(filter)
                del roamer.filters[filter]
                self.stop_waiting(roamer, filter)
        if self.rng.random() < 0.02:
            self.fault()
        self.run(self.rng.choice((0.0005, 0.005, 0.02)))

    def stop_waiting(self, roamer: Roamer, filter: str) -> None:
        had = {number for number, _ in roamer.seen[roamer.session]}
        for fact in self.facts.values():
            if naive(filter, fact.topic) and fact.number not in had:
                fact.due.pop(roamer.session, None)

    def fault(self) -> None:
        kind = self.rng.choice(("crash", "pause", "split", "end", "end"))
        name = self.rng.choice(NAMES)
        node = self.nodes[name]
        self.faults[kind] += 1
        if kind == "end":
            self.calm()
        elif kind == "split":
            self.split(name, NAMES.replace(name, ""))
        elif node.is_live and kind == "pause":
            self.pause(name)
        elif node.is_live and kind == "crash":
            self.crash(name)
            self.run(self.rng.choice((0.05, 0.5, 1.5)))
            self.start(name)

    def calm(self) -> None:
        self.heal()
        for name, node in list(self.nodes.items()):
            if not node.runs:
                self.start(name)
            elif node.paused:
                self.resume(name)

    def run_seed(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
            for node in self.nodes.values():
                if node.runs:
                    node.ledgers_add_up()
        self.calm()
        self.run(2)
        for roamer in self.roamers:
            if not roamer.number:
                roamer.come()
        self.run(40)

    # --- checkers -----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        self.check_trees()
        for roamer in self.roamers:
            assert not roamer.unacknowledged, f"Q11: {roamer.client_id} has no answer for {roamer.unacknowledged}"
            for life, seen in roamer.seen.items():
                self.check_life(life, seen)
        for fact in self.facts.values():
            for session, home in fact.due.items():
                self.check_arrival(fact, session, home)

    def check_life(self, life: str, seen: list[tuple[int, int]]) -> None:
        times: defaultdict[int, int] = defaultdict(int)
        highest: defaultdict[tuple[str, str, int], int] = defaultdict(int)
        wanted = self.wanted[life.partition("/")[0]]
        for number, qos in seen:
            fact = self.facts[number]
            times[number] += 1
            assert qos <= fact.qos, f"Q4: {life} got {fact} with QoS {qos}"
            assert any(naive(filter, fact.topic) for filter in wanted), f"Q4: {life} got {fact}"
            assert times[number] <= fact.routed, f"Q2: {life} got {number} {times[number]} times: {fact}"
            key = fact.publisher, fact.topic, fact.qos
            if fact.routed == 1:
                assert number > highest[key], f"Q3: {life} got {number} behind {highest[key]}"
                highest[key] = number

    def check_arrival(self, fact: Sent, session: str, home: Node) -> None:
        """Q1. Excused: QoS 0; the session is gone with its node; the publisher's node is gone with what it had queued
        for a peer that it could not reach."""
        client_id, _, _ = session.partition("/")
        roamer = next(each for each in self.roamers if each.client_id == client_id)
        if not fact.qos or not fact.acknowledged_ns or self.nodes[home.name] is not home:
            return
        if self.nodes[fact.node.name] is not fact.node and b"%d" % fact.number not in home.taken:
            return
        assert any(number == fact.number for number, _ in roamer.seen[session]), f"Q1: {session} never got {fact}"


def checked(seeds: range, steps: int = 250) -> dict[str, int]:
    faults: defaultdict[str, int] = defaultdict(int)
    for seed in seeds:
        world = ModelWorld(seed)
        world.run_seed(steps)
        world.check()
        for name, number in world.faults.items():
            faults[name] += number
    return faults


@pytest.mark.parametrize("seed", range(60))
def test_nodes_that_fail_lose_and_double_nothing(seed):
    world = ModelWorld(seed)
    world.run_seed(250)
    world.check()
    assert len(world.facts) > 50


def lossy_welcome(original: Any) -> Any:
    def resend(self: OutgoingStream, next: int, until: int) -> None:
        original(self, until, until)
    return resend


def forgetful_hello(original: Any) -> Any:
    def on_hello(self: FederationCore, peer: Any, *arguments: Any) -> None:
        peer.in_session = 0
        original(self, peer, *arguments)
    return on_hello


@pytest.mark.parametrize(("owner", "method", "make", "rule"), [
    (OutgoingStream, "resend", lossy_welcome, "Q1"),
    (FederationCore, "_on_hello", forgetful_hello, "Q2"),
    (ParkedMessages, "ask_later", lambda original: lambda *arguments: None, "Q1"),
    (FederationCore, "_on_digest", lambda original: lambda *arguments: None, ""),
])
def test_the_checkers_notice(monkeypatch, owner, method, make, rule):
    """A core with one part broken is found out; rule "": no seed needs that part, as these carriers lose no frame."""
    monkeypatch.setattr(owner, method, make(getattr(owner, method)))
    if not rule:
        checked(range(3))
        return
    with pytest.raises(AssertionError, match=rule):
        checked(range(20))
