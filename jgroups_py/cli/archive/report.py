"""`jgroups archive audit DIR` and `jgroups archive report DIR --out OUT`: the pipeline's jobs without Spark."""
from __future__ import annotations

import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import Any

from jgroups_py.cli.pipeline.options import add_times, options, progress
from jgroups_py.cli.pipeline.results import print_results

SHOWN_FINDINGS = 30
NAMES = ("audit", "lag", "timeline", "traffic")


def add_arguments(parser: ArgumentParser, verb: str) -> None:
    """Add the options of `audit` and `report`."""
    if verb == "report":
        parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for tables and page")
        parser.add_argument("--jobs", type=names, default=list(NAMES), metavar="JOB,JOB",
                            help=f"which of {', '.join(NAMES)} (default: all)")
        parser.add_argument("--compare", type=Path, metavar="OTHER",
                            help="the --out of another run: the page shows the figures of both, and their difference")
    else:
        parser.add_argument("--out", type=Path, metavar="DIR",
                            help="folder for tables and page (default: they are not written)")
    add_times(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document at the end, nothing else")


def names(text: str) -> list[str]:
    """The jobs that a list names, each once, in the order of NAMES.

    >>> names("lag,audit")
    ['audit', 'lag']
    """
    wanted = {word.strip() for word in text.split(",")}
    if wrong := sorted(wanted - set(NAMES)):
        raise ArgumentTypeError(f"{', '.join(map(repr, wrong))} is none of {', '.join(NAMES)}")
    return [name for name in NAMES if name in wanted]


def report(args: Namespace) -> int:
    """Run the jobs. Returns 0: done, 1: the audit found faults, 3: no fault, but records are missing.

    Raises:
        ConfigError: no archive, or a key is missing.
    """
    from jgroups_py.archive.encryption import keys_of
    from jgroups_py.pipeline.jobs import JOBS
    from jgroups_py.pipeline.local import run_local
    from jgroups_py.pipeline.output import check_other, document, write
    from jgroups_py.pipeline.scan import check_archive
    from jgroups_py.pipeline.time_range import auto_window
    other = getattr(args, "compare", None)
    check_archive(args.directory)
    check_other(other)
    began, keys = time.monotonic(), keys_of(args.key_file)
    chosen = options(args, args.window or auto_window(args.directory, keys))
    found: dict[str, dict[str, Any]] = {}
    for name in ["audit"] if args.verb == "audit" else args.jobs:
        with progress(name, args.json) as reported:
            tables = run_local(args.directory, JOBS[name], chosen, reported, keys)
        found[name] = document(name, tables) if args.out is None else write(args.out, name, tables, other=other)
    return print_results(found, "audit" if args.verb == "audit" else None, args.out, time.monotonic() - began,
                         args.json, 0 if args.out is not None else SHOWN_FINDINGS)
