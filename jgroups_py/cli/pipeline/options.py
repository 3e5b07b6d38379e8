"""Options, errors and progress that the subcommands of `jgroups pipeline` share."""
from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from jgroups_py.cli.showing import complain
from jgroups_py.model.units import parse_duration

Report = Callable[[int, int], None]


def positive_duration(text: str) -> int:
    """A time like "10s", in nanoseconds; for argparse."""
    try:
        found = parse_duration(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None
    if found <= 0:
        raise ArgumentTypeError(f"{text!r} is not a time above 0")
    return found


def add_common(parser: ArgumentParser) -> None:
    """Add the options of every job on Spark."""
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for tables and report")
    parser.add_argument("--master", default="local[*]", help="Spark's master, as spark://host:7077 (default: local[*])")
    add_times(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document at the end, nothing else")


def add_times(parser: ArgumentParser) -> None:
    """Add --window and --settle, which jobs take with Spark and without."""
    parser.add_argument("--window", type=positive_duration, metavar="TIME",
                        help="length of a window in figures over time, as 10s (default: by the archive's length; "
                             "streaming: 10s)")
    parser.add_argument("--settle", type=positive_duration, metavar="TIME", default=1_000_000_000,
                        help="messages sent within this time before the open end of a record count as pending, not as "
                             "lost (default: 1s)")


def options(args: Namespace, window_ns: int | None) -> Any:
    """The job's options. window_ns: the length of a window if --window is not given; None: that of JobOptions."""
    from jgroups_py.pipeline.job import JobOptions
    chosen = JobOptions(settle_ns=args.settle)
    return JobOptions(settle_ns=args.settle, window_ns=args.window or window_ns or chosen.window_ns)


def failed(error: BaseException) -> int:
    """Print an error; returns the exit code."""
    complain(f"jgroups pipeline: {error}")
    return 2


@contextmanager
def progress(name: str, quiet: bool) -> Iterator[Report | None]:
    """A progress bar on stderr, if that is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    with Progress(TextColumn("{task.description:<10}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                  console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
