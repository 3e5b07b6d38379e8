"""The end of the demo: the audit over all members' archives, on Spark or without, and a report beside the copies."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jgroups_py.cli.showing import complain
from jgroups_py.model.errors import ConfigError

if TYPE_CHECKING:
    from jgroups_py.archive.encryption import ArchiveKeys
    from jgroups_py.pipeline.job import Job, JobOptions

FOLDER = "report"
MASTER = "local[2]"
RunJob = Callable[["Job"], Mapping[str, Any]]
"""Runs one job over the archive; returns its tables by name."""

DIFFERS = ("(the demo's own table counts the lines of the file, at members that are up at the end; the audit counts "
           "all messages, answers too, also at members that were killed)")


def audited(
    archive: Path, out: Path, show_line: Callable[[str], None], keyring: Path | None = None, spark: bool = True,
) -> dict[str, Any] | None:
    """Run all jobs over the archive; returns the audit's document, None if what it needs is not installed.

    keyring: of an encrypted archive. spark: whether the jobs run on Spark; the tables are the same.
    """
    from jgroups_py.pipeline.optional_dependency import SparkMissingError, require
    try:
        for module in ("pyspark", "pyarrow", "pandas") if spark else ():
            require(module)
        return _audit(archive, out / FOLDER, show_line, keyring, spark)
    except SparkMissingError as error:
        complain(f"no audit: {error}, or run the demo with --no-spark")
    except ConfigError as error:
        complain(f"no audit: {error}")
    return None


def _audit(
    archive: Path, out: Path, show_line: Callable[[str], None], keyring: Path | None, spark: bool,
) -> dict[str, Any]:
    from jgroups_py.archive.encryption import keys_of
    from jgroups_py.pipeline.job import JobOptions
    from jgroups_py.pipeline.jobs import JOBS
    from jgroups_py.pipeline.output import REPORT, write
    from jgroups_py.pipeline.time_range import auto_window
    keys = keys_of(keyring)
    options = JobOptions(window_ns=auto_window(archive, keys))
    if spark:
        show_line("starting Spark for the audit")
    documents = {}
    with on_spark(archive, options, keys) if spark else without_spark(archive, options, keys) as run_job:
        for name, job in JOBS.items():
            show_line(f"{name} over {archive}")
            documents[name] = write(out, name, run_job(job), "The demo: two sites")
    return {**documents["audit"], "report": str(out / REPORT), "spark": spark}


@contextmanager
def on_spark(archive: Path, options: JobOptions, keys: ArchiveKeys | None) -> Iterator[RunJob]:
    """Jobs on a Spark of this machine, which ends with the context."""
    from jgroups_py.pipeline import session
    from jgroups_py.pipeline.batch import run_batch
    spark = session.start(MASTER, "jgroups demo", {"spark.sql.shuffle.partitions": "2"})
    try:
        yield lambda job: run_batch(spark, archive, job, options, keys=keys)
    finally:
        spark.stop()


@contextmanager
def without_spark(archive: Path, options: JobOptions, keys: ArchiveKeys | None) -> Iterator[RunJob]:
    """Jobs in this process."""
    from jgroups_py.pipeline.local import run_local
    yield lambda job: run_local(archive, job, options, keys=keys)


def as_lines(found: dict[str, Any]) -> list[str]:
    """The table, the verdict, and where the report is."""
    from jgroups_py.pipeline.terminal_summary import as_lines as lines_of
    *table, verdict = lines_of(found)
    how = "on Spark" if found["spark"] else "without Spark"
    return ["", f"the audit {how}, over the archives of all members:", *table, DIFFERS, f"report: {found['report']}",
            verdict]


def exit_code(found: dict[str, Any]) -> int:
    """The exit code of the verdict. 0: everything arrived, 1: faults, 3: no fault, but a record is missing."""
    from jgroups_py.pipeline.terminal_summary import exit_code as code_of
    return code_of(found)
