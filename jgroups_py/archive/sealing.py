"""Sealing: writes the rows of an open segment as Parquet beside it, syncs and renames that file, removes the open one.

A crash leaves the open segment, or both; if both exist, readers take the sealed one.
"""
from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import attrs

from jgroups_py.archive import framing
from jgroups_py.archive.arrow import pa, pq
from jgroups_py.archive.layout import ArchiveSegment, sealed_name, segments
from jgroups_py.archive.rows import is_sound, unfold
from jgroups_py.archive.schema import FEW_VALUES, LINES, ROWS
from jgroups_py.system.filesystem import make_folder, new_file, sync_path

GROUP_ROWS = 64 << 10                            # the fewest rows of a row group, except for the last one
DELTAS = dict.fromkeys(("row", "wall_ns", "mono_ns", "seqno", "count", "size", "flags"), "DELTA_BINARY_PACKED")
COUNTED = ("row", "kind", "wall_ns", "view_id", "origin", "stream", "seqno", "count", "dest", "flags", "detail")
"""Columns with statistics, by which readers leave out row groups, and columns with only one value. Statistics take a
sixth of the time of writing."""
COMPRESSION = "snappy"
SEALED = pa.schema([field.with_type(pa.dictionary(pa.int32(), pa.string())) if field.name in FEW_VALUES else field
                    for field in ROWS])
"""ROWS with dictionaries, as they are written."""


@attrs.frozen
class SegmentDamage:
    """Damage of an open segment. cut_bytes: length of its torn tail; missing: rows whose record has a wrong checksum.
    """

    cut_bytes: int = 0
    missing: tuple[tuple[int, int], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.cut_bytes or self.missing)


class OpenSegment:
    """The complete records of an open segment; a context manager."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            self.nbytes = os.fstat(file.fileno()).st_size
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if self.nbytes else None
        self.buffer = pa.py_buffer(self._map) if self._map is not None else pa.py_buffer(b"")

    def __enter__(self) -> OpenSegment:
        return self

    def __exit__(self, *_: object) -> None:
        self.buffer = None                       # the file stays mapped until the last batch that refers to it is gone

    def heads(self, at: int = 0) -> list[framing.Head]:
        """The heads of its records of rows from byte `at` on."""
        return [head for head in framing.heads(self.buffer, at) if head.kind == framing.BATCH]

    def lines(self, head: framing.Head) -> Any | None:
        """The lines of a record; None if its checksum is wrong or its values are inconsistent."""
        if not framing.is_whole(self.buffer, head):
            return None
        try:
            lines = pa.ipc.read_record_batch(self.buffer.slice(head.at, head.stop - head.at), LINES)
        except (pa.ArrowException, OSError, EOFError):
            return None
        return lines if is_sound(lines, head.rows) else None

    def stop(self) -> int:
        """Where its last complete record ends and the torn tail begins."""
        return max((head.stop for head in framing.heads(self.buffer)), default=0)

    def damage(self) -> SegmentDamage:
        """The damage of the segment, for which all of it is read."""
        missing = tuple((head.first, head.first + head.rows) for head in framing.heads(self.buffer)
                        if (self.lines(head) is None if head.kind == framing.BATCH else
                            not framing.is_whole(self.buffer, head)))
        return SegmentDamage(self.nbytes - self.stop(), missing)


def seal(segment: ArchiveSegment, compression: str = COMPRESSION) -> tuple[ArchiveSegment | None, SegmentDamage]:
    """Seal an open segment. Returns the sealed one, or None if it had no row, and the damage of the open one.

    Raises:
        OSError: writing failed; the open segment is unchanged.
    """
    missing: list[tuple[int, int]] = []

    def whole_lines(source: OpenSegment, heads: list[framing.Head]) -> Iterator[Any]:
        for head in heads:
            lines = source.lines(head)
            if lines is not None:
                yield unfold(lines)
            else:
                missing.append((head.first, head.first + head.rows))

    with OpenSegment(segment.path) as source:
        heads = source.heads()
        cut_bytes = source.nbytes - source.stop()
        stop = heads[-1].first + heads[-1].rows if heads else segment.first
        sealed = write_segment(segment.path.parent, segment.first, stop, whole_lines(source, heads),
                               compression) if stop > segment.first else None
    segment.path.unlink()
    damage = SegmentDamage(cut_bytes, tuple(missing))
    return None if sealed is None else attrs.evolve(segment, path=sealed, stop=stop), damage


def write_segment(
    folder: Path, first: int, stop: int, batches: Iterable[Any], compression: str = COMPRESSION,
) -> Path:
    """Write rows `first` to `stop` (batches with the columns of ROWS, strings may be dictionaries) as a sealed segment.
    """
    path = folder / sealed_name(first, stop)
    draft = folder / f"_draft-{path.name}"
    make_folder(folder)
    try:
        new_file(draft)                                      # with the mode of the archive's files, which Arrow keeps
        # Without Arrow's schema in the file, readers get strings and not dictionaries.
        with pq.ParquetWriter(draft, SEALED, compression=compression, use_dictionary=list(FEW_VALUES),
                              column_encoding=DELTAS, write_statistics=list(COUNTED), store_schema=False,
                              write_page_checksum=True) as writer:
            for table in _groups(batches):
                writer.write_table(table, row_group_size=len(table))
        sync_path(draft)
        draft.rename(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_path(folder)
    return path


def _groups(batches: Iterable[Any]) -> Iterator[Any]:
    """The batches, joined to tables of at least GROUP_ROWS rows each, except for the last one."""
    waiting: list[Any] = []
    for batch in batches:
        waiting.append(batch)
        if sum(len(each) for each in waiting) >= GROUP_ROWS:
            yield _table(waiting)
            waiting = []
    if waiting:
        yield _table(waiting)


def _table(batches: list[Any]) -> Any:
    table = pa.concat_tables([pa.Table.from_batches([batch]).cast(SEALED) for batch in batches]).unify_dictionaries()
    return pa.Table.from_arrays([_unique(column) if pa.types.is_dictionary(column.type) else column
                                 for column in table.columns], schema=table.schema)


def _unique(column: Any) -> Any:
    """The column with each value only once in its dictionary; else Parquet's writer falls back to plain strings."""
    known = column.chunk(0).dictionary.dictionary_encode()
    if len(known.dictionary) == len(known):
        return column
    return pa.chunked_array([pa.DictionaryArray.from_arrays(known.indices.take(chunk.indices), known.dictionary)
                             for chunk in column.chunks])


def is_abandoned(path: Path) -> bool:
    """Whether the writer of an open segment has ended: as long as it runs, it has a lock on the file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False                             # sealed just now
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def seal_abandoned(directory: Path, recorders: Iterable[Any], compression: str = COMPRESSION) -> list[SegmentDamage]:
    """Seal the segments that crashed recorders left open; returns the damage of each."""
    return [seal(segment, compression)[1] for recorder in recorders for segment in segments(directory, recorder)
            if not segment.sealed and is_abandoned(segment.path)]
