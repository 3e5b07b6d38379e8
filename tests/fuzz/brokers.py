"""The broker of MQTT under mutated packets: a client in each state of QoS sends them, and all else has to go on.

An input is what one client sends after its CONNECT. It is read as the server reads it; what the broker answers has to
be packets that a client can read. Then the counts of all sessions have to be right, another client still gets its
messages, and when the client is gone and time has passed nothing of it is left.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from random import Random

from jgroups_py.blocks.mqtt.broker.broker import Broker
from jgroups_py.blocks.mqtt.broker.options import BrokerOptions
from jgroups_py.blocks.mqtt.broker.outputs import CloseConnection, SendAcks, SendPacket, SendPublish
from jgroups_py.blocks.mqtt.broker.ports import NOWHERE, Forwarding, GroupChoice, NoFederation
from jgroups_py.blocks.mqtt.broker.publication import SECOND, Publication
from jgroups_py.blocks.mqtt.broker.session import NO_MESSAGE
from jgroups_py.blocks.mqtt.codec.decoder import DecodeLimits, Decoder
from jgroups_py.blocks.mqtt.codec.encoder import encode, encode_acks
from jgroups_py.blocks.mqtt.codec.packets import (
    NO_PROPERTIES,
    ConnectPacket,
    DisconnectPacket,
    MqttError,
    Packet,
    PingReqPacket,
    Properties,
    ProtocolVersion,
    PubAckPacket,
    PubCompPacket,
    PublishPacket,
    PubRecPacket,
    PubRelPacket,
    ReasonCode,
    SentBy,
    SubscribePacket,
    Subscription,
    UnsubscribePacket,
    Will,
)
from tests.unit.blocks.mqtt.random_packets import random_packet

WATCHER = 0
SEEDS = 60
MOST_BYTES = 8192
"""Of an input: each packet has its cost, and the server gives the broker as many at once as make no long turn."""
LONG_S = 100
OPTIONS = BrokerOptions(sys_interval_s=0, max_session_expiry_s=LONG_S, receive_maximum=20, max_inflight=3,
                        queue_messages=5, ack_timeout_s=5.0, max_subscriptions=20)
LIMITS = DecodeLimits(filters=100, user_properties=20)


class Peers(NoFederation):
    """Other brokers that have taken over what is published to "slow" when they are told to."""

    def __init__(self) -> None:
        self.token = 0

    def publish(self, publication: Publication, groups: Sequence[GroupChoice], now_ns: int) -> Forwarding:
        if publication.topic != "slow":
            return NOWHERE
        self.token += 1
        return Forwarding(self.token, peers=1)


class World:
    """A broker, the client that sends mutated packets, and one that watches."""

    def __init__(self, version: ProtocolVersion) -> None:
        self.version = version
        self.now_ns = SECOND
        self.peers = Peers()
        self.broker = Broker(OPTIONS, Random(1), now_ns=self.now_ns, federation=self.peers)
        self.written: dict[int, bytearray] = {}          # connection -> what was sent; closed ones are not there
        self.last = bytearray()                          # of the last one that was closed
        self.victim = 0
        self.connect(WATCHER, ConnectPacket("watcher"))
        self.send(WATCHER, SubscribePacket(1, (Subscription("watched", 1), Subscription("$share/g/t", 1))))
        self.come()
        self.send(self.victim, SubscribePacket(1, (Subscription("t", 2), Subscription("$share/g/t", 2))))

    def come(self) -> None:
        """The client connects."""
        self.victim += 1
        self.connect(self.victim, ConnectPacket(
            "victim", self.version, False, 10, will=Will("watched", b"will"), properties=(
                Properties(session_expiry_interval=LONG_S, receive_maximum=3) if self.version == 5 else NO_PROPERTIES)))

    def connect(self, number: int, packet: ConnectPacket) -> None:
        """A new connection."""
        if number not in self.broker.connections:
            self.broker.connected(number, self.now_ns)
        self.written[number] = bytearray()
        self.send(number, packet)

    def send(self, number: int, *packets: Packet) -> None:
        self.broker.received(number, packets, self.now_ns)
        self.settle()

    def feed(self, data: bytes) -> None:
        """Bytes of the client, as the server reads them."""
        decoder = Decoder(SentBy.CLIENT, self.version, LIMITS)
        try:
            packets, error = decoder.feed(data), None
        except MqttError as found:
            packets, error = found.packets, found
        self.send(self.victim, *packets)
        if error is not None:
            self.broker.failed(self.victim, error, self.now_ns)
            self.settle()

    def settle(self) -> None:
        """What the broker sends becomes bytes."""
        for output in self.broker.drain():
            if isinstance(output, CloseConnection):
                assert output.connection not in self.broker.connections, "closed and still there"
                if output.connection == WATCHER:
                    raise AssertionError(f"the watcher was disconnected: {output.detail}")
                self.last = self.written.pop(output.connection)
            elif isinstance(output, SendPacket):
                self.written[output.connection] += encode(output.packet, output.version)
            elif isinstance(output, SendAcks):
                self.written[output.connection] += encode_acks(output.kind, output.packet_ids)
            elif isinstance(output, SendPublish):
                self.written[output.connection] += output.frames.frame(
                    output.qos, output.packet_id, output.retain, output.dup)

    def take(self, number: int) -> list[Packet]:
        """What a client has got since the last call."""
        written = self.written.get(number, self.last)
        data = bytes(written)
        written.clear()
        version = ProtocolVersion.MQTT_5 if number == WATCHER else self.version
        decoder = Decoder(SentBy.SERVER, version)
        packets = decoder.feed(data)
        assert not decoder.pending_bytes, "half a packet was sent"
        return packets

    def check(self) -> None:
        """The counts of all sessions, and the watcher's next message."""
        broker = self.broker
        assert len(broker.router.tree) == sum(len(each.subscriptions) for each in broker.sessions.values())
        for session in broker.sessions.values():
            assert session.queue_bytes == sum(each.publication.size for each in session.queue)
            assert len(session.queue) <= OPTIONS.queue_messages
            assert len(session.recorded) <= OPTIONS.receive_maximum
            assert len(session.subscriptions) <= OPTIONS.max_subscriptions
            connection = session.connection
            if connection is not None:
                assert broker.connections[connection.number] is connection
                assert connection.in_flight + len(connection.repeat) == len(session.in_flight)
                published = sum(each is not NO_MESSAGE for each in session.in_flight.values())
                assert published - len(connection.repeat) <= connection.receive_maximum
        self.send(WATCHER, PublishPacket("watched", b"still here", 1, packet_id=9))
        payloads = [each.payload for each in self.take(WATCHER) if isinstance(each, PublishPacket)]
        in_flight = len(broker.sessions["watcher"].in_flight)
        assert b"still here" in payloads or in_flight == OPTIONS.max_inflight, payloads

    def end(self) -> None:
        """The client is gone, and its session after it."""
        self.broker.lost(self.victim, self.now_ns)
        self.settle()
        for token in range(1, self.peers.token + 1):
            self.broker.release(token, self.now_ns)
        for seconds in (6, LONG_S + 1):
            self.now_ns += seconds * SECOND
            self.broker.tick(self.now_ns)
            self.settle()
        assert list(self.broker.sessions) == ["watcher"]
        assert list(self.broker.connections) == [WATCHER]
        assert list(self.broker.router.tree.filters()) == [("watched", 1), ("$share/g/t", 1)]
        assert self.broker.next_deadline_ns() is None
        self.take(WATCHER)


