"""Paths of segments: the folders are partitions for Spark, the file names give the rows inside.

DIR/cluster=C/site=S/member=M/incarnation=I/date=2026-11-21/hour=20/
    seg-<first>-<stop>.parquet    sealed: rows first to stop (half-open), 20 digits each
    _open-<first>.runs            open, or left behind by a crash; Spark's own readers skip what begins with "_"
    _seg-<first>-<stop>.parquet.aes, _open-<first>.runs.aes          the same, encrypted (encryption.py)

An incarnation is one recorder: its rows are numbered from 0 without holes over all its segments, so (incarnation, row)
is a position that never changes, whether the segment is sealed or not. Names are percent-encoded.
"""
from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import attrs

from jgroups_py.model.units import NS_PER_S

NO_SITE = "__HIVE_DEFAULT_PARTITION__"       # how Hive and Spark write null in a folder's name
SEALED, OPEN, ENCRYPTED = ".parquet", ".runs", ".aes"
_NAME = re.compile(r"(?:seg-(\d{20})-(\d{20})\.parquet|_seg-(\d{20})-(\d{20})\.parquet\.aes|"
                   r"_open-(\d{20})\.runs(?:\.aes)?)")


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
    """A file of the archive with rows `first` to `stop` (half-open). stop None: it is open, or its writer crashed.
    keys: with which it is to be read (encryption.ArchiveKeys), None: it is not encrypted."""

    recorder: RecorderId
    first: int
    path: Path
    stop: int | None
    keys: Any = attrs.field(default=None, eq=False, order=False)

    @property
    def sealed(self) -> bool:
        """Whether it is a complete Parquet file."""
        return self.stop is not None

    @property
    def encrypted(self) -> bool:
        """Whether its name says that it is encrypted."""
        return self.path.name.endswith(ENCRYPTED)

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


def sealed_name(first: int, stop: int, *, encrypted: bool = False) -> str:
    """The file name of a sealed segment."""
    name = f"seg-{first:020}-{stop:020}{SEALED}"
    return f"_{name}{ENCRYPTED}" if encrypted else name


def open_name(first: int, *, encrypted: bool = False) -> str:
    """The file name of an open segment."""
    return f"_open-{first:020}{OPEN}{ENCRYPTED if encrypted else ''}"


def recorders(directory: Path) -> list[RecorderId]:
    """All recorders of an archive, in order; an archive that does not exist has none."""
    found = []
    for path in directory.glob("cluster=*/site=*/member=*/incarnation=*"):
        cluster, site, member, incarnation = (part.partition("=")[2] for part in path.parts[-4:])
        found.append(RecorderId(
            unquote(cluster), "" if site == NO_SITE else unquote(site), unquote(member), incarnation))
    return sorted(found)


def segments(directory: Path, recorder: RecorderId, keys: Any = None) -> list[ArchiveSegment]:
    """The segments of a recorder in order of their rows. keys: with which they are to be read.

    Between the sealing of a segment and the removal of its open file both exist: then only the sealed one counts.
    Likewise of one in clear and the same encrypted, between the encryption and the removal of the former.
    """
    best: dict[int, ArchiveSegment] = {}
    for segment in _segments(directory / recorder.folder, recorder, keys):
        other = best.get(segment.first)
        if other is None or (segment.sealed, segment.encrypted) > (other.sealed, other.encrypted):
            best[segment.first] = segment
    return sorted(best.values())


def _segments(folder: Path, recorder: RecorderId, keys: Any) -> Iterator[ArchiveSegment]:
    for path in folder.glob("date=*/hour=*/*"):
        match = _NAME.fullmatch(path.name)
        if match is not None:
            first, stop, encrypted_first, encrypted_stop, open_first = match.groups()
            end = stop or encrypted_stop
            yield ArchiveSegment(recorder, int(first or encrypted_first or open_first), path,
                                 int(end) if end else None, keys)
