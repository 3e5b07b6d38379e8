"""`jgroups sim`: run the production core on a virtual network under faults, and check what is guaranteed.

Every seed is a world of its own: its members, faults and traffic follow from the number. A failing seed is shrunk to
the few actions that still break the same guarantee, and printed with a command that runs only these and a picture of
what happened. That command uses `--only` and `--until`; by hand they try a variation.
"""
from __future__ import annotations

import json
import os
import time
from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction, Namespace
from collections import Counter
from collections.abc import Iterable
from typing import Any

import attrs

from jgroups_py.cli import showing
from jgroups_py.model.units import NS_PER_S, parse_duration
from jgroups_py.simulator.plan_parts import PlanPart, parse_numbers
from jgroups_py.simulator.profiles import PROFILES
from jgroups_py.simulator.runner import Outcome, run_seed, run_seeds
from jgroups_py.simulator.shrink import shrink_seed, story
from jgroups_py.testing.simulation import applications as applications  # registers those of profiles

SHOWN_VIOLATIONS = 5
SHRINK_SECONDS = 30.0
SECONDS_AN_HOUR = 3600


@attrs.define
class Sum:
    """The sums over all seeds."""

    seeds: int = 0
    failed: int = 0
    violations: int = 0
    sim_s: float = 0.0
    group_s: float = 0.0
    cpu_s: float = 0.0
    events: int = 0
    frames: int = 0
    faults: int = 0
    by_kind: Counter[str] = attrs.field(factory=Counter)
    reached: Counter[str] = attrs.field(factory=Counter)

    def add(self, outcome: Outcome) -> None:
        """One more seed."""
        self.seeds += 1
        self.failed += bool(outcome.violations)
        self.violations += len(outcome.violations)
        self.sim_s += outcome.sim_ns / NS_PER_S
        self.group_s += outcome.sim_ns / NS_PER_S * outcome.groups
        self.cpu_s += outcome.cpu_s
        self.events += outcome.events
        self.frames += outcome.frames
        self.faults += sum(outcome.injected.values())
        self.by_kind.update(outcome.injected)
        self.reached.update(outcome.reached)

    def join(self, other: Sum) -> None:
        """The seeds of another sum as well."""
        for field in attrs.fields(Sum):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    @property
    def speed(self) -> float:
        """Simulated group-seconds per second of one core."""
        return self.group_s / self.cpu_s if self.cpu_s else 0.0

    def as_json(self) -> dict[str, object]:
        """For `--json`."""
        return {**attrs.asdict(self), "by_kind": dict(self.by_kind.most_common()),
                "reached": dict(sorted(self.reached.items())),
                "sim_hours": self.sim_s / SECONDS_AN_HOUR, "group_s_per_core_s": self.speed}

    def kinds(self) -> str:
        """How many faults of each kind were injected."""
        return "faults by kind: " + (", ".join(f"{kind} {number}" for kind, number in self.by_kind.most_common())
                                     or "none")

    def states(self) -> str:
        """How often each counted state was reached."""
        return "reached: " + (", ".join(f"{state} {number}" for state, number in sorted(self.reached.items())) or "-")

    def __str__(self) -> str:
        return (f"{self.seeds} seeds, {self.failed} failed, {self.violations} violations, {self.sim_s:.0f} simulated "
                f"seconds ({self.sim_s / SECONDS_AN_HOUR:.1f} hours), {self.events} events, {self.frames} frames, "
                f"{self.faults} faults, {self.speed:.0f} simulated group-seconds per second of one core")


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


def one_seed(text: str) -> range:
    """N, as a range of it alone.

    >>> one_seed("7")
    range(7, 8)
    """
    return seed_range(f"{text}:{int(text) + 1}") if text.isdigit() else seed_range(text)


