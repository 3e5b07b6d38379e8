"""Decoder: bytes of one connection in, split anywhere; packets out, or one MqttError. No I/O.

The decoder checks what the standard says of a single packet, and of the order of packets only that CONNECT comes first
and once. Everything that needs a session (aliases, packet ids in use, receive maximum, empty client ids) is the
broker's.

Bounds: a packet beyond the limit is refused when its length has come, before its body is waited for; what waits is one
incomplete packet. Lists inside a packet (filters, user properties) have limits of their own, since an item of some
bytes becomes an object of some hundred.

Speed: PUBLISH and its acknowledgements are read in one go from the input, since they are nearly all of the traffic;
topic names, and short properties of PUBLISH, that came before are looked up, not decoded and checked again. All others
go through `PacketReader`.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from jgroups_py.blocks.mqtt.broker.reasons import CONNACK_OF_RETURN_CODE, REASONS
from jgroups_py.blocks.mqtt.codec.packets import (
    NO_PROPERTIES,
    Ack,
    AuthPacket,
    ConnAckPacket,
    ConnectPacket,
    DisconnectPacket,
    MqttError,
    Packet,
    PacketType,
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
    RetainHandling,
    SentBy,
    SubAckPacket,
    SubscribePacket,
    Subscription,
    UnsubAckPacket,
    UnsubscribePacket,
    Will,
    acknowledgement,
    mutable_twin,
)
from jgroups_py.blocks.mqtt.codec.properties import read_properties
from jgroups_py.blocks.mqtt.codec.text import MALFORMED, SHARED, PacketReader, text_of, topic_name_fault

TYPES: Final = tuple(PacketType)
PROTOCOL_ERROR = ReasonCode.PROTOCOL_ERROR
MAX_NAMES = 4096
MAX_NAME_BYTES = 256
"""Topic names that are remembered by one dict of names, and the bytes of the longest: 2 MB at most altogether."""

MAX_BLOCKS = 32
"""Sets of properties that a connection's decoder remembers; each has less than 128 bytes."""
NAMES = (b"MQTT", b"MQIsdp")
"""What CONNECT calls the protocol: since 3.1.1, and before, which is refused in a way that its client understands."""
FLAGS = {PacketType.PUBREL: 2, PacketType.SUBSCRIBE: 2, PacketType.UNSUBSCRIBE: 2}
"""The lower half of the first byte, where it is not 0 (2.1.3); PUBLISH has flags of its own."""
OF_SERVERS = (PacketType.CONNACK, PacketType.SUBACK, PacketType.UNSUBACK, PacketType.PINGRESP)
OF_CLIENTS = (PacketType.CONNECT, PacketType.SUBSCRIBE, PacketType.UNSUBSCRIBE, PacketType.PINGREQ)
NOT_OF: dict[SentBy, tuple[PacketType, ...]] = {
    SentBy.CLIENT: OF_SERVERS, SentBy.SERVER: OF_CLIENTS, SentBy.EITHER: ()}

ACKS: dict[int, type[Ack]] = {
    0x40: PubAckPacket, 0x50: PubRecPacket, 0x62: PubRelPacket, 0x70: PubCompPacket}
"""First byte -> the acknowledgement; their classes have one layout."""
PINGS: dict[SentBy, dict[int, Packet]] = {
    SentBy.CLIENT: {0xC0: PingReqPacket()},
    SentBy.SERVER: {0xD0: PingRespPacket()},
    SentBy.EITHER: {0xC0: PingReqPacket(), 0xD0: PingRespPacket()},
}
"""First byte -> the packet of two bytes, one for all: 32,000 of them fit into one read."""
_PublishDraft = mutable_twin(PublishPacket)


@attrs.frozen
class DecodeLimits:
    """What one packet may cost."""

    packet_bytes: int = 1 << 20
    """Bytes of a packet with its fixed header, as the property Maximum Packet Size counts."""
    connect_bytes: int = 256 << 10
    """The same for CONNECT, which comes before anything is known of its sender."""
    filters: int = 10_000
    """Filters of SUBSCRIBE and UNSUBSCRIBE, reason codes of SUBACK and UNSUBACK."""
    user_properties: int = 1_000
    """User properties of a packet, and subscription identifiers of PUBLISH."""


