"""W1 to W4: what SWIM alone promises, a membership without views.

W1 and W2 are what Chandra and Toueg call strong completeness and (eventual, strong) accuracy, judged at the end of a
run that healed: until then members may be wrong about each other, and only for a while. W3 and W4 hold all the time.
"""
from __future__ import annotations

from collections.abc import Iterator

from jgroups_py.address import Address
from jgroups_py.members import FAILED, JOINED, MEMBER_LEFT
from jgroups_py.sim import history as h
from jgroups_py.sim.checkers.facts import Facts, Violation

GONE = (FAILED, MEMBER_LEFT)


def latest(facts: Facts) -> dict[tuple[Address, Address], h.MemberSaid]:
    """(who, member) -> the last that `who` heard of that start of it."""
    return {(news.who, news.member.address): news for news in facts.member_news}


def alone(facts: Facts) -> bool:
    """Whether SWIM is the membership here, not GMS."""
    return bool(facts.member_news) and not facts.installs


def completeness(facts: Facts) -> Iterator[Violation]:
    """W1: in the end every live member holds every start that is over for failed, left, or replaced by another one."""
    if facts.end is None or not alone(facts):
        return
    live = dict.fromkeys(facts.live())
    current = {(news.who, news.member.name): news for news in facts.member_news}
    for (who, member), news in latest(facts).items():
        replaced = current[who, news.member.name].member.address != member
        if who in live and member not in live and news.change not in GONE and not replaced:
            yield Violation("W1", f"{facts.name(who)} still holds {facts.name(member)} for {news.member.state}",
                            facts.end.at_ns)


def accuracy(facts: Facts) -> Iterator[Violation]:
    """W2: in the end every live member holds every other one for alive."""
    if facts.end is None or facts.healed_ns is None or not alone(facts):
        return
    last, live = latest(facts), list(facts.live())
    for who in live:
        for member in live:
            news = last.get((who, member))
            if member != who and (news is None or news.change in GONE):
                what = "never heard of" if news is None else f"holds for {news.member.state}"
                yield Violation("W2", f"{facts.name(who)} {what} {facts.name(member)}, which is there", facts.end.at_ns)


def incarnations(facts: Facts) -> Iterator[Violation]:
    """W3: the incarnation of a name never goes back at one member, not through restarts either."""
    if not alone(facts):
        return                                            # under GMS who leaves the view is forgotten, and begins anew
    highest: dict[tuple[Address, str], int] = {}
    for news in facts.member_news:
        member, key = news.member, (news.who, news.member.name)
        if member.incarnation < highest.get(key, 0):
            yield Violation("W3", f"{facts.name(news.who)} heard of incarnation {member.incarnation} of {member.name} "
                            f"after {highest[key]}", news.at_ns)
        highest[key] = max(highest.get(key, 0), member.incarnation)


def departures(facts: Facts) -> Iterator[Violation]:
    """W4: who has heard that a member left does not hear later that this start of it failed, or is back."""
    if not alone(facts):
        return
    left: dict[tuple[Address, Address], None] = {}
    for news in facts.member_news:
        key = (news.who, news.member.address)
        if news.change == MEMBER_LEFT:
            left[key] = None
        elif key in left and news.change in (FAILED, JOINED):
            yield Violation("W4", f"{facts.name(news.who)} heard that {facts.name(news.member.address)} "
                            f"{news.change} after it left", news.at_ns)
