"""Packets drawn from a seed: every type, every field, every property that a packet may have."""
from __future__ import annotations

from random import Random
from typing import Any

from jgroups_py.blocks.mqtt.broker.reasons import CONNACK_OF_RETURN_CODE, REASONS
from jgroups_py.blocks.mqtt.codec.packets import (
    NO_PROPERTIES,
    AuthPacket,
    ConnAckPacket,
    ConnectPacket,
    DisconnectPacket,
    Packet,
    PacketType,
    PingReqPacket,
    PingRespPacket,
    Properties,
    PropertyKind,
    ProtocolVersion,
    PubAckPacket,
    PubCompPacket,
    PublishPacket,
    PubRecPacket,
    PubRelPacket,
    ReasonCode,
    RetainHandling,
    SubAckPacket,
    SubscribePacket,
    Subscription,
    UnsubAckPacket,
    UnsubscribePacket,
    Will,
)
from jgroups_py.blocks.mqtt.codec.properties import RULES

NAMES = ("a", "a/b", "/", "sensors/room 1/temp", "ü/\N{SNOWMAN}/\N{PILE OF POO}", "$SYS/x", "x" * 300, "a//b", "\ufeff")
FILTERS = (*NAMES, "#", "+", "a/#", "+/+/#", "/+", "$share/g/a/+", "$share/group/#")
TEXTS = ("", "text", "ü", "\N{PILE OF POO}" * 20, "x" * 200, "\ufeffmark", "\x01")
NUMBERS = {PropertyKind.BYTE: 0xFF, PropertyKind.FLAG: 1, PropertyKind.U16: 0xFFFF, PropertyKind.U32: 0xFFFFFFFF,
           PropertyKind.VARINT: 268_435_455}
ACKS = (PubAckPacket, PubRecPacket, PubRelPacket, PubCompPacket)


def random_number(rng: Random, most: int, least: int = 0) -> int:
    """Often an edge."""
    return rng.choice((least, most, min(most, 127), min(most, 128), rng.randint(least, most)))


def random_bytes(rng: Random) -> bytes:
    """Mostly short."""
    return rng.randbytes(rng.choice((0, 1, 5, 120, 127, 128, 300, 20_000)))


def random_properties(rng: Random, version: ProtocolVersion, where: PacketType) -> Properties:
    """Some of those that the packet may have."""
    if version is ProtocolVersion.MQTT_3_1_1 or rng.random() < 0.3:
        return NO_PROPERTIES
    values: dict[str, Any] = {}
    for rule in RULES.values():
        if not rule.where >> where & 1 or rng.random() < 0.5:
            continue
        if rule.name == "user_properties":
            values[rule.name] = tuple((rng.choice(TEXTS), rng.choice(TEXTS)) for _ in range(rng.randrange(4)))
        elif rule.name == "subscription_identifiers":
            values[rule.name] = tuple(random_number(rng, NUMBERS[rule.kind], 1) for _ in range(
                1 if where is PacketType.SUBSCRIBE else rng.randrange(4)))
        elif rule.name == "response_topic":
            values[rule.name] = rng.choice(NAMES)
        elif rule.kind is PropertyKind.TEXT:
            values[rule.name] = rng.choice(TEXTS)
        elif rule.kind is PropertyKind.BINARY:
            values[rule.name] = random_bytes(rng)
        else:
            values[rule.name] = random_number(rng, NUMBERS[rule.kind], rule.least)
    if where in (PacketType.CONNECT, PacketType.AUTH):
        values.setdefault("authentication_method", "SCRAM")
    return Properties(**values)


def random_reason(rng: Random, kind: PacketType) -> ReasonCode:
    """One that the packet may have."""
    return rng.choice(list(REASONS[kind].values()))


