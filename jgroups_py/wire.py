"""The wire format: headers as declared fields, batches as frames (specified byte by byte in design/wire.md).

A header class is declared with `@header(proto=, kind=)` and fields made by `field(CODEC)`; field order is byte
order. Everything is big-endian. Decoders are bounded: any bytes give a batch or WireError, nothing else, and never
an allocation larger than the input justifies. There is no pickle and no reflection on received names.
"""
from __future__ import annotations

import struct
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Generic, TypeVar, dataclass_transform

import attrs

from jgroups_py.address import ADDRESS_BYTES, Address, PhysicalAddress, ProxyUUID
from jgroups_py.batch import Batch, Header
from jgroups_py.errors import WireError
from jgroups_py.view import MergeView, View, ViewId

T = TypeVar("T")
H = TypeVar("H", bound=type[Header])

MAGIC = b"JP"
VERSION = 1
MULTICAST = 1                 # frame flag: no destination field
EQUAL_LENGTHS = 2             # frame flag: one length for all messages
KNOWN_FRAME_FLAGS = MULTICAST | EQUAL_LENGTHS

_PREFIX = struct.Struct(">2sBB8s16s")          # magic, version, frame flags, cluster id, source
_RUN = struct.Struct(">HB")                    # flags of the run, number of headers
_HEADER = struct.Struct(">HBI")                # protocol id, kind, length of the body
_U32 = struct.Struct(">I")
SOURCE_OFFSET = 12                             # where the source stands in a frame
SOURCE_END = SOURCE_OFFSET + ADDRESS_BYTES
MAX_TEXT_BYTES = 0xFFFF


class Interner:
    """16 bytes -> the one Address object this node uses for them, with the logical name once it is known.

    Equal objects compare by identity first, so interning makes dict look-ups by address fast. Bounded: beyond
    `limit` it starts again (addresses stay valid, they are merely no longer the same object).
    """

    __slots__ = ("limit", "table")

    def __init__(self, limit: int = 100_000) -> None:
        self.table: dict[bytes, Address] = {}
        self.limit = limit

    def get(self, raw: bytes, name: str = "") -> Address:
        """The Address of `raw`; a name given here is kept."""
        found = self.table.get(raw)
        if found is None:
            if len(self.table) >= self.limit:
                self.table.clear()
            found = self.table[raw] = Address(raw, name)
        elif name and not found.name:
            found.name = name
        return found

    def adopt(self, address: Address) -> Address:
        """Make `address` the one object for its bytes."""
        return self.table.setdefault(address.raw, address)


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


@attrs.frozen(eq=False)
class Codec(Generic[T]):
    """How one value is written and read; `form` is its struct code if it has a fixed size and maps to itself.

    `least_bytes` is the smallest size of an encoded value, which bounds counts announced by peers.
    """

    write: Callable[[T, bytearray], None]
    read: Callable[[Reader], T]
    least_bytes: int
    form: str | None = None


def _fixed(code: str) -> Codec[int]:
    form = struct.Struct(">" + code)

    def write(value: int, out: bytearray) -> None:
        out += form.pack(value)

    def read(reader: Reader) -> int:
        return int(reader.unpack(form)[0])
    return Codec(write, read, form.size, code)


U8, U16, U32, U64 = _fixed("B"), _fixed("H"), _fixed("I"), _fixed("Q")


def _write_bool(value: bool, out: bytearray) -> None:
    out.append(1 if value else 0)


def _read_bool(reader: Reader) -> bool:
    value = reader.take(1)[0]
    if value > 1:
        raise WireError("a truth value is neither 0 nor 1")
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
    raw = reader.take(int.from_bytes(reader.take(2), "big"))
    try:
        return raw.decode()
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
    return reader.addresses.get(reader.take(ADDRESS_BYTES))


ADDRESS = Codec(_write_address, _read_address, ADDRESS_BYTES)


def _write_member(value: Address, out: bytearray) -> None:
    out += value.raw
    _write_text(value.name, out)


def _read_member(reader: Reader) -> Address:
    raw = reader.take(ADDRESS_BYTES)
    return reader.addresses.get(raw, _read_text(reader))


MEMBER = Codec(_write_member, _read_member, ADDRESS_BYTES + 2)
"""An address with its logical name."""


def _write_physical(value: PhysicalAddress, out: bytearray) -> None:
    _write_text(value[0], out)
    out += value[1].to_bytes(2, "big")


def _read_physical(reader: Reader) -> PhysicalAddress:
    host = _read_text(reader)
    return host, int.from_bytes(reader.take(2), "big")


PHYSICAL = Codec(_write_physical, _read_physical, 4)


def _write_view_id(value: ViewId, out: bytearray) -> None:
    out += value.raw


