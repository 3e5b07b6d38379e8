"""Codecs: how single values are written to and read from bytes, the alphabet of `wire`.

Everything is big-endian. A reader is bounded: reading past the end, or a count that the remaining bytes cannot hold, is
a WireError, so any bytes give a value or a WireError and never an allocation larger than the input justifies.
Values that no correct peer sends are a WireError too, checked here once: numbers too large to count on from, names that
no member can have, hosts that no socket accepts.
"""
from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from jgroups_py.model.address import ADDRESS_BYTES, Address, PhysicalAddress
from jgroups_py.model.errors import WireError
from jgroups_py.model.text import is_host, is_name
from jgroups_py.model.view import MergeView, View, ViewId

T = TypeVar("T")

MAX_TEXT_BYTES = 0xFFFF
NUMBER_LIMIT = 1 << 62
"""Numbers on the wire are below: no counter gets so far, and what is computed from them still fits 64 bits."""
_LIMIT_BYTE = NUMBER_LIMIT >> 56            # the first byte of a u64 that is too large is this or more
_U32 = struct.Struct(">I")


MAX_SKIPPED_IDS = 64


class Unread:
    """The headers that a reader of frames does not read although it may: what it skipped, by id.

    protocols: ids of the protocols whose skippable headers it reads, None: all that are declared. lacks: ids (protocol,
    kind) of declared headers that it treats as if they were not, as a member of an earlier version does (simulator).
    skipped: (protocol, kind) -> how often since it was last emptied, of 64 ids at most; ids come from the network.
    """

    __slots__ = ("lacks", "protocols", "skipped")

    def __init__(self) -> None:
        self.protocols: frozenset[int] | None = None
        self.lacks: frozenset[tuple[int, int]] = frozenset()
        self.skipped: dict[tuple[int, int], int] = {}

    def note(self, key: tuple[int, int]) -> None:
        """A header was skipped."""
        if key in self.skipped or len(self.skipped) < MAX_SKIPPED_IDS:
            self.skipped[key] = self.skipped.get(key, 0) + 1
        else:
            self.skipped[OTHERS] = self.skipped.get(OTHERS, 0) + 1


OTHERS = -1, -1
"""Where Unread counts headers beyond its 64 ids."""


class Interner:
    """16 bytes -> the one Address object this node uses for them, with the logical name once known.

    Equal objects compare by identity first, so interning makes dict look-ups by address fast. Bounded: beyond
    `limit` it starts again, but for `kept` (addresses stay valid, they are merely no longer the same object).
    unread: which headers the reader of the same frames skips.
    """

    __slots__ = ("kept", "limit", "table", "unread")

    def __init__(self, limit: int = 20_000) -> None:
        self.table: dict[bytes, Address] = {}
        self.kept: dict[bytes, Address] = {}
        self.limit = limit
        self.unread = Unread()

    def get(self, raw: bytes, name: str = "") -> Address:
        """The Address of `raw`; `name` is kept if none is known; if another is, only the returned object has `name`."""
        found = self.table.get(raw)
        if found is None:
            if len(self.table) >= self.limit:
                self.table = dict(self.kept)
            found = self.table[raw] = Address(raw, name)
        elif name and name != found.name:
            if found.name:
                return Address(raw, name)
            found.name = name
        return found

    def adopt(self, address: Address) -> Address:
        """Make `address` the one object for its bytes, also when the table is full."""
        return self.kept.setdefault(address.raw, self.table.setdefault(address.raw, address))

    def keep(self, addresses: Iterable[Address], own: Address) -> None:
        """The addresses of a view, and `own`: keep them, with their names in place of earlier ones."""
        self.kept = {own.raw: own}
        for address in addresses:
            if address.raw != own.raw:
                found = self.kept[address.raw] = self.table.setdefault(address.raw, address)
                found.name = address.name or found.name


class Reader:
    """A position in received bytes; reading past the end is a WireError."""

    __slots__ = ("addresses", "data", "pos", "stop")

    def __init__(self, data: bytes, addresses: Interner, pos: int = 0, stop: int | None = None) -> None:
        self.data = data
        self.pos = pos
        self.stop = len(data) if stop is None else stop
        self.addresses = addresses

    def take(self, number: int) -> bytes:
        """The next `number` bytes."""
        end = self.pos + number
        if end > self.stop:
            raise WireError("truncated")
        taken = self.data[self.pos:end]
        self.pos = end
        return taken

    def unpack(self, form: struct.Struct) -> tuple[Any, ...]:
        """The next fields in the form of `form`."""
        end = self.pos + form.size
        if end > self.stop:
            raise WireError("truncated")
        values = form.unpack_from(self.data, self.pos)
        self.pos = end
        return values

    def length(self, least_bytes: int) -> int:
        """A u32 item count that the remaining bytes can hold if an item takes `least_bytes` or more."""
        (number,) = self.unpack(_U32)
        if number * least_bytes > self.stop - self.pos:
            raise WireError("more items announced than bytes are left")
        return int(number)


