"""Which part of a seed's plan is run: all of it, or what shrinking left.

The actions of a plan are numbered, its faults first. They are drawn before the run begins and draw nothing themselves,
so a part behaves the same wherever it is run, and `--only 3,7-9 --until 6.2s` defines it completely.
"""
from __future__ import annotations

from collections.abc import Iterable

import attrs

from jgroups_py.model.units import NS_PER_S
from jgroups_py.simulator.faults.actions import Action, Begin
from jgroups_py.simulator.profiles import Plan


@attrs.frozen
class PlanPart:
    """only: the numbers of the actions to keep, None for all; until_ns: when everything heals, None: as planned."""

    only: frozenset[int] | None = None
    until_ns: int | None = None

    def stop_ns(self, plan: Plan) -> int:
        """When everything heals."""
        return plan.stop_ns if self.until_ns is None else self.until_ns

    def actions(self, plan: Plan) -> list[tuple[int, Action]]:
        """The actions with their numbers, in order of time; of one instant, traffic comes first.

        Actions after `until_ns` are left out, but a member that was to start later starts at the end.
        """
        found = [(number, self._in_time(action)) for number, action in enumerate(actions_of(plan))
                 if self.only is None or number in self.only]
        faults = len(plan.faults)
        return sorted([(number, action) for number, action in found if action is not None],
                      key=lambda item: (item[1].at_ns, item[0] < faults))

    def _in_time(self, action: Action) -> Action | None:
        if self.until_ns is None or action.at_ns < self.until_ns:
            return action
        return attrs.evolve(action, at_ns=self.until_ns) if isinstance(action, Begin) else None

    def options(self, prefix: str = "--") -> str:
        """The command-line options for this part, which begin with `prefix`; "" for the whole plan.

        >>> PlanPart(frozenset((3, 7, 8, 9)), 6_200_000_000).options()
        ' --only 3,7-9 --until 6.2s'
        """
        only = "" if self.only is None else f" {prefix}only {show_numbers(self.only)}"
        return only + ("" if self.until_ns is None else f" {prefix}until {self.until_ns / NS_PER_S:g}s")


WHOLE = PlanPart()


def actions_of(plan: Plan) -> tuple[Action, ...]:
    """All actions of a plan; the place of each is its number."""
    return (*plan.faults, *plan.traffic)


def show_numbers(numbers: Iterable[int]) -> str:
    """Numbers and ranges of them.

    >>> show_numbers([9, 3, 7, 8])
    '3,7-9'
    >>> show_numbers([])
    'none'
    """
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in ranges) or "none"


def parse_numbers(text: str) -> frozenset[int]:
    """What `show_numbers` wrote.

    >>> sorted(parse_numbers("3,7-9"))
    [3, 7, 8, 9]

    Raises:
        ValueError: the text is malformed.
    """
    found: set[int] = set()
    for piece in text.split(",") if text != "none" else ():
        first, _, last = piece.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)
