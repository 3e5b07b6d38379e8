"""What was declared lost to members, by ranges: for S9 and R3."""
from __future__ import annotations

from collections.abc import Iterator

from jgroups_py.model.address import Address
from jgroups_py.simulator import history as h
from jgroups_py.simulator.checkers.facts import Facts, Violation
from jgroups_py.windows.ranges import Ranges

Losses = dict[tuple[Address, Address], Ranges]
"""(Member, origin) -> the numbers declared lost; ranges, since a forged loss may span 2**60 numbers."""


def reported_losses(facts: Facts, own_site: bool) -> list[h.Lost]:
    """The reports of losses of a member's own site, or of other sites, in order of time."""
    return [lost for lost in facts.lost
            if isinstance(lost, h.Lost) and (lost.site == facts.history.sites.get(lost.member)) == own_site]


def declared_twice(facts: Facts, guarantee: str, reports: list[h.Lost], losses: Losses) -> Iterator[Violation]:
    """Numbers that were declared lost to a member before. Adds the reports to `losses`."""
    for lost in reports:
        numbers = losses.setdefault((lost.member, lost.origin), Ranges())
        for number, _ in numbers.overlap(lost.first, lost.stop):
            is_own = lost.site == facts.history.sites.get(lost.member)
            origin = facts.name(lost.origin) if is_own else f"{facts.name(lost.origin)} at {lost.site}"
            member = f"{facts.name(lost.member)}, of its own site" if is_own else facts.name(lost.member)
            yield Violation(guarantee, f"number {number} of {origin} was declared lost twice to {member}", lost.at_ns)
        numbers.add(lost.first, lost.stop)
