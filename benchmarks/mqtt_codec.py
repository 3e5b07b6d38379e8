"""Claim: the codec of blocks/mqtt reads a PUBLISH of 100 bytes in about a microsecond, and writes it to many for less.

`python -m benchmarks.mqtt_codec`: nanoseconds of processor time a packet, best of some rounds, of this codec beside
mqtt5 (Rust, version 5 only) and paho-mqtt's parser (design/decisions/0016-a-codec-of-our-own-for-mqtt.md):

    read     PUBLISH in batches of 64 KB, acknowledgements, PUBLISH with properties
    write    one message for 1,000 subscribers; one packet
"""
from __future__ import annotations

import io
from collections.abc import Callable
from time import process_time_ns
from typing import Any

import mqtt5
import paho.mqtt.client as paho

from jgroups_py.blocks.mqtt.codec.decoder import Decoder
from jgroups_py.blocks.mqtt.codec.encoder import PublishFrames, encode
from jgroups_py.blocks.mqtt.codec.packets import Properties, ProtocolVersion, PubAckPacket, PublishPacket, SentBy

BATCH = 64 << 10
ROUNDS = 100
TOPIC, PAYLOAD = "sensors/room1/temp", b"x" * 100
PROPERTIES = Properties(content_type="text/plain", topic_alias=3, user_properties=(("trace", "7f"), ("span", "12")))
V3, V5 = ProtocolVersion


def best(work: Callable[[], object], packets: int, rounds: int = ROUNDS) -> float:
    """Nanoseconds a packet."""
    found = float("inf")
    for _ in range(rounds):
        began = process_time_ns()
        work()
        found = min(found, (process_time_ns() - began) / packets)
    return found


def by_mqtt5(batch: bytes) -> Callable[[], object]:
    """Read a batch with mqtt5."""
    def work() -> None:
        rest = memoryview(batch)
        while rest:
            _, size = mqtt5.read(rest)
            rest = rest[size:]
    return work


def by_paho(batch: bytes, version: ProtocolVersion) -> Callable[[], object]:
    """Read a batch with paho's client, as it does from its socket, into a callback that does nothing."""
    client: Any = paho.Client(paho.CallbackAPIVersion.VERSION2, "bench", protocol=int(version))
    client.on_message = lambda *_: None
    client._call_socket_register_write = client._send_puback = lambda *_: 0

    def work() -> None:
        client._sock_recv = io.BytesIO(batch).read
        while client._packet_read() == paho.MQTT_ERR_SUCCESS:
            pass
    return work


def reading() -> None:
    """The table of reading."""
    print(f"{'read':<34}{'ours':>8}{'mqtt5':>8}{'paho':>8}   ns a packet")
    cases = [(f"{version.name} PUBLISH QoS {qos}, 100 B", version,
              PublishPacket(TOPIC, PAYLOAD, qos, packet_id=7 * qos))
             for version in ProtocolVersion for qos in (0, 1)]
    cases += [("MQTT_5 PUBLISH with 4 properties", V5, PublishPacket(TOPIC, PAYLOAD, properties=PROPERTIES))]
    for name, version, packet in cases:
        one = encode(packet, version)
        number = BATCH // len(one)
        decoder, batch = Decoder(SentBy.EITHER, version), one * number
        assert decoder.feed(batch) == [packet] * number
        theirs = f"{best(by_mqtt5(batch), number):8.0f}" if version is V5 else f"{'-':>8}"
        slow = f"{best(by_paho(batch, version), number, 5):8.0f}" if packet.properties != PROPERTIES else f"{'-':>8}"
        print(f"{name:<34}{best(lambda d=decoder, b=batch: d.feed(b), number):8.0f}{theirs}{slow}")  # type: ignore[misc]
    acks = encode(PubAckPacket(7), V5) * 1000
    decoder = Decoder(SentBy.EITHER, V5)
    print(f"{'PUBACK':<34}{best(lambda: decoder.feed(acks), 1000):8.0f}{best(by_mqtt5(acks), 1000):8.0f}{'-':>8}")


def writing() -> None:
    """The table of writing."""
    print(f"\n{'write':<34}{'ours':>8}{'mqtt5':>8}   ns a packet")
    for qos in (0, 1):
        def many(qos: int = qos) -> None:
            frames = PublishFrames(TOPIC, PAYLOAD, V5)
            for packet_id in range(1, 1001):
                frames.frame(qos, packet_id)

        quality = (mqtt5.QoS.AT_MOST_ONCE, mqtt5.QoS.AT_LEAST_ONCE)[qos]
        packet = PublishPacket(TOPIC, PAYLOAD, qos, packet_id=7 * qos)

        def theirs(qos: int = qos, quality: mqtt5.QoS = quality) -> None:
            for packet_id in range(1, 1001):
                mqtt5.PublishPacket(TOPIC, PAYLOAD, qos=quality, packet_id=packet_id if qos else None).write()

        print(f"{f'QoS {qos} to 1,000 subscribers':<34}{best(many, 1000):8.0f}{best(theirs, 1000):8.0f}")
        print(f"{f'QoS {qos}, one packet':<34}{best(lambda p=packet: encode(p, V5), 1, 2000):8.0f}")   # type: ignore[misc]


if __name__ == "__main__":
    reading()
    writing()
