"""The decoder on input that is split, broken or too large; the encoder on what cannot be written."""
from __future__ import annotations

from random import Random

import attrs
import pytest

from jgroups_py.blocks.mqtt.codec.decoder import MAX_NAMES, DecodeLimits, Decoder, decode
from jgroups_py.blocks.mqtt.codec.encoder import PublishFrames, encode
from jgroups_py.blocks.mqtt.codec.packets import (
    AuthPacket,
    ConnAckPacket,
    ConnectPacket,
    MqttError,
    PingReqPacket,
    Properties,
    ProtocolVersion,
    PubAckPacket,
    PublishPacket,
    ReasonCode,
    SentBy,
    SubAckPacket,
    mutable_twin,
)
from tests.unit.blocks.mqtt.random_packets import random_packet

V3, V5 = ProtocolVersion.MQTT_3_1_1, ProtocolVersion.MQTT_5
VERSIONS = pytest.mark.parametrize("version", ProtocolVersion)
R = ReasonCode

BROKEN = [
    (V5, "00 00", R.MALFORMED_PACKET, "reserved packet type"),
    (V3, "f0 00", R.MALFORMED_PACKET, "reserved packet type"),
    (V5, "30 ff ff ff ff 01", R.MALFORMED_PACKET, "more than four bytes"),
    (V5, "30 83 00 00 00 00", R.MALFORMED_PACKET, "fewest bytes"),
    (V3, "30 ff ff ff 7f", R.PACKET_TOO_LARGE, "PUBLISH of 268435460 bytes, at most 1048576"),
    (V3, "30 00", R.MALFORMED_PACKET, "shorter than its topic"),
    (V3, "30 01 00", R.MALFORMED_PACKET, "shorter than its topic"),
    (V3, "30 03 00 02 61", R.MALFORMED_PACKET, "shorter than its topic"),
    (V3, "30 02 00 00", R.TOPIC_NAME_INVALID, "empty"),
    (V5, "30 03 00 00 00", R.PROTOCOL_ERROR, "neither topic nor topic alias"),
    (V3, "30 04 00 02 61 23", R.TOPIC_NAME_INVALID, "wildcard in 'a#'"),
    (V3, "30 03 00 01 00", R.MALFORMED_PACKET, "U+0000"),
    (V3, "30 05 00 03 ed a0 80", R.MALFORMED_PACKET, "no UTF-8 at byte 0"),
    (V3, "30 04 00 02 c0 80", R.MALFORMED_PACKET, "no UTF-8"),
    (V3, "36 05 00 01 61 00 01", R.MALFORMED_PACKET, "QoS 3"),
    (V3, "38 03 00 01 61", R.MALFORMED_PACKET, "QoS 0 with DUP"),
    (V3, "32 05 00 01 61 00 00", R.MALFORMED_PACKET, "packet id"),
    (V3, "32 04 00 01 61 01", R.MALFORMED_PACKET, "packet id"),
    (V5, "30 03 00 01 61", R.MALFORMED_PACKET, "length of properties needs 1 bytes, 0 are left"),
    (V5, "30 05 00 01 61 02 01", R.MALFORMED_PACKET, "properties of 2 bytes, 1 are left"),
    (V5, "30 06 00 01 61 02 01 02", R.PROTOCOL_ERROR, "payload_format_indicator is 2"),
    (V5, "30 08 00 01 61 04 01 00 01 00", R.PROTOCOL_ERROR, "payload_format_indicator comes twice"),
    (V5, "30 07 00 01 61 03 23 00 00", R.TOPIC_ALIAS_INVALID, "topic_alias is 0"),
    (V5, "30 06 00 01 61 02 7f 00", R.MALFORMED_PACKET, "property 0x7f is unknown"),
    (V5, "30 07 00 01 61 03 21 00 01", R.MALFORMED_PACKET, "property 0x21 is not for it"),
    (V5, "30 08 00 01 61 04 08 00 01 2b", R.PROTOCOL_ERROR, "response_topic: a wildcard"),
    (V5, "30 06 00 01 61 02 0b 00", R.PROTOCOL_ERROR, "subscription_identifiers is 0"),
    (V5, "30 06 00 01 61 02 03 00", R.MALFORMED_PACKET, "content_type needs 2 bytes, 1 are left"),
    (V3, "40 02 00 00", R.MALFORMED_PACKET, "packet id 0"),
    (V3, "42 02 00 01", R.MALFORMED_PACKET, "reserved flags are 0x2"),
    (V3, "60 02 00 01", R.MALFORMED_PACKET, "reserved flags are 0x0"),
    (V3, "40 03 00 01 00", R.MALFORMED_PACKET, "1 bytes too many"),
    (V5, "40 03 00 01 92", R.PROTOCOL_ERROR, "reason 0x92 is not for it"),
    (V5, "62 03 00 01 10", R.PROTOCOL_ERROR, "reason 0x10 is not for it"),
    (V3, "80 06 00 01 00 01 61 00", R.MALFORMED_PACKET, "reserved flags"),
    (V3, "82 02 00 01", R.PROTOCOL_ERROR, "no filter"),
    (V3, "82 06 00 01 00 01 61 03", R.MALFORMED_PACKET, "options 0x03"),
    (V3, "82 06 00 01 00 01 61 04", R.MALFORMED_PACKET, "options 0x04"),
    (V5, "82 07 00 01 00 00 01 61 c0", R.MALFORMED_PACKET, "options 0xc0"),
    (V5, "82 07 00 01 00 00 01 61 30", R.PROTOCOL_ERROR, "retain handling 3"),
    (V3, "82 07 00 01 00 02 61 2b 00", R.TOPIC_FILTER_INVALID, "not alone in its level"),
    (V3, "82 08 00 01 00 03 23 2f 61 00", R.TOPIC_FILTER_INVALID, "not the last character"),
    (V3, "82 05 00 01 00 00 00", R.TOPIC_FILTER_INVALID, "empty"),
    (V5, "82 10 00 01 00 00 0a 24 73 68 61 72 65 2f 67 2f 61 04", R.PROTOCOL_ERROR, "no local of the shared"),
    (V5, "82 0b 00 01 04 0b 01 0b 02 00 01 61 00", R.PROTOCOL_ERROR, "too many subscription identifiers"),
    (V3, "90 03 00 01 03", R.PROTOCOL_ERROR, "reason 0x03"),
    (V3, "90 03 00 01 87", R.MALFORMED_PACKET, "3.1.1 reserves"),
    (V3, "90 02 00 01", R.PROTOCOL_ERROR, "0 reasons"),
    (V3, "a2 02 00 01", R.PROTOCOL_ERROR, "no filter"),
    (V3, "c0 01 00", R.MALFORMED_PACKET, "1 bytes too many"),
    (V3, "e0 01 00", R.MALFORMED_PACKET, "1 bytes too many"),
    (V5, "e0 01 01", R.PROTOCOL_ERROR, "reason 0x01 is not for it"),
    (V5, "f0 02 18 00", R.PROTOCOL_ERROR, "no authentication method"),
    (V3, "20 02 02 00", R.MALFORMED_PACKET, "flags 0x02"),
    (V3, "20 02 01 01", R.MALFORMED_PACKET, "flags 0x01 with reason 0x01"),
    (V3, "20 02 00 06", R.MALFORMED_PACKET, "return code 6"),
    (V3, "10 0c 00 04 4d 51 54 58 04 02 00 00 00 00", R.PROTOCOL_ERROR, "b'MQTX'"),
    (V3, "10 0e 00 06 4d 51 49 73 64 70 03 02 00 00 00 00", R.UNSUPPORTED_PROTOCOL_VERSION, "b'MQIsdp' level 3"),
    (V3, "10 0c 00 04 4d 51 54 54 03 02 00 00 00 00", R.UNSUPPORTED_PROTOCOL_VERSION, "level 3"),
    (V3, "10 0c 00 04 4d 51 54 54 04 03 00 00 00 00", R.MALFORMED_PACKET, "reserved flag is 1"),
    (V3, "10 0c 00 04 4d 51 54 54 04 0a 00 00 00 00", R.MALFORMED_PACKET, "QoS 1 and retain 0 of no will"),
    (V3, "10 0c 00 04 4d 51 54 54 04 1e 00 00 00 00", R.MALFORMED_PACKET, "QoS 3 and retain 0 of a will"),
    (V3, "10 0e 00 04 4d 51 54 54 04 42 00 00 00 00 00 00", R.MALFORMED_PACKET, "password without a user name"),
    (V3, "10 0d 00 04 4d 51 54 54 04 02 00 00 00 00 00", R.MALFORMED_PACKET, "1 bytes too many"),
    (V5, "10 11 00 04 4d 51 54 54 05 02 00 00 04 16 00 01 61 00 00", R.PROTOCOL_ERROR, "data without a method"),
    (V5, "10 10 00 04 4d 51 54 54 05 02 00 00 03 21 00 00 00 00", R.PROTOCOL_ERROR, "receive_maximum is 0"),
]


