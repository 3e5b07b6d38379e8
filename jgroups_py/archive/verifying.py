"""Verifies an archive by reading all of it: checksums of open segments and of Parquet pages, row numbers, gaps."""
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from jgroups_py.archive.arrow import pa, pc, pq
from jgroups_py.archive.encryption import ArchiveKeys, parquet_of
from jgroups_py.archive.layout import ArchiveSegment, RecorderId, segments
from jgroups_py.archive.reading import next_row, read, read_segment
from jgroups_py.archive.schema import GAP, KINDS, MESSAGES, ROWS, STOP
from jgroups_py.archive.sealing import is_abandoned, open_segment

Ranges = tuple[tuple[int, int], ...]
RECORDING, ENDED, CRASHED = "recording", "ended", "crashed"


@attrs.frozen
class Summary:
    """A summary of one recorder's files. state: RECORDING, ENDED or CRASHED; first, stop: its rows that are there
    (retention removes the oldest); began_ns, ended_ns: wall clock of the first and last of these, None: there is no
    row."""

    recorder: RecorderId
    state: str
    first: int
    stop: int
    segments: int
    open_segments: int
    nbytes: int
    began_ns: int | None
    ended_ns: int | None


@attrs.frozen
class Report:
    """The result of verifying one recorder. messages: kind -> number of rows; missing: ranges of rows that are absent
    or damaged; gaps: messages that the recorder declared as dropped; cut_bytes: torn tails of crashes, without rows."""

    recorder: RecorderId
    rows: int = 0
    messages: dict[str, int] = attrs.Factory(dict)
    problems: tuple[str, ...] = ()
    missing: Ranges = ()
    gaps: int = 0
    cut_bytes: int = 0

    @property
    def whole(self) -> bool:
        """Whether no row is damaged or missing. Gaps that the recorder declared do not count."""
        return not (self.problems or self.missing)


def summary(directory: Path, recorder: RecorderId, keys: ArchiveKeys | None = None) -> Summary:
    """The summary of a recorder; only its first and last row are read. keys: of an encrypted archive."""
    found = segments(directory, recorder, keys)
    first = found[0].first if found else 0
    stop = next_row(directory, recorder)
    ends = [_row(directory, recorder, row, keys) for row in (first, stop - 1)] if stop > first else [None, None]
    return Summary(
        recorder, _state(found, ends[1]), first, stop, len(found), sum(not segment.sealed for segment in found),
        sum(segment.path.stat().st_size for segment in found if segment.path.exists()),
        *(None if row is None else row["wall_ns"] for row in ends))


def _row(directory: Path, recorder: RecorderId, row: int, keys: ArchiveKeys | None) -> dict[str, Any] | None:
    batches = read(directory, recorder, row, row + 1, ["row", "kind", "wall_ns"], keys=keys)
    return next((found for batch in batches for found in batch.to_pylist()), None)


def _state(found: list[ArchiveSegment], last: dict[str, Any] | None) -> str:
    """The state of a recorder, judged by its files. last: its last row."""
    if last is not None and last["kind"] == STOP:
        return ENDED
    if found and not found[-1].sealed and not is_abandoned(found[-1].path):
        return RECORDING
    return CRASHED


def verify(directory: Path, recorder: RecorderId, keys: ArchiveKeys | None = None) -> Report:
    """Read and check all files of a recorder. keys: of an encrypted archive.

    Raises:
        ConfigError: a key is missing, or a file is in clear and keys are given.
    """
    rows, gaps, cut_bytes = 0, 0, 0
    messages = dict.fromkeys(MESSAGES, 0)
    problems: list[str] = []
    missing: list[tuple[int, int]] = []
    expected: int | None = None
    for segment in segments(directory, recorder, keys):
        if expected is not None and segment.first > expected:
            missing.append((expected, segment.first))
        wrong, torn = _checked(segment)
        problems += wrong
        cut_bytes += torn
        number = segment.first
        for batch in _batches(segment, problems):
            rows += len(batch)
            number = _count(batch, number, messages, missing)
            gaps += _gaps(batch)
            problems += _unknown_kinds(batch, segment)
        if segment.stop is not None and number < segment.stop:
            missing.append((number, segment.stop))
        expected = max(number, segment.stop or 0)
    return Report(recorder, rows, messages, tuple(problems), tuple(missing), gaps, cut_bytes)


def _checked(segment: ArchiveSegment) -> tuple[list[str], int]:
    """(problems of the records of an open segment, bytes of its torn tail). Reading checks the sealed ones."""
    if segment.sealed:
        return [], 0
    try:
        with open_segment(segment) as source:
            damage = source.damage()
    except FileNotFoundError:                    # sealed just now
        return [], 0
    torn = damage.cut_bytes if is_abandoned(segment.path) else 0
    wrong = "have a wrong checksum, or do not open" if segment.encrypted else "have a wrong checksum"
    return [f"{segment.path.name}: rows {first} to {stop}, at byte {at}, {wrong}"
            for (first, stop), at in zip(damage.missing, damage.places, strict=True)], torn


def _batches(segment: ArchiveSegment, problems: list[str]) -> Iterator[Any]:
    """The rows of a segment; if they cannot be read, a problem is added."""
    try:
        if segment.sealed:
            with pq.ParquetFile(parquet_of(segment), page_checksum_verification=True) as file:
                yield from file.iter_batches()
        else:
            yield from read_segment(segment, columns=ROWS.names)
    except (OSError, pa.ArrowInvalid) as error:
        problems.append(f"{segment.path.name}: {str(error).splitlines()[0]}")


def _count(batch: Any, number: int, messages: dict[str, int], missing: list[tuple[int, int]]) -> int:
    """Count the messages of a batch and add holes between its rows to `missing`. number: the row that should be first.
    Returns the row that should follow the batch."""
    rows = batch.column(batch.schema.get_field_index("row")).to_pylist()
    for row in rows:
        if row != number:
            missing.append((number, row))
        number = row + 1
    kinds = batch.column(batch.schema.get_field_index("kind"))
    for kind in messages:
        messages[kind] += pc.sum(pc.equal(kinds, kind)).as_py() or 0
    return number


def _gaps(batch: Any) -> int:
    """How many messages a batch declares as dropped."""
    kinds = batch.column(batch.schema.get_field_index("kind"))
    dropped = batch.filter(pc.equal(kinds, GAP))
    return pc.sum(dropped.column(dropped.schema.get_field_index("count"))).as_py() or 0


def _unknown_kinds(batch: Any, segment: ArchiveSegment) -> list[str]:
    kinds = pc.unique(batch.column(batch.schema.get_field_index("kind"))).to_pylist()
    return [f"{segment.path.name}: unknown kind {kind!r}" for kind in kinds if kind not in KINDS]
