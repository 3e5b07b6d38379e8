"""The time that an archive covers, from the statistics of its sealed segments and the rows of its open ones."""
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from jgroups_py.archive.encryption import ArchiveKeys, parquet_of
from jgroups_py.archive.layout import ArchiveSegment
from jgroups_py.archive.reading import read_segment
from jgroups_py.pipeline.scan import all_segments

WINDOWS_NS: list[int] = [n * 10**power for power in range(7, 12) for n in (1, 2, 5)]
WANTED_WINDOWS = 120


def time_range(archive: Path, keys: ArchiveKeys | None = None) -> tuple[int, int]:
    """The earliest and the latest time (ns, wall clock) of a row. keys: of an encrypted archive."""
    found = [time_ns for segment in all_segments(archive, keys) for time_ns in _times(segment)]
    return (min(found), max(found)) if found else (0, 0)


def _times(segment: ArchiveSegment) -> Iterator[int]:
    if not segment.sealed:
        for batch in read_segment(segment, columns=["wall_ns"]):
            times = batch.column(0).to_numpy()
            yield from (int(times.min()), int(times.max()))
        return
    meta = pq.read_metadata(parquet_of(segment))
    at = next(number for number in range(meta.num_columns) if meta.schema.column(number).path == "wall_ns")
    for group in range(meta.num_row_groups):
        statistics = meta.row_group(group).column(at).statistics
        if statistics is not None and statistics.has_min_max:
            yield from (statistics.min, statistics.max)


def auto_window(archive: Path, keys: ArchiveKeys | None = None) -> int:
    """A round length (ns), by which the time of the archive has about a hundred windows. keys: of an encrypted
    archive."""
    first_ns, last_ns = time_range(archive, keys)
    return next((window for window in WINDOWS_NS if last_ns - first_ns <= window * WANTED_WINDOWS), WINDOWS_NS[-1])