# --- the states of QoS ------------------------------------------------------------------------------------------------

def fresh(world: World) -> None:
    """Nothing in flight."""


def sent_1(world: World) -> None:
    """PUBLISH of QoS 1 was sent (packet id 1), and as many more as may be; others wait in the queue."""
    for number in range(5):
        world.broker.publish("t", b"%d" % number, 1, False, world.now_ns)


def sent_2(world: World) -> None:
    """The same with QoS 2."""
    for number in range(5):
        world.broker.publish("t", b"%d" % number, 2, False, world.now_ns)


def released(world: World) -> None:
    """PUBREL was sent for packet id 1."""
    sent_2(world)
    world.send(world.victim, PubRecPacket(1))


def recorded(world: World) -> None:
    """The client's packet id 1 of QoS 2 was taken over: PUBREC was sent."""
    world.send(world.victim, PublishPacket("t", b"x", 2, packet_id=1))


def waiting(world: World) -> None:
    """Packet ids 1 (QoS 2) and 2 (QoS 1) of the client wait for peers."""
    world.send(world.victim, PublishPacket("slow", b"x", 2, packet_id=1), PublishPacket("slow", b"x", 1, packet_id=2))


def repeating(world: World) -> None:
    """The client has come back, and its transport takes nothing: what is in flight waits to be repeated."""
    released(world)
    world.broker.lost(world.victim, world.now_ns)
    world.settle()
    world.broker.connected(world.victim + 1, world.now_ns)
    world.broker.write_blocked(world.victim + 1)
    world.come()


