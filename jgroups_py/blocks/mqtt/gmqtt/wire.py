"""The messages of gmqtt's federation (package gmqtt.federation.api of its federation.proto) and their codec.

    Event        1 id: uint64   one of  2 Subscribe  3 Message  4 Unsubscribe          Ack 1 event_id: uint64
    Subscribe    1 share_name: string   2 topic_filter: string
    Unsubscribe  1 topic_name: string, with $share/GROUP/ before a shared filter
    Message      1 topic_name: string  2 payload: bytes  3 qos: uint32  4 retained: bool  5 content_type: string
                 6 correlation_data: string  7 message_expiry: uint32 (s; 0: none)  8 payload_format: uint32
                 9 response_topic: string  10 repeated UserProperty {1 K: bytes  2 V: bytes}
    ClientHello  1 session_id: string            ServerHello  1 clean_start: bool  2 next_event_id: uint64

Fields are written in the order of their numbers and without defaults, as Google's library does; tests compare both.
Why no library: design/decisions/0017-the-link-to-gmqtt.md.
"""
from __future__ import annotations

from collections.abc import Callable

import attrs

from jgroups_py.wire.protobuf import bytes_field, bytes_in, fields, number_field, number_in, text_in

U32 = (1 << 32) - 1


@attrs.frozen
class GmqttSubscribe:
    """The sender's node has a first subscriber of a filter. group: "" if it is not shared."""

    group: str
    filter: str


@attrs.frozen
class GmqttUnsubscribe:
    """The sender's node has lost the last subscriber of a filter. filter: with $share/GROUP/."""

    filter: str


@attrs.frozen
class GmqttMessage:
    """A message. Defaults mean that the property is absent; expiry: seconds from now on."""

    topic: str
    payload: bytes
    qos: int = 0
    retained: bool = False
    content_type: str = ""
    correlation_data: str = ""
    expiry: int = 0
    payload_format: int = 0
    response_topic: str = ""
    user_properties: tuple[tuple[bytes, bytes], ...] = ()


GmqttBody = GmqttSubscribe | GmqttUnsubscribe | GmqttMessage


@attrs.frozen
class GmqttEvent:
    """What is sent on an EventStream. body None: of an unknown kind."""

    id: int
    body: GmqttBody | None


# --- writing ----------------------------------------------------------------------------------------------------------

def body_bytes(body: GmqttBody) -> bytes:
    """The body of an event, ready to have an id put before it."""
    match body:
        case GmqttSubscribe(group, filter):
            return bytes_field(2, _text(1, group) + _text(2, filter))
        case GmqttMessage():
            return bytes_field(3, _message(body))
        case GmqttUnsubscribe(filter):
            return bytes_field(4, _text(1, filter))


def event_bytes(id: int, body: bytes) -> bytes:
    """An event."""
    return number_field(1, id) + body


def ack_bytes(id: int) -> bytes:
    """An acknowledgement of an event."""
    return number_field(1, id)


def client_hello_bytes(session_id: str) -> bytes:
    """The request of a Hello."""
    return _text(1, session_id)


def server_hello_bytes(clean_start: bool, next_id: int) -> bytes:
    """The answer to a Hello."""
    return number_field(1, clean_start) + number_field(2, next_id)


def _message(message: GmqttMessage) -> bytes:
    return b"".join((
        _text(1, message.topic), bytes_field(2, message.payload) if message.payload else b"",
        number_field(3, message.qos), number_field(4, message.retained), _text(5, message.content_type),
        _text(6, message.correlation_data), number_field(7, message.expiry), number_field(8, message.payload_format),
        _text(9, message.response_topic),
        *(bytes_field(10, _bytes(1, key) + _bytes(2, value)) for key, value in message.user_properties)))


def _text(number: int, text: str) -> bytes:
    return bytes_field(number, text.encode()) if text else b""


def _bytes(number: int, data: bytes) -> bytes:
    return bytes_field(number, data) if data else b""


# --- reading: each raises WireError -----------------------------------------------------------------------------------

def read_event(data: bytes) -> GmqttEvent:
    """An event of a peer."""
    id, body = 0, None
    for number, value in fields(data):
        if number == 1:
            id = number_in(value)
        elif number in _BODIES:
            body = number, bytes_in(value)               # the last one counts, as protobuf has it
    return GmqttEvent(id, None if body is None else _BODIES[body[0]](body[1]))


def read_ack(data: bytes) -> int:
    """The id that a peer acknowledges."""
    id = 0
    for number, value in fields(data):
        if number == 1:
            id = number_in(value)
    return id


def read_client_hello(data: bytes) -> str:
    """The session id of a peer."""
    found = ""
    for number, value in fields(data):
        if number == 1:
            found = text_in(value)
    return found


def read_server_hello(data: bytes) -> tuple[bool, int]:
    """(clean start, next id) of a peer's answer."""
    clean, next_id = False, 0
    for number, value in fields(data):
        if number == 1:
            clean = number_in(value) != 0
        elif number == 2:
            next_id = number_in(value)
    return clean, next_id


def _read_subscribe(data: bytes) -> GmqttSubscribe:
    group, filter = "", ""
    for number, value in fields(data):
        if number == 1:
            group = text_in(value)
        elif number == 2:
            filter = text_in(value)
    return GmqttSubscribe(group, filter)


def _read_unsubscribe(data: bytes) -> GmqttUnsubscribe:
    filter = ""
    for number, value in fields(data):
        if number == 1:
            filter = text_in(value)
    return GmqttUnsubscribe(filter)


_TEXTS = {1: "topic", 5: "content_type", 6: "correlation_data", 9: "response_topic"}
_NUMBERS = {3: "qos", 7: "expiry", 8: "payload_format"}


def _read_message(data: bytes) -> GmqttMessage:
    texts: dict[str, str] = {}
    numbers: dict[str, int] = {}
    payload, retained, properties = b"", False, []
    for number, value in fields(data):
        if number in _TEXTS:
            texts[_TEXTS[number]] = text_in(value)
        elif number in _NUMBERS:
            numbers[_NUMBERS[number]] = number_in(value) & U32   # as protobuf has it
        elif number == 2:
            payload = bytes_in(value)
        elif number == 4:
            retained = number_in(value) != 0
        elif number == 10:
            properties.append(_read_property(bytes_in(value)))
    return GmqttMessage(texts.get("topic", ""), payload, numbers.get("qos", 0), retained,
                        texts.get("content_type", ""), texts.get("correlation_data", ""), numbers.get("expiry", 0),
                        numbers.get("payload_format", 0), texts.get("response_topic", ""), tuple(properties))


def _read_property(data: bytes) -> tuple[bytes, bytes]:
    key, text = b"", b""
    for number, value in fields(data):
        if number == 1:
            key = bytes_in(value)
        elif number == 2:
            text = bytes_in(value)
    return key, text


_BODIES: dict[int, Callable[[bytes], GmqttBody]] = {2: _read_subscribe, 3: _read_message, 4: _read_unsubscribe}
