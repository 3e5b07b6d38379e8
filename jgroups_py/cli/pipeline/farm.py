"""`jgroups pipeline sim`: the simulator's seeds on Spark's workers."""
from __future__ import annotations

import json
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jgroups_py.cli.pipeline.options import failed, progress
from jgroups_py.cli.showing import show
from jgroups_py.cli.sim import Sum, seed_range
from jgroups_py.model.errors import ConfigError
from jgroups_py.pipeline.optional_dependency import SparkMissingError, require
from jgroups_py.simulator.profiles import PROFILES

SHOWN_FAILURES = 10


def add_parser(jobs: Any) -> None:
    """Add `pipeline sim` to the command line."""
    text = "run seeds of the simulator on Spark's workers; a run that was stopped is continued"
    parser = jobs.add_parser("sim", help=text, description=text)
    parser.add_argument("--profile", choices=sorted(PROFILES), required=True)
    parser.add_argument("--seeds", type=seed_range, required=True, metavar="A:B", help="seeds to run, half-open")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the outcomes, as Parquet")
    parser.add_argument("--master", default="local[*]", help="Spark's master (default: local[*])")
    parser.add_argument("--piece", type=int, default=20, help="seeds of one file of outcomes (default: 20)")
    parser.add_argument("--json", action="store_true", help="print one JSON document at the end, nothing else")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Run the seeds. Returns 0: no seed broke a guarantee, 1: one did, 2: usage error."""
    try:
        for module in ("pyspark", "pyarrow", "pandas"):
            require(module)
        if args.piece < 1:
            raise ConfigError(f"--piece {args.piece}: at least one seed")
        from jgroups_py.pipeline import session
        from jgroups_py.pipeline.farm import run_farm
        spark = session.start(args.master, "jgroups sim")
        try:
            with progress("pieces", args.json) as report:
                began = time.monotonic()
                outcomes = run_farm(spark, args.profile, args.seeds, args.out, report, args.piece)
                seconds = time.monotonic() - began
        finally:
            spark.stop()
    except (SparkMissingError, ConfigError) as error:
        return failed(error)
    return print_results(args, outcomes, seconds)


def add_up(outcomes: Sequence[Mapping[str, Any]]) -> Sum:
    """The sum of all seeds."""
    total = Sum()
    for line in outcomes:
        injected, reached = dict(line["injected"]), dict(line["reached"])
        total.join(Sum(seeds=1, failed=int(not line["ok"]), violations=len(line["violations"]), sim_s=line["sim_s"],
                       group_s=line["sim_s"], cpu_s=line["cpu_s"], events=line["events"], frames=line["frames"],
                       faults=sum(injected.values()), by_kind=Counter(injected), reached=Counter(reached)))
    return total


def print_results(args: Namespace, outcomes: Sequence[Mapping[str, Any]], seconds: float) -> int:
    """Print the sum and the failures; returns the exit code."""
    total = add_up(outcomes)
    failures = [line for line in outcomes if not line["ok"]]
    if args.json:
        print(json.dumps({**total.as_json(), "seconds": seconds, "failures": [
            {name: line[name] for name in ("seed", "guarantees", "violations", "reproduce")} for line in failures]}))
    else:
        for line in failures[:SHOWN_FAILURES]:
            show(f"seed {line['seed']} breaks {', '.join(line['guarantees'])}; reproduce: {line['reproduce']}")
        show(f"{total}; {seconds:.1f} s")
    return 1 if failures else 0
