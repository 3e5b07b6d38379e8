"""Claim: what a run costs on its way through the layers, one way, without sockets (budget: 10 us). See claims.py."""
from __future__ import annotations

from benchmarks.claims import measure

RUNS = [("protocol-cost", "--stack", stack, "--size", "100") for stack in ("udp", "tcp")]

if __name__ == "__main__":
    measure(RUNS, [f"{way}_us_run_of_{run}" for run in (1, 10, 100) for way in ("down", "up")])