@pytest.mark.parametrize(("version", "data", "reason", "words"), BROKEN, ids=lambda value: str(value)[:40])
def test_broken_packets_are_refused_with_the_reason_of_the_standard(
        version: ProtocolVersion, data: str, reason: ReasonCode, words: str):
    with pytest.raises(MqttError) as caught:
        decode(bytes.fromhex(data), version)
    assert (caught.value.reason, words in caught.value.detail) == (reason, True), str(caught.value)


@VERSIONS
def test_a_packet_that_is_cut_is_awaited_and_one_that_is_cut_inside_is_refused(version: ProtocolVersion):
    rng = Random(1)
    for _ in range(300):
        data = encode(random_packet(rng, version), version)
        stop = rng.randrange(len(data))
        decoder = Decoder(SentBy.EITHER, version)
        assert decoder.feed(data[:stop]) == []
        assert decoder.pending_bytes == stop


@VERSIONS
def test_what_is_encoded_is_decoded_wherever_it_is_split(version: ProtocolVersion):
    rng = Random(2)
    for _ in range(60):
        packets = [random_packet(rng, version) for _ in range(rng.randint(1, 12))]
        data = b"".join(encode(packet, version) for packet in packets)
        decoder, found, at = Decoder(SentBy.EITHER, version), [], 0
        while at < len(data):
            size = rng.choice((1, 2, 3, 100, 5000, len(data)))
            found += decoder.feed(data[at:at + size])
            at += size
        assert found == packets
        assert decoder.pending_bytes == 0


