"""Claim: messages a second from one site to another, and what RELAY leaves of the throughput at home. See claims.py."""
from __future__ import annotations

from benchmarks.claims import measure

RUNS = [("relay",), ("multicast", "--ways", "batch")]

if __name__ == "__main__":
    measure(RUNS, ("msgs_per_s", "local_msgs_per_s", "cpu_us_per_msg"))
