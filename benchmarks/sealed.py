"""Claim: a sealed stack costs at most 1.10 of the processor time of an unsealed one at 100 B, and 1.20 at 1 KB.

`python -m benchmarks.sealed [--pairs 5] [--sizes 100,1000] [--seconds 1]`: the stacks udp and sealed by turns, so that
what else the machine does meets both; processor time a message of all processes, sender and receivers together
(`jgroups bench multicast`). The ratio is that of the medians; exits with 1 above a bound.
"""
from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from pathlib import Path
from statistics import median

from jgroups_py.sealing.keyring import new_keyring
from jgroups_py.system.secrets import SECRETS, write_keyring

BOUNDS = {100: 1.10, 1000: 1.20, 10_000: 1.35}
FIGURE = "cpu_us_per_msg"


def cost_us(size: int, seconds: float, stack: str, *more: str) -> float:
    """Processor time a message, of all processes, in microseconds."""
    command = [sys.executable, "-m", "jgroups_py", "bench", "multicast", "--ways", "batch", "--json", "--quiet",
               "--repeat", "1", "--seconds", str(seconds), "--size", str(size), "--stack", stack, *more]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)[FIGURE]["median"])


def main() -> int:
    """Measure in pairs; 0 if the claim holds."""
    parser = ArgumentParser()
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--sizes", default="100,1000")
    parser.add_argument("--seconds", type=float, default=1.0)
    args = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        keyring = Path(folder) / "bench.keys"
        write_keyring(keyring, new_keyring(SECRETS.draw(32)), new=True)
        sealed = ("sealed", "-p", f"keyring={keyring}")
        for size in map(int, args.sizes.split(",")):
            costs: dict[str, list[float]] = {"udp": [], "sealed": []}
            for pair in range(args.pairs):
                for words in ((("udp",), sealed), (sealed, ("udp",)))[pair % 2]:
                    costs[words[0]].append(cost_us(size, args.seconds, *words))
            plain, with_keys = median(costs["udp"]), median(costs["sealed"])
            bound = BOUNDS.get(size, max(BOUNDS.values()))
            failed += with_keys > bound * plain
            print(f"{size} B: {plain:.3f} us a message unsealed, {with_keys:.3f} sealed: {with_keys / plain:.2f} "
                  f"(at most {bound:.2f})", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