def test_a_stream_is_read_byte_by_byte():
    packets = [ConnectPacket("c", V5), PublishPacket("a", b"x" * 300, 1, packet_id=1), PubAckPacket(3),
               PingReqPacket()]
    data = b"".join(encode(packet, V5) for packet in packets)
    decoder = Decoder()
    assert [packet for at in range(len(data)) for packet in decoder.feed(data[at:at + 1])] == packets
    assert decoder.version is V5


def test_packets_before_a_broken_one_are_given_with_the_error_and_the_connection_is_lost():
    decoder = Decoder(SentBy.EITHER, V3)
    with pytest.raises(MqttError) as caught:
        decoder.feed(encode(PublishPacket("a", b"x"), V3) + b"\xc0\0" + b"\xc1\0" + b"\xc0\0")
    assert caught.value.packets == [PublishPacket("a", b"x"), PingReqPacket()]
    with pytest.raises(MqttError, match="reserved flags"):
        decoder.feed(b"\xc0\0")


@pytest.mark.parametrize("first", ["c000", "3003000161", "40020001", "e000", "20020000"])
def test_connect_comes_first(first: str):
    with pytest.raises(MqttError) as caught:
        Decoder().feed(bytes.fromhex(first))
    assert caught.value.reason is R.PROTOCOL_ERROR


