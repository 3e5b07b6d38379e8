"""Seeds of the simulator per second with one worker and with two, and beside Spark with plain processes."""
from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace

from jgroups_py.cli.sim import seed_range


def add_arguments(parser: ArgumentParser) -> None:
    """Options."""
    parser.add_argument("--profile", default="group")
    parser.add_argument("--seeds", type=seed_range, default=range(0, 200))
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Measure both, print."""
    seeds = f"{args.seeds.start}:{args.seeds.stop}"
    rates = {}
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as out:
            found = subprocess.run(
                [sys.executable, "-m", "jgroups_py", "pipeline", "sim", "--profile", args.profile, "--seeds", seeds,
                 "--out", out, "--master", f"local[{workers}]", "--piece", "5", "--json"], check=True,
                stdout=subprocess.PIPE, text=True)
        rates[workers] = len(args.seeds) / json.loads(found.stdout)["seconds"]
        print(f"local[{workers}]: {rates[workers]:.1f} seeds a second", flush=True)
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "jgroups_py", "sim", "--profile", args.profile, "--seeds", seeds, "--jobs",
                    "2"], check=True, stdout=subprocess.DEVNULL)
    print(f"jgroups sim --jobs 2: {len(args.seeds) / (time.perf_counter() - began):.1f} seeds a second")
    print(f"two workers: {rates[2] / rates[1]:.2f} times one")
    return 0