class Codec(Generic[T]):
    """How one value is written and read; `form` is its struct code if it has a fixed size and maps to itself.

    `least_bytes` is the smallest size of an encoded value, which bounds counts announced by peers. A `limited` one of
    fixed size is a number below NUMBER_LIMIT, which code that reads it by its `form` checks itself.
    """

    __slots__ = ("form", "least_bytes", "limited", "read", "write")

    def __init__(
        self, write: Callable[[T, bytearray], None], read: Callable[[Reader], T], least_bytes: int,
        form: str | None = None, limited: bool = False,
    ) -> None:
        self.write = write
        self.read = read
        self.least_bytes = least_bytes
        self.form = form
        self.limited = limited


def _fixed(code: str) -> Codec[int]:
    form = struct.Struct(">" + code)

    def write(value: int, out: bytearray) -> None:
        out += form.pack(value)

    def read(reader: Reader) -> int:
        value: int = reader.unpack(form)[0]
        return value
    return Codec(write, read, form.size, code)


U8, U16, U32, BITS64 = _fixed("B"), _fixed("H"), _fixed("I"), _fixed("Q")


def _write_number(value: int, out: bytearray) -> None:
    out += value.to_bytes(8, "big")


def _read_number(reader: Reader) -> int:
    value = int.from_bytes(reader.take(8), "big")
    if value >= NUMBER_LIMIT:
        raise WireError("a number is too large")
    return value


U64 = Codec(_write_number, _read_number, 8, "Q", limited=True)
"""A number: something that is counted or measured. What only has 64 bits (a tag, a bit map) is BITS64."""


def _write_bool(value: bool, out: bytearray) -> None:
    out.append(1 if value else 0)


def _read_bool(reader: Reader) -> bool:
    at = reader.pos
    if at >= reader.stop:
        raise WireError("truncated")
    value = reader.data[at]
    if value > 1:
        raise WireError("a truth value is neither 0 nor 1")
    reader.pos = at + 1
    return value == 1


BOOL = Codec(_write_bool, _read_bool, 1)


def _write_bytes(value: bytes, out: bytearray) -> None:
    out += _U32.pack(len(value))
    out += value


def _read_bytes(reader: Reader) -> bytes:
    return reader.take(reader.length(1))


BYTES = Codec(_write_bytes, _read_bytes, 4)


def _write_text(value: str, out: bytearray) -> None:
    raw = value.encode()
    assert len(raw) <= MAX_TEXT_BYTES, "text in a header is short"
    out += len(raw).to_bytes(2, "big")
    out += raw


def _read_text(reader: Reader) -> str:
    data, start = reader.data, reader.pos + 2
    stop = start + int.from_bytes(data[start - 2:start], "big")
    if start > reader.stop or stop > reader.stop:
        raise WireError("truncated")
    reader.pos = stop
    try:
        return data[start:stop].decode()
    except UnicodeDecodeError:
        raise WireError("text is not UTF-8") from None


TEXT = Codec(_write_text, _read_text, 2)


def fixed_bytes(number: int) -> Codec[bytes]:
    """Exactly `number` bytes."""
    def write(value: bytes, out: bytearray) -> None:
        assert len(value) == number, "a field of fixed size has that size"
        out += value
    return Codec(write, lambda reader: reader.take(number), number, f"{number}s")


def _write_address(value: Address, out: bytearray) -> None:
    out += value.raw


def _read_address(reader: Reader) -> Address:
    start = reader.pos
    reader.pos = stop = start + ADDRESS_BYTES
    if stop > reader.stop:
        raise WireError("truncated")
    return reader.addresses.get(reader.data[start:stop])


ADDRESS = Codec(_write_address, _read_address, ADDRESS_BYTES)


def _read_name(reader: Reader) -> str:
    name = _read_text(reader)
    if not is_name(name):
        raise WireError("a name that no member may have")
    return name


def _read_name_if_known(reader: Reader) -> str:
    name = _read_text(reader)
    if name and not is_name(name):
        raise WireError("a name that no member may have")
    return name


NAME = Codec(_write_text, _read_name, 2)
"""The name of a member or site (model.text.is_name)."""
NAME_IF_KNOWN = Codec(_write_text, _read_name_if_known, 2)
"""The same, or empty."""


def _write_member(value: Address, out: bytearray) -> None:
    out += value.raw
    _write_text(value.name, out)


def _read_member(reader: Reader) -> Address:
    raw = reader.take(ADDRESS_BYTES)
    return reader.addresses.get(raw, _read_name_if_known(reader))


MEMBER = Codec(_write_member, _read_member, ADDRESS_BYTES + 2)
"""An address with its logical name; empty: the name is not known."""


def _write_physical(value: PhysicalAddress, out: bytearray) -> None:
    _write_text(value[0], out)
    out += value[1].to_bytes(2, "big")


def _read_physical(reader: Reader) -> PhysicalAddress:
    host = _read_text(reader)
    port = int.from_bytes(reader.take(2), "big")
    if not port or not is_host(host):
        raise WireError("nothing can be sent to such an address")
    return host, port