def test_connect_comes_once():
    decoder, connect = Decoder(), encode(ConnectPacket("c", V5), V5)
    assert decoder.feed(connect) == [ConnectPacket("c", V5)]
    with pytest.raises(MqttError, match="and once"):
        decoder.feed(connect)


@pytest.mark.parametrize(("sent_by", "packet"), [
    (SentBy.CLIENT, "2003000000"), (SentBy.CLIENT, "900400010000"), (SentBy.CLIENT, "d000"),
    (SentBy.CLIENT, "3006 000161 02 0b01"), (SentBy.SERVER, "c000"), (SentBy.SERVER, "a206 0001 00 000161"),
    (SentBy.SERVER, "e007 00 05 11 00000000"),
])
def test_what_one_end_may_not_send_is_a_protocol_error(sent_by: SentBy, packet: str):
    with pytest.raises(MqttError) as caught:
        Decoder(sent_by, V5).feed(bytes.fromhex(packet))
    assert caught.value.reason is R.PROTOCOL_ERROR
    assert len(Decoder(SentBy.EITHER, V5).feed(bytes.fromhex(packet))) == 1


def test_a_server_of_3_1_1_does_not_disconnect():
    with pytest.raises(MqttError, match=r"server of 3\.1\.1"):
        Decoder(SentBy.SERVER, V3).feed(b"\xe0\0")


def test_lengths_need_not_be_shortest_in_3_1_1():
    assert decode(bytes.fromhex("c08000"), V3) == PingReqPacket()
    with pytest.raises(MqttError, match="fewest bytes"):
        decode(bytes.fromhex("c08000"), V5)


def test_too_large_a_packet_is_refused_before_its_body_comes():
    decoder = Decoder(SentBy.CLIENT, V3, DecodeLimits(packet_bytes=1000))
    assert decoder.feed(encode(PublishPacket("a", bytes(994)), V3)) == [PublishPacket("a", bytes(994))]
    with pytest.raises(MqttError, match="PUBLISH of 1001 bytes, at most 1000 are taken") as caught:
        decoder.feed(encode(PublishPacket("a", bytes(995)), V3)[:3])
    assert caught.value.reason is R.PACKET_TOO_LARGE
    assert decoder.pending_bytes == 0


def test_the_first_packet_has_a_limit_of_its_own():
    limits = DecodeLimits(packet_bytes=100_000, connect_bytes=50)
    with pytest.raises(MqttError, match="CONNECT of 114 bytes, at most 50"):
        Decoder(limits=limits).feed(encode(ConnectPacket("c" * 100, V3), V3))
    decoder = Decoder(limits=limits)
    large = PublishPacket("a", bytes(90_000))
    assert decoder.feed(encode(ConnectPacket("c", V3), V3) + encode(large, V3))[1] == large


@pytest.mark.parametrize("packet", [
    "82 0f 0001 00 0001 61 00 0001 62 00 0001 63 00", "a2 0c 0001 00 000161 000162 000163"])
def test_lists_inside_packets_are_bounded(packet: str):
    data = bytes.fromhex(packet)
    assert len(Decoder(SentBy.CLIENT, V5, DecodeLimits(filters=3)).feed(data)) == 1
    with pytest.raises(MqttError, match="more than 2 filters") as caught:
        Decoder(SentBy.CLIENT, V5, DecodeLimits(filters=2)).feed(data)
    assert caught.value.reason is R.QUOTA_EXCEEDED


def test_user_properties_are_bounded_and_keep_their_order():
    pairs = tuple((name, str(number)) for number, name in enumerate("bacab"))
    packet = PublishPacket("a", b"", properties=Properties(user_properties=pairs))
    assert Decoder(SentBy.CLIENT, V5, DecodeLimits(user_properties=5)).feed(encode(packet, V5)) == [packet]
    with pytest.raises(MqttError, match="more than 4 user properties"):
        Decoder(SentBy.CLIENT, V5, DecodeLimits(user_properties=4)).feed(encode(packet, V5))


