"""Claim: with one receiver ten times slower than the others, the group settles at its pace and resends almost nothing.

`python -m benchmarks.pressure`: first at will, then with the last of three members taking ten times as long for a
message as the group did before. Exits with 1 if the pace is not reached or more than 1 % was retransmitted.
"""
from __future__ import annotations

import sys

from benchmarks.claims import bench

FACTOR = 10
LEAST_OF_PACE = 0.9                         # what sleeping and scheduling may cost the slow member
MOST_RESENT = 0.01


def main() -> int:
    """Measure both; 0 if the claim holds."""
    free = bench(["multicast", "--ways", "batch", *sys.argv[1:]])
    pace = free["msgs_per_s"]["median"] / FACTOR
    slowed = bench(["multicast", "--ways", "batch", "--slow", str(1e6 / pace), *sys.argv[1:]])
    reached, resent = slowed["msgs_per_s"]["median"], slowed["retransmitted_ratio"]["median"]
    print(f"all fast:       {free['msgs_per_s']['median']:12,.0f} msgs/s")
    print(f"one {FACTOR}x slower: {reached:12,.0f} msgs/s, {reached / pace:.2f} of its pace; resent {resent:.4%}, "
          f"memory {slowed['rss_mb']['median']:.0f} MB")
    return 0 if reached >= LEAST_OF_PACE * pace and resent < MOST_RESENT else 1


if __name__ == "__main__":
    sys.exit(main())
