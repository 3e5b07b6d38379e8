"""Claim: a seed of an attacker's profile has one history with symbolic signatures and with real ones.

    python -m tests.simulator.symbolic_histories [--seeds 0:50] [--profile attacker-insider ...]

Symbolic signatures are many times faster (design/decisions/0028); this shows that nothing is decided otherwise by them.
Exits with 1 if a history differs, or has a violation.
"""
from __future__ import annotations

import sys
from argparse import ArgumentParser

from jgroups_py.simulator.profiles import PROFILES
from jgroups_py.simulator.runner import run_seed


def symbolic_profiles() -> list[str]:
    """The profiles that are simulated with symbolic signatures."""
    return [name for name, profile in PROFILES.items() if profile.symbolic]


def differs(profile: str, seed: int) -> str:
    """How the two runs of a seed differ, or what is violated; "": they have one history, and it is right."""
    symbolic, real = (run_seed(profile, seed, real_signatures=chosen) for chosen in (False, True))
    if symbolic.digest != real.digest:
        return f"another history with real signatures: {real.digest} instead of {symbolic.digest}"
    return f"{real.violations[0]}" if real.violations else ""


def main() -> int:
    """Compare; 0 if the claim holds."""
    parser = ArgumentParser(description="compare histories with symbolic and with real signatures")
    parser.add_argument("--seeds", default="0:50", help="FIRST:STOP")
    parser.add_argument("--profile", action="append", choices=symbolic_profiles())
    args = parser.parse_args()
    first, stop = map(int, args.seeds.split(":"))
    wrong = 0
    for profile in args.profile or symbolic_profiles():
        found = {seed: text for seed in range(first, stop) if (text := differs(profile, seed))}
        for seed, text in found.items():
            sys.stdout.write(f"{profile} {seed}: {text}\n")
        sys.stdout.write(f"{profile}: {stop - first - len(found)} of {stop - first} seeds have one history\n")
        sys.stdout.flush()
        wrong += len(found)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
