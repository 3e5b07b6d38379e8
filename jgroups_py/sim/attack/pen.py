"""Writes headers and frames as an attacker would: after the layout of the wire format, and without its checks.

`pen_of(codec)` takes a codec of wire.py apart and makes a function that writes a value of it, or one that is drawn; so
a new header is attacked as soon as it is declared. A codec that cannot be taken apart is an error that says so, and
tests/fuzz/test_pen.py looks at all of them. Nothing is asserted of values: 65,535 bytes of text, a number of 2^64-1,
a truth value of 2 are what this is for.
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
from jgroups_py.batch import Header
from jgroups_py.protocols.relay.headers import SiteRow
from jgroups_py.protocols.swim.headers import Alive
from jgroups_py.sim.attack.ink import Ink
from jgroups_py.topics import to_bits
from jgroups_py.view import MergeView

Pen = Callable[[Ink, Any, bytearray], None]
DRAW: Any = object()                     # in place of a value: draw one
_U32 = struct.Struct(">I")
_HEADER = struct.Struct(">HBI")
FEW = (0, 1, 1, 2, 3)                    # items of a drawn list
MANY_RATIO = 0.01
MANY = 300


@cache
def pen_of(codec: wire.Codec[Any]) -> Pen:
    """What writes values of this codec."""
    maker = codec.write.__qualname__.partition(".")[0]
    parts = inspect.getclosurevars(codec.write).nonlocals
    if maker == "_fixed":
        return _number_pen(8 * parts["form"].size)
    if maker == "fixed_bytes":
        return _view_id if parts["number"] == 24 else _bytes_pen(parts["number"])
    if maker == "mapping":
        return _list_pen(_record_pen((pen_of(parts["key"]), pen_of(parts["value"]))), table=True)
    if maker == "record":
        return _record_pen(tuple(map(pen_of, parts["codecs"])))
    if maker == "optional":
        return _optional_pen(pen_of(parts["codec"]))
    if maker == "sequence":
        return _list_pen(pen_of(parts["codec"]))
    known = BY_WRITER.get(maker)
    assert known is not None, f"jgroups_py/sim/attack/pen.py does not know {codec.write.__qualname__}: add it"
    return known()


# --- single values ----------------------------------------------------------------------------------------------------

def _number_pen(bits: int) -> Pen:
    nbytes = bits // 8

    def write(ink: Ink, value: Any, out: bytearray) -> None:
        if value is DRAW or ink.random() < ink.edge_ratio:
            value = ink.number(bits)
        out += value.to_bytes(nbytes, "big")
    return write


def _bytes_pen(number: int) -> Pen:
    def write(ink: Ink, value: Any, out: bytearray) -> None:
        out += ink.rng.randbytes(number) if value is DRAW or ink.random() < ink.edge_ratio else value
    return write


def _bool(ink: Ink, value: Any, out: bytearray) -> None:
    if value is DRAW or ink.random() < ink.edge_ratio:
        value = (0, 1, 0, 1, 2)[int(ink.random() * 5)]
    out.append(value)


def _bytes(ink: Ink, value: Any, out: bytearray) -> None:
    if value is DRAW or ink.random() < ink.edge_ratio:
        value = b"".join(ink.payloads())
    out += _U32.pack(len(value))
    out += value


def _raw_text(raw: bytes, out: bytearray) -> None:
    out += len(raw).to_bytes(2, "big")
    out += raw


def _text(ink: Ink, value: Any, out: bytearray) -> None:
    _raw_text(ink.text() if value is DRAW or ink.random() < ink.edge_ratio else value.encode(), out)


def _address(ink: Ink, value: Any, out: bytearray) -> None:
    out += ink.address() if value is DRAW or ink.random() < ink.edge_ratio else value.raw


def _member(ink: Ink, value: Any, out: bytearray) -> None:
    _address(ink, value, out)
    _text(ink, DRAW if value is DRAW else value.name, out)


def _physical(ink: Ink, value: Any, out: bytearray) -> None:
    host, port = ink.place() if value is DRAW or ink.random() < ink.edge_ratio else (value[0].encode(), value[1])
    _raw_text(host, out)
    out += port.to_bytes(2, "big")


def _view_id(ink: Ink, value: Any, out: bytearray) -> None:
    if value is DRAW or ink.random() < ink.edge_ratio:
        value = ink.view_id()
    out += value if value.__class__ is bytes else value.raw


# --- what has parts ---------------------------------------------------------------------------------------------------

def _record_pen(pens: tuple[Pen, ...]) -> Pen:
    def write(ink: Ink, value: Any, out: bytearray) -> None:
        values = (DRAW,) * len(pens) if value is DRAW else value
        for pen, item in zip(pens, values, strict=True):
            pen(ink, item, out)
    return write


def _optional_pen(pen: Pen) -> Pen:
    def write(ink: Ink, value: Any, out: bytearray) -> None:
        if value is DRAW or ink.random() < ink.edge_ratio:
            value = DRAW if ink.random() < 0.7 else None
        out.append(0 if value is None else 1)
        if value is not None:
            pen(ink, value, out)
    return write


def _list_pen(pen: Pen, *, table: bool = False) -> Pen:
    """A u32 count and the items; now and then one is left out, twice there, or new, or the count is wrong."""
    def write(ink: Ink, value: Any, out: bytearray) -> None:
        random = ink.random
        if value is DRAW:
            items = [DRAW] * (MANY if random() < MANY_RATIO else FEW[int(random() * len(FEW))])
        else:
            items = list(value.items() if table else value)
            if random() < ink.edge_ratio:
                items = items[1:] if random() < 0.5 else [*items, DRAW]
        out += _U32.pack(len(items) if random() < 0.995 else ink.number(32))
        for item in items:
            pen(ink, item, out)
    return write


def _attributes(*names_and_pens: tuple[str, Pen]) -> Pen:
    def write(ink: Ink, value: Any, out: bytearray) -> None:
        for name, pen in names_and_pens:
            pen(ink, DRAW if value is DRAW else getattr(value, name), out)
    return write


def _digest() -> Pen:
    return _list_pen(_record_pen((_address, _number_pen(64))), table=True)


def _ballot() -> Pen:
    return _attributes(("round", _number_pen(64)), ("owner", _address))


def _flush() -> Pen:
    return _attributes(("view_id", _view_id), ("ballot", _ballot()))


def _plain_view() -> Pen:
    return _attributes(("id", _view_id), ("members", _list_pen(_member)))


def _view() -> Pen:
    plain, subgroups = _plain_view(), _list_pen(_plain_view())

    def write(ink: Ink, value: Any, out: bytearray) -> None:
        plain(ink, value, out)
        subgroups(ink, DRAW if value is DRAW else value.subgroups if isinstance(value, MergeView) else (), out)
    return write


def _interest() -> Pen:
    names, bits = _list_pen(_text), _number_pen(64)

    def write(ink: Ink, value: Any, out: bytearray) -> None:
        drawn = value is DRAW
        _bool(ink, DRAW if drawn else value.everything, out)
        bits(ink, DRAW if drawn else 0 if value.everything else to_bits(value), out)
        names(ink, DRAW if drawn else sorted(value.names.difference(map(str, range(64)))), out)
    return write


def _fields_of(cls: type[Any]) -> tuple[tuple[str, Pen], ...]:
    return tuple((field.name, pen_of(field.metadata["codec"])) for field in attrs.fields(cls))


def _node_state() -> Pen:
    fields, state = _attributes(*_fields_of(Alive)), _number_pen(8)

    def write(ink: Ink, value: Any, out: bytearray) -> None:
        fields(ink, DRAW if value is DRAW else value.alive, out)
        state(ink, DRAW if value is DRAW else value.state, out)
    return write


def _row() -> Pen:
    """A row of RELAY's table of sites, whose fields the codec of its module lists."""
    from jgroups_py.protocols.relay import headers
    codecs = inspect.getclosurevars(headers._ROW.write).nonlocals["codecs"]
    names = [field.name for field in attrs.fields(SiteRow)]
    return _attributes(*zip(names, map(pen_of, codecs), strict=True))


