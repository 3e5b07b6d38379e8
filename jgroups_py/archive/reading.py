"""Reading an archive: sealed segments and open ones alike, from any row on, while it is being written.

A position is (recorder, row). A reader that continues from the next row reads each row once, whether its segment has
been sealed in the meantime or not. The torn tail of a crash has no rows.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jgroups_py.archive.arrow import pa, pq
from jgroups_py.archive.encryption import ArchiveKeys, parquet_of
from jgroups_py.archive.layout import ArchiveSegment, RecorderId, recorders, segments
from jgroups_py.archive.rows import plain, unfold
from jgroups_py.archive.schema import ALL, PLACE, ROWS
from jgroups_py.archive.sealing import OpenSegment, open_segment

BATCH_ROWS = 8192


def next_row(directory: Path, recorder: RecorderId) -> int:
    """The number of the row that will be written next: the position of a reader that has read everything. Needs no
    keys."""
    found = segments(directory, recorder)
    return segment_stop(found[-1]) if found else 0


def segment_stop(segment: ArchiveSegment) -> int:
    """The number behind the last complete row of a segment."""
    if segment.stop is not None:
        return segment.stop
    try:
        with OpenSegment(segment.path) as source:
            heads = source.heads()
            return heads[-1].first + heads[-1].rows if heads else segment.first
    except FileNotFoundError:                    # sealed since it was listed
        found = _listed_again(segment)
        return found.stop if found is not None and found.stop is not None else segment.first


def read(
    directory: Path, recorder: RecorderId, first: int = 0, stop: int | None = None,
    columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS, keys: ArchiveKeys | None = None,
) -> Iterator[Any]:
    """Rows `first` to `stop` (None: to the end) of a recorder, as record batches with the columns of ALL, or these.

    keys: of an encrypted archive.

    Raises:
        ConfigError: a segment is encrypted and its key is missing, or it is not and keys are given.
    """
    for segment in segments(directory, recorder, keys):
        if (stop is None or segment.first < stop) and (segment.stop is None or segment.stop > first):
            yield from read_segment(segment, first, stop, columns, batch_rows)


def read_segment(
    segment: ArchiveSegment, first: int = 0, stop: int | None = None, columns: Sequence[str] | None = None,
    batch_rows: int = BATCH_ROWS,
) -> Iterator[Any]:
    """As `read`, but for one segment."""
    wanted = ALL.names if columns is None else list(columns)
    inside = [name for name in wanted if name in ROWS.names]
    source = [*inside, *(["row"] if "row" not in inside else [])]
    try:
        found = _sealed(segment, source, batch_rows) if segment.sealed else _open(segment, source, first)
        for batch in found:
            yield from _pieces(_cut(batch, first, stop), segment, wanted, batch_rows)
    except FileNotFoundError:                    # sealed since it was listed, and no row of it was read yet
        sealed = _listed_again(segment)
        if sealed is not None and sealed.sealed:
            yield from read_segment(sealed, first, stop, columns, batch_rows)


def read_all(directory: Path, columns: Sequence[str] | None = None, keys: ArchiveKeys | None = None) -> Any:
    """The whole archive as one table in memory; for small archives."""
    wanted = ALL if columns is None else pa.schema([ALL.field(name) for name in columns])
    batches = [batch for recorder in recorders(directory)
               for batch in read(directory, recorder, columns=columns, keys=keys)]
    return pa.Table.from_batches(batches, wanted)


def _sealed(segment: ArchiveSegment, columns: list[str], batch_rows: int) -> Iterator[Any]:
    with pq.ParquetFile(parquet_of(segment)) as file:
        yield from file.iter_batches(batch_rows, columns=columns)


def _open(segment: ArchiveSegment, columns: list[str], first: int) -> Iterator[Any]:
    with open_segment(segment) as source:
        for head in source.heads():
            if head.first + head.rows > first:
                lines = source.lines(head)
                if lines is not None:
                    yield plain(unfold(lines, columns))


def _cut(batch: Any, first: int, stop: int | None) -> Any:
    """The rows `first` to `stop` that are in a batch."""
    rows = batch.column(batch.schema.get_field_index("row")).to_numpy()
    start = int(np.searchsorted(rows, first))
    end = len(batch) if stop is None else int(np.searchsorted(rows, stop))
    return batch.slice(start, max(0, end - start))


def _pieces(batch: Any, segment: ArchiveSegment, wanted: list[str], batch_rows: int) -> Iterator[Any]:
    """The batch with the columns that the folder's name gives, in pieces of at most `batch_rows` rows."""
    recorder = segment.recorder
    place = {"cluster": recorder.cluster, "site": recorder.site or None, "member": recorder.member,
             "incarnation": recorder.incarnation, "date": segment.date, "hour": segment.hour}
    schema = pa.schema([ALL.field(name) for name in wanted])
    for start in range(0, len(batch), batch_rows):
        piece = batch.slice(start, batch_rows)
        arrays = [pa.repeat(pa.scalar(place[name], PLACE.field(name).type), len(piece)) if name in place
                  else piece.column(piece.schema.get_field_index(name)) for name in wanted]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _listed_again(segment: ArchiveSegment) -> ArchiveSegment | None:
    """The segment that begins with the same row now, after it was sealed or moved."""
    directory = segment.path.parents[6]
    return next((found for found in segments(directory, segment.recorder, segment.keys)
                 if found.first == segment.first), None)
