"""Strings, topic names and topic filters as the standard demands them, and the integers and strings of packets.

Section 1.5 of MQTT 5 (1.5 and 2.2.3 of 3.1.1, which are the same) and 4.7. A string is well-formed UTF-8 without U+0000
and without surrogates, at most 65,535 bytes. Control characters and noncharacters are accepted: the standard leaves it
to the receiver, and there are topics in the world that have them.

A `PacketReader` is the part of a packet that is read with care and not with haste: all packets but PUBLISH and the four
acknowledgements of it, which the decoder reads by itself.
"""
from __future__ import annotations

from jgroups_py.blocks.mqtt.codec.packets import MAX_TEXT_BYTES, MqttError, ReasonCode

SHARED = "$share/"
MALFORMED = ReasonCode.MALFORMED_PACKET


def text_of(raw: bytes, what: str) -> str:
    """A string from its bytes. `what` names the field for the error."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise MqttError(MALFORMED, f"{what}: no UTF-8 at byte {error.start}: {error.reason}") from None
    if "\0" in text:
        raise MqttError(MALFORMED, f"{what}: U+0000 at character {text.index(chr(0))}")
    return text


def topic_name_fault(name: str) -> str:
    """Why this is no topic name (4.7), "" if it is one.

    >>> topic_name_fault("a/b"), topic_name_fault("a/+"), topic_name_fault("")
    ('', "a wildcard in 'a/+'", 'empty')
    """
    if not name:
        return "empty"
    if "+" in name or "#" in name:
        return f"a wildcard in {name[:80]!r}"
    if "\0" in name:
        return "U+0000 in it"
    return ""


def topic_filter_fault(text: str, with_groups: bool = True) -> str:
    """Why this is no topic filter (4.7.1), "" if it is one. Of "$share/GROUP/FILTER" the three parts (4.8.2).

    with_groups: False for the standard 3.1.1, to which what begins with "$share/" is like any other filter.

    >>> [topic_filter_fault(each) for each in ("a/+/#", "#", "a+", "$share/g/a", "$share/g")]
    ['', '', "'+' is not alone in its level in 'a+'", '', "no filter after the group in '$share/g'"]
    """
    shown = repr(text[:80])
    if with_groups and text.startswith(SHARED):
        group, slash, text = text.removeprefix(SHARED).partition("/")
        if not group or "+" in group or "#" in group:
            return f"no name of a group in {shown}"
        if not slash or not text:
            return f"no filter after the group in {shown}"
    if not text:
        return "empty"
    if "\0" in text:
        return "U+0000 in it"
    if "#" in text:
        at = text.index("#")
        if at != len(text) - 1:
            return f"'#' is not the last character in {shown}"
        if at and text[at - 1] != "/":
            return f"'#' is not alone in its level in {shown}"
    if "+" in text and any("+" in level and level != "+" for level in text.split("/")):
        return f"'+' is not alone in its level in {shown}"
    return ""


class PacketReader:
    """A cursor over one packet's variable header and payload: [at, stop) of `data`. name: the packet's, for errors."""

    __slots__ = ("at", "data", "name", "stop")

    def __init__(self, data: bytes, at: int, stop: int, name: str) -> None:
        self.data = data
        self.at = at
        self.stop = stop
        self.name = name

    def error(self, reason: ReasonCode, detail: str) -> MqttError:
        """To be raised: what is wrong with this packet."""
        return MqttError(reason, f"{self.name}: {detail}")

    def _advance(self, size: int, what: str) -> int:
        """Take so many bytes; where they begin."""
        at = self.at
        if size > self.stop - at:
            raise self.error(MALFORMED, f"{what} needs {size} bytes, {self.stop - at} are left")
        self.at = at + size
        return at

    def u8(self, what: str) -> int:
        """A byte."""
        at = self.at
        if at >= self.stop:
            self._advance(1, what)
        self.at = at + 1
        return self.data[at]

    def u16(self, what: str) -> int:
        """A two byte integer."""
        at = self._advance(2, what)
        return self.data[at] << 8 | self.data[at + 1]

    def u32(self, what: str) -> int:
        """A four byte integer."""
        at = self.at
        if self.stop - at < 4:
            self._advance(4, what)
        self.at = at + 4
        return int.from_bytes(self.data[at:at + 4], "big")

    def varint(self, what: str) -> int:
        """A variable byte integer of at most four bytes and as short as can be [MQTT-1.5.5-1]."""
        value, at = 0, self.at
        if at < self.stop and self.data[at] < 0x80:
            self.at = at + 1
            return self.data[at]
        for shift in (0, 7, 14, 21):
            byte = self.u8(what)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if not byte and shift:
                    raise self.error(MALFORMED, f"{what} is not written in the fewest bytes")
                return value
        raise self.error(MALFORMED, f"{what} has more than four bytes")

    def binary(self, what: str) -> bytes:
        """Bytes behind their length of two bytes."""
        data, at = self.data, self.at
        begin = at + 2
        if begin <= self.stop:
            end = begin + (data[at] << 8 | data[at + 1])
            if end <= self.stop:
                self.at = end
                return data[begin:end]
        return self._too_short(what)

    def text(self, what: str) -> str:
        """A string behind its length of two bytes."""
        raw = self.binary(what)
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            text = "\0"
        return text if "\0" not in text else text_of(raw, f"{self.name}: {what}")

    def _too_short(self, what: str) -> bytes:
        """The error of a value that is longer than what is left."""
        size = self.u16(what)
        self._advance(size, what)
        raise AssertionError("it is longer")

    def topic_name(self, what: str) -> str:
        """A string that is a topic name."""
        name = self.text(what)
        fault = topic_name_fault(name)
        if fault:
            raise self.error(ReasonCode.TOPIC_NAME_INVALID, f"{what}: {fault}")
        return name

    def topic_filter(self, what: str, with_groups: bool) -> str:
        """A string that is a topic filter; with_groups: see topic_filter_fault."""
        text = self.text(what)
        fault = topic_filter_fault(text, with_groups)
        if fault:
            raise self.error(ReasonCode.TOPIC_FILTER_INVALID, f"{what}: {fault}")
        return text

    def packet_id(self) -> int:
        """A packet identifier, which is not 0 [MQTT-2.2.1-3]."""
        packet_id = self.u16("packet id")
        if not packet_id:
            raise self.error(MALFORMED, "packet id 0")
        return packet_id

    def end(self) -> None:
        """Nothing may be left."""
        if self.at != self.stop:
            raise self.error(MALFORMED, f"{self.stop - self.at} bytes too many at its end")


def varint_bytes(value: int) -> bytes:
    """A variable byte integer (1.5.5).

    >>> varint_bytes(127).hex(), varint_bytes(128).hex(), varint_bytes(268_435_455).hex()
    ('7f', '8001', 'ffffff7f')
    """
    if value < 0x80:
        return value.to_bytes(1, "big")
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    if len(out) > 4:
        raise ValueError("more than 268,435,455, which four bytes of seven bits do not hold")
    return bytes(out)


def binary_bytes(value: bytes) -> bytes:
    """Bytes behind their length. Raises ValueError if there are more than two bytes can count."""
    if len(value) > MAX_TEXT_BYTES:
        raise ValueError(f"{len(value)} bytes, a string or binary value has at most {MAX_TEXT_BYTES}")
    return len(value).to_bytes(2, "big") + value


def text_bytes(text: str) -> bytes:
    """A string behind its length in bytes. Raises ValueError if it is too long or has U+0000 or a surrogate."""
    if "\0" in text:
        raise ValueError("U+0000 in a string")
    return binary_bytes(text.encode())
