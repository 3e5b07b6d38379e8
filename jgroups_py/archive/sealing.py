"""Sealing: writes the rows of an open segment as Parquet beside it, syncs and renames that file, removes the open one.

A crash leaves the open segment, or both; if both exist, readers take the sealed one.
"""
from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from jgroups_py.archive import framing
from jgroups_py.archive.arrow import pa, pq
from jgroups_py.archive.encryption import ArchiveKeys, Sealing, keys_for, place_of
from jgroups_py.archive.layout import ENCRYPTED, ArchiveSegment, RecorderId, sealed_name, segments
from jgroups_py.archive.rows import is_sound, unfold
from jgroups_py.archive.schema import FEW_VALUES, LINES, ROWS
from jgroups_py.model.errors import WireError
from jgroups_py.sealing.files import FileCipher
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
    """Damage of an open segment. cut_bytes: length of its torn tail; missing: rows whose record is damaged or does not
    open; places: where these records begin."""

    cut_bytes: int = 0
    missing: tuple[tuple[int, int], ...] = ()
    places: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.cut_bytes or self.missing)


class OpenSegment:
    """The complete records of an open segment; a context manager. Of an encrypted one the heads are read without keys.

    Raises:
        ConfigError: it is encrypted, and the keys that were given do not have its key.
    """

    def __init__(self, path: Path, place: bytes = b"", keys: ArchiveKeys | None = None) -> None:
        self.path = path
        with path.open("rb") as file:
            self.nbytes = os.fstat(file.fileno()).st_size
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if self.nbytes else None
        self.buffer = pa.py_buffer(self._map) if self._map is not None else pa.py_buffer(b"")
        self._encrypted = path.name.endswith(ENCRYPTED)
        self._cipher: FileCipher | None = None
        first = next(framing.heads(self.buffer), None)
        if keys is not None and self._encrypted and first is not None and framing.is_whole(self.buffer, first):
            head = self._body(first).to_pybytes() if first.kind == framing.SEAL else b""
            self._cipher = FileCipher(keys.key_of(head, path), head, place)

    def __enter__(self) -> OpenSegment:
        return self

    def __exit__(self, *_: object) -> None:
        self.buffer = None                       # the file stays mapped until the last batch that refers to it is gone

    def heads(self, at: int = 0) -> list[framing.Head]:
        """The heads of its records of rows from byte `at` on."""
        return [head for head in framing.heads(self.buffer, at) if head.kind == framing.BATCH]

    def lines(self, head: framing.Head) -> Any | None:
        """The lines of a record; None if its checksum is wrong or its values are inconsistent."""
        body = self.text(head)
        if body is None:
            return None
        try:
            lines = pa.ipc.read_record_batch(body, LINES)
        except (pa.ArrowException, OSError, EOFError):
            return None
        return lines if is_sound(lines, head.rows) else None

    def _body(self, head: framing.Head) -> Any:
        return self.buffer.slice(head.at, head.stop - head.at)

    def text(self, head: framing.Head) -> Any | None:
        """The body of a record, opened if it is sealed; None if it is damaged, or does not open."""
        if not framing.is_whole(self.buffer, head):
            return None
        if not self._encrypted:
            return self._body(head)
        if self._cipher is None:
            return None
        try:
            sealed = memoryview(self._body(head)).cast("B")
            return pa.py_buffer(self._cipher.open(head.at - framing.HEAD_BYTES, sealed, head.clear))
        except WireError:
            return None

    def stop(self) -> int:
        """Where its last complete record ends and the torn tail begins."""
        return max((head.stop for head in framing.heads(self.buffer)), default=0)

    def damage(self) -> SegmentDamage:
        """The damage of the segment, for which all of it is read."""
        wrong = [head for head in framing.heads(self.buffer) if self._is_wrong(head)]
        return SegmentDamage(self.nbytes - self.stop(), tuple((head.first, head.first + head.rows) for head in wrong),
                             tuple(head.at - framing.HEAD_BYTES for head in wrong))

    def _is_wrong(self, head: framing.Head) -> bool:
        if head.kind == framing.BATCH:
            return self.lines(head) is None
        if head.kind == framing.SEAL:
            return not framing.is_whole(self.buffer, head)
        return self.text(head) is None


