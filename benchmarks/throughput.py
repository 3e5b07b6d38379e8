"""Claim: messages a second of 100 B, 1 KB and 10 KB in a group of three, one sender and all, one by one and in batches.

See claims.py.
"""
from __future__ import annotations

from benchmarks.claims import measure

RUNS = [("multicast", "--ways", way, "--size", str(size), "--senders", senders)
        for way in ("one", "batch") for size in (100, 1000, 10_000) for senders in ("one", "all")]

if __name__ == "__main__":
    measure(RUNS, ("msgs_per_s", "mb_per_s", "cpu_us_per_msg", "rss_mb"))
