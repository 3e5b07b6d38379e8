"""Claim: flow control by strategy (FLOW) costs at most a tenth more than by credits (MFC).

`python -m benchmarks.flow_control [--pairs 4] [options of jgroups bench multicast]`: stacks udp and flow by turns, in
pairs, so that what else the machine does meets both. The ratio that counts is that of processor time per message, of
the medians over all rounds; exits with 1 above 1.1. With --slow, one receiver is slow and strategy max goes on.
"""
from __future__ import annotations

import sys
from argparse import ArgumentParser
from statistics import median

from benchmarks.claims import bench

MOST = 1.1
FIGURES = ("cpu_us_per_msg", "msgs_per_s")


def main() -> int:
    """Measure in pairs; 0 if the claim holds."""
    parser = ArgumentParser()
    parser.add_argument("--pairs", type=int, default=4)
    args, given = parser.parse_known_args()
    runs: dict[str, dict[str, list[float]]] = {stack: {name: [] for name in FIGURES} for stack in ("udp", "flow")}
    for pair in range(args.pairs):
        for stack in (("udp", "flow"), ("flow", "udp"))[pair % 2]:
            document = bench(["multicast", "--ways", "batch", "--stack", stack, "--repeat", "3", "--seconds", "1",
                              *given])
            for name in FIGURES:
                runs[stack][name] += document[name]["runs"]
    found = {stack: {name: median(values) for name, values in figures.items()} for stack, figures in runs.items()}
    for stack, label in (("udp", "MFC"), ("flow", "FLOW")):
        print(f"{label:5} {found[stack]['msgs_per_s']:12,.0f} msgs/s {found[stack]['cpu_us_per_msg']:8.3f} us of "
              "processor time a message")
    ratio = found["flow"]["cpu_us_per_msg"] / found["udp"]["cpu_us_per_msg"]
    print(f"ratio of processor time, FLOW to MFC: {ratio:.3f}; of throughput: "
          f"{found['flow']['msgs_per_s'] / found['udp']['msgs_per_s']:.3f}")
    return 0 if ratio <= MOST else 1


if __name__ == "__main__":
    sys.exit(main())
