"""How many multicasts each sender's application has sent in all views, and how many of them a member has missed.

Problem: members of different partitions deliver different multicasts (virtual synchrony speaks only of members that go
from view to view together), and after a merge an application cannot see that. Idea: numbers begin at 1 in each view,
but every view change ends with an agreed cut, so the counts over all views are agreed too. Each Install carries them
(`sent`); a member knows its own counts from the Install of its view and what it delivered in that view. At a merge the
counts of the groups are united, the higher one for each sender, and what a member missed is the difference (S9).

The counts of members that left are kept for the last DEPARTED of them: a member of the other partition may have sent,
and crashed, before the merge.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping

from jgroups_py.model.address import Address
from jgroups_py.model.counter_jumps import TOP

SentCounts = Mapping[Address, int]
"""Sender -> how many multicasts of its application."""

DEPARTED = 64                 # as many as sit in a large group; 24 bytes each in every Install


def after_view(before: SentCounts, delivered: SentCounts) -> dict[Address, int]:
    """The counts at the end of a view: those `before` it, and what was delivered of each of its members in it.

    The members of the view stand last; of the others only the last DEPARTED are kept. Counts stay below what the codec
    takes, whatever a peer claims.
    """
    departed = [sender for sender in before if sender not in delivered]
    kept = {sender: before[sender] for sender in departed[-DEPARTED:]}
    now = {sender: before.get(sender, 0) + number for sender, number in delivered.items()}
    return {sender: min(number, TOP) for sender, number in (kept | now).items()}


def united(groups: Iterable[SentCounts], members: Iterable[Address]) -> dict[Address, int]:
    """The counts of groups that merge to a view of `members`: of each sender, those of the group that knows of more."""
    highest: dict[Address, int] = {}
    for counts in groups:
        for sender, number in counts.items():
            highest[sender] = max(number, highest.get(sender, 0))
    return after_view(highest, dict.fromkeys(members, 0))


def missed_counts(agreed: SentCounts, mine: SentCounts, me: Address) -> dict[Address, int]:
    """Sender -> how many of its multicasts this member has not delivered."""
    return {sender: number - mine.get(sender, 0) for sender, number in agreed.items()
            if sender != me and number > mine.get(sender, 0)}
