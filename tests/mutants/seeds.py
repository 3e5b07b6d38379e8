"""Runs seeds of the simulator in a process of its own, over whatever sources this process imports.

`python -m tests.mutants.seeds survey PROFILE SECONDS` runs seeds from 0 on for so many CPU seconds and prints one line
of JSON for each: what it executes of marked sources, the digest of its history, its cost.
`python -m tests.mutants.seeds judge SECONDS` reads such seeds from stdin and runs them until a checker finds something,
one takes far longer than it did, or the CPU seconds are spent; prints one line of JSON.
"""
from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

import jgroups_py.testing.simulation.applications  # noqa: F401  registers those of profiles
from jgroups_py.simulator.runner import Outcome, rare_collections, run_seed
from tests.mutants import lines
from tests.mutants.patience import Overrun, at_most

SLOWER = 10
PATIENCE_S = 5.0
"""A seed hangs if it takes so many times what it took, and these CPU seconds on top."""
ALL_THE_SAME = 40
"""After so many seeds that all went as without the mutant, it is taken for one that makes no difference here."""
SHOWN = 300


def survey(profile: str, budget_s: float) -> Iterator[dict[str, Any]]:
    """What seeds of a profile execute, until the CPU seconds are spent."""
    began_s, seed = time.process_time(), 0
    while time.process_time() - began_s < budget_s:
        lines.forget()
        outcome = run_seed(profile, seed)
        yield {"profile": profile, "seed": seed, "digest": outcome.digest, "cpu_s": round(outcome.cpu_s, 3),
               "lines": lines.executed(), "failed": list(outcome.violations[:1])}
        seed += 1


def judge(seeds: Iterable[dict[str, Any]], budget_s: float) -> dict[str, Any]:
    """kind: killed, timeout or survived; by: the command that shows it; seeds, other: how many were run, how many of
    them went another way than without the mutant."""
    began_s = time.process_time()
    run = other = 0
    for seed in seeds:
        if time.process_time() - began_s >= budget_s or (run >= ALL_THE_SAME and not other):
            break
        run += 1
        command = f"jgroups sim --profile {seed['profile']} --seed {seed['seed']}"
        try:
            with at_most(seed["cpu_s"] * SLOWER + PATIENCE_S):
                outcome: Outcome = run_seed(seed["profile"], seed["seed"])
        except Overrun:
            return verdict("timeout", command, "it does not end", run, other, began_s)
        except MemoryError:
            return verdict("killed", command, "it takes all memory", run, other, began_s)
        other += outcome.digest != seed["digest"]
        if outcome.violations:
            what = f"{', '.join(outcome.guarantees)}: {outcome.violations[0]}"
            return verdict("killed", command, what, run, other, began_s)
    return verdict("survived", "", "", run, other, began_s)


def verdict(kind: str, by: str, what: str, run: int, other: int, began_s: float) -> dict[str, Any]:
    """The line that is printed."""
    return {"kind": kind, "by": by, "what": what[-SHOWN:], "seeds": run, "other": other,
            "cpu_s": round(time.process_time() - began_s, 2)}


def main(words: list[str]) -> int:
    """The command."""
    with rare_collections():
        if words[0] == "survey":
            for found in survey(words[1], float(words[2])):
                sys.stdout.write(json.dumps(found) + "\n")
        else:
            sys.stdout.write(json.dumps(judge(json.load(sys.stdin), float(words[1]))) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
