"""Shrinks a failing seed to the fewest faults, members and actions that still break the same guarantee.

Source: delta debugging, Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (IEEE TSE 2002).
Deviations: the end is brought forward first, since later actions cannot have caused a violation and a shorter run makes
each further try cheaper; a whole member is removed in one step; and when the time is over, the best result so far is
returned. The guarantee of the first violation must stay broken: other guarantees may break for other reasons.
"""
from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from jgroups_py.model.units import NS_PER_MS, seconds
from jgroups_py.simulator.faults.actions import Begin
from jgroups_py.simulator.plan_parts import PlanPart, actions_of
from jgroups_py.simulator.profiles import PROFILES, Plan
from jgroups_py.simulator.runner import Outcome, run_seed

Run = Callable[[PlanPart], Outcome]
SPARE_NS = (NS_PER_MS, seconds(0.5), seconds(2))         # ends to try, after the last action


def story(outcome: Outcome, least: Outcome, again: str) -> Iterable[str]:
    """The result of shrinking: the number of actions, the actions, and the command that runs just these."""
    yield (f"shrunk from {len(outcome.faults)} faults and {len(outcome.traffic)} other actions to {len(least.faults)} "
           f"and {len(least.traffic)}:")
    yield from (f"  {text}" for text in (*least.faults, *least.traffic))
    yield f"run just that: {again}"


def shrink_seed(outcome: Outcome, limit_s: float) -> Outcome:
    """The smallest failing part of a seed that was found within `limit_s` seconds."""
    plan = PROFILES[outcome.profile](outcome.seed).plan
    return shrink(outcome, plan, lambda part: run_seed(outcome.profile, outcome.seed, part), limit_s)


def shrink(outcome: Outcome, plan: Plan, run: Run, limit_s: float) -> Outcome:
    """The smallest outcome found of those that `run` gives for parts of `plan`."""
    return Shrinker(outcome, plan, run, limit_s).shrunk()


class Shrinker:
    """Searches the smallest failing part of one plan."""

    def __init__(self, outcome: Outcome, plan: Plan, run: Run, limit_s: float) -> None:
        assert outcome.guarantees, "only a failing seed can be shrunk"
        self.wanted = outcome.guarantees[0]
        self.plan = plan
        self.best = outcome
        self.kept = frozenset(number for number, _ in outcome.part.actions(plan))
        self.until_ns = outcome.part.until_ns
        self.tries = 0
        self._run = run
        self._deadline_s = time.monotonic() + limit_s

    def shrunk(self) -> Outcome:
        """The smallest outcome found within the time."""
        faults = frozenset(range(len(self.plan.faults)))
        self.end_at(self.best.found_ns)
        before = None
        while before != (self.kept, self.until_ns) and not self.is_over():
            before = self.kept, self.until_ns
            self.fewest(self.kept & faults)
            self.without_members()
            self.without_restarts()
            self.fewest(frozenset(number for number in sorted(self.kept - faults) if not self._starts(number)))
            self.end_early()
        return self.best

    def is_over(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() >= self._deadline_s

    def holds(self, kept: frozenset[int], until_ns: int | None) -> bool:
        """Run a smaller part; whether it still fails, and so becomes the best."""
        if self.is_over():
            return False
        self.tries += 1
        outcome = self._run(PlanPart(kept, until_ns))
        if self.wanted not in outcome.guarantees:
            return False
        self.best, self.kept, self.until_ns = outcome, kept, until_ns
        return True

    # --- the end ----------------------------------------------------------------------------------------------------

    def end_at(self, at_ns: int) -> bool:
        """Try to heal all faults at `at_ns`, if that is earlier; rounded up to ms, to be short in the command."""
        until_ns = -(-at_ns // NS_PER_MS) * NS_PER_MS
        if until_ns >= PlanPart(self.kept, self.until_ns).stop_ns(self.plan):
            return False
        kept = frozenset(number for number, _ in PlanPart(self.kept, until_ns).actions(self.plan))
        return self.holds(kept, until_ns)

    def end_early(self) -> None:
        """Try to heal all faults soon after the last action."""
        last_ns = max((action.at_ns for number, action in enumerate(actions_of(self.plan)) if number in self.kept
                       and not self._starts(number)), default=0)
        for spare_ns in SPARE_NS:
            if self.end_at(last_ns + spare_ns):
                return

    # --- the actions --------------------------------------------------------------------------------------------------

    def fewest(self, candidates: frozenset[int]) -> None:
        """Remove as many of `candidates` as possible: first all, then halves, quarters, ... (ddmin)."""
        pieces = 1
        while candidates and not self.is_over():
            for piece in split(sorted(candidates), pieces):
                if self.holds(self.kept - frozenset(piece), self.until_ns):
                    candidates -= frozenset(piece)
                    pieces = max(pieces - 1, 1)
                    break
            else:
                if pieces >= len(candidates):
                    return
                pieces = min(2 * pieces, len(candidates))

    def without_members(self) -> None:
        """Remove members with all their actions. The first member of a site stays: it is in initial_hosts."""
        for names in self.plan.sites.values():
            for name in reversed(names[1:]):
                mine = frozenset(number for number in sorted(self.kept)
                                 if getattr(actions_of(self.plan)[number], "name", None) == name)
                if mine:
                    self.holds(self.kept - mine, self.until_ns)

    def without_restarts(self) -> None:
        """Remove planned starts of members that have another one."""
        starts: dict[str, list[int]] = {}
        for number in sorted(self.kept):
            action = actions_of(self.plan)[number]
            if self._starts(number) and isinstance(action, Begin):
                starts.setdefault(action.name, []).append(number)
        for numbers in starts.values():
            for number in numbers[:0:-1]:
                self.holds(self.kept - {number}, self.until_ns)

    def _starts(self, number: int) -> bool:
        """Whether the action is a first start of a member, not a fault."""
        return number >= len(self.plan.faults) and isinstance(actions_of(self.plan)[number], Begin)


def split(items: Sequence[int], pieces: int) -> list[Sequence[int]]:
    """`pieces` consecutive slices of nearly the same length.

    >>> split([1, 2, 3, 4, 5], 2)
    [[1, 2], [3, 4, 5]]
    """
    bounds = [len(items) * piece // pieces for piece in range(pieces + 1)]
    return [items[first:stop] for first, stop in pairwise(bounds)]
