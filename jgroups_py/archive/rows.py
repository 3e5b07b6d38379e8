"""Lines and rows: a record that ARCHIVE emits becomes one line of the open segment, and a line unfolds to rows.

A batch of a thousand messages is one line with the number of the first, so the cost of recording is per batch, not per
message. Unfolding works on whole columns and copies no payload.
"""
from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from jgroups_py.archive.arrow import pa, pc
from jgroups_py.archive.schema import FEW_VALUES, LINES, ROWS
from jgroups_py.model.batch import Header
from jgroups_py.model.outputs import Record
from jgroups_py.wire import AppHeaders, encode_headers
from jgroups_py.wire.archive_header import address_text, view_text
from jgroups_py.wire.topic_headers import topic_of

HEADER_LEAD_BYTES = 7                            # bytes before the body of a header: protocol id, kind, length
KIND_BYTE = slice(2, 3)
Numbers = NDArray[np.int64]
T = TypeVar("T")


# --- from records to lines ------------------------------------------------------------------------------------------

def lines_of(records: Sequence[Record], first_row: int, wall_offset_ns: int) -> Any:
    """The lines of `records`, in order; the first row is `first_row`. wall_offset_ns: wall minus monotonic clock."""
    rows = np.fromiter((record.rows for record in records), np.int64, len(records))
    times = np.fromiter((record.now_ns for record in records), np.int64, len(records))
    columns = {
        "row": first_row + np.cumsum(rows) - rows,
        "kind": [record.kind for record in records],
        "wall_ns": times + wall_offset_ns,
        "mono_ns": times,
        "view_id": texts([record.view_id for record in records], view_text),
        "origin_site": [record.origin_site for record in records],
        "origin": texts([record.origin for record in records], address_text),
        "origin_name": [None if record.origin is None else record.origin.name or None for record in records],
        "stream": [record.stream for record in records],
        "seqno": [record.first for record in records],
        "count": [record.count for record in records],
        "dest": texts([record.dest for record in records], address_text),
        "flags": [record.flags for record in records],
        "headers": [header_items(record.headers) for record in records],
        "topic": [topic_of(record.headers) if record.headers else record.topic for record in records],
        "detail": [None if record.detail is None else json.dumps(record.detail) for record in records],
        "rows": rows.astype(np.int32),
        "sizes": [(sizes,) if isinstance(sizes := record.sizes, int) else sizes for record in records],
    }
    arrays = [pa.array(columns[field.name], field.type) for field in LINES if field.name != "payloads"]
    return pa.RecordBatch.from_arrays([*arrays, _joined_payloads(records)], schema=LINES)


def _joined_payloads(records: Sequence[Record]) -> Any:
    """One binary value for each record: its payloads joined, with a single copy."""
    if not any(record.payloads for record in records):
        return pa.nulls(len(records), pa.large_binary())
    data = b"".join([payload for record in records for payload in record.payloads])
    lengths = np.fromiter((sum(map(len, record.payloads)) for record in records), np.int64, len(records))
    is_valid = pa.array([bool(record.payloads) for record in records])
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    return pa.Array.from_buffers(pa.large_binary(), len(records),
                                 [is_valid.buffers()[1], pa.py_buffer(offsets), pa.py_buffer(data)])


def header_items(headers: tuple[Header, ...]) -> list[tuple[int, bytes]] | None:
    """(id, bytes) of each header: the application's unchanged; for one of a block its protocol id, and kind and body as
    on the wire."""
    if not headers:
        return None
    found: list[tuple[int, bytes]] = []
    for header in headers:
        if isinstance(header, AppHeaders):
            found += header.items.items()
        else:
            raw = bytearray()
            encode_headers((header,), raw)
            found.append((header.proto, bytes(raw[KIND_BYTE] + raw[HEADER_LEAD_BYTES:])))
    return found


def texts(values: Sequence[T | None], text: Callable[[T], str]) -> list[str | None]:
    """The text of each value; made once for each object, since most batches have the same ones."""
    made: dict[int, str | None] = {id(None): None}
    for value in values:
        if id(value) not in made:
            made[id(value)] = None if value is None else text(value)
    return [made[id(value)] for value in values]


# --- from lines to rows ---------------------------------------------------------------------------------------------

def is_sound(lines: Any, rows: int) -> bool:
    """Whether lines that were read are consistent and unfold to `rows` rows.

    A checksum proves that the bytes are those that were written, not that they are valid: Arrow follows an offset
    wherever it points, and a wrong one ends the process.
    """
    try:
        lines.validate(full=True)
    except pa.ArrowException:
        return False
    if any(lines.column(field.name).null_count for field in LINES if not field.nullable):
        return False
    counts = lines.column("rows").to_numpy().astype(np.int64)
    if np.any(counts < 0) or int(counts.sum()) != rows:
        return False
    sizes = lines.column("sizes")
    values, offsets = sizes.values, sizes.offsets.to_numpy().astype(np.int64)
    if values.null_count or np.any(values.to_numpy() < 0):
        return False
    numbers = np.diff(offsets)
    if np.any((numbers > 1) & (numbers != counts)):
        return False
    return _payloads_fit(lines.column("payloads"), values.to_numpy().astype(np.int64), offsets, counts)


