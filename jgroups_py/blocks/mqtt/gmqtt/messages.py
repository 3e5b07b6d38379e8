"""From a publication to a message of gmqtt and back. Properties that one side cannot carry are left out and counted.

gmqtt keeps correlation data, which is binary in MQTT, in a field for text. Go refuses to send such a message and, by a
fault of v0.5.0, the link is dead from then on; so bytes that are not UTF-8 never go there.
"""
from __future__ import annotations

from typing import Any

from jgroups_py.blocks.mqtt.broker.publication import NEVER, SECOND, Publication
from jgroups_py.blocks.mqtt.codec.packets import MAX_TEXT_BYTES, NO_PROPERTIES, Properties
from jgroups_py.blocks.mqtt.codec.text import topic_name_fault
from jgroups_py.blocks.mqtt.gmqtt.wire import GmqttMessage
from jgroups_py.model.counters import Counters

MAX_USER_PROPERTIES = 1_000


def message_of(publication: Publication, now_ns: int, counters: Counters) -> GmqttMessage:
    """The message for a peer. Its expiry is the remaining time in seconds, rounded up; 0 means that it does not expire,
    so one that has expired must not be sent."""
    properties = publication.properties
    correlation = ""
    if properties.correlation_data:
        try:
            correlation = properties.correlation_data.decode()
        except UnicodeDecodeError:
            counters.add("properties_to_peers")
    return GmqttMessage(
        publication.topic, bytes(publication.payload), publication.qos, publication.wants_retain,
        properties.content_type or "", correlation, publication.seconds_left(now_ns) or 0,
        properties.payload_format_indicator or 0,
        properties.response_topic or "",
        tuple((key.encode(), value.encode()) for key, value in properties.user_properties))


def publication_of(message: GmqttMessage, now_ns: int, max_levels: int, counters: Counters) -> Publication | None:
    """A peer's message, without the properties that MQTT does not allow; None: MQTT does not allow the message."""
    topic = message.topic
    if topic_name_fault(topic) or _is_long(topic) or message.qos > 2 or topic.count("/") >= max_levels:
        return None
    values: dict[str, Any] = {}
    refused = 0
    if message.content_type:
        refused += not _take(values, "content_type", message.content_type)
    if message.response_topic:
        fault = topic_name_fault(message.response_topic)
        refused += bool(fault) or not _take(values, "response_topic", message.response_topic)
    if message.correlation_data:
        data = message.correlation_data.encode()
        if len(data) <= MAX_TEXT_BYTES:
            values["correlation_data"] = data
        else:
            refused += 1
    if message.payload_format == 1:
        values["payload_format_indicator"] = 1
    elif message.payload_format:
        refused += 1
    if message.expiry:
        values["message_expiry_interval"] = message.expiry
    user = [pair for pair in map(_user_property, message.user_properties[:MAX_USER_PROPERTIES]) if pair is not None]
    refused += len(message.user_properties) - len(user)
    if user:
        values["user_properties"] = tuple(user)
    if refused:
        counters.add("properties_from_peers", refused)
    return Publication(
        topic, message.payload, message.qos, message.retained, Properties(**values) if values else NO_PROPERTIES,
        expires_ns=now_ns + message.expiry * SECOND if message.expiry else NEVER)


def _take(values: dict[str, Any], name: str, text: str) -> bool:
    if _is_long(text) or "\0" in text:
        return False
    values[name] = text
    return True


def _user_property(pair: tuple[bytes, bytes]) -> tuple[str, str] | None:
    try:
        key, value = pair[0].decode(), pair[1].decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in key + value or _is_long(key) or _is_long(value) else (key, value)


def _is_long(text: str) -> bool:
    return len(text) > MAX_TEXT_BYTES // 4 and len(text.encode()) > MAX_TEXT_BYTES
