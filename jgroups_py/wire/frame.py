"""The wire format: batches as frames (specified byte by byte in design/wire.md).

Header classes are declared by declaring.py; here they are written and read. A header whose kind is 128 or more is
skipped by members that do not have it; any other makes their frame unreadable. A frame's checksum covers everything but
the payloads: what the protocols act on is not left to the checksums of the network alone.
"""
from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import blake2b
from operator import attrgetter
from typing import Any
from zlib import crc32

from jgroups_py.model.address import ADDRESS_BYTES, Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.errors import WireError
from jgroups_py.model.header import Header
from jgroups_py.wire.codec import (
    ADDRESS,
    NUMBER_LIMIT,
    Codec,
    Interner,
    Reader,
    Unread,
)

MAGIC = b"JP"
VERSION = 1
MULTICAST = 1                 # frame flag: no destination field
EQUAL_LENGTHS = 2             # frame flag: one length for all messages
KNOWN_FRAME_FLAGS = MULTICAST | EQUAL_LENGTHS
SKIPPABLE = 128               # the bit of a header's kind by which a member that does not have the header skips it

_PREFIX = struct.Struct(">2sBBI")              # magic, version, frame flags, checksum
_ORIGIN = struct.Struct(">I8s16s")             # bytes from here to the payloads, cluster id, source
_START = struct.Struct(">2sBBII8s16s")         # both of them
_BODY = struct.Struct(">HB")                   # flags of the batch, number of headers
_HEADER = struct.Struct(">HBI")                # protocol id, kind, length of the body
_U32 = struct.Struct(">I")
_EQUAL = struct.Struct(">II")                  # number of messages, their one length
_PREFIX_BYTES, _BODY_BYTES, _HEADER_BYTES, _EQUAL_BYTES = _PREFIX.size, _BODY.size, _HEADER.size, _EQUAL.size
SOURCE_END = _START.size                       # where the source ends in a frame
SOURCE_OFFSET = SOURCE_END - ADDRESS_BYTES


class HeaderCodec:
    """How one header class is written and read.

    lead: protocol id, kind and length, as they stand before a body of fixed size; values: the fields of such a header;
    whole: both of them; form: its body; limited: which values are numbers. One of variable size has `read` instead.
    """

    __slots__ = ("cls", "form", "lead", "limited", "pack", "read", "values", "whole")

    def __init__(
        self, cls: type[Header], pack: Callable[[Any], bytes], read: Callable[[Reader], Header] | None = None,
        lead: bytes = b"", values: Callable[[Any], tuple[Any, ...]] | None = None, whole: struct.Struct = _HEADER,
        form: struct.Struct = _HEADER, limited: tuple[int, ...] = (),
    ) -> None:
        self.cls = cls
        self.pack = pack
        self.read = read
        self.lead = lead
        self.values = values
        self.whole = whole
        self.form = form
        self.limited = limited


_by_id: dict[tuple[int, int], HeaderCodec] = {}
_by_class: dict[type[Header], HeaderCodec] = {}
_by_lead: dict[bytes, HeaderCodec] = {}        # of fixed size only


def register(made: type[Header], fields: Sequence[tuple[str, Codec[Any]]]) -> None:
    """From now on headers of this class, with these fields, are written and read under its ids."""
    proto, kind = made.proto, made.kind
    known = _by_id.get((proto, kind))
    assert 0 <= kind < 256, f"kind {kind}: a byte; from {SKIPPABLE} on the header may be skipped"
    assert known is None or known.cls.__qualname__ == made.__qualname__, f"id {proto}/{kind} is taken"
    codec = _header_codec(made, fields)
    _by_id[proto, kind] = codec
    _by_class[made] = codec
    if codec.lead and kind < SKIPPABLE:                        # whether to skip it is asked on the other way
        _by_lead[codec.lead] = codec


def known_headers() -> list[type[Header]]:
    """All header classes declared so far, by (proto, kind)."""
    return [_by_id[key].cls for key in sorted(_by_id)]


def _header_codec(cls: type[Header], fields: Sequence[tuple[str, Codec[Any]]]) -> HeaderCodec:
    if all(codec.form for _, codec in fields):
        return _fixed_header_codec(cls, fields)

    def pack(value: Any) -> bytes:
        body = bytearray()
        for name, codec in fields:
            codec.write(getattr(value, name), body)
        return _HEADER.pack(cls.proto, cls.kind, len(body)) + body

    def read(reader: Reader) -> Header:
        return cls(*[codec.read(reader) for _, codec in fields])
    return HeaderCodec(cls, pack, read)


