"""Random packets of version 5: what we write mqtt5 reads as the same, and the other way round."""
from __future__ import annotations

from random import Random
from typing import Any

import attrs
import mqtt5
import pytest

from jgroups_py.blocks.mqtt.codec import packets as ours
from jgroups_py.blocks.mqtt.codec.decoder import decode
from jgroups_py.blocks.mqtt.codec.encoder import encode
from jgroups_py.blocks.mqtt.codec.packets import NO_PROPERTIES, PacketType, Properties, ProtocolVersion, ReasonCode
from tests.unit.blocks.mqtt.random_packets import random_packet

V5 = ProtocolVersion.MQTT_5
PACKETS = 3000
THEIR_NAMES = {
    "subscription_identifiers": "subscription_ids", "assigned_client_identifier": "assigned_client_id",
    "request_problem_information": "request_problem_info", "request_response_information": "request_response_info",
    "response_information": "response_info", "reason_string": "reason_str", "receive_maximum": "receive_max",
    "topic_alias_maximum": "topic_alias_max", "maximum_qos": "max_qos", "maximum_packet_size": "max_packet_size",
    "subscription_identifiers_available": "subscription_id_available",
}
DEFAULTS = {
    "payload_format_indicator": 0, "request_problem_information": 1, "request_response_information": 0,
    "receive_maximum": 65535, "topic_alias_maximum": 0, "maximum_qos": 2, "retain_available": 1,
    "will_delay_interval": 0, "wildcard_subscription_available": 1,
    "subscription_identifiers_available": 1, "shared_subscription_available": 1,
}
"""What a missing property means; mqtt5 does not tell it from one that says the same."""


def without_defaults(properties: Properties, where: PacketType) -> Properties:
    """As mqtt5 sees them."""
    defaults = DEFAULTS | ({"session_expiry_interval": 0} if where is PacketType.CONNECT else {})
    return attrs.evolve(properties, **{name: None for name, value in defaults.items()
                                       if getattr(properties, name) == value})


def plain(packet: ours.Packet) -> ours.Packet:
    """A packet without what mqtt5 cannot tell."""
    if isinstance(packet, ours.PingReqPacket | ours.PingRespPacket):
        return packet
    packet = attrs.evolve(packet, properties=without_defaults(packet.properties, packet.type))
    if isinstance(packet, ours.ConnectPacket) and packet.will is not None:
        will = packet.will
        packet = attrs.evolve(packet, will=attrs.evolve(
            will, properties=without_defaults(will.properties, PacketType.WILL)))
    return packet


def properties_of(theirs: Any, where: PacketType) -> Properties:
    """Those of a packet of mqtt5."""
    values: dict[str, Any] = {}
    for field in attrs.fields(Properties):
        name = THEIR_NAMES.get(field.name, field.name)
        if field.name == "subscription_identifiers" and where is PacketType.SUBSCRIBE:
            values[field.name] = () if theirs.subscription_id is None else (theirs.subscription_id,)
        elif where in field.metadata["where"] and (value := getattr(theirs, name)) is not None:
            values[field.name] = (tuple(value) if isinstance(value, list) else value
                                  if isinstance(value, str | bytes) else int(value))
    return without_defaults(Properties(**values), where)


def from_mqtt5(packet: Any) -> ours.Packet:
    """Our packet of theirs."""
    name = type(packet).__name__
    kind = PacketType[name.removesuffix("Packet").upper()]
    if kind in (PacketType.PINGREQ, PacketType.PINGRESP):
        return getattr(ours, name)()                     # type: ignore[no-any-return]
    found: dict[str, Any] = {"properties": properties_of(packet, kind)}
    if hasattr(packet, "packet_id"):
        found["packet_id"] = packet.packet_id or 0
    if hasattr(packet, "reason_code"):
        found["reason"] = ReasonCode(int(packet.reason_code))
    if hasattr(packet, "reason_codes"):
        found["reasons"] = tuple(ReasonCode(int(each)) for each in packet.reason_codes)
    if kind is PacketType.CONNACK:
        found["session_present"] = packet.session_present
    elif kind is PacketType.PUBLISH:
        found |= {"topic": packet.topic, "payload": packet.payload, "qos": int(packet.qos), "retain": packet.retain,
                  "dup": packet.duplicate}
    elif kind is PacketType.SUBSCRIBE:
        found["subscriptions"] = tuple(ours.Subscription(
            each.pattern, int(each.max_qos), each.no_local, each.retain_as_published,
            ours.RetainHandling(int(each.retain_handling))) for each in packet.topic_filters)
    elif kind is PacketType.UNSUBSCRIBE:
        found["filters"] = tuple(packet.patterns)
    elif kind is PacketType.CONNECT:
        will = packet.will
        found |= {"client_id": packet.client_id, "clean_start": packet.clean_start, "keep_alive_s": packet.keep_alive,
                  "username": packet.username, "password": packet.password, "will": will and ours.Will(
                      will.topic, will.payload or b"", int(will.qos), will.retain,
                      properties_of(will, PacketType.WILL))}
    return getattr(ours, name)(**found)                  # type: ignore[no-any-return]


def test_both_know_the_same_packets():
    rng = Random(5)
    seen: dict[PacketType, None] = {}
    for _ in range(PACKETS):
        packet = random_packet(rng, V5)
        if isinstance(packet, ours.DisconnectPacket) and packet.reason is ReasonCode.BAD_AUTHENTICATION_METHOD:
            continue                                     # in the table of 2.4, not in that of 3.14.2.1: mqtt5 refuses
        data = encode(packet, V5)
        theirs, size = mqtt5.read(memoryview(data))
        assert size == len(data)
        assert from_mqtt5(theirs) == plain(packet)
        written = theirs.write()
        assert plain(decode(written, V5)) == plain(packet)
        seen[packet.type] = None
    assert len(seen) == len(PacketType) - 1


@pytest.mark.parametrize("kind", [PacketType.PUBLISH, PacketType.CONNECT])
def test_the_comparison_finds_a_difference(kind: PacketType):
    rng = Random(6)
    packet = next(each for each in iter(lambda: random_packet(rng, V5), None)
                  if each.type is kind and getattr(each, "properties", NO_PROPERTIES).user_properties)
    theirs, _ = mqtt5.read(memoryview(encode(packet, V5)))
    changed = attrs.evolve(packet, properties=attrs.evolve(packet.properties, user_properties=()))   # type: ignore[misc]
    assert from_mqtt5(theirs) != plain(changed)
