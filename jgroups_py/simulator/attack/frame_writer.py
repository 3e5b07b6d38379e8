"""Writes headers and frames as an attacker would: in the layout of the wire format, without its checks.

`writer_of(codec)` finds the parts of a codec of wire/codec.py and makes a function that writes a given value or draws
one; so a new header is attacked as soon as it is declared. A codec of an unknown kind is an error that names this file;
tests/fuzz/test_frame_writer.py tries all codecs. Values are not checked: 65,535 bytes of text, a number of 2^64-1, a
bool of 2 are written as they are.
"""
from __future__ import annotations

import inspect
import struct
from collections.abc import Callable
from functools import cache
from typing import Any
from zlib import crc32

import attrs

from jgroups_py import wire
from jgroups_py.model.batch import Header
from jgroups_py.model.view import MergeView
from jgroups_py.protocols.relay.headers import SiteRow
from jgroups_py.protocols.swim.headers import Alive
from jgroups_py.simulator.attack.value_pool import ValuePool
from jgroups_py.wire.topic_headers import to_bits

FieldWriter = Callable[[ValuePool, Any, bytearray], None]
DRAW: Any = object()                     # in place of a value: draw one
_U32 = struct.Struct(">I")
_HEADER = struct.Struct(">HBI")
FEW = (0, 1, 1, 2, 3)                    # items of a drawn list
MANY_RATIO = 0.01
MANY = 300


@cache
def writer_of(codec: wire.Codec[Any]) -> FieldWriter:
    """The function that writes values of this codec.

    The kind of a codec is the function that made it (`__qualname__` of its `write`), its parts are what `write` closes
    over.
    """
    maker = codec.write.__qualname__.partition(".")[0]
    parts = inspect.getclosurevars(codec.write).nonlocals
    if maker == "_fixed":
        return _number_writer(8 * parts["form"].size)
    if maker == "fixed_bytes":
        return _view_id if parts["number"] == 24 else _bytes_writer(parts["number"])
    if maker == "mapping":
        return _list_writer(_record_writer((writer_of(parts["key"]), writer_of(parts["value"]))), table=True)
    if maker == "record":
        return _record_writer(tuple(map(writer_of, parts["codecs"])))
    if maker == "optional":
        return _optional_writer(writer_of(parts["codec"]))
    if maker == "sequence":
        return _list_writer(writer_of(parts["codec"]))
    known = BY_WRITER.get(maker)
    assert known is not None, \
        f"jgroups_py/simulator/attack/frame_writer.py has no writer for {codec.write.__qualname__}: add it"
    return known()


# --- single values ----------------------------------------------------------------------------------------------------

def _number_writer(bits: int) -> FieldWriter:
    nbytes = bits // 8

    def write(pool: ValuePool, value: Any, out: bytearray) -> None:
        if value is DRAW or pool.random() < pool.edge_ratio:
            value = pool.number(bits)
        out += value.to_bytes(nbytes, "big")
    return write


def _bytes_writer(number: int) -> FieldWriter:
    def write(pool: ValuePool, value: Any, out: bytearray) -> None:
        out += pool.rng.randbytes(number) if value is DRAW or pool.random() < pool.edge_ratio else value
    return write


def _bool(pool: ValuePool, value: Any, out: bytearray) -> None:
    if value is DRAW or pool.random() < pool.edge_ratio:
        value = (0, 1, 0, 1, 2)[int(pool.random() * 5)]
    out.append(value)


def _bytes(pool: ValuePool, value: Any, out: bytearray) -> None:
    if value is DRAW or pool.random() < pool.edge_ratio:
        value = b"".join(pool.payloads())
    out += _U32.pack(len(value))
    out += value


def _raw_text(raw: bytes, out: bytearray) -> None:
    out += len(raw).to_bytes(2, "big")
    out += raw


def _text(pool: ValuePool, value: Any, out: bytearray) -> None:
    _raw_text(pool.text() if value is DRAW or pool.random() < pool.edge_ratio else value.encode(), out)


def _address(pool: ValuePool, value: Any, out: bytearray) -> None:
    out += pool.address() if value is DRAW or pool.random() < pool.edge_ratio else value.raw


def _member(pool: ValuePool, value: Any, out: bytearray) -> None:
    _address(pool, value, out)
    _text(pool, DRAW if value is DRAW else value.name, out)


def _physical(pool: ValuePool, value: Any, out: bytearray) -> None:
    host, port = pool.place() if value is DRAW or pool.random() < pool.edge_ratio else (value[0].encode(), value[1])
    _raw_text(host, out)
    out += port.to_bytes(2, "big")


def _view_id(pool: ValuePool, value: Any, out: bytearray) -> None:
    if value is DRAW or pool.random() < pool.edge_ratio:
        value = pool.view_id()
    out += value if value.__class__ is bytes else value.raw


# --- composite values -------------------------------------------------------------------------------------------------

def _record_writer(writers: tuple[FieldWriter, ...]) -> FieldWriter:
    def write(pool: ValuePool, value: Any, out: bytearray) -> None:
        values = (DRAW,) * len(writers) if value is DRAW else value
        for writer, item in zip(writers, values, strict=True):
            writer(pool, item, out)
    return write


def _optional_writer(writer: FieldWriter) -> FieldWriter:
    def write(pool: ValuePool, value: Any, out: bytearray) -> None:
        if value is DRAW or pool.random() < pool.edge_ratio:
            value = DRAW if pool.random() < 0.7 else None
        out.append(0 if value is None else 1)
        if value is not None:
            writer(pool, value, out)
    return write


