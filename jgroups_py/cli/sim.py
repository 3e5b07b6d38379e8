"""`jgroups sim`: run the production core on a virtual network under faults, and check what is guaranteed.

Every seed is a world of its own: its members, faults and traffic follow from the number. A failing seed prints the
violated guarantees and one command that reproduces it; with --shrink also the fewest faults that still break it, and
the end of that history.
"""
from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import Any

import attrs

from jgroups_py.sim.profiles import PROFILES
from jgroups_py.sim.runner import Outcome, run_seed, run_seeds, shrink
from jgroups_py.units import NS_PER_S

SHOWN_VIOLATIONS = 5
SHOWN_HISTORY_LINES = 60


@attrs.define
class Sum:
    """What all seeds add up to."""

    seeds: int = 0
    failed: int = 0
    violations: int = 0
    sim_s: float = 0.0
    group_s: float = 0.0
    cpu_s: float = 0.0
    faults: int = 0

    def add(self, outcome: Outcome) -> None:
        """One more seed."""
        self.seeds += 1
        self.failed += bool(outcome.violations)
        self.violations += len(outcome.violations)
        self.sim_s += outcome.sim_ns / NS_PER_S
        self.group_s += outcome.sim_ns / NS_PER_S * outcome.groups
        self.cpu_s += outcome.cpu_s
        self.faults += len(outcome.faults)

    @property
    def speed(self) -> float:
        """Simulated group-seconds per second of one core."""
        return self.group_s / self.cpu_s if self.cpu_s else 0.0

    def __str__(self) -> str:
        return (f"{self.seeds} seeds, {self.failed} failed, {self.violations} violations, {self.sim_s:.0f} simulated "
                f"seconds, {self.faults} faults, {self.speed:.0f} simulated group-seconds per second of one core")


def seed_range(text: str) -> range:
    """A:B, half-open.

    >>> seed_range("3:5")
    range(3, 5)
    """
    first, colon, stop = text.partition(":")
    try:
        seeds = range(int(first), int(stop))
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not A:B, two whole numbers") from None
    if not colon or not seeds:
        raise ArgumentTypeError(f"{text!r} has no seeds: write the first one and the one after the last")
    return seeds


def add_parser(subparsers: Any) -> None:
    """Add `sim` to the command line."""
    parser: ArgumentParser = subparsers.add_parser(
        "sim", help="run seeds of the simulator and check the guarantees", description=__doc__.split("\n\n")[0])
    parser.add_argument("--profile", choices=sorted(PROFILES), default="group", help="kind of world (default: group)")
    parser.add_argument("--seeds", type=seed_range, default=range(100), metavar="A:B",
                        help="seeds to run, half-open (default: 0:100)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N",
                        help="processes to use (default: one per core)")
    parser.add_argument("--shrink", action="store_true", help="look for the fewest faults that still fail a seed")
    parser.add_argument("--history", action="store_true", help="print the whole history of each seed")
    parser.add_argument("--json", action="store_true", help="print one JSON document a seed, and one with the sum")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Run the seeds; 1 if one fails."""
    total = Sum()
    for outcome in outcomes(args):
        total.add(outcome)
        if args.json:
            say(json.dumps(as_json(outcome)))
        elif outcome.violations:
            show_failure(outcome, args)
        elif args.history:
            say("\n".join(outcome.history))
    say(json.dumps({**attrs.asdict(total), "group_s_per_core_s": total.speed}) if args.json else str(total))
    return 1 if total.failed else 0


def outcomes(args: Namespace) -> Any:
    """The outcomes, with histories if they are to be shown."""
    if args.history:
        return (run_seed(args.profile, seed, keep=True) for seed in args.seeds)
    return run_seeds(args.profile, args.seeds, min(args.jobs, len(args.seeds)))


def as_json(outcome: Outcome) -> dict[str, object]:
    """An outcome without its history."""
    return {
        "profile": outcome.profile, "seed": outcome.seed, "ok": not outcome.violations,
        "violations": list(outcome.violations), "guarantees": list(outcome.guarantees), "digest": outcome.digest,
        "sim_s": outcome.sim_ns / NS_PER_S, "faults": list(outcome.faults), "cpu_s": outcome.cpu_s,
        "reproduce": outcome.command,
    }


def show_failure(outcome: Outcome, args: Namespace) -> None:
    """What is broken, and how to see it again."""
    say(f"seed {outcome.seed} breaks {', '.join(outcome.guarantees)}; reproduce: {outcome.command}")
    for text in outcome.violations[:SHOWN_VIOLATIONS]:
        say(f"  {text}")
    if len(outcome.violations) > SHOWN_VIOLATIONS:
        say(f"  and {len(outcome.violations) - SHOWN_VIOLATIONS} more")
    lines = outcome.history
    if args.shrink:
        least, without = shrink(outcome)
        say(f"  {len(least.faults)} faults are enough ({len(without)} left out):")
        for text in (*least.faults, *least.violations[:SHOWN_VIOLATIONS]):
            say(f"    {text}")
        lines = least.history
    if args.shrink or args.history:
        say("\n".join(lines if args.history else lines[-SHOWN_HISTORY_LINES:]))


def say(text: str) -> None:
    """A line on stdout."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