def _fixed_header_codec(cls: type[Header], fields: Sequence[tuple[str, Codec[Any]]]) -> HeaderCodec:
    """One struct for the whole header."""
    names, code = [name for name, _ in fields], "".join(str(codec.form) for _, codec in fields)
    form, whole = struct.Struct(">" + code), struct.Struct(f">{_HEADER_BYTES}s{code}")
    lead = _HEADER.pack(cls.proto, cls.kind, form.size)
    values: Callable[[Any], tuple[Any, ...]] = attrgetter(*names) if names else (lambda value: ())
    if len(names) == 1:
        only = attrgetter(names[0])
        values = lambda value: (only(value),)                # noqa: E731
    return HeaderCodec(cls, lambda value: whole.pack(lead, *values(value)), None, lead, values, whole, form,
                       tuple(at for at, (_, codec) in enumerate(fields) if codec.limited))


def encode_headers(headers: tuple[Header, ...], out: bytearray) -> None:
    """Append the headers, first to last, to `out` (without their number)."""
    for item in headers:
        out += _by_class[item.__class__].pack(item)


def decode_headers(reader: Reader, number: int) -> tuple[Header, ...]:
    """Read `number` headers.

    Raises:
        WireError: a kind that is not known, a body that does not fit its length.
    """
    found, reader.pos = _headers(reader.data, reader.pos, reader.stop, number, reader.addresses)
    return found


def _headers(
    data: bytes, pos: int, stop: int, number: int, addresses: Interner,
) -> tuple[tuple[Header, ...], int]:
    """The headers from `pos` on, and where they end."""
    found: list[Header] = []
    for _ in range(number):
        codec = _by_lead.get(data[pos:pos + _HEADER_BYTES])
        if codec is not None:
            pos += _HEADER_BYTES
            end = pos + codec.form.size
            if end > stop:
                raise WireError("a header is longer than its frame")
            values = codec.form.unpack_from(data, pos)
            for at in codec.limited:
                if values[at] >= NUMBER_LIMIT:
                    raise WireError("a number is too large")
            found.append(codec.cls(*values))
            pos = end
        else:
            header, pos = _other_header(data, pos, stop, addresses)
            if header is not None:
                found.append(header)
    return tuple(found), pos


def _other_header(data: bytes, pos: int, stop: int, addresses: Interner) -> tuple[Header | None, int]:
    """A header of variable size, or one that may be skipped; None: it was."""
    if pos + _HEADER_BYTES > stop:
        raise WireError("truncated")
    proto, kind, length = _HEADER.unpack_from(data, pos)
    codec = _by_id.get((proto, kind))
    if codec is None or kind >= SKIPPABLE or addresses.unread.lacks:
        codec = _codec_here(codec, proto, kind, addresses.unread)
    pos += _HEADER_BYTES
    end = pos + length
    if end > stop:
        raise WireError("a header is longer than its frame")
    if codec is None:
        addresses.unread.note((proto, kind))
        return None, end
    reader = Reader(data, addresses, pos, end)
    header = codec.read(reader) if codec.read is not None else _of_fixed_size(codec, reader)
    if header is None or reader.pos != end:
        raise WireError("a header does not fill its length")
    return header, end


def _codec_here(codec: HeaderCodec | None, proto: int, kind: int, unread: Unread) -> HeaderCodec | None:
    """The codec of a header, if it is read here; None: it is skipped."""
    if codec is not None and (proto, kind) not in unread.lacks and (
            kind < SKIPPABLE or unread.protocols is None or proto in unread.protocols):
        return codec
    if kind < SKIPPABLE:
        raise WireError(f"unknown header {proto}/{kind}")
    return None


def _of_fixed_size(codec: HeaderCodec, reader: Reader) -> Header | None:
    """The fields of a header; None: it has another length."""
    if codec.form.size != reader.stop - reader.pos:
        return None
    values = reader.unpack(codec.form)
    if any(values[at] >= NUMBER_LIMIT for at in codec.limited):
        raise WireError("a number is too large")
    return codec.cls(*values)


def cluster_id(cluster: str) -> bytes:
    """8 bytes that represent a cluster's name in every frame."""
    return blake2b(cluster.encode(), digest_size=8).digest()


def encode_body(batch: Batch, equal: bool) -> list[bytes | bytearray]:
    """Flags, headers, lengths and payloads of a batch, as buffers to gather; `equal`: one length for all."""
    return [_body_head(batch, equal), *batch.payloads]


