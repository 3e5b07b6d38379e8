"""The messages of gmqtt: bytes that Google's library wrote, and thousands of random ones in both directions."""
from __future__ import annotations

from random import Random
from typing import Any

import pytest

from jgroups_py.blocks.mqtt.gmqtt.wire import (
    GmqttBody,
    GmqttEvent,
    GmqttMessage,
    GmqttSubscribe,
    GmqttUnsubscribe,
    ack_bytes,
    body_bytes,
    client_hello_bytes,
    event_bytes,
    read_ack,
    read_client_hello,
    read_event,
    read_server_hello,
    server_hello_bytes,
)
from jgroups_py.model.errors import WireError
from tests.unit.blocks.mqtt.gmqtt_schema import generated

THEIRS = generated()
FULL = GmqttMessage("a/ü", b"\x00\xff", 1, True, "text/plain", "korrelation", 3600, 1, "re/ply",
                    ((b"k", b"v"), (b"k", b""), (b"", b"\xff")))
GOLDEN = {
    GmqttEvent(0, GmqttSubscribe("", "a/+/#")): "12071205612f2b2f23",
    GmqttEvent(1, GmqttSubscribe("g", "t")): "080112060a0167120174",
    GmqttEvent(300, GmqttUnsubscribe("$share/g/t")): "08ac02220c0a0a2473686172652f672f74",
    GmqttEvent(2, GmqttMessage("t", b"123")): "08021a080a01741203313233",
    GmqttEvent(2**64 - 1, FULL): (
        "08ffffffffffffffffff011a460a04612fc3bc120200ff180120012a0a746578742f706c61696e320b6b6f7272656c6174696f6e"
        "38901c40014a0672652f706c7952060a016b12017652030a016b52031201ff"),
    GmqttEvent(7, None): "0807",
}
"""Written by protobuf 7.36.2 (upb)."""


def theirs(event: GmqttEvent) -> Any:
    """The same event as an object of the library."""
    found = THEIRS["Event"](id=event.id)
    match event.body:
        case GmqttSubscribe(group, filter):
            found.Subscribe.MergeFrom(THEIRS["Subscribe"](share_name=group, topic_filter=filter))
            found.Subscribe.SetInParent()
        case GmqttUnsubscribe(filter):
            found.unsubscribe.MergeFrom(THEIRS["Unsubscribe"](topic_name=filter))
            found.unsubscribe.SetInParent()
        case GmqttMessage() as message:
            found.message.SetInParent()
            found.message.MergeFrom(THEIRS["Message"](
                topic_name=message.topic, payload=message.payload, qos=message.qos, retained=message.retained,
                content_type=message.content_type, correlation_data=message.correlation_data,
                message_expiry=message.expiry, payload_format=message.payload_format,
                response_topic=message.response_topic,
                user_properties=[THEIRS["UserProperty"](K=key, V=value) for key, value in message.user_properties]))
    return found


def written(event: GmqttEvent) -> bytes:
    return event_bytes(event.id, b"" if event.body is None else body_bytes(event.body))


def random_event(rng: Random) -> GmqttEvent:
    def text() -> str:
        return rng.choice(("", "a", "a/b", "ü" * 70, "\N{PILE OF POO}", "x" * 300))

    def data() -> bytes:
        return rng.randbytes(rng.choice((0, 1, 127, 128, 20_000)))
    body: GmqttBody | None = rng.choice((
        None, GmqttSubscribe(text(), text()), GmqttUnsubscribe(text()),
        GmqttMessage(text(), data(), rng.choice((0, 1, 2, 2**32 - 1)), rng.random() < 0.5, text(), text(),
                     rng.choice((0, 127, 128, 2**32 - 1)), rng.choice((0, 1)), text(),
                     tuple((data(), data()) for _ in range(rng.randrange(3))))))
    return GmqttEvent(rng.choice((0, 1, 127, 128, 2**32, 2**64 - 1, rng.getrandbits(64))), body)


@pytest.mark.parametrize(("event", "data"), GOLDEN.items(), ids=lambda value: value if isinstance(value, str) else "")
def test_bytes_of_the_library_are_the_events_that_were_meant(event: GmqttEvent, data: str):
    assert read_event(bytes.fromhex(data)) == event
    assert written(event).hex() == data
    assert theirs(event).SerializeToString(deterministic=True).hex() == data


def test_random_events_are_the_same_for_the_library_both_ways():
    rng = Random(1)
    for _ in range(2_000):
        event = random_event(rng)
        data = theirs(event).SerializeToString(deterministic=True)
        assert read_event(data) == event
        assert written(event) == data


def test_hellos_and_acks_are_the_same_for_the_library_both_ways():
    for number in (0, 1, 127, 128, 2**64 - 1):
        for clean in (False, True):
            hello = THEIRS["ServerHello"](clean_start=clean, next_event_id=number).SerializeToString()
            assert read_server_hello(hello) == (clean, number)
            assert server_hello_bytes(clean, number) == hello
        ack = THEIRS["Ack"](event_id=number).SerializeToString()
        assert (read_ack(ack), ack_bytes(number)) == (number, ack)
    for session in ("", "5f0c", "x" * 200):
        hello = THEIRS["ClientHello"](session_id=session).SerializeToString()
        assert (read_client_hello(hello), client_hello_bytes(session)) == (session, hello)


def test_fields_of_later_versions_are_skipped():
    unknown = bytes.fromhex("f80102") + bytes.fromhex("f90100000000000000ff") + bytes.fromhex("fa0103616263")
    data = written(GmqttEvent(5, FULL))
    assert read_event(unknown + data + unknown) == GmqttEvent(5, FULL)


@pytest.mark.parametrize(("data", "why"), [
    ("08", "truncated"), ("1203", "truncated"), ("08ffffffffffffffffffff01", "64 bits"), ("0b", "unknown type"),
    ("120a", "truncated"), ("0a00", "wrong type"), ("1000", "wrong type"), ("00", "no such field"),
    ("12031201ff", "not UTF-8"), ("1a040a02c328", "not UTF-8"), ("1a053203fffe80", "not UTF-8"),
])
def test_bytes_that_are_no_event_are_refused(data: str, why: str):
    with pytest.raises(WireError, match=why):
        read_event(bytes.fromhex(data))
