"""Claim: how fast groups form and notice crashes. See claims.py."""
from __future__ import annotations

from benchmarks.claims import measure

RUNS = [("membership", "--members", str(members)) for members in (3, 8, 16)]

if __name__ == "__main__":
    measure(RUNS, ("form_s", "leave_s", "kill_member_s", "kill_coordinator_s"))