def _body_head(batch: Batch, equal: bool) -> bytes:
    """The part of a body before the payloads."""
    headers, payloads = batch.headers, batch.payloads
    out = _BODY.pack(batch.flags, len(headers))
    for item in headers:
        codec = _by_class[item.__class__]
        if codec.values is not None:
            out += codec.whole.pack(codec.lead, *codec.values(item))
        else:
            out += codec.pack(item)
    if equal:
        return out + _EQUAL.pack(len(payloads), len(payloads[0]))
    return out + struct.pack(f">{len(payloads) + 1}I", len(payloads), *map(len, payloads))


def decode_body(reader: Reader, src: Address, dest: Address | None, equal: bool) -> Batch:
    """A batch from the reader's position to its end; `equal`: one length for all messages."""
    batch = _body(reader.data, reader.pos, reader.stop, reader.addresses, src, dest, equal)
    reader.pos = reader.stop
    return batch


def _body(
    data: bytes, pos: int, stop: int, addresses: Interner, src: Address, dest: Address | None, equal: bool,
) -> Batch:
    if pos + _BODY_BYTES > stop:
        raise WireError("truncated")
    flags, number = _BODY.unpack_from(data, pos)
    headers, pos = _headers(data, pos + _BODY_BYTES, stop, number, addresses)
    if not equal:
        payloads = _read_lengths(data, pos, stop)
        return Batch(src, dest, payloads, headers, flags, sum(map(len, payloads)))
    if pos + _EQUAL_BYTES > stop:
        raise WireError("truncated")
    count, length = _EQUAL.unpack_from(data, pos)
    pos += _EQUAL_BYTES
    if count * length != stop - pos or not count:
        raise WireError("messages do not fill the frame")
    payloads = (data[pos:stop],) if count == 1 else _read_equal(data, pos, count, length)
    return Batch(src, dest, payloads, headers, flags, stop - pos, length)


def _read_equal(data: bytes, pos: int, count: int, length: int) -> tuple[bytes, ...]:
    if not length:
        # Empty messages take no bytes, so only the sender's own limit bounds how many there can be.
        if count > MAX_EMPTY_MESSAGES:
            raise WireError("too many empty messages")
        return (b"",) * count
    if count <= SLICE:
        return _slices(length, count).unpack_from(data, pos)
    found: list[bytes] = []
    while count:
        number = min(count, SLICE)
        found += _slices(length, number).unpack_from(data, pos)
        pos += number * length
        count -= number
    return tuple(found)


MAX_EMPTY_MESSAGES = 65536
SLICE = 64                    # messages of one length that one call cuts out: 15 ns each, a slice takes 95


@lru_cache(maxsize=256)
def _slices(length: int, number: int) -> struct.Struct:
    return struct.Struct(f"{length}s" * number)


def _read_lengths(data: bytes, pos: int, stop: int) -> tuple[bytes, ...]:
    """The messages, each with a length of its own."""
    if pos + _U32.size > stop:
        raise WireError("truncated")
    (count,) = _U32.unpack_from(data, pos)
    pos += _U32.size
    if count * _U32.size > stop - pos:
        raise WireError("more messages announced than bytes are left")
    lengths = struct.unpack_from(f">{count}I", data, pos)
    pos += count * _U32.size
    if sum(lengths) != stop - pos:
        raise WireError("messages do not fill the frame")
    found = []
    for length in lengths:
        found.append(data[pos:pos + length])
        pos += length
    return tuple(found)


def encode_frame(cluster: bytes, batch: Batch) -> list[bytes | bytearray]:
    """A batch as one frame: buffers to be gathered by the socket, payloads not copied."""
    payloads, dest = batch.payloads, batch.dest
    equal = len(payloads) == 1 or batch.length >= 0
    flags = EQUAL_LENGTHS if equal else 0
    body = _body_head(batch, equal)
    if dest is None:
        flags |= MULTICAST
    else:
        body = dest.raw + body
    head = _ORIGIN.pack(_ORIGIN.size + len(body), cluster, batch.src.raw) + body
    return [_PREFIX.pack(MAGIC, VERSION, flags, crc32(head, flags)) + head, *payloads]


def headers_nbytes(batch: Batch) -> int:
    """The size of a frame of this batch without lengths and payloads."""
    out = bytearray()
    encode_headers(batch.headers, out)
    return SOURCE_END + ADDRESS_BYTES + _BODY.size + len(out) + 2 * _U32.size


