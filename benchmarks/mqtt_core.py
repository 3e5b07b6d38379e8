"""Claim: a delivery of QoS 1 costs the broker's core some 3 us, its acknowledgement included, and an idle client 4 KB.

`python -m benchmarks.mqtt_core`: nanoseconds of processor time, best of some rounds, and the same as multiples of a
yardstick that is measured between the rounds: a fixed piece of Python, so that figures of different days and machines
can be compared.

    codec     one PUBLISH of 100 B or one acknowledgement, read and written
    core      one PUBLISH in, its packets out as bytes, and the acknowledgements of all subscribers in
    nodes     from the bytes of a publisher at one node to those of a subscriber at another one, all acknowledgements
              included; the group between them is a call
    memory    what tracemalloc counts for an idle client, without the sockets and buffers of a server
"""
from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Sequence
from random import Random
from time import process_time_ns

import attrs

from jgroups_py.blocks.mqtt.broker.broker import Broker
from jgroups_py.blocks.mqtt.broker.options import BrokerOptions
from jgroups_py.blocks.mqtt.broker.outputs import SendAcks, SendPublish
from jgroups_py.blocks.mqtt.broker.session import MAX_PACKET_ID
from jgroups_py.blocks.mqtt.codec.decoder import Decoder
from jgroups_py.blocks.mqtt.codec.encoder import PublishFrames, encode, encode_acks
from jgroups_py.blocks.mqtt.codec.packets import (
    ConnectPacket,
    Packet,
    Properties,
    ProtocolVersion,
    PubAckPacket,
    PublishPacket,
    SentBy,
    SubscribePacket,
    Subscription,
    acknowledgement,
)
from jgroups_py.blocks.mqtt.federation.core import FederationCore
from jgroups_py.blocks.mqtt.federation.options import FederationOptions

ROUNDS = 300
BATCH = 400
CORE_BATCH = 50
NODE_BATCH = 90
TOPIC, PAYLOAD = "sensors/room1/temp", b"x" * 100
PROPERTIES = Properties(content_type="text/plain", message_expiry_interval=300,
                        user_properties=(("trace", "7f"), ("span", "12")))
V3, V5 = ProtocolVersion
IDLE_CLIENTS = 10_000


@attrs.define
class Row:
    """A piece of work: how many nanoseconds one of `count` takes, and as multiples of the yardstick."""

    name: str
    work: Callable[[], object]
    count: int
    best_ns: float = float("inf")

    def run(self) -> None:
        """Once more."""
        began_ns = process_time_ns()
        self.work()
        self.best_ns = min(self.best_ns, (process_time_ns() - began_ns) / self.count)


@attrs.define
class Item:
    """Of the yardstick."""

    number: int
    text: str


def yardstick() -> None:
    """Calls, attributes, dicts, bytes: what a core is made of."""
    kept: dict[int, Item] = {}
    for number in range(BATCH):
        item = kept[number & 63] = Item(number, TOPIC)
        if item.number in kept:
            b"%b%b" % (PAYLOAD, item.text.encode())


class World:
    """A broker with a publisher and subscribers of one QoS; what it sends becomes bytes."""

    def __init__(self, version: ProtocolVersion, subscribers: int, qos: int) -> None:
        self.broker = Broker(BrokerOptions(sys_interval_s=0), Random(1), now_ns=1)
        self.qos = qos
        self.publish: Sequence[Packet] = (PublishPacket(TOPIC, PAYLOAD, qos, packet_id=qos),)
        for number in range(subscribers + 1):
            self.broker.connected(number, 1)
            self.broker.received(number, (ConnectPacket(f"client{number}", version),), 1)
            if number:
                self.broker.received(number, (SubscribePacket(1, (Subscription(TOPIC, qos),)),), 1)
        self.broker.drain()
        self._acks = [(acknowledgement(PubAckPacket, packet_id),) for packet_id in range(MAX_PACKET_ID + 1)]

    def run(self) -> None:
        """CORE_BATCH publications, and all their acknowledgements."""
        broker, publish, acks = self.broker, self.publish, self._acks
        received, drain = broker.received, broker.drain
        for _ in range(CORE_BATCH):
            received(0, publish, 1)
            for output in drain():
                if output.__class__ is SendPublish:
                    output.frames.frame(output.qos, output.packet_id, output.retain, output.dup)
                    if output.qos:
                        received(output.connection, acks[output.packet_id], 1)
                elif output.__class__ is SendAcks:
                    encode_acks(output.kind, output.packet_ids)


