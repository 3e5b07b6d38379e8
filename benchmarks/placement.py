"""How long it takes to place a million partitions on a hundred members.

    python -m benchmarks.placement
"""
from __future__ import annotations

from time import perf_counter

from jgroups_py.blocks.placement import Candidate, Placement

PARTITIONS = 1_000_000
MEMBERS = 100


def main() -> None:
    """Print the times."""
    members = [Candidate(f"member{number}", 1 + number % 4, f"zone{number % 5}") for number in range(MEMBERS)]
    placement = Placement(members)
    partitions = [f"orders/{number}" for number in range(PARTITIONS)]
    for k, spread in ((1, False), (3, False), (3, True)):
        began = perf_counter()
        placement.assign(partitions, k, spread=spread)
        took = perf_counter() - began
        print(f"{PARTITIONS} partitions x {MEMBERS} members, k={k}{', spread over 5 zones' if spread else ''}: "
              f"{took:.1f} s, {took / PARTITIONS / MEMBERS * 1e9:.0f} ns a pair")
    began = perf_counter()
    for partition in partitions[:1000]:
        placement.place(partition, 3)
    print(f"one by one, k=3: {(perf_counter() - began) * 1000:.0f} us a partition")


if __name__ == "__main__":
    main()