PHYSICAL = Codec(_write_physical, _read_physical, 4)


def _write_view_id(value: ViewId, out: bytearray) -> None:
    out += value.raw


def _read_view_id(reader: Reader) -> ViewId:
    return ViewId(_read_number(reader), _read_address(reader))


VIEW_ID = Codec(_write_view_id, _read_view_id, 24)


def optional(codec: Codec[T]) -> Codec[T | None]:
    """A value or None: one byte 0 or 1 before it."""
    def write(value: T | None, out: bytearray) -> None:
        out.append(0 if value is None else 1)
        if value is not None:
            codec.write(value, out)

    def read(reader: Reader) -> T | None:
        return codec.read(reader) if _read_bool(reader) else None
    return Codec(write, read, 1)


def sequence(codec: Codec[T]) -> Codec[tuple[T, ...]]:
    """A tuple: u32 count, then the items."""
    def write(value: tuple[T, ...], out: bytearray) -> None:
        out += _U32.pack(len(value))
        for item in value:
            codec.write(item, out)

    def read(reader: Reader) -> tuple[T, ...]:
        return tuple([codec.read(reader) for _ in range(reader.length(codec.least_bytes))])
    return Codec(write, read, 4)


def mapping(key: Codec[Any], value: Codec[Any]) -> Codec[dict[Any, Any]]:
    """A dict in its own order: u32 count, then key and value of each entry. A key twice is refused."""
    def write(table: dict[Any, Any], out: bytearray) -> None:
        out += _U32.pack(len(table))
        for item, content in table.items():
            key.write(item, out)
            value.write(content, out)

    def read(reader: Reader) -> dict[Any, Any]:
        number = reader.length(key.least_bytes + value.least_bytes)
        table = {key.read(reader): value.read(reader) for _ in range(number)}
        if len(table) != number:
            raise WireError("a key stands twice in a table")
        return table
    return Codec(write, read, 4)


def record(*codecs: Codec[Any]) -> Codec[tuple[Any, ...]]:
    """A tuple of fixed length, one codec a place."""
    def write(value: tuple[Any, ...], out: bytearray) -> None:
        for codec, item in zip(codecs, value, strict=True):
            codec.write(item, out)

    def read(reader: Reader) -> tuple[Any, ...]:
        return tuple([codec.read(reader) for codec in codecs])
    return Codec(write, read, sum(codec.least_bytes for codec in codecs))


RANGE = record(U64, U64)
"""Half-open (first, stop)."""
RANGES = sequence(RANGE)
MEMBERS = sequence(MEMBER)
_DIGEST_ENTRY = struct.Struct(">16sQ")


def _write_digest(digest: dict[Address, int], out: bytearray) -> None:
    out += _U32.pack(len(digest))
    for member, number in digest.items():
        out += _DIGEST_ENTRY.pack(member.raw, number)


def _read_digest(reader: Reader) -> dict[Address, int]:
    number = reader.length(_DIGEST_ENTRY.size)
    entries = reader.take(number * _DIGEST_ENTRY.size)
    # The first byte of each number: what is too large is found by one call for all entries, too.
    if number and max(entries[ADDRESS_BYTES::_DIGEST_ENTRY.size]) >= _LIMIT_BYTE:
        raise WireError("a number is too large")
    address = reader.addresses.get
    digest = {address(raw): following for raw, following in _DIGEST_ENTRY.iter_unpack(entries)}
    if len(digest) != number:
        raise WireError("a member stands twice in a digest")
    return digest


DIGEST: Codec[dict[Address, int]] = Codec(_write_digest, _read_digest, 4)
"""Member -> the next number in order from it: a mapping(ADDRESS, U64), read by one call for all entries, as large
groups have large ones."""
ADDRESS_BOOK: Codec[dict[Address, PhysicalAddress]] = mapping(MEMBER, PHYSICAL)
"""Member (with name) -> where it receives."""


def _write_plain_view(view: View, out: bytearray) -> None:
    _write_view_id(view.id, out)
    MEMBERS.write(view.members, out)


def _read_plain_view(reader: Reader) -> View:
    view_id = _read_view_id(reader)
    members = MEMBERS.read(reader)
    if not members or len(dict.fromkeys(members)) != len(members):
        raise WireError("a view is empty or names a member twice")
    return View(view_id, members)


_PLAIN_VIEWS = sequence(Codec(_write_plain_view, _read_plain_view, 28))


def _write_view(view: View, out: bytearray) -> None:
    _write_plain_view(view, out)
    _PLAIN_VIEWS.write(view.subgroups if isinstance(view, MergeView) else (), out)


def _read_view(reader: Reader) -> View:
    view = _read_plain_view(reader)
    subgroups = _PLAIN_VIEWS.read(reader)
    return MergeView(view.id, view.members, subgroups) if subgroups else view


VIEW = Codec(_write_view, _read_view, 32)