def _payloads_fit(payloads: Any, sizes: Numbers, offsets: Numbers, counts: Numbers) -> bool:
    """Whether each line's payloads are as long as the sum of its sizes, and lines without payloads have no bytes."""
    if payloads.null_count == len(payloads):
        return True
    lengths = np.diff(np.frombuffer(payloads.buffers()[1], np.int64, len(payloads) + 1, 8 * payloads.offset))
    is_valid = payloads.is_valid().to_numpy(zero_copy_only=False)
    sums = np.concatenate(([0], np.cumsum(sizes)))
    total = sums[offsets[1:]] - sums[offsets[:-1]]
    total = np.where(np.diff(offsets) == 1, total * counts, total)
    return bool(payloads.offset == 0 and np.all(lengths == np.where(is_valid, total, 0)) and lengths.sum() < 1 << 31)


def unfold(lines: Any, columns: Iterable[str] | None = None) -> Any:
    """The rows of lines, in order, with these `columns` of ROWS, by default all.

    Columns of few values are dictionaries (`plain` makes them strings).
    """
    wanted = ROWS.names if columns is None else list(columns)
    unfolder = _Unfolder(lines)
    return pa.RecordBatch.from_arrays([unfolder.column(name) for name in wanted], names=wanted)


class _Unfolder:
    """Makes the columns of rows from lines."""

    def __init__(self, lines: Any) -> None:
        self.lines = lines
        self.rows: Numbers = lines.column("rows").to_numpy()
        self.total = int(self.rows.sum())

    @cached_property
    def index(self) -> Numbers:
        """For each row, the index of its line."""
        return np.repeat(np.arange(len(self.rows)), self.rows)

    @cached_property
    def within(self) -> Numbers:
        """For each row, its index within its line."""
        return np.arange(self.total) - np.repeat(np.cumsum(self.rows) - self.rows, self.rows)

    def column(self, name: str) -> Any:
        """One column of the rows."""
        if name == "size":
            sizes, is_valid = self.sizes()
            return pa.array(sizes, pa.int32(), mask=~is_valid)
        if name == "payload":
            return self.payload()
        lines = self.lines.column(name)
        if name in FEW_VALUES:
            encoded = lines.dictionary_encode()
            return pa.DictionaryArray.from_arrays(self.repeated(encoded.indices), encoded.dictionary)
        if lines.null_count == len(lines):
            return pa.nulls(self.total, lines.type)
        if not pa.types.is_integer(lines.type):
            return lines.take(pa.array(self.index))
        rows = self.repeated(lines)
        return pc.add(rows, pa.array(self.within)) if name in ("row", "seqno") else rows

    def repeated(self, lines: Any) -> Any:
        """Integers of the lines, each repeated for every row of its line."""
        if lines.null_count == len(lines):
            return pa.nulls(self.total, lines.type)
        values = np.repeat(lines.fill_null(0).to_numpy(), self.rows)
        if not lines.null_count:
            return pa.array(values)
        return pa.array(values, mask=np.repeat(lines.is_null().to_numpy(zero_copy_only=False), self.rows))

    def sizes(self) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """(the payload's size of each row, whether it has one)."""
        lists = self.lines.column("sizes")
        offsets, values = lists.offsets.to_numpy(), lists.values.to_numpy()
        lengths = np.diff(offsets)
        is_valid = np.repeat(lengths > 0, self.rows)
        if not len(values):
            return np.zeros(self.total, np.int32), is_valid
        first = values[np.minimum(offsets[:-1], len(values) - 1)]
        sizes = np.repeat(np.where(lengths > 0, first, 0), self.rows).astype(np.int32)
        if np.any(lengths > 1):
            many = np.repeat(lengths > 1, self.rows)
            sizes[many] = values[(offsets[:-1][self.index] + self.within)[many]]
        return sizes, is_valid

    def payload(self) -> Any:
        """The payloads, without a copy: in the buffer of the lines they are one behind the other already."""
        joined = self.lines.column("payloads")
        if joined.null_count == len(joined):
            return pa.nulls(self.total, pa.binary())
        assert joined.offset == 0, "lines are unfolded whole, not slices of them"
        _, offsets, data = joined.buffers()
        is_valid = np.repeat(joined.is_valid().to_numpy(zero_copy_only=False), self.rows)
        lengths = np.where(is_valid, self.sizes()[0], 0)
        base = int(np.frombuffer(offsets, np.int64, 1)[0])
        ends = (base + np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))).astype(np.int32)
        return pa.Array.from_buffers(pa.binary(), len(is_valid),
                                     [pa.array(is_valid).buffers()[1], pa.py_buffer(ends), data])


def plain(batch: Any) -> Any:
    """The same rows with dictionaries decoded to strings."""
    arrays = [column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)
