"""Clients that publish, subscribe, vanish and return against one core; checkers Q1 to Q4 and Q9 of design/mqtt.md.

Time, faults and chance come from the seed. Every payload is a number of its own, so a checker knows which publication
a client has seen.
"""
from __future__ import annotations

from collections import defaultdict
from random import Random

import attrs
import pytest

from jgroups_py.blocks.mqtt.broker.session import ClientSession
from jgroups_py.blocks.mqtt.codec.packets import (
    Packet,
    Properties,
    PubAckPacket,
    PubCompPacket,
    PublishPacket,
    PubRecPacket,
    PubRelPacket,
    Will,
)
from tests.unit.blocks.mqtt.clients import V3, V5, Bench, Client
from tests.unit.blocks.mqtt.test_subscription_tree import naive

TOPICS = ("a/1", "a/2", "b/1", "b")
FILTERS = ("a/+", "a/1", "#", "+/1", "b/#", "+")
FOR_EVER = 10_000


@attrs.define
class Fact:
    """A publication: what it was, whether it was acknowledged, and which subscribers had to get it.

    due: subscriber -> QoS, for each time that the broker routed it: at QoS 1 each transmission, at QoS 2 the first.
    """

    publisher: str
    topic: str
    qos: int
    acknowledged: bool = False
    due: list[dict[str, int]] = attrs.field(factory=list)

    def granted(self, subscriber: str) -> list[int]:
        """With which QoS a subscriber may get it."""
        return [each[subscriber] for each in self.due if subscriber in each]


class Sometimes(Client):
    """A client whose answers are lost now and then, that repeats what was not acknowledged, and records what it saw."""

    def __init__(self, world: World, name: str, version) -> None:
        super().__init__(world.bench, name, version)
        self.world = world
        self.filters: dict[str, int] = {}
        self.unacknowledged: dict[int, tuple[int, PublishPacket | None]] = {}   # packet id -> number, None: PUBREC came
        self.seen: list[tuple[int, bool, int]] = []      # number, DUP, QoS, as the application gets them
        self.received_2: dict[int, None] = {}            # packet ids of QoS 2 that were not released
        self.wanted_wills: list[int] = []

    def receive(self, packet: Packet) -> None:
        if self.world.rng.random() < self.world.loss:
            # The connection breaks before this packet: nothing behind it arrives either.
            self.dead = True
        if self.dead:
            return
        if isinstance(packet, PublishPacket):
            if packet.qos < 2 or packet.packet_id not in self.received_2:
                self.seen.append((int(packet.payload), packet.dup, packet.qos))
            if packet.qos == 2:
                self.received_2[packet.packet_id] = None
            if packet.qos:
                self.reply((PubAckPacket if packet.qos == 1 else PubRecPacket)(packet.packet_id))
        elif isinstance(packet, PubRelPacket):
            self.received_2.pop(packet.packet_id, None)
            self.reply(PubCompPacket(packet.packet_id))
        elif isinstance(packet, PubAckPacket | PubRecPacket | PubCompPacket):
            number, _ = self.unacknowledged.get(packet.packet_id, (0, None))
            if number:
                self.world.facts[number].acknowledged = True
            if isinstance(packet, PubRecPacket):
                self.unacknowledged[packet.packet_id] = number, None
                self.reply(PubRelPacket(packet.packet_id))
            else:
                self.unacknowledged.pop(packet.packet_id, None)
        else:
            self.packets.append(packet)

    dead = False

    def come(self, will: int = 0) -> None:
        """Connect, to the same session, and repeat what was not acknowledged."""
        self.dead = False
        loss, self.world.loss = self.world.loss, 0.0     # CONNACK and SUBACK arrive; what follows may not
        given = Will("wills", b"%d" % will, 2, False, Properties()) if will else None
        self.connect(clean_start=False, will=given, session_expiry_interval=FOR_EVER)
        self.world.loss = loss
        for packet_id, (_, packet) in list(self.unacknowledged.items()):
            if self.number and not self.dead:
                if packet is None:
                    self.send(PubRelPacket(packet_id))
                else:
                    self.world.transmit(self, attrs.evolve(packet, dup=True))

    def go(self) -> None:
        if self.number:
            self.cut()
        self.dead = False


