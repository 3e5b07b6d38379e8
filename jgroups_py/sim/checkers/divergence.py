"""S9: after a merge every member is told what it missed of the others."""
from __future__ import annotations

from collections.abc import Iterator

from jgroups_py.address import Address
from jgroups_py.sim import history as h
from jgroups_py.sim.checkers.facts import Facts, Violation
from jgroups_py.view import MergeView, ViewId
from jgroups_py.windows.ranges import Ranges

Counts = dict[Address, int]
"""Sender -> how many of its multicasts a member joined after, delivered, or was told that it missed."""


def divergence(facts: Facts) -> Iterator[Violation]:
    """S9: when p comes from a view to a MergeView, `missed` names, for every other member of it, how many reliable
    multicasts that member had delivered to itself and p had not, as far as p was not told before; and nothing else.

    What the members of a group had delivered before p joined it is not p's concern. Where members filter topics or skip
    messages of their own will nothing is said: deliveries show less than what arrived.
    """
    if facts.interests or facts.skipped_in:
        return
    yield from _ranges(facts)
    own = _own_multicasts(facts)
    changed = {install.view.id: None for install in facts.installs if install.previous is not None}
    got: dict[Address, Counts] = {}
    group: dict[ViewId, Counts] = {}                 # view -> the counts of those that came there from another view
    joined: dict[ViewId, list[Address]] = {}         # view -> those that began with it and wait for these counts
    for event in _installs_and_deliveries(facts):
        mine = got.setdefault(event.who, {})
        if isinstance(event, h.Delivery):
            mine[event.src] = mine.get(event.src, 0) + sum(1 for payload in event.payloads if _counts(facts, payload))
        elif event.previous is None:
            if event.view.id in group:
                _join([event.who], got, group[event.view.id])
            elif event.view.id in changed:
                joined.setdefault(event.view.id, []).append(event.who)
        else:
            if not any(event.who in waiting for waiting in joined.values()):
                yield from _judge(facts, event, mine, own)
            if event.view.id not in group:
                group[event.view.id] = dict(mine)
                _join(joined.pop(event.view.id, []), got, mine)


def _join(joiners: list[Address], got: dict[Address, Counts], counts: Counts) -> None:
    """Newcomers begin where the group stands."""
    for joiner in joiners:
        for sender, number in counts.items():
            got[joiner][sender] = got[joiner].get(sender, 0) + number


def _judge(facts: Facts, event: h.Install, mine: Counts, own: dict[tuple[Address, ViewId], int]) -> Iterator[Violation]:
    view = event.view
    if not isinstance(view, MergeView):
        return
    for sender, number in view.missed.items():
        if sender not in view:                       # it left or died meanwhile, or is apart again
            mine[sender] = mine.get(sender, 0) + number
    for member in view.members:
        sent = own.get((member, view.id))
        if sent is not None and member != event.who:
            lacks, told = sent - mine.get(member, 0), view.missed.get(member, 0)
            mine[member] = sent
            if lacks != told:
                yield Violation("S9", f"{facts.name(event.who)} was told in {facts.show_id(view)} that it missed "
                                f"{told} multicasts of {facts.name(member)}; it has not got {lacks}", event.at_ns)


def _ranges(facts: Facts) -> Iterator[Violation]:
    """With RELAY: between two relayed multicasts of its own site that a member delivers in one order, each one that it
    lacks is told by number (messages_lost with its own site), once; and none that it delivers."""
    told: dict[tuple[Address, Address], Ranges] = {}   # a forger may have had any number told
    for lost in facts.lost:
        if isinstance(lost, h.Lost) and lost.site == facts.history.sites.get(lost.who):
            numbers = told.setdefault((lost.who, lost.origin), Ranges())
            for first, stop in numbers.overlap(lost.first, lost.stop):
                yield Violation("S9", f"{facts.name(lost.who)} was told twice that it lost numbers {first} to "
                                f"{stop - 1} of {facts.name(lost.origin)}, of its own site", lost.at_ns)
            numbers.add(lost.first, lost.stop)
    delivered: dict[tuple[Address, Address], dict[int, h.Delivery]] = {}
    for delivery, message in facts.local_deliveries(unicast=False):
        if message.relay_number:
            delivered.setdefault((delivery.who, message.sender), {})[message.relay_number] = delivery
    for (who, origin), numbers in told.items():
        theirs = delivered.get((who, origin), {})
        for number in [number for number in theirs if number in numbers]:
            yield Violation("S9", f"{facts.name(who)} was told that it lost number {number} of "
                            f"{facts.name(origin)}, of its own site, and delivered it", theirs[number].at_ns)
    for (who, origin), deliveries in delivered.items():
        lost_here = told.get((who, origin), Ranges())
        for number in range(min(deliveries), max(deliveries)):
            if facts.history.sites.get(who) and number not in deliveries and number not in lost_here:
                yield Violation("S9", f"{facts.name(who)} never got number {number} of {facts.name(origin)}, of its "
                                "own site, and was not told", deliveries[max(deliveries)].at_ns)
                break


def _counts(facts: Facts, payload: bytes) -> bool:
    message = facts.messages.get(payload)
    return message is not None and message.reliable


def _installs_and_deliveries(facts: Facts) -> Iterator[h.Install | h.Delivery]:
    """In order of time: view changes, and deliveries of multicasts of a member's own group."""
    for entry in facts.history.entries:
        if isinstance(entry, h.Install) or (
                isinstance(entry, h.Delivery) and entry.dest is None and facts.is_local(entry)):
            yield entry


def _own_multicasts(facts: Facts) -> dict[tuple[Address, ViewId], int]:
    """(member, view) -> how many multicasts it had delivered to itself when it installed that view."""
    so_far: Counts = {}
    found: dict[tuple[Address, ViewId], int] = {}
    for event in _installs_and_deliveries(facts):
        if isinstance(event, h.Install):
            found[event.who, event.view.id] = so_far.get(event.who, 0)
        elif event.src == event.who:
            so_far[event.who] = so_far.get(event.who, 0) + sum(1 for p in event.payloads if _counts(facts, p))
    return found
