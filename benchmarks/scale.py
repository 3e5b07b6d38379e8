"""Claim: the cost of a message grows with the members only by the copies the network makes. See claims.py."""
from __future__ import annotations

from benchmarks.claims import measure

RUNS = [("multicast", "--members", str(members)) for members in (2, 4, 8, 16, 32)]

if __name__ == "__main__":
    measure(RUNS, ("msgs_per_s", "cpu_us_per_msg", "rss_mb"))