def _list_writer(writer: FieldWriter, *, table: bool = False) -> FieldWriter:
    """Writes a u32 count and the items; sometimes an item is missing or added, or the count is wrong."""
    def write(pool: ValuePool, value: Any, out: bytearray) -> None:
        random = pool.random
        if value is DRAW:
            items = [DRAW] * (MANY if random() < MANY_RATIO else FEW[int(random() * len(FEW))])
        else:
            items = list(value.items() if table else value)
            if random() < pool.edge_ratio:
                items = items[1:] if random() < 0.5 else [*items, DRAW]
        out += _U32.pack(len(items) if random() < 0.995 else pool.number(32))
        for item in items:
            writer(pool, item, out)
    return write


def _attributes(*names_and_writers: tuple[str, FieldWriter]) -> FieldWriter:
    def write(pool: ValuePool, value: Any, out: bytearray) -> None:
        for name, writer in names_and_writers:
            writer(pool, DRAW if value is DRAW else getattr(value, name), out)
    return write


def _digest() -> FieldWriter:
    return _list_writer(_record_writer((_address, _number_writer(64))), table=True)


def _ballot() -> FieldWriter:
    return _attributes(("round", _number_writer(64)), ("owner", _address))


def _flush() -> FieldWriter:
    return _attributes(("view_id", _view_id), ("ballot", _ballot()))


def _plain_view() -> FieldWriter:
    return _attributes(("id", _view_id), ("members", _list_writer(_member)))


def _view() -> FieldWriter:
    plain, subgroups = _plain_view(), _list_writer(_plain_view())

    def write(pool: ValuePool, value: Any, out: bytearray) -> None:
        plain(pool, value, out)
        subgroups(pool, DRAW if value is DRAW else value.subgroups if isinstance(value, MergeView) else (), out)
    return write


def _interest() -> FieldWriter:
    names, bits = _list_writer(_text), _number_writer(64)

    def write(pool: ValuePool, value: Any, out: bytearray) -> None:
        drawn = value is DRAW
        _bool(pool, DRAW if drawn else value.everything, out)
        bits(pool, DRAW if drawn else 0 if value.everything else to_bits(value), out)
        names(pool, DRAW if drawn else sorted(value.names.difference(map(str, range(64)))), out)
    return write


def _fields_of(cls: type[Any]) -> tuple[tuple[str, FieldWriter], ...]:
    return tuple((field.name, writer_of(field.metadata["codec"])) for field in attrs.fields(cls))


def _release() -> FieldWriter:
    number = _number_writer(16)

    def write(pool: ValuePool, value: Any, out: bytearray) -> None:
        for part in (DRAW,) * 5 if value is DRAW else (*value.version, *value.oldest):
            number(pool, part, out)
    return write


def _node_state() -> FieldWriter:
    fields, state = _attributes(*_fields_of(Alive)), _number_writer(8)

    def write(pool: ValuePool, value: Any, out: bytearray) -> None:
        fields(pool, DRAW if value is DRAW else value.alive, out)
        state(pool, DRAW if value is DRAW else value.state, out)
    return write


def _row() -> FieldWriter:
    """Writes a row of RELAY's table of sites; the codec of its module lists the fields."""
    from jgroups_py.protocols.relay import headers
    codecs = inspect.getclosurevars(headers._ROW.write).nonlocals["codecs"]
    names = [field.name for field in attrs.fields(SiteRow)]
    return _attributes(*zip(names, map(writer_of, codecs), strict=True))


BY_WRITER: dict[str, Callable[[], FieldWriter]] = {
    "_write_bool": lambda: _bool, "_write_bytes": lambda: _bytes, "_write_text": lambda: _text,
    "_write_address": lambda: _address, "_write_member": lambda: _member, "_write_physical": lambda: _physical,
    "_write_view_id": lambda: _view_id, "_write_digest": _digest, "_write_plain_view": _plain_view,
    "_write_view": _view, "_write_interest": _interest, "_write_ballot": _ballot, "_write_flush": _flush,
    "_write_node_state": _node_state, "_write_row": _row, "_write_release": _release,
    "_write_number": lambda: _number_writer(64),
}


# --- headers and frames -----------------------------------------------------------------------------------------------

@cache
def header_writer(cls: type[Header]) -> FieldWriter:
    """The function that writes a header of this class, given DRAW or a header."""
    writers = _fields_of(cls)

    def write(pool: ValuePool, value: Any, out: bytearray) -> None:
        body = bytearray()
        for name, writer in writers:
            writer(pool, DRAW if value is DRAW else getattr(value, name), body)
        out += _HEADER.pack(cls.proto, cls.kind, len(body))
        out += body
    return write


def write_frame(
    cluster: bytes, src: bytes, dest: bytes | None, batch_flags: int, number: int, headers: bytes,
    payloads: tuple[bytes, ...],
) -> bytes:
    """A whole frame with a correct checksum. headers: `number` encoded headers."""
    lengths = struct.pack(f">{len(payloads) + 1}I", len(payloads), *map(len, payloads))
    flags = wire.MULTICAST if dest is None else 0
    body = b"".join((cluster, src, dest or b"", struct.pack(">HB", batch_flags, number), headers, lengths))
    covered = _U32.pack(len(body) + 4) + body
    return b"".join((struct.pack(">2sBBI", wire.MAGIC, wire.VERSION, flags, crc32(covered, flags)), covered, *payloads))
