"""The fields of protobuf messages, for schemas of other systems: numbers, bytes, messages. Without a library.

A message is a row of fields: a varint of number and type, then the value. A reader that knows the schema goes through
`fields`, skips numbers that it does not know, and takes the last of several where there can be one. A field that is
left out has the default value of proto3: 0, or empty. Groups (types 3 and 4) are refused.

Users: protocols/discovery/pex/influx.py, blocks/mqtt/gmqtt/wire.py. Both are checked against Google's library.
"""
from __future__ import annotations

from collections.abc import Iterator

from jgroups_py.model.errors import WireError

MAX_VARINT_BYTES = 10
MAX_FIELD = (1 << 29) - 1
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
FIXED_BYTES = {FIXED64: 8, FIXED32: 4}


# --- writing ----------------------------------------------------------------------------------------------------------

def bytes_field(number: int, body: bytes) -> bytes:
    """A string, bytes or message, empty or not."""
    return varint(number << 3 | BYTES) + varint(len(body)) + body


def number_field(number: int, value: int) -> bytes:
    """A number or bool, which is left out when it is 0."""
    return varint(number << 3 | VARINT) + varint(value) if value else b""


def varint(value: int) -> bytes:
    """A number from 0 on.

    >>> varint(1), varint(300)
    (b'\\x01', b'\\xac\\x02')
    """
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# --- reading ----------------------------------------------------------------------------------------------------------

def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(number, value) of each field; of numbers of fixed width their bytes.

    Raises:
        WireError: the bytes are no message.
    """
    at, end = 0, len(data)
    while at < end:
        key = data[at]
        at += 1
        if key > 0x7F:                                   # most are one byte, and calls are dear
            key, at = read_varint(data, at - 1)
        number, kind = key >> 3, key & 7
        if not 0 < number <= MAX_FIELD:
            raise WireError("there is no such field")
        if kind == VARINT:
            if at < end and data[at] < 0x80:
                yield number, data[at]
                at += 1
                continue
            value, at = read_varint(data, at)
            yield number, value
            continue
        if kind == BYTES:
            length, at = read_varint(data, at)
        elif kind in FIXED_BYTES:
            length = FIXED_BYTES[kind]
        else:
            raise WireError("a field of an unknown type")
        if at + length > end:
            raise WireError("truncated")
        yield number, data[at:at + length]
        at += length


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """(number, where it ends). Raises WireError."""
    if at < len(data) and data[at] < 0x80:
        return data[at], at + 1
    value = 0
    for shift in range(MAX_VARINT_BYTES):
        if at >= len(data):
            raise WireError("truncated")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            if value >> 64:
                raise WireError("a number exceeds 64 bits")
            return value, at
    raise WireError("a number exceeds 64 bits")


def number_in(value: int | bytes) -> int:
    """The value of a field that is a number. Raises WireError."""
    if not isinstance(value, int):
        raise WireError("a number has the wrong type")
    return value


def bytes_in(value: int | bytes) -> bytes:
    """The value of a field that is bytes or a message. Raises WireError."""
    if isinstance(value, int):
        raise WireError("a field has the wrong type")
    return value


def text_in(value: int | bytes) -> str:
    """The value of a field that is a string, which has to be UTF-8. Raises WireError."""
    try:
        return bytes_in(value).decode()
    except UnicodeDecodeError:
        raise WireError("a string is not UTF-8") from None
