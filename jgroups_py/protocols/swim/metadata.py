"""Tags and weight as the metadata of a node, in the bytes of Serf, so that both sides read each other's.

The bytes are 0xff, then a msgpack map of strings. The weight is the tag "weight", left out where it is 1. Of msgpack
only what Serf needs is here: maps and strings, written in the old form without a separate type for bytes, and read in
both forms. Source: Serf's serf.go (encodeTags), the msgpack specification. Metadata of another form has no tags: Serf
before 0.4 put a role there, other applications of memberlist anything; where it is text, it is shown as the tag "role".
"""
from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

from jgroups_py.model.errors import ConfigError

TAGS_MAGIC = 0xFF
MAX_META_BYTES = 512
WEIGHT = "weight"

_U16, _U32 = struct.Struct(">H"), struct.Struct(">I")
_LENGTHS: dict[int, struct.Struct] = {                     # first byte -> how the length after it is written
    0xD9: struct.Struct(">B"), 0xDA: _U16, 0xDB: _U32, 0xC4: struct.Struct(">B"), 0xC5: _U16, 0xC6: _U32,
}
_MAPS = {0xDE: _U16, 0xDF: _U32}


def pack_tags(tags: Mapping[str, str], weight: float = 1.0) -> bytes:
    """The metadata with `tags` and `weight`.

    Raises:
        ConfigError: it is larger than MAX_META_BYTES, or the weight is not a positive number.
    """
    if not 0 < weight < float("inf"):
        raise ConfigError(f"weight {weight!r} is not a positive number")
    if WEIGHT in tags:
        raise ConfigError(f"the tag {WEIGHT!r} is reserved for the member's weight; set that instead")
    pairs = {**tags, **({} if weight == 1.0 else {WEIGHT: f"{weight:.12g}"})}
    if not pairs:
        return b""
    out = bytearray([TAGS_MAGIC])
    out += bytes([0x80 | len(pairs)]) if len(pairs) < 16 else b"\xde" + _U16.pack(len(pairs))
    for text in (text for pair in pairs.items() for text in pair):
        raw = text.encode()
        out += bytes([0xA0 | len(raw)]) if len(raw) < 32 else b"\xda" + _U16.pack(len(raw))
        out += raw
    if len(out) > MAX_META_BYTES:
        raise ConfigError(f"tags take {len(out)} bytes; at most {MAX_META_BYTES} travel with a member")
    return bytes(out)


def unpack_tags(meta: bytes) -> tuple[dict[str, str], float]:
    """Tags and weight of a node; bytes that are not in this form give no tags, since peers may send anything."""
    if not meta or meta[0] != TAGS_MAGIC:
        text = meta.decode("utf-8", "replace")
        return ({"role": text} if text and text.isprintable() else {}), 1.0
    try:
        texts = list(_strings(meta))
    except (IndexError, struct.error, UnicodeDecodeError):
        return {}, 1.0
    tags = dict(zip(texts[::2], texts[1::2], strict=True))
    return tags, _weight(tags.pop(WEIGHT, "1"))


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        return 1.0
    return weight if 0 < weight < float("inf") else 1.0


def _strings(meta: bytes) -> Iterator[str]:
    """Keys and values in turn."""
    lead, at = meta[1], 2
    if lead & 0xF0 == 0x80:
        number = lead & 0x0F
    else:
        (number,) = _MAPS[lead].unpack_from(meta, at) if lead in _MAPS else (0,)
        at += _MAPS[lead].size if lead in _MAPS else 0
    for _ in range(2 * min(number, len(meta))):
        lead, at = meta[at], at + 1
        if lead & 0xE0 == 0xA0:
            length = lead & 0x1F
        elif lead in _LENGTHS:
            (length,) = _LENGTHS[lead].unpack_from(meta, at)
            at += _LENGTHS[lead].size
        else:
            raise IndexError("no string")
        if at + length > len(meta):
            raise IndexError("truncated")
        yield meta[at:at + length].decode()
        at += length