class TwoNodes:
    """A publisher at one node of a federation, subscribers at the other one, as bytes."""

    def __init__(self, subscribers: int, qos: int) -> None:
        self.names = ("near", "far")
        self.cores = [FederationCore(FederationOptions(name=name), Random(at), now_ns=1)
                      for at, name in enumerate(self.names)]
        self.brokers = [Broker(BrokerOptions(sys_interval_s=0, receive_maximum=1_000, max_inflight=1_000), Random(at),
                               now_ns=1, federation=core) for at, core in enumerate(self.cores)]
        for core, broker in zip(self.cores, self.brokers, strict=True):
            core.attach(broker)
            core.peers_changed(dict.fromkeys(self.names, 1), 1)
        for number in range(subscribers + 1):
            at = int(number > 0)
            self.brokers[at].connected(number, 1)
            self.brokers[at].received(number, (ConnectPacket(f"client{number}", V3),), 1)
            if number:
                self.brokers[at].received(number, (SubscribePacket(1, (Subscription(TOPIC, qos),)),), 1)
        self.decoders = [Decoder(SentBy.CLIENT, V3) for _ in range(subscribers + 1)]
        self.data = b"".join(encode(PublishPacket(TOPIC, PAYLOAD, qos, packet_id=number * qos), V3)
                             for number in range(1, NODE_BATCH + 1))
        self.expected = subscribers * NODE_BATCH
        self.acknowledged = qos * NODE_BATCH
        for _ in range(5):
            self._settle()

    def run(self) -> None:
        """One read of the publisher, and all that follows."""
        self.brokers[0].received(0, self.decoders[0].feed(self.data), 1)
        got, acknowledged = self._settle()
        assert (got, acknowledged) == (self.expected, self.acknowledged), (got, acknowledged)

    def _settle(self) -> tuple[int, int]:
        """Until nothing happens; (messages to subscribers, packets to the publisher)."""
        got = packets = 0
        moved = True
        while moved:
            moved = False
            for at, (core, broker) in enumerate(zip(self.cores, self.brokers, strict=True)):
                for frame in core.drain(1):
                    moved = True
                    self.cores[1 - at].receive(self.names[at], frame.data, 1)
                acks: dict[int, list[bytes]] = {}
                for output in broker.drain():
                    moved = True
                    if output.__class__ is SendPublish:
                        output.frames.frame(output.qos, output.packet_id, output.retain, output.dup)
                        got += 1
                        if output.qos:
                            acks.setdefault(output.connection, []).append(
                                b"\x40\2" + output.packet_id.to_bytes(2, "big"))
                    elif output.__class__ is SendAcks:
                        packets += len(encode_acks(output.kind, output.packet_ids)) // 4
                for connection, data in acks.items():
                    broker.received(connection, self.decoders[connection].feed(b"".join(data)), 1)
        return got, packets


def codec_rows() -> list[Row]:
    """Reading and writing."""
    rows = []
    for version in ProtocolVersion:
        for qos in (0, 1):
            data = encode(PublishPacket(TOPIC, PAYLOAD, qos, packet_id=7 * qos), version) * BATCH
            rows.append(Row(f"codec: read PUBLISH of QoS {qos}, {version.name}",
                            lambda d=data, v=version: Decoder(SentBy.EITHER, v).feed(d), BATCH))  # type: ignore[misc]
    same = encode(PublishPacket(TOPIC, PAYLOAD, properties=PROPERTIES), V5) * BATCH
    others = b"".join(encode(PublishPacket(TOPIC, PAYLOAD, properties=attrs.evolve(
        PROPERTIES, message_expiry_interval=number)), V5) for number in range(BATCH))
    acks = encode(PubAckPacket(7), V5) * BATCH
    frames = PublishFrames(TOPIC, PAYLOAD, V5)
    return [
        *rows,
        Row("codec: read PUBLISH with 4 properties", lambda: Decoder(SentBy.EITHER, V5).feed(same), BATCH),
        Row("codec: ... that are others each time", lambda: Decoder(SentBy.EITHER, V5).feed(others), BATCH),
        Row("codec: read PUBACK", lambda: Decoder(SentBy.EITHER, V5).feed(acks), BATCH),
        Row("codec: write to one of many, QoS 1", lambda: [frames.frame(1, 7) for _ in range(BATCH)], BATCH),
    ]


def core_rows() -> list[Row]:
    """One to one and one to ten."""
    return [Row(f"core: 1 to {subscribers}, QoS {qos}, {version.name}, a delivery",
                World(version, subscribers, qos).run, CORE_BATCH * subscribers)
            for version in ProtocolVersion for qos in (0, 1) for subscribers in (1, 10)]


def node_rows() -> list[Row]:
    """Node to node."""
    return [Row(f"nodes: 1 to {subscribers}, QoS {qos}, a message", TwoNodes(subscribers, qos).run, NODE_BATCH)
            for qos in (0, 1) for subscribers in (1, 10)]


def idle_bytes(with_filter: bool) -> float:
    """Bytes a client: connected, and with one subscription of its own."""
    gc.collect()
    tracemalloc.start()
    broker = Broker(BrokerOptions(sys_interval_s=0), Random(1), now_ns=1)
    before, _ = tracemalloc.get_traced_memory()
    for number in range(IDLE_CLIENTS):
        broker.connected(number, 1, f"127.0.0.1:{number}")
        broker.received(number, (ConnectPacket(f"client{number}", V5, keep_alive_s=60),), 1)
        if with_filter:
            broker.received(number, (SubscribePacket(1, (Subscription(f"devices/{number}/set", 1),)),), 1)
        broker.drain()
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / IDLE_CLIENTS


def main() -> None:
    """The tables."""
    ruler = Row("yardstick", yardstick, BATCH)
    rows = [*codec_rows(), *core_rows(), *node_rows()]
    for _ in range(ROUNDS):
        for row in rows:
            ruler.run()
            row.run()
    print(f"{'':<46}{'ns':>8}{'yardsticks':>12}")
    for row in (ruler, *rows):
        print(f"{row.name:<46}{row.best_ns:8.0f}{row.best_ns / ruler.best_ns:12.1f}")
    print(f"\nmemory: an idle client                        {idle_bytes(False):8.0f} bytes")
    print(f"memory: an idle client with a subscription    {idle_bytes(True):8.0f} bytes")


if __name__ == "__main__":
    main()
