"""Jobs over a whole archive, and over any DataFrame of rows: digests in Python workers, one fold by key, tables.

The folded state of a job is small (spans, histograms, sums), so its tables are made in one process.
"""
from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from jgroups_py.archive.encryption import ArchiveKeys
from jgroups_py.archive.layout import ArchiveSegment
from jgroups_py.pipeline.job import Job, JobOptions
from jgroups_py.pipeline.partitioning import tasks_of
from jgroups_py.pipeline.progress import Progress, watched
from jgroups_py.pipeline.scan import all_segments, scan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_SEGMENTS = 8                        # in one task, so that the progress bar moves
LAST_TASKS = 8                           # for each worker, if all tasks were as small as the last ones


def digests(rows: DataFrame, job: Job, options: JobOptions) -> DataFrame:
    """The digests of a DataFrame of rows, unfolded state; works on streams too."""
    def digest(batches: Iterator[Any]) -> Iterator[Any]:
        keep_imports()
        for batch in batches:
            yield from _batches(job.digest(batch, options), job.state)

    return rows.select(*job.columns).mapInArrow(digest, spark_schema(job.state))


def digests_of_archive(
    spark: SparkSession, segments: Sequence[ArchiveSegment], tasks: Sequence[range], job: Job, options: JobOptions,
) -> DataFrame:
    """The digests of segments, which are read where they are digested. tasks: for each the range of its segments."""
    def digest(batches: Iterator[Any]) -> Iterator[Any]:
        keep_imports()
        for batch in batches:
            for task in batch.column(0).to_pylist():
                for segment in segments[tasks[task].start:tasks[task].stop]:
                    for found in scan(segment, job.columns):
                        yield from _batches(job.digest(found, options), job.state)

    return spark.range(0, len(tasks), 1, max(1, len(tasks))).mapInArrow(digest, spark_schema(job.state))


def folded(state: DataFrame, job: Job, options: JobOptions) -> DataFrame:
    """The state folded by key, on the workers."""
    def fold(table: Any) -> Any:
        return job.fold(table, options, True)

    return state.groupBy(*job.fold_by).applyInArrow(fold, spark_schema(job.state))


def table_of(rows: DataFrame, job: Job, name: str, options: JobOptions | None = None) -> DataFrame:
    """One of a job's tables, from a DataFrame of rows; a DataFrame too."""
    chosen = options or JobOptions()
    schema = job.tables(job.state.empty_table(), chosen)[name].schema

    def judge(batches: Iterator[Any]) -> Iterator[Any]:
        state = pa.Table.from_batches(list(batches), job.state)
        yield from _batches(job.tables(state, chosen)[name], schema)

    return folded(digests(rows, job, chosen), job, chosen).repartition(1).mapInArrow(judge, spark_schema(schema))


def run_batch(
    spark: SparkSession, archive: Path, job: Job, options: JobOptions, progress: Progress | None = None,
    keys: ArchiveKeys | None = None,
) -> Mapping[str, Any]:
    """All tables of a job over an archive, as Arrow tables. keys: of an encrypted archive; workers get the path."""
    segments = all_segments(archive, keys)
    workers = spark.sparkContext.defaultParallelism
    tasks = tasks_of(len(segments), workers, MOST_SEGMENTS, max(1, len(segments) // (LAST_TASKS * workers)))
    state = folded(digests_of_archive(spark, segments, tasks, job, options), job, options)
    with watched(len(tasks), tasks_done(spark, len(tasks)), progress):
        found = state.toArrow()
    return job.tables(found.cast(job.state), options)


@cache
def keep_imports() -> None:
    """Exempt imported modules from garbage collection, once in a worker process.

    Spark runs Python's collector after each task; over all that was imported, that takes 15 ms.
    """
    gc.freeze()


def _batches(found: Any, schema: pa.Schema) -> list[Any]:
    if isinstance(found, pa.RecordBatch):
        return [found]
    batches: list[Any] = found.cast(schema).to_batches()
    return batches


def spark_schema(schema: pa.Schema) -> Any:
    """An Arrow schema as Spark's."""
    from pyspark.sql.pandas.types import from_arrow_schema
    return from_arrow_schema(schema)


def tasks_done(spark: SparkSession, tasks: int) -> Callable[[], int]:
    """A function that returns how many of the `tasks` that read are done, for a Spark job begun after this call."""
    tracker = spark.sparkContext.statusTracker()
    known = set(tracker.getJobIdsForGroup(None) or [])

    def done() -> int:
        found = 0
        for number in tracker.getJobIdsForGroup(None) or []:
            job = tracker.getJobInfo(number) if number not in known else None
            stages = [tracker.getStageInfo(stage) for stage in (job.stageIds if job else [])]
            found = max([found, *(stage.numCompletedTasks for stage in stages if stage and stage.numTasks == tasks)])
        return found

    return done
