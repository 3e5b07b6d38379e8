"""The data source `jgroups`: an archive as a DataFrame, and as a stream while it grows.

    session.start(); spark.dataSource.register(JGroupsSource)
    spark.read.format("jgroups").option("columns", "kind,origin,seqno").load("archive")
    spark.readStream.format("jgroups").option("maxRowsPerBatch", 100_000).load("archive")

Rows are those of archive.schema.ALL, sealed and open segments alike, as Arrow batches. A stream's offset is
{recorder: next row}; since a row keeps its number when its segment is sealed, a query that goes on from a checkpoint
reads each row exactly once. Spark passes no column pruning to Python sources, so `columns` lists what is read. Filters
on cluster, site, member, incarnation, date and hour leave out whole segments. They need the option `filters`, because
Spark refuses a source that accepts filters unless spark.sql.python.filterPushdown.enabled is set, as session.settings
does.

| option | |
|---|---|
| path | the archive (or the argument of load) |
| columns | names, separated by commas (default: all) |
| filters | "true": accept filters |
| maxRowsPerBatch | streaming: the most rows of one batch |
| startingOffsets | streaming: earliest (default) or latest |
| keyFile | the keyring of an encrypted archive: a path that driver and workers can read |
| job, jobOptions | read the digests of a job (jobs.py) instead of rows; they are made where the rows are read |

For writing see sink.py.
"""
from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    EqualTo,
    Filter,
    In,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from jgroups_py.archive.encryption import ArchiveKeys, keys_of
from jgroups_py.archive.layout import ArchiveSegment, RecorderId, recorders, segments
from jgroups_py.archive.reading import next_row
from jgroups_py.archive.schema import ALL
from jgroups_py.model.errors import ConfigError
from jgroups_py.pipeline.job import Job, JobOptions
from jgroups_py.pipeline.jobs import JOBS
from jgroups_py.pipeline.scan import BATCH_ROWS, all_segments, check_archive, scan
from jgroups_py.pipeline.sink import GroupStreamWriter, GroupWriter, Target

NAME = "jgroups"
PLACE_FILTERS = ("cluster", "site", "member", "incarnation", "date", "hour")
PARTITION_ROWS = 1 << 20                       # the most rows of one partition of a stream
Offset = dict[str, int]


@attrs.frozen
class ReadRequest:
    """What to read: an archive, and either columns of its rows or the digests of a job."""

    archive: Path
    columns: tuple[str, ...]
    job: str
    options: JobOptions
    keys: ArchiveKeys | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> ReadRequest:
        """From the options of a reader.

        Raises:
            ConfigError: one is missing or wrong.
        """
        if not options.get("path"):
            raise ConfigError("format jgroups needs the folder of an archive: .load(DIR)")
        columns = tuple(name.strip() for name in options.get("columns", ",".join(ALL.names)).split(","))
        unknown = [name for name in columns if name not in ALL.names]
        if unknown:
            raise ConfigError(f"option columns: {', '.join(unknown)} is none of {', '.join(ALL.names)}")
        job = options.get("job", "")
        if job and job not in JOBS:
            raise ConfigError(f"option job: {job!r} is none of {', '.join(JOBS)}")
        of_job = JobOptions(**json.loads(options.get("jobOptions", "{}")))
        return cls(Path(options["path"]).resolve(), columns, job, of_job, keys_of(options.get("keyFile")))

    @property
    def schema(self) -> pa.Schema:
        """The schema of what is read."""
        return JOBS[self.job].state if self.job else pa.schema([ALL.field(name) for name in self.columns])

    def read(self, segment: ArchiveSegment, first: int = 0, stop: int | None = None) -> Iterator[Any]:
        """Record batches of the rows `first` to `stop` of a segment, or of their digests."""
        job: Job | None = JOBS.get(self.job)
        for batch in scan(segment, job.columns if job else self.columns, first, stop, BATCH_ROWS):
            found = job.digest(batch, self.options) if job else batch
            table = found if isinstance(found, pa.Table) else pa.Table.from_batches([found])
            yield from table.cast(self.schema).to_batches()