def test_names_that_are_remembered_are_bounded_and_shared():
    names: dict[bytes, str] = {}
    for decoder in (Decoder(SentBy.CLIENT, V3, names=names), Decoder(SentBy.CLIENT, V5, names=names)):
        decoder.feed(encode(PublishPacket("a", b""), decoder.version or V5))
    assert names == {b"a": "a"}
    decoder = Decoder(SentBy.CLIENT, V3, names=names)
    for number in range(MAX_NAMES + 10):
        decoder.feed(encode(PublishPacket(f"t/{number}", b""), V3))
        assert len(names) <= MAX_NAMES
    decoder.feed(encode(PublishPacket("x" * 1000, b""), V3))
    assert max(map(len, names)) < 1000


def test_an_empty_topic_is_never_remembered_for_3_1_1():
    names: dict[bytes, str] = {}
    alias = PublishPacket("", b"", properties=Properties(topic_alias=1))
    assert Decoder(SentBy.CLIENT, V5, names=names).feed(encode(alias, V5)) == [alias]
    with pytest.raises(MqttError, match="topic: empty"):
        Decoder(SentBy.CLIENT, V3, names=names).feed(bytes.fromhex("30020000"))


def test_what_the_decoder_makes_fast_is_immutable():
    (publish, ack) = Decoder(SentBy.EITHER, V3).feed(bytes.fromhex("300300016140020001"))
    assert (type(publish), type(ack)) == (PublishPacket, PubAckPacket)
    assert hash(publish) == hash(PublishPacket("a", b""))
    for packet in (publish, ack):
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            packet.packet_id = 7                         # type: ignore[union-attr,misc]


def test_a_twin_has_the_defaults_of_its_class():
    twin = mutable_twin(PubAckPacket)(7)
    twin.__class__ = PubAckPacket
    assert twin == PubAckPacket(7)


@VERSIONS
@pytest.mark.parametrize("payload", [b"", b"x" * 100, bytes(20_000)], ids=len)
def test_frames_for_many_are_the_frames_of_one(version: ProtocolVersion, payload: bytes):
    properties = Properties(content_type="t", subscription_identifiers=(7,)) if version is V5 else Properties()
    frames = PublishFrames("a/b", payload, version, properties)
    for qos, packet_id, retain, dup in ((0, 0, False, False), (0, 0, True, False), (1, 1, False, True),
                                        (2, 65535, True, False), (1, 2, False, True)):
        frame = frames.frame(qos, packet_id, retain, dup)
        assert frame == encode(PublishPacket("a/b", payload, qos, retain, dup, packet_id, properties), version)
        assert frames.size(qos) == len(frame)


@pytest.mark.parametrize(("packet", "words"), [
    (PublishPacket("x" * 65_536, b""), "65536 bytes"), (PublishPacket("a\0", b""), r"U\+0000"),
    (PublishPacket("\ud800", b""), "surrogates"), (ConnectPacket("c", password=bytes(70_000)), "70000 bytes"),
    (PublishPacket("a", bytes(268_435_455)), "268,435,455"),
])
def test_what_the_wire_cannot_carry_is_a_value_error(packet: PublishPacket | ConnectPacket, words: str):
    with pytest.raises(ValueError, match=words):
        encode(packet, V5)


def test_3_1_1_has_six_return_codes_and_one_failure():
    assert encode(ConnAckPacket(False, R.NOT_AUTHORIZED), V3) == bytes.fromhex("20020005")
    assert encode(ConnAckPacket(False, R.BANNED), V3) == bytes.fromhex("20020005")
    assert encode(ConnAckPacket(False, R.PAYLOAD_FORMAT_INVALID), V3) == b""
    assert encode(AuthPacket(), V3) == b""
    assert encode(SubAckPacket(1, (R.GRANTED_QOS_1, R.NOT_AUTHORIZED)), V3) == bytes.fromhex("9004 0001 01 80")
    assert encode(PubAckPacket(1, R.QUOTA_EXCEEDED), V3) == bytes.fromhex("40020001")
