"""Reading an archive inside a Python worker: the columns that a digest needs, in large batches, text as dictionaries.

Rows that a Python worker reads and digests itself are never copied to the JVM: for the audit of a sealed archive this
is several times as fast as Spark's own reader followed by a Python function (benchmarks/pipeline). A column that has
only one value in a row group, by Parquet's statistics, is not read; usually that is half of the columns.
"""
from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from jgroups_py.archive.encryption import ArchiveKeys, check_key, parquet_of
from jgroups_py.archive.layout import ArchiveSegment, RecorderId, recorders, segments
from jgroups_py.archive.reading import read_segment
from jgroups_py.archive.schema import ALL, FEW_VALUES, PLACE
from jgroups_py.model.errors import ConfigError

BATCH_ROWS = 1 << 18


def check_archive(directory: Path) -> list[RecorderId]:
    """The recorders of an archive.

    Raises:
        ConfigError: the folder has none.
    """
    found = recorders(directory)
    if not found:
        raise ConfigError(f"{directory} is not an archive: it has no folders cluster=*/site=*/member=*/incarnation=*")
    return found


def all_segments(directory: Path, keys: ArchiveKeys | None = None) -> list[ArchiveSegment]:
    """Every segment of an archive, by recorder and row. keys: of an encrypted archive.

    Raises:
        ConfigError: there is no archive, a segment's key is missing, or it is in clear and keys are given.
    """
    found = [segment for recorder in check_archive(directory) for segment in segments(directory, recorder, keys)]
    for segment in found:
        with suppress(FileNotFoundError):                  # deleted by retention, or sealed just now
            check_key(segment)
    return found


def scan(
    segment: ArchiveSegment, columns: Sequence[str], first: int = 0, stop: int | None = None,
    batch_rows: int = BATCH_ROWS,
) -> Iterator[Any]:
    """Rows `first` to `stop` of a segment, as record batches with these columns (names of archive.schema.ALL)."""
    if not segment.sealed:
        yield from read_segment(segment, first, stop, columns, batch_rows)
        return
    try:
        yield from _sealed(segment, columns, first, stop, batch_rows)
    except FileNotFoundError:                              # deleted by retention, or moved: reading.py searches again
        yield from read_segment(segment, first, stop, columns, batch_rows)


def _sealed(
    segment: ArchiveSegment, columns: Sequence[str], first: int, stop: int | None, batch_rows: int,
) -> Iterator[Any]:
    needed = list(dict.fromkeys([*(name for name in columns if name not in PLACE.names), "row"]))
    with pq.ParquetFile(parquet_of(segment), read_dictionary=list(FEW_VALUES)) as file:
        for number in range(file.metadata.num_row_groups):
            known = {**_of_folder(segment), **_constants(file.metadata.row_group(number), set(columns) - {"row"})}
            read = [name for name in needed if name not in known]
            for found in file.iter_batches(batch_rows, [number], read):
                yield _with_known(_cut(found, segment, first, stop), known, columns)


def _constants(group: Any, columns: Container[str]) -> dict[str, Any]:
    """Column -> value, for those of `columns` that have one value in all rows of a row group."""
    chunks = [group.column(at) for at in range(group.num_columns)]
    found: dict[str, Any] = {}
    for chunk in chunks:
        values = chunk.statistics if chunk.path_in_schema in columns else None
        if values is None or not values.has_null_count:
            continue
        if values.null_count == group.num_rows:
            found[chunk.path_in_schema] = None
        elif values.null_count == 0 and values.has_min_max and values.min == values.max:
            found[chunk.path_in_schema] = values.min
    return found


def _cut(batch: Any, segment: ArchiveSegment, first: int, stop: int | None) -> Any:
    """The rows `first` to `stop` of a batch; rows are numbered in the recorder's archive, not in the segment."""
    if first <= segment.first and (stop is None or (segment.stop is not None and segment.stop <= stop)):
        return batch
    rows = batch.column("row").to_numpy()
    begin = int(np.searchsorted(rows, first))
    end = len(batch) if stop is None else int(np.searchsorted(rows, stop))
    return batch.slice(begin, max(0, end - begin))


def _of_folder(segment: ArchiveSegment) -> dict[str, Any]:
    """The columns whose values are in the name of the segment's folder."""
    recorder = segment.recorder
    return {"cluster": recorder.cluster, "site": recorder.site or None, "member": recorder.member,
            "incarnation": recorder.incarnation, "date": segment.date, "hour": segment.hour}


def _with_known(batch: Any, known: Mapping[str, Any], columns: Sequence[str]) -> Any:
    """The batch with the columns that were not read, from `known`; text is dictionary-encoded."""
    arrays = [_repeated(known[name], ALL.field(name).type, len(batch)) if name in known else batch.column(name)
              for name in columns]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _repeated(value: str | int | None, kind: Any, size: int) -> Any:
    if value is None or not pa.types.is_string(kind):
        return pa.repeat(pa.scalar(value, kind), size)
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(size, np.int32)), pa.array([value]))
