"""Aeron's resolution frame (RES): names and their addresses, little-endian, as its media drivers gossip them. Pure.

Frame: i32 length, u8 version 0, u8 flags 0, u16 type 7, then entries. Entry: u8 kind (1: IPv4, 2: IPv6), u8 flags
(0x80: this is the sender itself), u16 port, i32 age in ms, the address (4 or 16 bytes), u16 length of the name, the
name in ASCII, zeros up to a multiple of 8. A list that exceeds a frame is sent in several.
Source: Aeron's protocol (ResolutionEntryFlyweight), checked with frames of a real C driver (tests/wire/golden).
"""
from __future__ import annotations

import struct
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address

import attrs

from jgroups_py.model.errors import WireError

TYPE = 7
VERSION = 0
IPV4, IPV6 = 1, 2
SELF = 0x80
ALIGNED = 8
MAX_FRAME_BYTES = 1408                          # Aeron's MTU
MAX_NAME_BYTES = 512
MAX_AGE_MS = (1 << 31) - 1
_FRAME = struct.Struct("<iBBH")
_ENTRY = struct.Struct("<BBHi")
_LENGTH = struct.Struct("<H")
ADDRESS_BYTES = {IPV4: 4, IPV6: 16}


@attrs.frozen
class NameEntry:
    """A name and its address (host: an IP address as text), confirmed `age_ms` ago. is_self: sent by its owner."""

    name: str
    host: str
    port: int
    age_ms: int = 0
    is_self: bool = False


def encode_entry(entry: NameEntry) -> bytes:
    """One entry with its padding. The name has 1 to 512 ASCII characters and the host is an IP address."""
    address, name = ip_address(entry.host), entry.name.encode("ascii")
    assert 0 < len(name) <= MAX_NAME_BYTES, "names are checked before they are gossiped"
    kind = IPV4 if isinstance(address, IPv4Address) else IPV6
    data = _ENTRY.pack(kind, SELF if entry.is_self else 0, entry.port, min(max(entry.age_ms, 0), MAX_AGE_MS))
    data += address.packed + _LENGTH.pack(len(name)) + name
    return data + bytes(-len(data) % ALIGNED)


def encode_frames(entries: Iterable[NameEntry]) -> list[bytes]:
    """All entries, in as few frames as hold them."""
    frames, body = [], b""
    for entry in entries:
        data = encode_entry(entry)
        if body and _FRAME.size + len(body) + len(data) > MAX_FRAME_BYTES:
            frames.append(_framed(body))
            body = b""
        body += data
    return [*frames, _framed(body)] if body else frames


def _framed(body: bytes) -> bytes:
    return _FRAME.pack(_FRAME.size + len(body), VERSION, 0, TYPE) + body


def decode_frame(data: bytes) -> tuple[NameEntry, ...]:
    """The entries of a frame.

    Raises:
        WireError: it is not a RES frame, or its lengths are wrong.
    """
    if len(data) < _FRAME.size:
        raise WireError(f"a resolution frame has at least {_FRAME.size} bytes, not {len(data)}")
    length, version, _, kind = _FRAME.unpack_from(data)
    if version != VERSION or kind != TYPE:
        raise WireError(f"type {kind} of version {version} is not a resolution frame")
    if not _FRAME.size <= length <= len(data):
        raise WireError(f"a resolution frame of {length} bytes in {len(data)}")
    entries, at = [], _FRAME.size
    while at < length:
        entry, at = _entry(data, at, length)
        entries.append(entry)
    return tuple(entries)


def _entry(data: bytes, at: int, stop: int) -> tuple[NameEntry, int]:
    """The entry at a position, and where the next one begins."""
    if at + _ENTRY.size > stop:
        raise WireError("truncated")
    kind, flags, port, age_ms = _ENTRY.unpack_from(data, at)
    address_bytes = ADDRESS_BYTES.get(kind)
    if address_bytes is None:
        raise WireError(f"an address of the unknown kind {kind}")
    address_at = at + _ENTRY.size
    name_at = address_at + address_bytes + _LENGTH.size
    if name_at > stop:
        raise WireError("truncated")
    (name_bytes,) = _LENGTH.unpack_from(data, name_at - _LENGTH.size)
    end = name_at + name_bytes
    following = end + (at - end) % ALIGNED
    if not 0 < name_bytes <= MAX_NAME_BYTES or following > stop:
        raise WireError(f"a name of {name_bytes} bytes; allowed are 1 to {MAX_NAME_BYTES}, inside the frame")
    raw = data[address_at:address_at + address_bytes]
    host = str(IPv4Address(raw) if kind == IPV4 else IPv6Address(raw))
    try:
        name = data[name_at:end].decode("ascii")
    except UnicodeDecodeError:
        raise WireError("a name that is not ASCII") from None
    if age_ms < 0:
        raise WireError("an age below 0")
    return NameEntry(name, host, port, age_ms, bool(flags & SELF)), following