def _read_view_id(reader: Reader) -> ViewId:
    counter = int.from_bytes(reader.take(8), "big")
    return ViewId(counter, _read_address(reader))


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
DIGEST: Codec[dict[Address, int]] = mapping(ADDRESS, U64)
"""Member -> next number wanted from it."""
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


def field(codec: Codec[Any], **options: Any) -> Any:
    """A field of a header class, written and read by `codec`."""
    return attrs.field(metadata={"codec": codec}, **options)


@attrs.frozen(eq=False)
class HeaderCodec:
    """How one header class is written and read."""

    cls: type[Header]
    write: Callable[[Any, bytearray], None]
    read: Callable[[Reader], Header]


_by_id: dict[tuple[int, int], HeaderCodec] = {}
_by_class: dict[type[Header], tuple[int, int, HeaderCodec]] = {}


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def header(*, proto: int, kind: int) -> Callable[[H], H]:
    """Class decorator: makes a frozen header class with a codec, known on the wire as (proto, kind)."""
    def decorate(cls: H) -> H:
        made = attrs.frozen(cls)
        made.proto, made.kind = proto, kind
        known = _by_id.get((proto, kind))
        assert known is None or known.cls.__qualname__ == made.__qualname__, f"id {proto}/{kind} is taken"
        codec = _header_codec(made)
        _by_id[proto, kind] = codec
        _by_class[made] = (proto, kind, codec)
        return made
    return decorate


def known_headers() -> list[type[Header]]:
    """All header classes declared so far, by (proto, kind)."""
    return [_by_id[key].cls for key in sorted(_by_id)]


def _header_codec(cls: type[Header]) -> HeaderCodec:
    fields = [(a.name, a.metadata["codec"]) for a in attrs.fields(cls)]       # type: ignore[arg-type]
    names = [name for name, _ in fields]
    if all(codec.form for _, codec in fields):
        form = struct.Struct(">" + "".join(codec.form for _, codec in fields))

        def write_fixed(value: Any, out: bytearray) -> None:
            out += form.pack(*[getattr(value, name) for name in names])
        return HeaderCodec(cls, write_fixed, lambda reader: cls(*reader.unpack(form)))

    def write(value: Any, out: bytearray) -> None:
        for name, codec in fields:
            codec.write(getattr(value, name), out)

    def read(reader: Reader) -> Header:
        return cls(*[codec.read(reader) for _, codec in fields])
    return HeaderCodec(cls, write, read)


def encode_headers(headers: tuple[Header, ...], out: bytearray) -> None:
    """Append the headers, first to last, to `out` (without their number)."""
    for item in headers:
        proto, kind, codec = _by_class[item.__class__]
        body = bytearray()
        codec.write(item, body)
        out += _HEADER.pack(proto, kind, len(body))
        out += body


def decode_headers(reader: Reader, number: int) -> tuple[Header, ...]:
    """Read `number` headers.

    Raises:
        WireError: a kind that is not known, a body that does not fit its length.
    """
    found = []
    limit = reader.stop
    for _ in range(number):
        proto, kind, length = reader.unpack(_HEADER)
        codec = _by_id.get((proto, kind))
        end = reader.pos + length
        if codec is None:
            raise WireError(f"unknown header {proto}/{kind}")
        if end > limit:
            raise WireError("a header is longer than its frame")
        reader.stop = end
        found.append(codec.read(reader))
        if reader.pos != end:
            raise WireError("a header does not fill its length")
        reader.stop = limit
    return tuple(found)


def cluster_id(cluster: str) -> bytes:
    """8 bytes that stand for a cluster's name in every frame."""
    return blake2b(cluster.encode(), digest_size=8).digest()


def encode_body(batch: Batch) -> list[bytes | bytearray]:
    """Run flags, headers, lengths and payloads of a batch, as buffers to gather."""
    out = bytearray(_RUN.pack(batch.flags, len(batch.headers)))
    encode_headers(batch.headers, out)
    payloads = batch.payloads
    out += _U32.pack(len(payloads))
    if payloads:
        length = len(payloads[0])
        if equal_lengths(payloads):
            out += _U32.pack(length)
        else:
            out += struct.pack(f">{len(payloads)}I", *map(len, payloads))
    return [out, *payloads]


def equal_lengths(payloads: tuple[bytes, ...]) -> bool:
    """Whether one length field serves all messages of a run."""
    return len(set(map(len, payloads))) == 1