STATES: tuple[Callable[[World], None], ...] = (fresh, sent_1, sent_2, released, recorded, waiting, repeating)


def sessions_seeds(version: ProtocolVersion) -> tuple[bytes, ...]:
    """What clients send, mostly about packet ids 1 to 3, a few packets each."""
    rng = Random(version + 10)
    found = []
    for _ in range(SEEDS):
        packet_id = rng.randint(1, 3)
        packets = rng.choices([
            PublishPacket(rng.choice(["t", "slow", "watched", "$SYS/x"]), b"x", 0, rng.random() < 0.5),
            PublishPacket(rng.choice(["t", "slow"]), b"x", rng.choice([1, 2]), rng.random() < 0.3, False, packet_id),
            PublishPacket("t", b"x", 2, dup=True, packet_id=packet_id),
            PubAckPacket(packet_id), PubRecPacket(packet_id), PubRelPacket(packet_id), PubCompPacket(packet_id),
            SubscribePacket(packet_id, (Subscription(rng.choice(["t", "#", "$share/g/t", "+/a"]), 2),)),
            UnsubscribePacket(packet_id, ("t", "$share/g/t")), PingReqPacket(),
            DisconnectPacket(rng.choice([ReasonCode.NORMAL_DISCONNECTION, ReasonCode.DISCONNECT_WITH_WILL_MESSAGE])),
        ], k=rng.randint(1, 5))
        found.append(b"".join(encode(packet, version) for packet in packets))
    while len(found) < 2 * SEEDS:
        data = encode(random_packet(rng, version), version)
        with suppress(MqttError):
            if Decoder(SentBy.CLIENT, version).feed(data):
                found.append(data)
    return tuple(found)


def attack(version: ProtocolVersion, state: Callable[[World], None], data: bytes) -> None:
    """One input against a client in this state."""
    world = World(version)
    state(world)
    world.settle()
    world.take(world.victim)
    world.feed(data[:MOST_BYTES])
    world.take(world.victim)
    world.check()
    world.broker.write_ready(world.victim, world.now_ns)
    world.settle()
    world.take(world.victim)
    world.end()


def attacks() -> list[tuple[str, Callable[[bytes], None], tuple[bytes, ...]]]:
    """(name, what reads an input, seeds) for each version and state."""
    return [(f"mqtt-broker-{'5' if version == 5 else '3.1.1'}-{state.__name__.replace('_', '-')}",
             partial(attack, version, state), sessions_seeds(version))
            for version in ProtocolVersion for state in STATES]
