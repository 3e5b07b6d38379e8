"""Jobs while the archive grows: digests of each micro-batch folded into the state of the one before.

State and tables belong to a batch number. A batch that is run again, because the driver crashed between writing and
Spark's commit, starts from the state of the number before and reads the same rows (offsets are in the checkpoint), so
it writes the same again. Old states go only once a newer one is committed. The folder holds, for each job:

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
GIVE_UP_SECONDS = 300.0                            # without a batch, while workers are late
_log = logging.getLogger(__name__)
Progress = Callable[[str], None]


class StreamFollower:
    """One job's state over micro-batches."""

    def __init__(self, job: Job, out: Path, options: JobOptions, progress: Progress | None = None) -> None:
        self.job, self.out, self.options, self.progress = job, out, options, progress
        self.folder = out / job.name / "stream"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.document: dict[str, Any] = {}
        self.held: tuple[int, Any] | None = None           # (batch, its state), to spare reading it again
        self.news: Any = job.state.empty_table()           # the digests of the last micro-batch
        self._check_options()

    def _check_options(self) -> None:
        path = self.folder / "options.json"
        mine = attrs.asdict(self.options)
        if not path.exists():
            publish(path, lambda draft: draft.write_text(json.dumps(mine)))
        elif json.loads(path.read_text()) != mine:
            raise ConfigError(f"{self.folder} was begun with {path.read_text()}, not {json.dumps(mine)}: "
                              "use the same options, or another --out")

    def take(self, digests: DataFrame, batch: int) -> None:
        """A micro-batch (what foreachBatch calls)."""
        began = time.monotonic()
        self.news = digests.toArrow().cast(self.job.state)
        state = self.job.fold(pa.concat_tables([self.state_before(batch), self.news]), self.options, False)
        self.keep(batch, state)
        self.document = write(self.out, self.job.name, self.job.tables(state, self.options))
        if self.progress is not None:
            self.progress(f"{self.job.name}: batch {batch}, state of {len(state)} lines, "
                      f"{time.monotonic() - began:.2f} s{_verdict(self.document)}")

    def state_before(self, batch: int) -> Any:
        """The state that batch `batch` is folded into."""
        if self.held is not None and self.held[0] < batch:
            return self.held[1]
        before = [number for number in self.states() if number < batch]
        return pq.read_table(self._path(max(before)), partitioning=None) if before else self.job.state.empty_table()

    def keep(self, batch: int, state: Any) -> None:
        """Write the state of a batch; forget those that no run will need."""
        publish(self._path(batch), lambda path: pq.write_table(state, path))
        self.held = (batch, state)
        for number in [number for number in self.states() if number <= batch][:-KEPT_STATES]:
            self._path(number).unlink()

    def states(self) -> list[int]:
        """The batches whose state exists."""
        found = [_STATE.fullmatch(path.name) for path in self.folder.iterdir()]
        return sorted(int(match.group(1)) for match in found if match)

    def _path(self, batch: int) -> Path:
        return self.folder / f"state-{batch:012}.parquet"

    def start(self, spark: SparkSession, archive: Path, once: bool, max_rows: int | None) -> StreamingQuery:
        """Begin, or continue at the checkpoint."""
        rows = (spark.readStream.format(NAME).option("job", self.job.name)
                .option("jobOptions", json.dumps(attrs.asdict(self.options))))
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
    once: bool = False, max_rows: int | None = None, progress: Progress | None = None,
) -> dict[str, dict[str, Any]]:
    """Run jobs as streams until Ctrl-C, or with `once` until all that is there is taken; job -> its document."""
    spark.dataSource.register(JGroupsSource)
    followers = [StreamFollower(job, out, options, progress) for job in jobs]

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
    """Wait for the end of a stream; on a busy machine, where Spark gave up on its worker, start it again.

    The checkpoint makes that safe: offsets and state go on where they were. Raises what ended the stream otherwise,
    and after GIVE_UP_SECONDS in which no attempt added a state.
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
