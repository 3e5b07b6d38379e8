"""W1 to W4: the guarantees of SWIM alone, a membership without views.

W1 and W2 are strong completeness and eventual strong accuracy (Chandra, Toueg, "Unreliable Failure Detectors", 1996),
judged at the end of a run that healed; before that, members may be wrong about each other for a while. W3 and W4 hold
at all times.
"""
from __future__ import annotations

from collections.abc import Iterator

from jgroups_py.model.address import Address
from jgroups_py.model.swim_member import FAILED, JOINED, MEMBER_LEFT
from jgroups_py.simulator import history as h
from jgroups_py.simulator.checkers.facts import Facts, Violation

GONE = (FAILED, MEMBER_LEFT)


def latest(facts: Facts) -> dict[tuple[Address, Address], h.MembershipChange]:
    """(member, incarnation) -> the last change of that incarnation that the member reported."""
    return {(change.member, change.subject.address): change for change in facts.membership_changes}


def alone(facts: Facts) -> bool:
    """Whether SWIM is the membership here, not GMS."""
    return bool(facts.membership_changes) and not facts.installs


def completeness(facts: Facts) -> Iterator[Violation]:
    """W1: in the end every live member holds every incarnation that ended for failed, left or replaced by another."""
    if facts.end is None or not alone(facts):
        return
    live = dict.fromkeys(facts.live())
    current = {(change.member, change.subject.name): change for change in facts.membership_changes}
    for (observer, subject), change in latest(facts).items():
        replaced = current[observer, change.subject.name].subject.address != subject
        if observer in live and subject not in live and change.change not in GONE and not replaced:
            yield Violation("W1", f"{facts.name(observer)} still holds {facts.name(subject)} for "
                            f"{change.subject.state}", facts.end.at_ns)


def accuracy(facts: Facts) -> Iterator[Violation]:
    """W2: in the end every live member holds every other live one for alive."""
    if facts.end is None or facts.healed_ns is None or not alone(facts):
        return
    last, live = latest(facts), list(facts.live())
    for observer in live:
        for subject in live:
            change = last.get((observer, subject))
            if subject != observer and (change is None or change.change in GONE):
                what = "never learned of" if change is None else f"holds for {change.subject.state}"
                yield Violation("W2", f"{facts.name(observer)} {what} {facts.name(subject)}, which is alive",
                                facts.end.at_ns)


def incarnations(facts: Facts) -> Iterator[Violation]:
    """W3: the incarnation of a name never goes back at one member, not through restarts either."""
    if not alone(facts):
        return              # under GMS, SWIM forgets a member that left the view: its incarnation number begins anew
    highest: dict[tuple[Address, str], int] = {}
    for change in facts.membership_changes:
        subject, key = change.subject, (change.member, change.subject.name)
        if subject.incarnation < highest.get(key, 0):
            yield Violation("W3", f"{facts.name(change.member)} reported incarnation {subject.incarnation} of "
                            f"{subject.name} after {highest[key]}", change.at_ns)
        highest[key] = max(highest.get(key, 0), subject.incarnation)


def departures(facts: Facts) -> Iterator[Violation]:
    """W4: once a member reported that an incarnation left, it never reports that this incarnation failed or is back."""
    if not alone(facts):
        return
    left: dict[tuple[Address, Address], None] = {}
    for change in facts.membership_changes:
        key = (change.member, change.subject.address)
        if change.change == MEMBER_LEFT:
            left[key] = None
        elif key in left and change.change in (FAILED, JOINED):
            yield Violation("W4", f"{facts.name(change.member)} reported that {facts.name(change.subject.address)} "
                            f"{change.change} after it left", change.at_ns)
