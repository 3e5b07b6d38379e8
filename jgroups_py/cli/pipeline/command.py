"""`jgroups pipeline JOB ARCHIVE --out DIR`: its options and its output. Spark is imported only when a job runs."""
from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jgroups_py.cli.archive.key_file import add_key_file
from jgroups_py.cli.pipeline import farm, make
from jgroups_py.cli.pipeline.options import add_common, failed, options, progress
from jgroups_py.cli.pipeline.results import print_results
from jgroups_py.cli.showing import complain
from jgroups_py.model.errors import ConfigError
from jgroups_py.pipeline.optional_dependency import SparkMissingError, require

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ABOUT = {
    "audit": "sent, delivered, lost, duplicated, out of order, declared lost per origin and receiver; S5, R3, R4",
    "lag": "replication delay per site: p50, p99, p99.9, max over time, backlog, RPO and RTO, clock offsets",
    "timeline": "views, relays, site status, failovers, and the gap in the deliveries around each",
    "traffic": "messages and bytes per topic, origin, site and window; top talkers; sizes",
    "all": "the four jobs above, one after the other in one Spark session",
}

EXIT_CODES = ("Exit code 0: everything arrived, and the records are complete; 1: a fault was found; 2: usage error; 3: "
              "no fault in what is recorded, but a member did not record, or its record lacks a part.")


def add_parser(subparsers: Any) -> None:
    """Add `pipeline` to the command line."""
    parser = subparsers.add_parser("pipeline", help="check and analyse archives on Spark", description=(
        "Jobs on Spark over what the members of groups recorded (see ARCHIVE). Every run writes Parquet tables, a "
        "document result.json and one page report.html to --out. Needs pip install 'jgroups_py[spark]'."))
    jobs = parser.add_subparsers(metavar="JOB", required=True)
    for name, text in ABOUT.items():
        epilog = EXIT_CODES if name in ("audit", "all") else None
        job = jobs.add_parser(name, help=text, description=text, epilog=epilog)
        job.add_argument("archive", type=Path, help="the archive's folder")
        add_key_file(job)
        add_common(job)
        job.add_argument("--compare", type=Path, metavar="OTHER",
                         help="the --out of another run: the page shows the figures of both, and their difference")
        job.set_defaults(run=run, job=name)
        _add_stream(job)
    farm.add_parser(jobs)
    make.add_parser(jobs)


def _add_stream(parser: ArgumentParser) -> None:
    parser.add_argument("--stream", action="store_true",
                        help="follow the archive while it grows, until Ctrl-C; each batch rewrites the tables")
    parser.add_argument("--once", action="store_true",
                        help="with --stream: process what is recorded now, then end; the next run continues from there")
    parser.add_argument("--rate", type=int, metavar="ROWS", help="with --stream: the most rows that one batch takes")


def run(args: Namespace) -> int:
    """Run a job. Returns 0: done, 1: the audit found faults, 2: usage error, 3: no fault, but records are missing."""
    try:
        for module in ("pyspark", "pyarrow", "pandas"):
            require(module)
        return _run(args)
    except (SparkMissingError, ConfigError) as error:
        return failed(error)


def _run(args: Namespace) -> int:
    from jgroups_py.archive.encryption import keys_of
    from jgroups_py.pipeline import jobs, session
    from jgroups_py.pipeline.output import check_other
    from jgroups_py.pipeline.scan import all_segments, check_archive
    check_archive(args.archive)
    check_other(args.compare)
    all_segments(args.archive, keys_of(args.key_file))          # a missing key is told before Spark starts
    began = time.monotonic()
    spark = session.start(args.master, f"jgroups {args.job}")
    names = list(jobs.JOBS) if args.job == "all" else [args.job]
    try:
        if args.stream:
            from jgroups_py.pipeline.stream import follow
            found = follow(spark, args.archive, args.out, [jobs.JOBS[name] for name in names], options(args, None),
                           once=args.once, max_rows=args.rate, progress=None if args.json else print_line,
                           keys=keys_of(args.key_file))
        else:
            found = {name: batch(spark, args, name) for name in names}
    finally:
        spark.stop()
    return print_results(found, None if args.job == "all" else args.job, args.out, time.monotonic() - began, args.json)


def batch(spark: SparkSession, args: Namespace, name: str) -> dict[str, Any]:
    """Run one job over the whole archive; returns the document for machines."""
    from jgroups_py.archive.encryption import keys_of
    from jgroups_py.pipeline import jobs
    from jgroups_py.pipeline.batch import run_batch
    from jgroups_py.pipeline.output import write
    from jgroups_py.pipeline.time_range import auto_window
    keys = keys_of(args.key_file)
    with progress(name, args.json) as report:
        tables = run_batch(spark, args.archive, jobs.JOBS[name], options(args, auto_window(args.archive, keys)), report,
                           keys)
    return write(args.out, name, tables, other=args.compare)


def print_line(line: str) -> None:
    """Print a line to stderr."""
    complain(line)
