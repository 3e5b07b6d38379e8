"""Paths of segments: the folders are partitions for Spark, the file names give the rows inside.

DIR/cluster=C/site=S/member=M/incarnation=I/date=2026-11-21/hour=20/
    seg-<first>-<stop>.parquet    sealed: rows first to stop (half-open), 20 digits each
    _open-<first>.runs            open, or left behind by a crash; Spark's own readers skip what begins with "_"

An incarnation is one recorder: its rows are numbered from 0 without holes over all its segments, so (incarnation, row)
is a position that never changes, whether the segment is sealed or not. Names are percent-encoded.
"""
from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, unquote

import attrs

from jgroups_py.model.units import NS_PER_S

NO_SITE = "__HIVE_DEFAULT_PARTITION__"       # how Hive and Spark write null in a folder's name
SEALED, OPEN = ".parquet", ".runs"
_NAME = re.compile(r"seg-(\d{20})-(\d{20})\.parquet|_open-(\d{20})\.runs")


@attrs.frozen(order=True)
class RecorderId:
    """One recorder: an incarnation of a member. site: "" without RELAY."""

    cluster: str
    site: str
    member: str
    incarnation: str

    @property
    def folder(self) -> str:
        """The folder below the archive's directory; also the key of a recorder in stream offsets."""
        site = escape(self.site) if self.site else NO_SITE
        return (f"cluster={escape(self.cluster)}/site={site}/member={escape(self.member)}/"
                f"incarnation={self.incarnation}")


@attrs.frozen(order=True)
class ArchiveSegment:
    """A file of the archive with rows `first` to `stop` (half-open). stop None: it is open, or its writer crashed."""

    recorder: RecorderId
    first: int
    path: Path
    stop: int | None

    @property
    def sealed(self) -> bool:
        """Whether it is a complete Parquet file."""
        return self.stop is not None

    @property
    def date(self) -> str:
        """The UTC date of its first row, as 2026-11-21."""
        return self.path.parts[-3].partition("=")[2]

    @property
    def hour(self) -> int:
        """The UTC hour of its first row."""
        return int(self.path.parts[-2].partition("=")[2])


def escape(name: str) -> str:
    """A name, percent-encoded for the name of a folder; Spark and pyarrow decode it."""
    return quote(name, safe="")


def hour_folder(wall_ns: int) -> str:
    """The folders for date and hour (UTC) of a time."""
    return datetime.fromtimestamp(wall_ns // NS_PER_S, UTC).strftime("date=%Y-%m-%d/hour=%H")


def sealed_name(first: int, stop: int) -> str:
    """The file name of a sealed segment."""
    return f"seg-{first:020}-{stop:020}{SEALED}"


def open_name(first: int) -> str:
    """The file name of an open segment."""
    return f"_open-{first:020}{OPEN}"


def recorders(directory: Path) -> list[RecorderId]:
    """All recorders of an archive, in order; an archive that does not exist has none."""
    found = []
    for path in directory.glob("cluster=*/site=*/member=*/incarnation=*"):
        cluster, site, member, incarnation = (part.partition("=")[2] for part in path.parts[-4:])
        found.append(RecorderId(
            unquote(cluster), "" if site == NO_SITE else unquote(site), unquote(member), incarnation))
    return sorted(found)


def segments(directory: Path, recorder: RecorderId) -> list[ArchiveSegment]:
    """The segments of a recorder in order of their rows.

    Between the sealing of a segment and the removal of its open file both exist: then only the sealed one counts.
    """
    found = list(_segments(directory / recorder.folder, recorder))
    sealed = {segment.first for segment in found if segment.sealed}
    return sorted(segment for segment in found if segment.sealed or segment.first not in sealed)


def _segments(folder: Path, recorder: RecorderId) -> Iterator[ArchiveSegment]:
    for path in folder.glob("date=*/hour=*/*"):
        match = _NAME.fullmatch(path.name)
        if match is not None:
            first, stop, open_first = match.groups()
            yield ArchiveSegment(recorder, int(first or open_first), path, int(stop) if stop else None)
