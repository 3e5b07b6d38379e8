"""Jobs while the archive grows: digests of each micro-batch folded into the state of the one before.

State and tables belong to the number of a batch. If the driver crashes between writing and Spark's commit, the batch
runs again: it starts from the state of the batch before and reads the same rows (offsets are in the checkpoint), so it
writes the same again. Old states are deleted only when a newer one is committed. The folder contains, for each job:

    OUT/JOB/stream/checkpoint/          Spark's: offsets and commits
    OUT/JOB/stream/state-<batch>.parquet
    OUT/JOB/stream/options.json         must be the same in every run
"""
from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from jgroups_py.archive.encryption import ArchiveKeys
from jgroups_py.model.errors import ConfigError
from jgroups_py.pipeline.job import Job, JobOptions
from jgroups_py.pipeline.output import publish, write
from jgroups_py.pipeline.source import NAME, JGroupsSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_STATE = re.compile(r"state-(\d{12})\.parquet")
KEPT_STATES = 2                                    # the last committed one, and the one that may be run again
WORKER_LATE = "Python worker failed to connect back"   # Spark grants 10 s, not configurable (PythonWorkerFactory)
GIVE_UP_SECONDS = 300.0                            # of starting a stream again without a batch, while workers are late
_log = logging.getLogger(__name__)
Progress = Callable[[str], None]


class StreamFollower:
    """One job's state over micro-batches."""

    def __init__(
        self, job: Job, out: Path, options: JobOptions, progress: Progress | None = None,
        keys: ArchiveKeys | None = None,
    ) -> None:
        self.keys = keys
        self.job, self.out, self.options, self.progress = job, out, options, progress
        self.folder = out / job.name / "stream"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.document: dict[str, Any] = {}
        self.last: tuple[int, Any] | None = None           # (batch, its state), so that it need not be read again
        self.digests: Any = job.state.empty_table()        # of the last micro-batch
        self._check_options()

    def _check_options(self) -> None:
        path = self.folder / "options.json"
        options = attrs.asdict(self.options)
        if not path.exists():
            publish(path, lambda draft: draft.write_text(json.dumps(options)))
        elif json.loads(path.read_text()) != options:
            raise ConfigError(f"{self.folder} was begun with {path.read_text()}, not {json.dumps(options)}: "
                              "use the same options, or another --out")

    def take(self, digests: DataFrame, batch: int) -> None:
        """Fold in a micro-batch and write the tables; foreachBatch calls it."""
        began = time.monotonic()
        self.digests = digests.toArrow().cast(self.job.state)
        state = self.job.fold(pa.concat_tables([self.state_before(batch), self.digests]), self.options, False)
        self.keep(batch, state)
        self.document = write(self.out, self.job.name, self.job.tables(state, self.options))
        if self.progress is not None:
            self.progress(f"{self.job.name}: batch {batch}, state of {len(state)} lines, "
                      f"{time.monotonic() - began:.2f} s{_verdict(self.document)}")

    def state_before(self, batch: int) -> Any:
        """The state into which `batch` is folded."""
        if self.last is not None and self.last[0] < batch:
            return self.last[1]
        before = [number for number in self.states() if number < batch]
        return pq.read_table(self._path(max(before)), partitioning=None) if before else self.job.state.empty_table()

    def keep(self, batch: int, state: Any) -> None:
        """Write the state of a batch; delete those that no run will need."""
        publish(self._path(batch), lambda path: pq.write_table(state, path))
        self.last = (batch, state)
        for number in [number for number in self.states() if number <= batch][:-KEPT_STATES]:
            self._path(number).unlink()

    def states(self) -> list[int]:
        """The numbers of the batches whose state is on disk, in order."""
        found = [_STATE.fullmatch(path.name) for path in self.folder.iterdir()]
        return sorted(int(match.group(1)) for match in found if match)

    def _path(self, batch: int) -> Path:
        return self.folder / f"state-{batch:012}.parquet"

    def start(self, spark: SparkSession, archive: Path, once: bool, max_rows: int | None) -> StreamingQuery:
        """Start the query; it continues at the checkpoint if there is one."""
        rows = (spark.readStream.format(NAME).option("job", self.job.name)
                .option("jobOptions", json.dumps(attrs.asdict(self.options))))
        if self.keys is not None:
            rows = rows.option("keyFile", self.keys.path)
        if max_rows is not None:
            rows = rows.option("maxRowsPerBatch", max_rows)
        query = (rows.load(str(archive)).writeStream.foreachBatch(self.take).queryName(f"jgroups {self.job.name}")
                 .option("checkpointLocation", str(self.folder / "checkpoint")))
        return (query.trigger(availableNow=True) if once else query.trigger(processingTime="0 seconds")).start()

    def latest(self) -> dict[str, Any]:
        """The result so far, also if this run had nothing new to add."""
        if not self.document:
            state = self.state_before(1 << 62)
            self.document = write(self.out, self.job.name, self.job.tables(state, self.options))
        return self.document


def _verdict(document: Mapping[str, Any]) -> str:
    if "totals" not in document:
        return ""
    sums = document["totals"]
    return f", {sums['delivered']:,} delivered, {document['verdict']}"


def follow(
    spark: SparkSession, archive: Path, out: Path, jobs: Sequence[Job], options: JobOptions, *,
    once: bool = False, max_rows: int | None = None, progress: Progress | None = None, keys: ArchiveKeys | None = None,
) -> dict[str, dict[str, Any]]:
    """Run jobs as streams until Ctrl-C, or with `once` until all rows that exist now are processed.

    keys: of an encrypted archive. Returns job -> its document.
    """
    spark.dataSource.register(JGroupsSource)
    followers = [StreamFollower(job, out, options, progress, keys) for job in jobs]

    def start(follower: StreamFollower) -> StreamingQuery:
        return follower.start(spark, archive, once, max_rows)

    queries = {each.job.name: start(each) for each in followers}
    try:
        for each in followers:
            _await(each, queries, start)
    except KeyboardInterrupt:
        for query in queries.values():
            query.stop()
    return {each.job.name: each.latest() for each in followers}


def _await(
    follower: StreamFollower, queries: dict[str, StreamingQuery], start: Callable[[StreamFollower], StreamingQuery],
) -> None:
    """Wait for the end of a stream. If Spark gave up on a worker that was late, start the stream again.

    That is safe, since the stream continues at its checkpoint. Any other error is raised, and the same one after
    GIVE_UP_SECONDS in which no attempt completed a batch.
    """
    name, states, since = follower.job.name, follower.states(), time.monotonic()
    while True:
        try:
            queries[name].awaitTermination()
            return
        except Exception as error:
            if WORKER_LATE not in str(error):
                raise
            if follower.states() != states:
                states, since = follower.states(), time.monotonic()
            if time.monotonic() - since >= GIVE_UP_SECONDS:
                raise
            _log.warning("%s: Spark's Python worker did not start within 10 s; the stream is started again", name)
            queries[name] = start(follower)
