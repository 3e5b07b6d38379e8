"""`jgroups pipeline make DIR`: writes a synthetic archive, with planted faults if wanted."""
from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

from jgroups_py.cli.pipeline.options import failed, progress
from jgroups_py.cli.showing import show
from jgroups_py.model.errors import ConfigError
from jgroups_py.pipeline.optional_dependency import SparkMissingError, require


def add_parser(jobs: Any) -> None:
    """Add `pipeline make` to the command line."""
    text = "make an archive of two sites with crashes and planted faults, to try jobs and to measure them"
    parser = jobs.add_parser("make", help=text, description=text)
    parser.add_argument("archive", type=Path, help="the folder to make")
    parser.add_argument("--rows", type=int, default=100_000, help=(
        "rows of the archive, exactly: one for each message at its sender and at each member that delivers it, one for "
        "each fact (default: 100000)"))
    parser.add_argument("--rate", type=int, default=5000, help="messages a second of all members (default: 5000)")
    parser.add_argument("--size", type=int, default=1000, help="bytes of a payload (default: 1000)")
    parser.add_argument("--faults", type=int, default=0, help="faults to plant, of each kind (default: 0)")
    parser.add_argument("--seed", type=int, default=1, help="the same seed makes the same archive (default: 1)")
    parser.add_argument("--json", action="store_true", help="print the planted faults as JSON")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Make the archive. Returns 0: done, 2: usage error."""
    try:
        require("pyarrow")
        from jgroups_py.pipeline.synthetic import make, plan_of
        if args.archive.exists() and any(args.archive.iterdir()):
            raise ConfigError(f"{args.archive} is not empty")
        plan = plan_of(args.rows, rate=args.rate, payload_bytes=args.size, faults=args.faults, seed=args.seed)
        with progress("messages", args.json) as report:
            faults = make(args.archive, plan, report)
    except (SparkMissingError, ConfigError, ValueError) as error:
        return failed(error)
    planted: list[dict[str, Any]] = [{"kind": fault.kind, "origin": fault.origin.name, "first": fault.first,
                                      "stop": fault.stop,
                                      "receivers": [life.name for life in fault.receivers]} for fault in faults]
    if args.json:
        print(json.dumps({"archive": str(args.archive), "faults": planted}, indent=2))
    else:
        for fault in planted:
            show(f"{fault['kind']:<14} {fault['origin']} {fault['first']} to {fault['stop']} "
                  f"at {', '.join(fault['receivers'])}")
        show(f"{args.archive}: {plan.rows:,} rows, {len(planted)} faults planted")
    return 0