def open_segment(segment: ArchiveSegment) -> OpenSegment:
    """The records of an open segment, to be read.

    Raises:
        ConfigError: its key is missing, or it is in clear and keys were given.
    """
    return OpenSegment(segment.path, place_of(segment.recorder, segment.first, None), keys_for(segment))


def seal(segment: ArchiveSegment, compression: str = COMPRESSION) -> tuple[ArchiveSegment | None, SegmentDamage]:
    """Seal an open segment. Returns the sealed one, or None if it had no row, and the damage of the open one.

    Of an encrypted one the sealed one is encrypted too.

    Raises:
        OSError: writing failed; the open segment is unchanged.
        ConfigError: its key is missing, or it is in clear and keys were given.
    """
    missing: list[tuple[int, int]] = []
    places: list[int] = []

    def whole_lines(source: OpenSegment, heads: list[framing.Head]) -> Iterator[Any]:
        for head in heads:
            lines = source.lines(head)
            if lines is not None:
                yield unfold(lines)
            else:
                missing.append((head.first, head.first + head.rows))
                places.append(head.at - framing.HEAD_BYTES)

    with open_segment(segment) as source:
        heads = source.heads()
        cut_bytes = source.nbytes - source.stop()
        stop = heads[-1].first + heads[-1].rows if heads else segment.first
        sealed = write_segment(segment.path.parent, segment.first, stop, whole_lines(source, heads), compression,
                               segment.recorder, segment.keys) if stop > segment.first else None
    segment.path.unlink()
    damage = SegmentDamage(cut_bytes, tuple(missing), tuple(places))
    return None if sealed is None else attrs.evolve(segment, path=sealed, stop=stop), damage


def write_segment(
    folder: Path, first: int, stop: int, batches: Iterable[Any], compression: str = COMPRESSION,
    recorder: RecorderId | None = None, keys: ArchiveKeys | None = None,
) -> Path:
    """Write rows `first` to `stop` (batches with the columns of ROWS, strings may be dictionaries) as a sealed segment.

    recorder, keys: whose segment it is, and with which keys it is encrypted.
    """
    path = folder / sealed_name(first, stop, encrypted=keys is not None)
    draft = folder / f"_draft-{path.name}"
    make_folder(folder)
    try:
        new_file(draft)                                      # with the mode of the archive's files, which Arrow keeps
        # Without Arrow's schema in the file, readers get strings and not dictionaries.
        with sink(draft, recorder, first, stop, keys) as out, pq.ParquetWriter(
                              out, SEALED, compression=compression, use_dictionary=list(FEW_VALUES),
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


@contextmanager
def sink(
    draft: Path, recorder: RecorderId | None, first: int, stop: int, keys: ArchiveKeys | None,
) -> Iterator[Any]:
    """What a sealed segment is written to: the file, or what encrypts it."""
    if keys is None:
        yield draft
        return
    assert recorder is not None, "an encrypted segment is for its recorder's folder"
    with draft.open("wb") as file:
        out = Sealing(file, keys, place_of(recorder, first, stop))
        yield out
        out.finish()


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


def seal_abandoned(
    directory: Path, recorders: Iterable[RecorderId], compression: str = COMPRESSION, keys: ArchiveKeys | None = None,
) -> list[SegmentDamage]:
    """Seal the segments that crashed recorders left open; returns the damage of each. With keys only encrypted ones,
    without keys those in clear: the others stay as they are."""
    return [seal(segment, compression)[1] for recorder in recorders for segment in segments(directory, recorder, keys)
            if not segment.sealed and segment.encrypted == (keys is not None) and is_abandoned(segment.path)]