class Decoder:
    """See the module. names: topic names that came before, by their bytes; decoders may share one dict.

    version: None until CONNECT came. A decoder of what a server sends is given the version that the client asked for.
    """

    __slots__ = ("_blocks", "_error", "_limit", "_names", "_needed", "_pending", "_sent_by", "_version_5", "limits",
                 "version")

    def __init__(
        self, sent_by: SentBy = SentBy.CLIENT, version: ProtocolVersion | None = None,
        limits: DecodeLimits | None = None, names: dict[bytes, str] | None = None,
    ) -> None:
        self.limits = limits or DecodeLimits()
        self.version = version
        self._sent_by = sent_by
        self._version_5 = version == ProtocolVersion.MQTT_5
        self._limit = self.limits.packet_bytes
        if version is None:
            self._limit = min(self._limit, self.limits.connect_bytes)
        self._names = {} if names is None else names
        self._blocks: dict[bytes, Properties] | None = None      # properties of PUBLISH by their bytes; None: not used
        self._pending = bytearray()                      # an incomplete packet
        self._needed = 0                                 # bytes of it without which no more can be said
        self._error: MqttError | None = None

    @property
    def pending_bytes(self) -> int:
        """Bytes of an incomplete packet that are held."""
        return len(self._pending)

    def feed(self, data: bytes) -> list[Packet]:
        """The packets that are complete now, in order.

        Raises MqttError, with the packets before it, and the same again from then on: the connection is lost.
        """
        if self._error is not None:
            raise self._error
        if self._pending:
            self._pending += data
            if len(self._pending) < self._needed:
                return []
            data = bytes(self._pending)
            self._pending.clear()
        packets: list[Packet] = []
        try:
            at = self._read_all(data, packets.append)
        except MqttError as error:
            self._error = error
            error.packets = packets
            raise
        if at < len(data):
            self._pending += data[at:] if at else data
        return packets

    def _read_all(self, data: bytes, append: Callable[[Packet], None]) -> int:
        """Read packets as far as they are complete; where the rest begins."""
        at, size = 0, len(data)
        publish, pings = self._publish if self.version is not None else None, PINGS[self._sent_by]
        while size - at >= 2:
            first, length, body = data[at], data[at + 1], at + 2
            if length > 0x7F:
                length, body = self._remaining_length(data, at, size)
                if length < 0:
                    self._needed = size - at + 1
                    return at
            stop = body + length
            if stop - at > self._limit:
                raise MqttError(ReasonCode.PACKET_TOO_LARGE,
                                f"{_name(first)} of {stop - at} bytes, at most {self._limit} are taken")
            if stop > size:
                self._needed = stop - at
                return at
            if 0x30 <= first <= 0x3F and publish is not None:
                append(publish(first, data, body, stop))
            elif length == 2 and first in ACKS and publish is not None:
                append(_ack(first, data, body))
            elif not length and first in pings and publish is not None:
                append(pings[first])
            else:
                append(self._packet(first, data, body, stop))
                publish = self._publish
            at = stop
        self._needed = 2
        return at

    def _remaining_length(self, data: bytes, at: int, size: int) -> tuple[int, int]:
        """(Remaining Length, where the variable header begins), (-1, 0) if bytes of it are missing (2.1.4)."""
        value = 0
        for index in range(4):
            where = at + 1 + index
            if where >= size:
                return -1, 0
            byte = data[where]
            value |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                # 3.1.1 does not demand the shortest form; of CONNECT the version is not known yet.
                if not byte and index and self._version_5:
                    raise MqttError(MALFORMED, f"{_name(data[at])}: length not written in the fewest bytes")
                return value, where + 1
        raise MqttError(MALFORMED, f"{_name(data[at])}: length of more than four bytes")

    # --- PUBLISH and its acknowledgements, fast -----------------------------------------------------------------------

    def _publish(self, first: int, data: bytes, at: int, stop: int) -> PublishPacket:
        start = at + 2
        end = start + (data[at] << 8 | data[at + 1]) if start <= stop else stop + 1
        if end > stop:
            raise MqttError(MALFORMED, f"PUBLISH of {stop - at} bytes is shorter than its topic")
        raw = data[start:end]
        topic = self._names.get(raw)
        if topic is None:
            topic = self._topic_name(raw)
        qos = first >> 1 & 3
        packet_id = 0
        if qos:
            if qos == 3:
                raise MqttError(MALFORMED, "PUBLISH with QoS 3")
            packet_id = data[end] << 8 | data[end + 1] if end + 2 <= stop else 0
            if not packet_id:
                raise MqttError(MALFORMED, "PUBLISH of QoS 1 or 2 without a packet id, or with 0")
            end += 2
        elif first & 8:
            raise MqttError(MALFORMED, "PUBLISH of QoS 0 with DUP [MQTT-3.3.1-2]")
        properties = NO_PROPERTIES
        if self._version_5:
            if end < stop and not data[end]:
                end += 1
            else:
                properties, end = self._publish_properties(data, end, stop)
            if not topic and properties.topic_alias is None:
                raise MqttError(PROTOCOL_ERROR, "PUBLISH with neither topic nor topic alias")
        draft = _PublishDraft(topic, data[end:stop], qos, first & 1 == 1, first & 8 == 8, packet_id, properties)
        draft.__class__ = PublishPacket
        return draft

    def _topic_name(self, raw: bytes) -> str:
        """Decode and check a topic name, and remember it."""
        if not raw and self._version_5:
            return ""
        name = text_of(raw, "PUBLISH: topic")
        fault = topic_name_fault(name)
        if fault:
            raise MqttError(ReasonCode.TOPIC_NAME_INVALID, f"PUBLISH: topic: {fault}")
        if len(raw) <= MAX_NAME_BYTES:
            if len(self._names) >= MAX_NAMES:
                self._names.clear()
            self._names[raw] = name
        return name

    def _publish_properties(self, data: bytes, at: int, stop: int) -> tuple[Properties, int]:
        """The properties, and where the payload begins. The same bytes as lately are the same properties."""
        end = at + 1 + data[at] if at < stop and data[at] < 0x80 else stop + 1
        block = data[at + 1:end] if end <= stop else b""
        found = self._blocks.get(block) if self._blocks is not None else None
        if found is not None:
            return found, end
        body = PacketReader(data, at, stop, "PUBLISH")
        properties = read_properties(body, PacketType.PUBLISH, self.limits.user_properties)
        if properties.subscription_identifiers and self._sent_by is SentBy.CLIENT:
            raise MqttError(PROTOCOL_ERROR, "PUBLISH of a client with a subscription identifier [MQTT-3.3.4-6]")
        if block:
            if self._blocks is None or len(self._blocks) >= MAX_BLOCKS:
                self._blocks = {}
            self._blocks[block] = properties
        return properties, body.at

    # --- all others ---------------------------------------------------------------------------------------------------

    def _packet(self, first: int, data: bytes, at: int, stop: int) -> Packet:
        kind = TYPES[first >> 4]
        body = PacketReader(data, at, stop, _name(first))
        if kind is PacketType.WILL or (kind is PacketType.AUTH and self.version == ProtocolVersion.MQTT_3_1_1):
            raise body.error(MALFORMED, "a reserved packet type")
        if (kind is PacketType.CONNECT) != (self.version is None) and self._sent_by is not SentBy.EITHER:
            raise body.error(PROTOCOL_ERROR, "CONNECT comes first, and once [MQTT-3.1.0-1, -2]")
        if self.version is None and kind is not PacketType.CONNECT:
            raise body.error(PROTOCOL_ERROR, "no version is known before CONNECT")
        if first & 15 != FLAGS.get(kind, 0):
            raise body.error(MALFORMED, f"reserved flags are 0x{first & 15:x} [MQTT-2.1.3-1]")
        if kind in NOT_OF[self._sent_by]:
            raise body.error(PROTOCOL_ERROR, f"no packet that a {self._sent_by.value} sends")
        packet = READERS[kind](self, body)
        body.end()
        return packet

    def _properties(self, body: PacketReader, where: PacketType) -> Properties:
        if not self._version_5:
            return NO_PROPERTIES
        return read_properties(body, where, self.limits.user_properties)

    def _connect(self, body: PacketReader) -> ConnectPacket:
        name = body.binary("protocol name")
        level = body.u8("protocol level")
        if name not in NAMES:
            # Of another protocol nothing is known, not even how its client is answered [MQTT-3.1.2-1].
            raise body.error(PROTOCOL_ERROR, f"protocol {name[:16]!r}")
        if name != b"MQTT" or level not in (4, 5):
            raise body.error(ReasonCode.UNSUPPORTED_PROTOCOL_VERSION, f"protocol {name[:16]!r} level {level}")
        self.version = version = ProtocolVersion(level)
        self._version_5 = version is ProtocolVersion.MQTT_5
        self._limit = self.limits.packet_bytes
        flags = body.u8("connect flags")
        if flags & 1:
            raise body.error(MALFORMED, "reserved flag is 1 [MQTT-3.1.2-3]")
        qos = flags >> 3 & 3
        if qos == 3 or (not flags & 4 and flags & 0x38):
            raise body.error(MALFORMED, f"QoS {qos} and retain {flags >> 5 & 1} of {'a' if flags & 4 else 'no'} will")
        if flags & 0xC0 == 0x40 and not self._version_5:
            raise body.error(MALFORMED, "a password without a user name [MQTT-3.1.2-22 of 3.1.1]")
        keep_alive_s = body.u16("keep alive")
        properties = self._properties(body, PacketType.CONNECT)
        if properties.authentication_data is not None and properties.authentication_method is None:
            raise body.error(PROTOCOL_ERROR, "authentication data without a method (3.1.2.11.10)")
        client_id = body.text("client id")
        will = None
        if flags & 4:
            will_properties = self._properties(body, PacketType.WILL)
            will = Will(body.topic_name("will topic"), body.binary("will payload"), qos, flags & 0x20 != 0,
                        will_properties)
        username = body.text("user name") if flags & 0x80 else None
        password = body.binary("password") if flags & 0x40 else None
        return ConnectPacket(client_id, version, flags & 2 != 0, keep_alive_s, username, password, will, properties)

    def _connack(self, body: PacketReader) -> ConnAckPacket:
        flags, code = body.u8("flags"), body.u8("reason")
        if flags > 1 or (flags and code):
            raise body.error(MALFORMED, f"flags 0x{flags:02x} with reason 0x{code:02x} (3.2.2.1)")
        if self._version_5:
            return ConnAckPacket(flags == 1, _reason(body, PacketType.CONNACK, code),
                                 self._properties(body, PacketType.CONNACK))
        if code >= len(CONNACK_OF_RETURN_CODE):
            raise body.error(MALFORMED, f"return code {code} is reserved")
        return ConnAckPacket(flags == 1, CONNACK_OF_RETURN_CODE[code])

    def _long_ack(self, body: PacketReader) -> Ack:
        """An acknowledgement with a reason, of version 5 (3.4.2.1)."""
        kind = PacketType[body.name]
        packet_id = body.packet_id()
        reason, properties = ReasonCode.SUCCESS, NO_PROPERTIES
        if self._version_5 and body.at < body.stop:
            reason = _reason(body, kind, body.u8("reason"))
            if body.at < body.stop:
                properties = self._properties(body, kind)
        return ACK_CLASSES[kind](packet_id, reason, properties)

    def _subscribe(self, body: PacketReader) -> SubscribePacket:
        packet_id = body.packet_id()
        properties = self._properties(body, PacketType.SUBSCRIBE)
        found: list[Subscription] = []
        while body.at < body.stop or not found:
            if len(found) >= self.limits.filters:
                raise body.error(ReasonCode.QUOTA_EXCEEDED, f"more than {self.limits.filters} filters")
            if body.at == body.stop:
                raise body.error(PROTOCOL_ERROR, "no filter [MQTT-3.8.3-2]")
            found.append(self._subscription(body))
        return SubscribePacket(packet_id, tuple(found), properties)

    def _subscription(self, body: PacketReader) -> Subscription:
        text = body.topic_filter("filter", self._version_5)
        options = body.u8("options")
        qos, handling = options & 3, options >> 4 & 3
        if qos == 3 or options & (0xC0 if self._version_5 else 0xFC):
            raise body.error(MALFORMED, f"options 0x{options:02x} of {text[:80]!r}")
        if handling == 3:
            raise body.error(PROTOCOL_ERROR, f"retain handling 3 of {text[:80]!r} (3.8.3.1)")
        if options & 4 and text.startswith(SHARED):
            raise body.error(PROTOCOL_ERROR, f"no local of the shared {text[:80]!r} [MQTT-3.8.3-4]")
        return Subscription(text, qos, options & 4 != 0, options & 8 != 0, RetainHandling(handling))

    def _reasons(self, body: PacketReader, kind: PacketType) -> tuple[ReasonCode, ...]:
        """The reason codes up to the end: one at least."""
        codes = body.data[body.at:body.stop]
        if not codes or len(codes) > self.limits.filters:
            raise body.error(PROTOCOL_ERROR, f"{len(codes)} reasons, 1 to {self.limits.filters} are taken")
        body.at = body.stop
        return tuple(_reason(body, kind, code) for code in codes)

    def _suback(self, body: PacketReader) -> SubAckPacket:
        packet_id = body.packet_id()
        properties = self._properties(body, PacketType.SUBACK)
        reasons = self._reasons(body, PacketType.SUBACK)
        if not self._version_5 and any(reason > 2 and reason != 0x80 for reason in reasons):
            raise body.error(MALFORMED, "a return code that 3.1.1 reserves (3.9.3)")
        return SubAckPacket(packet_id, reasons, properties)

    def _unsubscribe(self, body: PacketReader) -> UnsubscribePacket:
        packet_id = body.packet_id()
        properties = self._properties(body, PacketType.UNSUBSCRIBE)
        found: list[str] = []
        while body.at < body.stop:
            if len(found) >= self.limits.filters:
                raise body.error(ReasonCode.QUOTA_EXCEEDED, f"more than {self.limits.filters} filters")
            found.append(body.topic_filter("filter", self._version_5))
        if not found:
            raise body.error(PROTOCOL_ERROR, "no filter [MQTT-3.10.3-2]")
        return UnsubscribePacket(packet_id, tuple(found), properties)

    def _unsuback(self, body: PacketReader) -> UnsubAckPacket:
        packet_id = body.packet_id()
        if not self._version_5:
            return UnsubAckPacket(packet_id)
        properties = self._properties(body, PacketType.UNSUBACK)
        return UnsubAckPacket(packet_id, self._reasons(body, PacketType.UNSUBACK), properties)

    def _pingreq(self, body: PacketReader) -> PingReqPacket:
        return PingReqPacket()

    def _pingresp(self, body: PacketReader) -> PingRespPacket:
        return PingRespPacket()

    def _disconnect(self, body: PacketReader) -> DisconnectPacket:
        if not self._version_5:
            if self._sent_by is SentBy.SERVER:
                raise body.error(PROTOCOL_ERROR, "no packet that a server of 3.1.1 sends")
            return DisconnectPacket()
        if body.at == body.stop:
            return DisconnectPacket()
        reason = _reason(body, PacketType.DISCONNECT, body.u8("reason"))
        if body.at == body.stop:
            return DisconnectPacket(reason)
        properties = self._properties(body, PacketType.DISCONNECT)
        if properties.session_expiry_interval is not None and self._sent_by is SentBy.SERVER:
            raise body.error(PROTOCOL_ERROR, "session expiry interval of a server [MQTT-3.14.2-2]")
        return DisconnectPacket(reason, properties)

    def _auth(self, body: PacketReader) -> AuthPacket:
        if body.at == body.stop:
            return AuthPacket()
        reason = _reason(body, PacketType.AUTH, body.u8("reason"))
        properties = self._properties(body, PacketType.AUTH)
        # Success may be written without any property (3.15.2.1), so it may lack the method as well.
        if reason and properties.authentication_method is None:
            raise body.error(PROTOCOL_ERROR, "no authentication method (3.15.2.2.2)")
        return AuthPacket(reason, properties)


