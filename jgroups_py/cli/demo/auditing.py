"""The end of the demo: the audit on Spark over the archives of all members, and a report beside the copies."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from jgroups_py.cli.showing import complain
from jgroups_py.model.errors import ConfigError

FOLDER = "report"
MASTER = "local[2]"


def audited(
    archive: Path, out: Path, show_line: Callable[[str], None], keyring: Path | None = None,
) -> dict[str, Any] | None:
    """Run all jobs over the archive; returns the audit's document, None if Spark is not installed. keyring: of an
    encrypted archive."""
    from jgroups_py.pipeline.optional_dependency import SparkMissingError, require
    try:
        for module in ("pyspark", "pyarrow", "pandas"):
            require(module)
        show_line("starting Spark for the audit")
        return _audit(archive, out / FOLDER, show_line, keyring)
    except (SparkMissingError, ConfigError) as error:
        complain(f"no audit: {error}")
        return None


def _audit(archive: Path, out: Path, show_line: Callable[[str], None], keyring: Path | None) -> dict[str, Any]:
    from jgroups_py.archive.encryption import keys_of
    from jgroups_py.pipeline import session
    from jgroups_py.pipeline.batch import run_batch
    from jgroups_py.pipeline.job import JobOptions
    from jgroups_py.pipeline.jobs import JOBS
    from jgroups_py.pipeline.output import REPORT, write
    from jgroups_py.pipeline.time_range import auto_window
    keys = keys_of(keyring)
    options = JobOptions(window_ns=auto_window(archive, keys))
    spark = session.start(MASTER, "jgroups demo", {"spark.sql.shuffle.partitions": "2"})
    try:
        documents = {}
        for name, job in JOBS.items():
            show_line(f"{name} over {archive}")
            tables = run_batch(spark, archive, job, options, keys=keys)
            documents[name] = write(out, name, tables, "The demo: two sites")
    finally:
        spark.stop()
    return {**documents["audit"], "report": str(out / REPORT)}


def as_lines(found: dict[str, Any]) -> list[str]:
    """The table, the verdict, and where the report is."""
    from jgroups_py.pipeline.terminal_summary import as_lines as lines_of
    *table, verdict = lines_of(found)
    return ["", "the audit on Spark, over the archives of all members:", *table, f"report: {found['report']}", verdict]


def exit_code(found: dict[str, Any]) -> int:
    """The exit code of the verdict. 0: everything arrived, 1: faults, 3: no fault, but a record is missing."""
    from jgroups_py.pipeline.terminal_summary import exit_code as code_of
    return code_of(found)