def action_numbers(text: str) -> frozenset[int]:
    """Numbers and ranges of them, as `--only` is printed."""
    try:
        return parse_numbers(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a list of numbers and ranges like 3,7-9") from None


def add_parser(subparsers: Any) -> None:
    """Add `sim` to the command line."""
    parser: ArgumentParser = subparsers.add_parser(
        "sim", help="run seeds of the simulator and check the guarantees", description=__doc__.split("\n\n")[0])
    parser.add_argument("--profile", choices=sorted(PROFILES), default="group", help="kind of world (default: group)")
    parser.add_argument("--seeds", type=seed_range, default=range(100), metavar="A:B",
                        help="seeds to run, half-open (default: 0:100)")
    parser.add_argument("--seed", type=one_seed, dest="seeds", metavar="N", help="one seed")
    parser.add_argument("--only", type=action_numbers, metavar="N,N-N", help="do only these actions of each plan")
    parser.add_argument("--until", type=parse_duration, metavar="TIME", help="let everything heal then, not later")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N",
                        help="processes to use (default: one per core)")
    parser.add_argument("--shrink", action=BooleanOptionalAction, default=True,
                        help="look for the fewest actions that still fail a seed (default: yes)")
    parser.add_argument("--shrink-seconds", type=float, default=SHRINK_SECONDS, metavar="S",
                        help=f"time for that, for all failing seeds together (default: {SHRINK_SECONDS:g})")
    parser.add_argument("--real-signatures", action="store_true", help="sign and verify for real in profiles that "
                        "take symbolic signatures; the histories are the same, hash for hash")
    parser.add_argument("--picture", action="store_true",
                        help="draw each seed as a Lamport diagram (a failing one that was shrunk is drawn anyway)")
    parser.add_argument("--history", action="store_true", help="print the whole history of each seed")
    parser.add_argument("--json", action="store_true", help="print one JSON document a seed, and one with the sum")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Run the seeds; 1 if one fails."""
    total = Sum()
    shrink_s = args.shrink_seconds if args.shrink and args.only is None else 0.0
    for outcome in outcomes(args):
        total.add(outcome)
        least, took_s = shrunk(outcome, shrink_s)
        shrink_s -= took_s
        if args.json:
            print_text(json.dumps(as_json(outcome, least)))
        else:
            show(outcome, least, args)
    if args.json:
        print_text(json.dumps(total.as_json()))
    else:
        print_text(total.kinds())
        print_text(total.states())
        print_text(str(total))
    return 1 if total.failed else 0


def outcomes(args: Namespace) -> Iterable[Outcome]:
    """The outcomes, with histories if they are to be shown."""
    part = PlanPart(args.only, args.until)
    if args.history or args.picture:
        return (run_seed(args.profile, seed, part, keep=True, real_signatures=args.real_signatures)
                for seed in args.seeds)
    return run_seeds(args.profile, args.seeds, min(args.jobs, len(args.seeds)), part,
                     real_signatures=args.real_signatures)


def shrunk(outcome: Outcome, limit_s: float) -> tuple[Outcome | None, float]:
    """The shrunk outcome of a failing seed, and the seconds it took; None if there is nothing to shrink, or no time."""
    if not outcome.violations or limit_s <= 0:
        return None, 0.0
    began_s = time.monotonic()
    return shrink_seed(outcome, limit_s), time.monotonic() - began_s


def as_json(outcome: Outcome, least: Outcome | None) -> dict[str, object]:
    """An outcome without its history."""
    document: dict[str, object] = {
        "profile": outcome.profile, "seed": outcome.seed, "ok": not outcome.violations,
        "violations": list(outcome.violations), "guarantees": list(outcome.guarantees), "digest": outcome.digest,
        "sim_s": outcome.sim_ns / NS_PER_S, "events": outcome.events, "frames": outcome.frames,
        "faults": list(outcome.faults), "injected": outcome.injected,
        "cpu_s": outcome.cpu_s, "reproduce": outcome.command,
    }
    if least is not None:
        document["shrunk"] = {
            "faults": list(least.faults), "traffic": list(least.traffic), "violations": list(least.violations),
            "sim_s": least.sim_ns / NS_PER_S, "reproduce": least.command, "picture": list(least.picture)}
    return document


def show(outcome: Outcome, least: Outcome | None, args: Namespace) -> None:
    """Print what a failing seed breaks and how to reproduce it, and the history of a seed if wanted."""
    if outcome.violations:
        print_text(f"seed {outcome.seed} breaks {', '.join(outcome.guarantees)}; reproduce: {outcome.command}")
        for text in shortened(outcome.violations):
            print_text(f"  {text}")
    if least is not None:
        print_text("\n".join([*story(outcome, least, least.command), "", *least.picture, ""]))
    elif args.picture:
        print_text("\n".join(outcome.picture))
    if args.history:
        print_text("\n".join(outcome.history))


def shortened(violations: tuple[str, ...]) -> Iterable[str]:
    """The first few, and how many more there are."""
    yield from violations[:SHOWN_VIOLATIONS]
    if len(violations) > SHOWN_VIOLATIONS:
        yield f"and {len(violations) - SHOWN_VIOLATIONS} more"


def print_text(text: str) -> None:
    """Print lines to stdout; they contain names from scenario files, so control characters are escaped."""
    showing.show(*text.split("\n"))