BY_WRITER: dict[str, Callable[[], Pen]] = {
    "_write_bool": lambda: _bool, "_write_bytes": lambda: _bytes, "_write_text": lambda: _text,
    "_write_address": lambda: _address, "_write_member": lambda: _member, "_write_physical": lambda: _physical,
    "_write_view_id": lambda: _view_id, "_write_digest": _digest, "_write_plain_view": _plain_view,
    "_write_view": _view, "_write_interest": _interest, "_write_ballot": _ballot, "_write_flush": _flush,
    "_write_node_state": _node_state, "_write_row": _row, "_write_number": lambda: _number_pen(64),
}


# --- headers and frames -----------------------------------------------------------------------------------------------

@cache
def header_pen(cls: type[Header]) -> Pen:
    """What writes a header of this class: from DRAW or from a header."""
    pens = _fields_of(cls)

    def write(ink: Ink, value: Any, out: bytearray) -> None:
        body = bytearray()
        for name, pen in pens:
            pen(ink, DRAW if value is DRAW else getattr(value, name), body)
        out += _HEADER.pack(cls.proto, cls.kind, len(body))
        out += body
    return write


def write_frame(
    cluster: bytes, src: bytes, dest: bytes | None, run_flags: int, number: int, headers: bytes,
    payloads: tuple[bytes, ...],
) -> bytes:
    """A whole frame with a right checksum around `number` headers in bytes."""
    lengths = struct.pack(f">{len(payloads) + 1}I", len(payloads), *map(len, payloads))
    flags = wire.MULTICAST if dest is None else 0
    body = b"".join((cluster, src, dest or b"", struct.pack(">HB", run_flags, number), headers, lengths))
    covered = _U32.pack(len(body) + 4) + body
    return b"".join((struct.pack(">2sBBI", wire.MAGIC, wire.VERSION, flags, crc32(covered, flags)), covered, *payloads))