def random_connect(rng: Random, version: ProtocolVersion) -> ConnectPacket:
    """With all that may be missing there or not."""
    will = None
    if rng.random() < 0.5:
        will = Will(rng.choice(NAMES), random_bytes(rng), rng.randrange(3), rng.random() < 0.5,
                    random_properties(rng, version, PacketType.WILL))
    username = rng.choice((None, *TEXTS))
    password = random_bytes(rng) if rng.random() < 0.5 and (version == 5 or username is not None) else None
    return ConnectPacket(rng.choice(TEXTS), version, rng.random() < 0.5, random_number(rng, 65535), username, password,
                         will, random_properties(rng, version, PacketType.CONNECT))


def random_publish(rng: Random, version: ProtocolVersion) -> PublishPacket:
    """Of any QoS."""
    qos = rng.randrange(3)
    properties = random_properties(rng, version, PacketType.PUBLISH)
    topic = "" if properties.topic_alias is not None and rng.random() < 0.5 else rng.choice(NAMES)
    return PublishPacket(topic, random_bytes(rng), qos, rng.random() < 0.5, qos > 0 and rng.random() < 0.5,
                         random_number(rng, 65535, 1) if qos else 0, properties)


def random_subscription(rng: Random, version: ProtocolVersion) -> Subscription:
    """One filter."""
    text, qos = rng.choice(FILTERS), rng.randrange(3)
    if version is ProtocolVersion.MQTT_3_1_1:
        return Subscription(text, qos)
    return Subscription(text, qos, rng.random() < 0.5 and not text.startswith("$share/"), rng.random() < 0.5,
                        rng.choice(list(RetainHandling)))


def random_server_packet(rng: Random, version: ProtocolVersion, kind: PacketType, packet_id: int) -> Packet:
    """What a server alone sends."""
    five = version is ProtocolVersion.MQTT_5
    if kind is PacketType.CONNACK:
        reason = random_reason(rng, kind) if five else rng.choice(CONNACK_OF_RETURN_CODE)
        return ConnAckPacket(not reason and rng.random() < 0.5, reason, random_properties(rng, version, kind))
    if kind is PacketType.PINGRESP:
        return PingRespPacket()
    count = rng.choice((1, 1, 2, 200))
    if kind is PacketType.SUBACK:
        failed = (0, 1, 2, 0x80)
        reasons = [random_reason(rng, kind) if five else REASONS[kind][rng.choice(failed)] for _ in range(count)]
        return SubAckPacket(packet_id, tuple(reasons), random_properties(rng, version, kind))
    found = tuple(random_reason(rng, kind) for _ in range(count)) if five else ()
    return UnsubAckPacket(packet_id, found, random_properties(rng, version, kind))


def random_packet(rng: Random, version: ProtocolVersion) -> Packet:
    """One of any type that the version has."""
    kind = rng.choice([each for each in PacketType if each and (version == 5 or each is not PacketType.AUTH)])
    packet_id = random_number(rng, 65535, 1)
    if kind is PacketType.CONNECT:
        return random_connect(rng, version)
    if kind is PacketType.PUBLISH:
        return random_publish(rng, version)
    if kind in (PacketType.CONNACK, PacketType.SUBACK, PacketType.UNSUBACK, PacketType.PINGRESP):
        return random_server_packet(rng, version, kind, packet_id)
    if kind is PacketType.PINGREQ:
        return PingReqPacket()
    properties = random_properties(rng, version, kind)
    if kind is PacketType.SUBSCRIBE:
        return SubscribePacket(packet_id, tuple(random_subscription(rng, version) for _ in range(rng.randint(1, 4))),
                               properties)
    if kind is PacketType.UNSUBSCRIBE:
        return UnsubscribePacket(packet_id, tuple(rng.choice(FILTERS) for _ in range(rng.randint(1, 4))), properties)
    reason = random_reason(rng, kind) if version == 5 else ReasonCode.SUCCESS
    if kind is PacketType.DISCONNECT:
        return DisconnectPacket(reason, properties)
    if kind is PacketType.AUTH:
        return AuthPacket(reason, properties if properties != NO_PROPERTIES or not reason
                          else Properties(authentication_method="SCRAM"))
    return {each.type: each for each in ACKS}[kind](packet_id, reason, properties)