def _name(first: int) -> str:
    """The packet's name, from its first byte."""
    return "packet of type 0" if first < 0x10 else TYPES[first >> 4].name


def _ack(first: int, data: bytes, at: int) -> Ack:
    """An acknowledgement of two bytes: both versions' way to write success."""
    packet_id = data[at] << 8 | data[at + 1]
    if not packet_id:
        raise MqttError(MALFORMED, f"{_name(first)}: packet id 0")
    return acknowledgement(ACKS[first], packet_id)


def _reason(body: PacketReader, kind: PacketType, code: int) -> ReasonCode:
    """A reason code that this packet may carry."""
    reason = REASONS[kind].get(code)
    if reason is None:
        raise body.error(PROTOCOL_ERROR, f"reason 0x{code:02x} is not for it (2.4)")
    return reason


ACK_CLASSES: dict[PacketType, type[Ack]] = {each.type: each for each in ACKS.values()}
READERS: dict[PacketType, Callable[[Decoder, PacketReader], Packet]] = {
    PacketType.CONNECT: Decoder._connect,
    PacketType.CONNACK: Decoder._connack,
    PacketType.PUBACK: Decoder._long_ack,
    PacketType.PUBREC: Decoder._long_ack,
    PacketType.PUBREL: Decoder._long_ack,
    PacketType.PUBCOMP: Decoder._long_ack,
    PacketType.SUBSCRIBE: Decoder._subscribe,
    PacketType.SUBACK: Decoder._suback,
    PacketType.UNSUBSCRIBE: Decoder._unsubscribe,
    PacketType.UNSUBACK: Decoder._unsuback,
    PacketType.PINGREQ: Decoder._pingreq,
    PacketType.PINGRESP: Decoder._pingresp,
    PacketType.DISCONNECT: Decoder._disconnect,
    PacketType.AUTH: Decoder._auth,
}


def decode(data: bytes, version: ProtocolVersion, limits: DecodeLimits | None = None) -> Packet:
    """The one packet that the bytes are, of either end. Raises MqttError if they are none, or more."""
    decoder = Decoder(SentBy.EITHER, version, limits)
    packets = decoder.feed(data)
    if len(packets) != 1 or decoder.pending_bytes:
        raise MqttError(MALFORMED, f"{len(packets)} packets and {decoder.pending_bytes} bytes, not one packet")
    return packets[0]
