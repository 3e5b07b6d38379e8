"""Claim: one order of all multicasts (TOTAL) costs at most 1.15 of the processor time of multicasts without it.

`python -m benchmarks.order [--pairs 4] [options of jgroups bench multicast, e.g. --senders all --size 1K]`: stacks udp
and udp-total by turns, in pairs, so that what else the machine does meets both. The ratio that counts is that of
processor time per message, of the medians over all rounds; exits with 1 above 1.15.
"""
from __future__ import annotations

import sys
from argparse import ArgumentParser
from statistics import median

from benchmarks.claims import bench

MOST = 1.15
FIGURES = ("cpu_us_per_msg", "msgs_per_s")
STACKS = ("udp", "udp-total")


def main() -> int:
    """Measure in pairs; 0 if the claim holds."""
    parser = ArgumentParser()
    parser.add_argument("--pairs", type=int, default=4)
    args, given = parser.parse_known_args()
    runs: dict[str, dict[str, list[float]]] = {stack: {name: [] for name in FIGURES} for stack in STACKS}
    for pair in range(args.pairs):
        for stack in STACKS[::-1] if pair % 2 else STACKS:
            document = bench(["multicast", "--stack", stack, "--repeat", "3", "--seconds", "1", *given])
            for name in FIGURES:
                runs[stack][name] += document[name]["runs"]
    found = {stack: {name: median(values) for name, values in figures.items()} for stack, figures in runs.items()}
    for stack in STACKS:
        print(f"{stack:10} {found[stack]['msgs_per_s']:12,.0f} msgs/s {found[stack]['cpu_us_per_msg']:8.3f} us of "
              "processor time a message")
    ratio = found["udp-total"]["cpu_us_per_msg"] / found["udp"]["cpu_us_per_msg"]
    print(f"ratio of processor time, with an order to without: {ratio:.3f}; of throughput: "
          f"{found['udp-total']['msgs_per_s'] / found['udp']['msgs_per_s']:.3f}")
    return 0 if ratio <= MOST else 1


if __name__ == "__main__":
    sys.exit(main())
