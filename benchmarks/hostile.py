"""Claim: a flood between members keeps four fifths of its rate beside 2,000 hostile frames a second.

`python -m benchmarks.hostile [--pairs 5] [--stack udp] [--rate 2000]`: three members; A floods with and without an
attacker by turns (tests/integration/hostile_kit.py: edge values, replays, strangers), so that what else the machine
does meets both. The ratio is that of the medians; exits with 1 below 0.8. The attacker itself takes up to half a core.
"""
from __future__ import annotations

import sys
from argparse import ArgumentParser
from statistics import median
from time import monotonic

from tests.integration.hostile_kit import Besieger
from tests.integration.members import Group

LEAST = 0.8
MESSAGES, SIZE = 60_000, 1000


def flood(group: Group, total: int) -> float:
    """Messages a second until all members have `total` of A's, MESSAGES more than before."""
    began = monotonic()
    group["A"].command(f"flood {MESSAGES} {SIZE}")
    for name in "ABC":
        group[name].received_all({"A": total}, timeout=120)
    return MESSAGES / (monotonic() - began)


def main() -> int:
    """Measure in pairs; 0 if the claim holds."""
    parser = ArgumentParser()
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--stack", default="udp")
    parser.add_argument("--rate", type=int, default=2000, help="hostile frames a second")
    args = parser.parse_args()
    rates: dict[bool, list[float]] = {False: [], True: []}
    with Group(args.stack) as group:
        group.start("A B C")
        total = MESSAGES
        flood(group, total)                              # warms up
        for pair in range(args.pairs):
            for attacked in ((False, True), (True, False))[pair % 2]:
                total += MESSAGES
                if attacked:
                    with Besieger(group, args.rate, seed=pair):
                        rates[True].append(flood(group, total))
                else:
                    rates[False].append(flood(group, total))
    quiet, hostile = median(rates[False]), median(rates[True])
    print(f"{args.stack}: {quiet:,.0f} msgs/s alone, {hostile:,.0f} beside {args.rate} hostile frames a second: "
          f"{hostile / quiet:.2f}")
    return 0 if hostile >= LEAST * quiet else 1


if __name__ == "__main__":
    sys.exit(main())