def decode_body(reader: Reader, src: Address, dest: Address | None, equal: bool) -> Batch:
    """A batch from the reader's position to its end; `equal`: one length for all messages."""
    flags, number = reader.unpack(_RUN)
    headers = decode_headers(reader, number)
    payloads: tuple[bytes, ...] = ()
    count = reader.length(0)
    if count:
        payloads = _read_equal(reader, count) if equal else _read_lengths(reader, count)
    if reader.pos != reader.stop:
        raise WireError("bytes are left over")
    return Batch(src, dest, payloads, headers, flags)


def _read_equal(reader: Reader, count: int) -> tuple[bytes, ...]:
    (length,) = reader.unpack(_U32)
    if count * length != reader.stop - reader.pos:
        raise WireError("messages do not fill the frame")
    if not length:
        # Empty messages take no bytes, so only the sender's own limit bounds how many there can be.
        if count > MAX_EMPTY_MESSAGES:
            raise WireError("too many empty messages")
        return (b"",) * count
    data, pos, stop = reader.data, reader.pos, reader.stop
    reader.pos = stop
    return tuple([data[at:at + length] for at in range(pos, stop, length)])


MAX_EMPTY_MESSAGES = 65536


def _read_lengths(reader: Reader, count: int) -> tuple[bytes, ...]:
    if count * _U32.size > reader.stop - reader.pos:
        raise WireError("more messages announced than bytes are left")
    lengths = struct.unpack(f">{count}I", reader.take(count * _U32.size))
    return tuple([reader.take(length) for length in lengths])


def encode_frame(cluster: bytes, batch: Batch) -> list[bytes | bytearray]:
    """A batch as one frame: buffers to be gathered by the socket, payloads not copied."""
    buffers = encode_body(batch)
    flags = (MULTICAST if batch.dest is None else 0)
    if batch.payloads and equal_lengths(batch.payloads):
        flags |= EQUAL_LENGTHS
    prefix = bytearray(_PREFIX.pack(MAGIC, VERSION, flags, cluster, batch.src.raw))
    if batch.dest is not None:
        prefix += batch.dest.raw
    buffers[0] = prefix + buffers[0]
    return buffers


def headers_nbytes(batch: Batch) -> int:
    """The size of a frame of this batch without lengths and payloads."""
    out = bytearray()
    encode_headers(batch.headers, out)
    return _PREFIX.size + ADDRESS_BYTES + _RUN.size + len(out) + 2 * _U32.size


def decode_frame(data: bytes, cluster: bytes, addresses: Interner) -> Batch:
    """The batch in a frame.

    Raises:
        WireError: with `reason` "foreign version", "foreign cluster" or what is malformed.
    """
    reader = Reader(data, addresses)
    magic, version, flags, its_cluster, source = reader.unpack(_PREFIX)
    if magic != MAGIC:
        raise WireError("not a frame")
    if version != VERSION:
        raise WireError("foreign version")
    if its_cluster != cluster:
        raise WireError("foreign cluster")
    if flags & ~KNOWN_FRAME_FLAGS:
        raise WireError("unknown frame flags")
    dest = None if flags & MULTICAST else addresses.get(reader.take(ADDRESS_BYTES))
    return decode_body(reader, addresses.get(source), dest, bool(flags & EQUAL_LENGTHS))


def pack_batch(batch: Batch, out: bytearray) -> None:
    """A batch inside another message (retransmissions, held runs): u32 length, then source, dest and body."""
    flags = MULTICAST if batch.dest is None else 0
    if batch.payloads and equal_lengths(batch.payloads):
        flags |= EQUAL_LENGTHS
    body = b"".join([bytes([flags]), batch.src.raw, b"" if batch.dest is None else batch.dest.raw,
                     *encode_body(batch)])
    out += _U32.pack(len(body))
    out += body


def unpack_batch(reader: Reader) -> Batch:
    """What `pack_batch` wrote."""
    end = reader.length(1) + reader.pos
    limit, reader.stop = reader.stop, end
    flags = reader.take(1)[0]
    if flags & ~KNOWN_FRAME_FLAGS:
        raise WireError("unknown frame flags")
    src = _read_address(reader)
    dest = None if flags & MULTICAST else _read_address(reader)
    batch = decode_body(reader, src, dest, bool(flags & EQUAL_LENGTHS))
    reader.stop = limit
    return batch


BATCH = Codec(lambda batch, out: pack_batch(batch, out), unpack_batch, 4 + 1 + ADDRESS_BYTES + 7)


@header(proto=1, kind=0)
class AppHeaders(Header):
    """The headers that an application gave to a message: id (200 or more) -> bytes."""

    items: dict[int, bytes] = field(mapping(U16, BYTES))


def proxy_or_plain(address: Address) -> bytes:
    """The 16 bytes of an address, of the original for a ProxyUUID."""
    return address.original.raw if isinstance(address, ProxyUUID) else address.raw