def _start(data: bytes, cluster: bytes) -> tuple[int, int, bytes]:
    """(flags, end of what the checksum covers, source) of a frame, once all up to the source is checked.

    Raises:
        WireError: as `decode_frame`, but for what stands behind the source.
    """
    if len(data) < SOURCE_END:
        raise WireError("truncated")
    magic, version, flags, checksum, length, its_cluster, source = _START.unpack_from(data)
    if magic != MAGIC:
        raise WireError("not a frame")
    if version != VERSION:
        raise WireError("foreign version")
    if flags & ~KNOWN_FRAME_FLAGS:
        raise WireError("unknown frame flags")
    covered = _PREFIX_BYTES + length
    if crc32(data[_PREFIX_BYTES:covered], flags) != checksum:
        raise WireError("wrong checksum")
    if its_cluster != cluster:
        raise WireError("foreign cluster")
    return flags, covered, source


def decode_frame(data: bytes, cluster: bytes, addresses: Interner) -> Batch:
    """The batch in a frame.

    Raises:
        WireError: "foreign version", "foreign cluster", "wrong checksum", or what is malformed.
    """
    flags, covered, source = _start(data, cluster)
    stop, dest, pos = len(data), None, SOURCE_END
    if not flags & MULTICAST:
        pos += ADDRESS_BYTES
        if pos > stop:
            raise WireError("truncated")
        dest = addresses.get(data[SOURCE_END:pos])
    batch = _body(data, pos, stop, addresses, addresses.get(source), dest, flags & EQUAL_LENGTHS != 0)
    if covered != stop - batch.nbytes:
        raise WireError("the checksum covers another part than it should")
    return batch


def encode_inner(batch: Batch) -> list[bytes | bytearray]:
    """What a sealed frame (sealed_head.py) has of a batch: the frame without what stands before the destination."""
    payloads, dest = batch.payloads, batch.dest
    equal = len(payloads) == 1 or batch.length >= 0
    body = _body_head(batch, equal)
    flags = EQUAL_LENGTHS if equal else 0
    head = bytes((flags | MULTICAST,)) + body if dest is None else bytes((flags,)) + dest.raw + body
    return [head, *payloads]


def clear_frame(cluster: bytes, source: bytes, text: list[bytes | bytearray]) -> list[bytes | bytearray]:
    """The frame of `encode_frame` for the buffers of `encode_inner`."""
    head, flags = text[0], text[0][0]
    covered = _ORIGIN.pack(_ORIGIN.size + len(head) - 1, cluster, source) + head[1:]
    return [_PREFIX.pack(MAGIC, VERSION, flags, crc32(covered, flags)) + covered, *text[1:]]


def clear_text(data: bytes, cluster: bytes) -> bytes:
    """The reverse: what `decode_inner` takes.

    Raises:
        WireError: as `decode_frame`, but for what stands behind the source.
    """
    flags, _, _ = _start(data, cluster)
    return bytes((flags,)) + data[SOURCE_END:]


def decode_inner(data: bytes, source: bytes, addresses: Interner, stop: int | None = None) -> Batch:
    """The batch of `encode_inner`, from `source`, which ends at `stop`.

    Raises:
        WireError: it is malformed.
    """
    stop = len(data) if stop is None else stop
    if not stop:
        raise WireError("truncated")
    flags, pos, dest = data[0], 1, None
    if flags & ~KNOWN_FRAME_FLAGS:
        raise WireError("unknown frame flags")
    if not flags & MULTICAST:
        pos += ADDRESS_BYTES
        if pos > stop:
            raise WireError("truncated")
        dest = addresses.get(data[1:pos])
    return _body(data, pos, stop, addresses, addresses.get(source), dest, flags & EQUAL_LENGTHS != 0)


def pack_batch(batch: Batch, out: bytearray) -> None:
    """A batch inside another message (retransmissions, held batches): u32 length, then source, dest and body."""
    equal = batch.length >= 0
    flags = (MULTICAST if batch.dest is None else 0) | (EQUAL_LENGTHS if equal else 0)
    body = b"".join([bytes([flags]), batch.src.raw, b"" if batch.dest is None else batch.dest.raw,
                     *encode_body(batch, equal)])
    out += _U32.pack(len(body))
    out += body


def unpack_batch(reader: Reader) -> Batch:
    """The batch that `pack_batch` encoded."""
    end = reader.length(1) + reader.pos
    limit, reader.stop = reader.stop, end
    flags = reader.take(1)[0]
    if flags & ~KNOWN_FRAME_FLAGS:
        raise WireError("unknown frame flags")
    src = ADDRESS.read(reader)
    dest = None if flags & MULTICAST else ADDRESS.read(reader)
    batch = decode_body(reader, src, dest, bool(flags & EQUAL_LENGTHS))
    reader.stop = limit
    return batch


BATCH = Codec(lambda batch, out: pack_batch(batch, out), unpack_batch, 4 + 1 + ADDRESS_BYTES + 7)
