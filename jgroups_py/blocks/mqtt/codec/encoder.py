"""Encoder: packets to bytes, for 3.1.1 and 5; `PublishFrames` for one message to many subscribers.

A packet that the version does not have is no bytes: a CONNACK of 3.1.1 whose reason has no return code (the connection
is closed without one), AUTH in 3.1.1. Reasons and properties that 3.1.1 cannot carry are left out. Raises ValueError
for a value that the wire cannot carry, such as a string of more than 65,535 bytes.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from jgroups_py.blocks.mqtt.broker.reasons import RETURN_CODE_OF_CONNACK
from jgroups_py.blocks.mqtt.codec.packets import (
    NO_PROPERTIES,
    Ack,
    AuthPacket,
    ConnAckPacket,
    ConnectPacket,
    DisconnectPacket,
    Packet,
    PingReqPacket,
    PingRespPacket,
    Properties,
    ProtocolVersion,
    PubAckPacket,
    PubCompPacket,
    PublishPacket,
    PubRecPacket,
    PubRelPacket,
    ReasonCode,
    SubAckPacket,
    SubscribePacket,
    UnsubAckPacket,
    UnsubscribePacket,
)
from jgroups_py.blocks.mqtt.codec.properties import property_bytes
from jgroups_py.blocks.mqtt.codec.text import binary_bytes, text_bytes, varint_bytes

VERSION_5 = ProtocolVersion.MQTT_5
BYTES = tuple(bytes((value,)) for value in range(256))
SHORT_TOPIC = 100


def encode(packet: Packet, version: ProtocolVersion) -> bytes:
    """The packet as bytes of this version, b"" if it has no such packet."""
    return WRITERS[type(packet)](packet, version)


def _framed(first: int, body: bytes) -> bytes:
    return BYTES[first] + varint_bytes(len(body)) + body


@lru_cache(maxsize=4096)
def _short_topic(topic: str) -> bytes:
    """A topic of SHORT_TOPIC characters at most behind its length; remembered, 2 MB at most."""
    return text_bytes(topic)


def _properties(properties: Properties, version: ProtocolVersion) -> bytes:
    return property_bytes(properties) if version is VERSION_5 else b""


def _connect(packet: ConnectPacket, version: ProtocolVersion) -> bytes:
    will = packet.will
    flags = packet.clean_start << 1 | (packet.password is not None) << 6 | (packet.username is not None) << 7
    if will is not None:
        flags |= 4 | will.qos << 3 | will.retain << 5
    parts = [b"\0\4MQTT", bytes((version, flags)), packet.keep_alive_s.to_bytes(2, "big"),
             _properties(packet.properties, version), text_bytes(packet.client_id)]
    if will is not None:
        parts += (_properties(will.properties, version), text_bytes(will.topic), binary_bytes(will.payload))
    if packet.username is not None:
        parts.append(text_bytes(packet.username))
    if packet.password is not None:
        parts.append(binary_bytes(packet.password))
    return _framed(0x10, b"".join(parts))


def _connack(packet: ConnAckPacket, version: ProtocolVersion) -> bytes:
    if version is VERSION_5:
        return _framed(0x20, bytes((packet.session_present, packet.reason)) + property_bytes(packet.properties))
    code = RETURN_CODE_OF_CONNACK.get(packet.reason)
    return b"" if code is None else bytes((0x20, 2, packet.session_present, code))


def _publish(packet: PublishPacket, version: ProtocolVersion) -> bytes:
    first = 0x30 | packet.dup << 3 | packet.qos << 1 | packet.retain
    packet_id = packet.packet_id.to_bytes(2, "big") if packet.qos else b""
    return _framed(first, text_bytes(packet.topic) + packet_id + _properties(packet.properties, version)
                   + packet.payload)


def _ack(first: int) -> Callable[[Any, ProtocolVersion], bytes]:
    """How PUBACK, PUBREC, PUBREL or PUBCOMP is written: two bytes of success, a reason only if there is one."""
    short = bytes((first, 2))

    def write(packet: PubAckPacket | PubRecPacket | PubRelPacket | PubCompPacket, version: ProtocolVersion) -> bytes:
        packet_id = packet.packet_id.to_bytes(2, "big")
        if version is not VERSION_5 or (not packet.reason and packet.properties is NO_PROPERTIES):
            return short + packet_id
        return _framed(first, packet_id + _reasoned(packet.reason, packet.properties))
    return write


ACK_HEADS: dict[type[Ack], bytes] = {
    PubAckPacket: b"\x40\2", PubRecPacket: b"\x50\2", PubRelPacket: b"\x62\2", PubCompPacket: b"\x70\2"}


def encode_acks(kind: type[Ack], packet_ids: Iterable[int]) -> bytes:
    """Acknowledgements of success in a row; the same bytes in both versions."""
    head = ACK_HEADS[kind]
    return b"".join([head + packet_id.to_bytes(2, "big") for packet_id in packet_ids])


def _reasoned(reason: ReasonCode, properties: Properties) -> bytes:
    """A reason, and properties if there are any."""
    return bytes((reason,)) + (b"" if properties == NO_PROPERTIES else property_bytes(properties))


def _subscribe(packet: SubscribePacket, version: ProtocolVersion) -> bytes:
    parts = [packet.packet_id.to_bytes(2, "big"), _properties(packet.properties, version)]
    for each in packet.subscriptions:
        options = each.qos
        if version is VERSION_5:
            options |= each.no_local << 2 | each.retain_as_published << 3 | each.retain_handling << 4
        parts += (text_bytes(each.filter), bytes((options,)))
    return _framed(0x82, b"".join(parts))


def _suback(packet: SubAckPacket, version: ProtocolVersion) -> bytes:
    codes = bytes(packet.reasons) if version is VERSION_5 else bytes(min(each, 0x80) for each in packet.reasons)
    return _framed(0x90, packet.packet_id.to_bytes(2, "big") + _properties(packet.properties, version) + codes)


def _unsubscribe(packet: UnsubscribePacket, version: ProtocolVersion) -> bytes:
    return _framed(0xA2, packet.packet_id.to_bytes(2, "big") + _properties(packet.properties, version)
                   + b"".join(map(text_bytes, packet.filters)))


def _unsuback(packet: UnsubAckPacket, version: ProtocolVersion) -> bytes:
    packet_id = packet.packet_id.to_bytes(2, "big")
    if version is not VERSION_5:
        return b"\xb0\2" + packet_id
    return _framed(0xB0, packet_id + property_bytes(packet.properties) + bytes(packet.reasons))


def _pingreq(packet: PingReqPacket, version: ProtocolVersion) -> bytes:
    return b"\xc0\0"


def _pingresp(packet: PingRespPacket, version: ProtocolVersion) -> bytes:
    return b"\xd0\0"


def _disconnect(packet: DisconnectPacket, version: ProtocolVersion) -> bytes:
    if version is not VERSION_5 or (not packet.reason and packet.properties == NO_PROPERTIES):
        return b"\xe0\0"
    return _framed(0xE0, _reasoned(packet.reason, packet.properties))


def _auth(packet: AuthPacket, version: ProtocolVersion) -> bytes:
    if version is not VERSION_5:
        return b""
    # 3.15.2.1 allows to leave out success without properties; mqtt5 0.8 refuses what is left out.
    return _framed(0xF0, bytes((packet.reason,)) + property_bytes(packet.properties))


WRITERS: dict[type[Packet], Callable[[Any, ProtocolVersion], bytes]] = {
    ConnectPacket: _connect,
    ConnAckPacket: _connack,
    PublishPacket: _publish,
    PubAckPacket: _ack(0x40),
    PubRecPacket: _ack(0x50),
    PubRelPacket: _ack(0x62),
    PubCompPacket: _ack(0x70),
    SubscribePacket: _subscribe,
    SubAckPacket: _suback,
    UnsubscribePacket: _unsubscribe,
    UnsubAckPacket: _unsuback,
    PingReqPacket: _pingreq,
    PingRespPacket: _pingresp,
    DisconnectPacket: _disconnect,
    AuthPacket: _auth,
}


class PublishFrames:
    """One message as PUBLISH packets for many subscribers of one version, and with the same properties.

    Topic, properties and payload are encoded once; a packet of QoS 0 is the same bytes for all, and one of QoS 1 or 2
    differs in its packet id alone.
    """

    __slots__ = ("_first", "_others", "_part", "_tail", "_topic")

    def __init__(
        self, topic: str, payload: bytes, version: ProtocolVersion, properties: Properties = NO_PROPERTIES,
    ) -> None:
        self._topic = _short_topic(topic) if len(topic) <= SHORT_TOPIC else text_bytes(topic)
        self._tail = payload if version is not VERSION_5 else (
            b"\0" + payload if properties is NO_PROPERTIES else property_bytes(properties) + payload)
        self._first, self._part = 0, b""                 # a first byte, with fixed header and topic; QoS 0: the packet
        self._others: dict[int, bytes] | None = None     # the same of other first bytes

    def frame(self, qos: int, packet_id: int = 0, retain: bool = False, dup: bool = False) -> bytes:
        """A whole packet. packet_id: 1 to 65,535 with QoS 1 and 2."""
        first = 0x30 | dup << 3 | qos << 1 | retain
        part = self._part if first == self._first else self._part_of(first, qos)
        if not qos:
            return part
        return part + packet_id.to_bytes(2, "big") + self._tail

    def _part_of(self, first: int, qos: int) -> bytes:
        """Encoded once. Most messages go to all with the same first byte, so that needs no table."""
        found = None if self._others is None else self._others.get(first)
        if found is not None:
            return found
        topic, tail = self._topic, self._tail
        body = len(topic) + len(tail) + (2 if qos else 0)
        part = BYTES[first] + (BYTES[body] if body < 0x80 else varint_bytes(body)) + topic
        if not qos:
            part += tail
        if not self._first:
            self._first, self._part = first, part
        elif self._others is None:
            self._others = {first: part}
        else:
            self._others[first] = part
        return part

    def size(self, qos: int) -> int:
        """Bytes of a packet, as the property Maximum Packet Size counts them."""
        body = len(self._topic) + len(self._tail) + (2 if qos else 0)
        return 1 + len(varint_bytes(body)) + body
