"""The properties of MQTT 5 as bytes (2.2.2): which may be where is declared beside each field of `Properties`.

A property that is unknown, or not for this packet, makes the packet malformed; one that comes twice, or with a value
out of its range, is a protocol error. User properties may come again, and keep their order.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from jgroups_py.blocks.mqtt.codec.packets import (
    MAX_REMAINING_BYTES,
    NO_PROPERTIES,
    PacketType,
    Properties,
    PropertyKind,
    ReasonCode,
    mutable_twin,
)
from jgroups_py.blocks.mqtt.codec.text import (
    MALFORMED,
    PacketReader,
    binary_bytes,
    text_bytes,
    topic_name_fault,
    varint_bytes,
)

USER_PROPERTIES = 0x26
SUBSCRIPTION_IDENTIFIERS = 0x0B
RESPONSE_TOPIC = 0x08
TOPIC_ALIAS = 0x23


READERS: dict[PropertyKind, Callable[[PacketReader, str], Any]] = {
    PropertyKind.BYTE: PacketReader.u8,
    PropertyKind.FLAG: PacketReader.u8,
    PropertyKind.U16: PacketReader.u16,
    PropertyKind.U32: PacketReader.u32,
    PropertyKind.VARINT: PacketReader.varint,
    PropertyKind.TEXT: PacketReader.text,
    PropertyKind.BINARY: PacketReader.binary,
}


@attrs.frozen
class PropertyRule:
    """What is declared of one property, ready for reading.

    where: bit `1 << PacketType` of each packet it may be in; is_checked: not every value is allowed; read: a value.
    """

    number: int
    name: str
    kind: PropertyKind
    where: int
    least: int
    is_checked: bool
    read: Callable[[PacketReader, str], Any]


def _rules() -> dict[int, PropertyRule]:
    found = {}
    for field in attrs.fields(Properties):
        declared = field.metadata
        where = sum(1 << int(each) for each in declared["where"])
        is_checked = declared["least"] or declared["kind"] is PropertyKind.FLAG or declared["number"] == RESPONSE_TOPIC
        found[declared["number"]] = PropertyRule(
            declared["number"], field.name, declared["kind"], where, declared["least"], bool(is_checked),
            READERS[declared["kind"]])
    return dict(sorted(found.items()))


RULES = _rules()
"""Property identifier -> its rule, in their order."""
RULES_OF: dict[PacketType, dict[int, PropertyRule]] = {
    where: {number: rule for number, rule in RULES.items() if rule.where >> where & 1} for where in PacketType}
"""Packet -> identifier -> rule of each property that it may have."""
WRITERS: dict[PropertyKind, Callable[[Any], bytes]] = {
    PropertyKind.BYTE: lambda value: int(value).to_bytes(1, "big"),
    PropertyKind.FLAG: lambda value: int(value).to_bytes(1, "big"),
    PropertyKind.U16: lambda value: int(value).to_bytes(2, "big"),
    PropertyKind.U32: lambda value: int(value).to_bytes(4, "big"),
    PropertyKind.VARINT: varint_bytes,
    PropertyKind.TEXT: text_bytes,
    PropertyKind.BINARY: binary_bytes,
}
_Draft = mutable_twin(Properties)


def read_properties(body: PacketReader, where: PacketType, most_user_properties: int) -> Properties:
    """The properties at the cursor, their length first."""
    size = body.varint("length of properties")
    if not size:
        return NO_PROPERTIES
    outer = body.stop
    if size > outer - body.at:
        raise body.error(MALFORMED, f"properties of {size} bytes, {outer - body.at} are left")
    body.stop = stop = body.at + size
    data, rules = body.data, RULES_OF[where]
    values: dict[str, Any] = {}
    user: list[tuple[str, str]] = []
    while body.at < stop:
        number = data[body.at]
        body.at += 1
        rule = rules.get(number)
        if rule is None:
            fault = "is not for it" if number in RULES else "is unknown"
            raise body.error(MALFORMED, f"property 0x{number:02x} {fault}")
        if number == USER_PROPERTIES:
            if len(user) >= most_user_properties:
                raise body.error(ReasonCode.QUOTA_EXCEEDED, f"more than {most_user_properties} user properties")
            user.append(_user_property(body))
            continue
        value = rule.read(body, rule.name)
        if rule.is_checked:
            _check(body, rule, value)
        if number == SUBSCRIPTION_IDENTIFIERS:
            # Several only in PUBLISH (3.3.2.3.8); each takes at least two bytes, so the count is bounded like the
            # users'.
            former = values.get(rule.name, ())
            if former and (where is not PacketType.PUBLISH or len(former) >= most_user_properties):
                raise body.error(ReasonCode.PROTOCOL_ERROR, "too many subscription identifiers")
            value = (*former, value)
        elif rule.name in values:
            raise body.error(ReasonCode.PROTOCOL_ERROR, f"{rule.name} comes twice")
        values[rule.name] = value
    body.stop = outer
    if user:
        values["user_properties"] = tuple(user)
    made = _Draft(**values)
    made.__class__ = Properties
    return made


def _user_property(body: PacketReader) -> tuple[str, str]:
    """Name and value: in one go, as nearly all are well-formed; what is not is read again with care, for its error."""
    data, at = body.data, body.at
    try:
        middle = at + 2 + (data[at] << 8 | data[at + 1])
        end = middle + 2 + (data[middle] << 8 | data[middle + 1])
        found = data[at + 2:middle].decode(), data[middle + 2:end].decode()
    except (IndexError, UnicodeDecodeError):
        end = body.stop + 1
    if end > body.stop or "\0" in found[0] or "\0" in found[1]:
        return body.text("name of a user property"), body.text("value of a user property")
    body.at = end
    return found


def _check(body: PacketReader, rule: PropertyRule, value: Any) -> None:
    """The ranges of values."""
    if rule.least and value < rule.least:
        reason = ReasonCode.TOPIC_ALIAS_INVALID if rule.number == TOPIC_ALIAS else ReasonCode.PROTOCOL_ERROR
        raise body.error(reason, f"{rule.name} is {value}, {rule.least} at least is allowed")
    if rule.kind is PropertyKind.FLAG and value > 1:
        raise body.error(ReasonCode.PROTOCOL_ERROR, f"{rule.name} is {value}, 0 and 1 are allowed")
    if rule.number == RESPONSE_TOPIC:
        fault = topic_name_fault(value)
        if fault:
            raise body.error(ReasonCode.PROTOCOL_ERROR, f"{rule.name}: {fault}")


def property_bytes(properties: Properties) -> bytes:
    """The properties behind their length, by identifier, the users' last. Raises ValueError if one does not fit."""
    if properties is NO_PROPERTIES:
        return b"\0"
    parts: list[bytes] = []
    for number, rule in RULES.items():
        value = getattr(properties, rule.name)
        if value is None or value == () or number == USER_PROPERTIES:
            continue
        tag = number.to_bytes(1, "big")
        if number == SUBSCRIPTION_IDENTIFIERS:
            for identifier in value:
                parts += (tag, varint_bytes(identifier))
        else:
            parts += (tag, WRITERS[rule.kind](value))
    for name, text in properties.user_properties:
        parts += (b"\x26", text_bytes(name), text_bytes(text))
    joined = b"".join(parts)
    if len(joined) > MAX_REMAINING_BYTES:
        raise ValueError(f"properties of {len(joined)} bytes")
    return varint_bytes(len(joined)) + joined
