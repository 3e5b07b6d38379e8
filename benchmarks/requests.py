"""Claim: requests a second of three members with 25 requesters each, and the time of one request. See claims.py."""
from __future__ import annotations

from benchmarks.claims import measure

RUNS = [("request", "--mode", mode) for mode in ("threads", "asyncio", "uvloop", "one")]

if __name__ == "__main__":
    measure(RUNS, ("requests_per_s", "p50_us", "p99_us", "cpu_us_per_request"))
