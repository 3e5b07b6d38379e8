"""What the subcommands of `jgroups pipeline` have in common."""
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


def a_duration(text: str) -> int:
    """Nanoseconds."""
    try:
        found = parse_duration(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None
    if found <= 0:
        raise ArgumentTypeError(f"{text!r} is not longer than nothing")
    return found


def add_common(parser: ArgumentParser) -> None:
    """Options of every job."""
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where tables and report go")
    parser.add_argument("--master", default="local[*]", help="Spark's master, as spark://host:7077 (default: local[*])")
    parser.add_argument("--window", type=a_duration, metavar="TIME",
                        help="of figures over time, as 10s (default: by the archive's length; streaming: 10s)")
    parser.add_argument("--settle", type=a_duration, metavar="TIME", default=1_000_000_000,
                        help="what was sent so shortly before the open end of a record is pending (default: 1s)")
    parser.add_argument("--json", action="store_true", help="print one JSON document at the end, nothing else")


def options(args: Namespace, window_ns: int | None) -> Any:
    """The job's options; window_ns: what --window is by default."""
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