class World:
    """A broker and its clients by a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.loss = 0.0
        self.bench = Bench(receive_maximum=20, max_inflight=self.rng.choice([1, 3, 100]),
                           match_cache=self.rng.choice([0, 2, 100]))
        self.facts: dict[int, Fact] = {}
        self.clients = [Sometimes(self, f"c{number}", self.rng.choice([V3, V5])) for number in range(4)]
        self.watcher = Sometimes(self, "watcher", V5)
        self.watcher.come()
        self.watcher.subscribe("wills", 2)
        self.watcher.filters["wills"] = 2
        self.everybody = [*self.clients, self.watcher]

    def number(self, fact: Fact) -> int:
        self.facts[len(self.facts) + 1] = fact
        return len(self.facts)

    def reach(self, topic: str, qos: int) -> dict[str, int]:
        """Who has to get a message now, and with which QoS."""
        found = {}
        for client in self.everybody:
            wanted = [granted for filter, granted in client.filters.items() if naive(filter, topic)]
            if wanted:
                found[client.client_id] = min(qos, max(wanted))
        return found

    def publish(self, client: Sometimes) -> None:
        topic, qos = self.rng.choice(TOPICS), self.rng.choice([0, 1, 2])
        if qos and len(client.unacknowledged) >= 15:
            return
        number = self.number(Fact(client.client_id, topic, qos))
        packet_id = 0
        if qos:
            client.last_id += 1
            packet_id = client.last_id
        packet = PublishPacket(topic, b"%d" % number, qos, packet_id=packet_id)
        if qos:
            client.unacknowledged[packet_id] = number, packet
        if self.rng.random() >= self.loss:
            self.transmit(client, packet)
        else:
            client.dead = True

    def transmit(self, client: Sometimes, packet: PublishPacket) -> None:
        """The broker gets a PUBLISH, and routes it but for a repeated one of QoS 2."""
        fact = self.facts[int(packet.payload)]
        if packet.qos < 2 or not fact.due:
            fact.due.append(self.reach(fact.topic, packet.qos))
        client.send(packet)

    def step(self) -> None:
        client = self.rng.choice(self.clients)
        if client.number and client.dead:
            self.lose(client)
        elif not client.number:
            will = self.number(Fact(client.client_id, "wills", 2)) if self.rng.random() < 0.5 else 0
            client.will = will
            client.come(will)
        else:
            self.act(client)

    def lose(self, client: Sometimes) -> None:
        if client.will:
            self.facts[client.will].due.append(self.reach("wills", 2))
            self.facts[client.will].acknowledged = True
            client.will = 0
        client.go()

    def act(self, client: Sometimes) -> None:
        action, = self.rng.choices(
            ["publish", "subscribe", "unsubscribe", "lose", "leave", "wait"], [20, 2, 1, 2, 1, 1])
        if action == "publish":
            self.publish(client)
        elif action in ("subscribe", "unsubscribe"):
            loss, self.loss = self.loss, 0.0
            filter, qos = self.rng.choice(FILTERS), self.rng.choice([0, 1, 2])
            if action == "subscribe":
                client.subscribe(filter, qos)
                client.filters[filter] = qos
            else:
                client.unsubscribe(filter)
                client.filters.pop(filter, None)
            self.loss = loss
        elif action == "lose":
            self.lose(client)
        elif action == "leave":
            client.will = 0
            client.disconnect()
            client.dead = False
        else:
            self.bench.wait(self.rng.random() * 5)

    def run(self, steps: int) -> None:
        for client in self.clients:
            client.will = 0
        for number in range(steps):
            # In the second half of each hundred the network is sound.
            self.loss = 0.03 if number % 100 < 50 else 0.0
            self.step()
        self.loss = 0.0
        for client in self.everybody:
            if client.dead or not client.number:
                if client is not self.watcher:
                    self.lose(client)
                else:
                    client.go()
                client.come()
        self.bench.wait(1)

    def check(self) -> None:
        for client in self.everybody:
            self.check_client(client)
        assert not any(client.unacknowledged for client in self.everybody)
        assert all(not session.in_flight and not session.queue for session in self.bench.broker.sessions.values())

    def check_client(self, client: Sometimes) -> None:
        times: dict[int, int] = defaultdict(int)
        highest: dict[tuple[str, str, int], int] = {}
        for number, dup, qos in client.seen:
            fact = self.facts[number]
            times[number] += 1
            assert qos in fact.granted(client.client_id), f"Q4: {client.client_id} got {number} of QoS {qos}: {fact}"
            assert qos < 2 or times[number] == 1, f"Q2: {number} twice at {client.client_id}"
            key = fact.publisher, fact.topic, fact.qos
            if times[number] == 1 and not dup and fact.topic != "wills":
                assert number > highest.get(key, 0), f"Q3: {number} behind {highest[key]} at {client.client_id}"
                highest[key] = number
        for number, fact in self.facts.items():
            if fact.acknowledged and any(fact.granted(client.client_id)):
                rule = "Q9" if fact.topic == "wills" else "Q1"
                assert times[number], f"{rule}: {client.client_id} never got {number}: {fact}"


def checked(seeds: int) -> None:
    for seed in range(seeds):
        world = World(seed)
        world.run(400)
        world.check()


@pytest.mark.parametrize("seed", range(150))
def test_clients_that_vanish_and_return_get_what_was_acknowledged(seed):
    world = World(seed)
    world.run(400)
    world.check()
    assert len(world.facts) > 50


@pytest.mark.parametrize(("method", "rule"), [("deliver", "Q1|Q9"), ("_repeat", "Q1|Q9")])
def test_the_checkers_notice_what_is_lost(monkeypatch, method, rule):
    """A session that drops one message in five, or forgets to repeat: some seed is found out."""
    original = getattr(ClientSession, method)
    calls = [0]

    def lossy(self, *arguments):
        calls[0] += 1
        if calls[0] % 5 or method == "_repeat":
            original(self, *arguments) if method == "deliver" else self._done(self.connection, arguments[1])

    monkeypatch.setattr(ClientSession, method, lossy)
    with pytest.raises(AssertionError, match=rule):
        checked(20)


def test_the_checkers_notice_what_is_doubled(monkeypatch):
    """Without its memory of packet ids a broker routes a repeated QoS 2 again."""
    original = ClientSession.detach

    def forgetful(self, now_ns):
        original(self, now_ns)
        self.recorded.clear()

    monkeypatch.setattr(ClientSession, "detach", forgetful)
    with pytest.raises(AssertionError, match="Q2"):
        checked(50)
