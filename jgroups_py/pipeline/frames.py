"""The jobs as functions from DataFrame to DataFrame, for notebooks and programs.

    from jgroups_py.pipeline import frames, session
    spark = session.start()
    rows = frames.rows(spark, "archive")            # or spark.read.parquet("archive"), sealed segments only
    frames.audit(rows).where("lost > 0").show()

`rows` may be any DataFrame with the archive's columns: filtered, united, read with another reader. While an archive
grows, `stream.follow` runs the same jobs and keeps the same tables. The schemas named below list the columns of a
table; a column that ends in `_ns` is in nanoseconds, and an instant counts from 1970. `options`: see job.JobOptions.
"""
from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING

from jgroups_py.pipeline.batch import table_of
from jgroups_py.pipeline.job import JobOptions
from jgroups_py.pipeline.jobs import JOBS
from jgroups_py.pipeline.source import NAME, JGroupsSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def rows(spark: SparkSession, archive: str | PathLike[str], columns: Sequence[str] | None = None) -> DataFrame:
    """The rows of an archive, open segments too. columns: those to read; None: all."""
    spark.dataSource.register(JGroupsSource)
    reader = spark.read.format(NAME)
    return (reader if columns is None else reader.option("columns", ",".join(columns))).load(str(archive))


def audit(rows: DataFrame, options: JobOptions | None = None) -> DataFrame:
    """Counts for each pair of origin and receiver (audit.judge.PAIRS)."""
    return table_of(rows, JOBS["audit"], "pairs", options)


def findings(rows: DataFrame, options: JobOptions | None = None) -> DataFrame:
    """Every fault, with the range of messages that it concerns (audit.judge.FINDINGS)."""
    return table_of(rows, JOBS["audit"], "findings", options)


def missing(rows: DataFrame, options: JobOptions | None = None) -> DataFrame:
    """The records that are missing among these rows (audit.missing.MISSING); no line: the records are complete."""
    return table_of(rows, JOBS["audit"], "missing", options)


def lag(rows: DataFrame, options: JobOptions | None = None) -> DataFrame:
    """Delay by origin's site, receiver's site and window (lag.tables.LAG)."""
    return table_of(rows, JOBS["lag"], "lag", options)


def lag_summary(rows: DataFrame, options: JobOptions | None = None) -> DataFrame:
    """Delay, backlog, RPO and RTO over the whole time (lag.tables.SUMMARY)."""
    return table_of(rows, JOBS["lag"], "lag_summary", options)


def views(rows: DataFrame, options: JobOptions | None = None) -> DataFrame:
    """Each view of each site (timeline.VIEWS)."""
    return table_of(rows, JOBS["timeline"], "views", options)


def gaps(rows: DataFrame, options: JobOptions | None = None) -> DataFrame:
    """The silence around each crash and leave (timeline.GAPS)."""
    return table_of(rows, JOBS["timeline"], "gaps", options)


def traffic(rows: DataFrame, options: JobOptions | None = None) -> DataFrame:
    """Messages and bytes by site, origin, topic and window."""
    return table_of(rows, JOBS["traffic"], "traffic", options)