class JGroupsSource(DataSource):
    """The data source, for spark.dataSource.register."""

    @classmethod
    def name(cls) -> str:
        """The name for .format(...)."""
        return NAME

    def schema(self) -> StructType:
        """The schema of the rows, or of the digests."""
        found: StructType = from_arrow_schema(ReadRequest.of(self.options).schema)
        return found

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of spark.read."""
        request = ReadRequest.of(self.options)
        check_archive(request.archive)
        filters = str(self.options.get("filters", "false")).lower() == "true"
        return FilteringReader(request) if filters else ArchiveReader(request)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The reader of spark.readStream."""
        return ArchiveStream(ReadRequest.of(self.options), self.options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The writer of df.write, mode append.

        Raises:
            ConfigError: the mode is overwrite.
        """
        if overwrite:
            raise ConfigError("a group cannot be overwritten: use mode append")
        return GroupWriter(Target.of(self.options), self.options.get("query"))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """The writer of df.writeStream."""
        return GroupStreamWriter(Target.of(self.options))


# --- batch ----------------------------------------------------------------------------------------------------------

class Work(InputPartition):
    """A partition: rows `first` to `stop` of some segments of one recorder."""

    def __init__(self, found: Sequence[ArchiveSegment], first: int = 0, stop: int | None = None) -> None:
        super().__init__(None)
        self.segments, self.first, self.stop = list(found), first, stop


class ArchiveReader(DataSourceReader):
    """Reads an archive as it is now, one partition for each segment."""

    def __init__(self, request: ReadRequest) -> None:
        self.request = request
        self.wanted: list[tuple[str, tuple[Any, ...]]] = []

    def partitions(self) -> Sequence[InputPartition]:
        """The segments that the filters do not exclude."""
        return [Work([segment]) for segment in all_segments(self.request.archive, self.request.keys)
                if all(place(segment)[name] in values for name, values in self.wanted)] or [Work([])]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a partition."""
        assert isinstance(partition, Work), "partitions are our own"
        for segment in partition.segments:
            yield from self.request.read(segment)


class FilteringReader(ArchiveReader):
    """A reader that accepts filters which choose whole segments."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Accept filters on the columns of folders; the others are returned, and Spark applies them."""
        for found in filters:
            name = ".".join(getattr(found, "attribute", ()))
            if name in PLACE_FILTERS and isinstance(found, EqualTo):
                self.wanted.append((name, (found.value,)))
            elif name in PLACE_FILTERS and isinstance(found, In):
                self.wanted.append((name, tuple(found.value)))
            else:
                yield found


def place(segment: ArchiveSegment) -> dict[str, Any]:
    """The columns whose values are in the name of a segment's folder."""
    recorder = segment.recorder
    return {"cluster": recorder.cluster, "site": recorder.site or None, "member": recorder.member,
            "incarnation": recorder.incarnation, "date": segment.date, "hour": segment.hour}


# --- streaming ------------------------------------------------------------------------------------------------------

class ArchiveStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads an archive while it grows; new recorders may begin at any time."""

    def __init__(self, request: ReadRequest, options: Mapping[str, str]) -> None:
        self.request = request
        self.limit = row_limit(options)
        self.from_latest = starts_latest(options)
        self.first: Offset | None = None
        self.until: Offset | None = None                   # with Trigger.AvailableNow: where the stream ends

    def initialOffset(self) -> Offset:
        """Where a new query begins. Spark asks twice, so the first answer is kept."""
        if self.first is None:
            self.first = self.ends() if self.from_latest else {}
        return self.first

    def getDefaultReadLimit(self) -> ReadLimit:
        """The option maxRowsPerBatch, as Spark's type."""
        return ReadAllAvailable() if self.limit is None else ReadMaxRows(self.limit)

    def prepareForTriggerAvailableNow(self) -> None:
        """End the stream at the rows that exist now."""
        self.until = self.ends()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Where the next batch ends."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return advanced(start, self.until if self.until is not None else self.ends(), most)

    def ends(self) -> Offset:
        """The next row of every recorder."""
        directory = self.request.archive
        return {recorder.folder: next_row(directory, recorder) for recorder in recorders(directory)}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Partitions of at most PARTITION_ROWS rows of one recorder."""
        found: list[InputPartition] = []
        for recorder in recorders(self.request.archive):
            first, stop = start.get(recorder.folder, 0), end.get(recorder.folder, 0)
            for at in range(first, stop, PARTITION_ROWS):
                until = min(stop, at + PARTITION_ROWS)
                found.append(Work(covering(self.request.archive, recorder, at, until, self.request.keys), at, until))
        return found

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a partition."""
        assert isinstance(partition, Work), "partitions are our own"
        for segment in partition.segments:
            yield from self.request.read(segment, partition.first, partition.stop)

    def commit(self, end: Offset) -> None:
        """Nothing to do: the recorder deletes old segments itself."""


def row_limit(options: Mapping[str, str]) -> int | None:
    """The option maxRowsPerBatch; None: not given.

    Raises:
        ConfigError: it is not a whole number above 0.
    """
    text = options.get("maxRowsPerBatch")
    if text is None:
        return None
    if not str(text).isdigit() or int(text) < 1:
        raise ConfigError(f"option maxRowsPerBatch: {text!r} is not a whole number above 0")
    return int(text)


def starts_latest(options: Mapping[str, str]) -> bool:
    """Whether the option startingOffsets is "latest".

    Raises:
        ConfigError: it is neither earliest nor latest.
    """
    text = options.get("startingOffsets", "earliest")
    if text not in ("earliest", "latest"):
        raise ConfigError(f"option startingOffsets: {text!r} is neither earliest nor latest")
    return text == "latest"


def covering(
    directory: Path, recorder: RecorderId, first: int, stop: int, keys: ArchiveKeys | None = None,
) -> list[ArchiveSegment]:
    """The segments of a recorder that contain some of the rows `first` to `stop`. keys: of an encrypted archive."""
    return [segment for segment in segments(directory, recorder, keys)
            if segment.first < stop and (segment.stop is None or segment.stop > first)]


def advanced(start: Mapping[str, int], ends: Mapping[str, int], most: int | None) -> Offset:
    """The offset that is `most` rows from `start` towards `ends`, shared among recorders; None: `ends`.

    >>> advanced({"a": 5}, {"a": 100, "b": 10}, 30)
    {'a': 25, 'b': 10}
    >>> advanced({"a": 5}, {"a": 100}, None)
    {'a': 100}
    """
    if most is None:
        return {**start, **ends}
    found = {name: start.get(name, 0) for name in sorted({**start, **ends})}
    behind = sorted((max(0, ends.get(name, 0) - first), name) for name, first in found.items())
    left = most
    for number, (missing, name) in enumerate(behind):
        share = min(missing, left // (len(behind) - number))
        found[name] += share
        left -= share
    return found
