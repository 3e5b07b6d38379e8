"""S9: a MergeView names, for every member, how many multicasts of each other member it missed."""
from __future__ import annotations

from collections.abc import Iterator

from jgroups_py.model.address import Address
from jgroups_py.model.view import MergeView, ViewId
from jgroups_py.simulator import history as h
from jgroups_py.simulator.checkers.facts import Facts, Violation
from jgroups_py.simulator.checkers.losses import Losses, declared_twice, reported_losses
from jgroups_py.windows.ranges import Ranges

Counts = dict[Address, int]
"""Sender -> how many of its multicasts are accounted for at a member: sent before it joined, delivered, or reported
as missed."""


def divergence(facts: Facts) -> Iterator[Violation]:
    """S9: when p comes from a view to a MergeView, `missed` holds, for every other member of it, the number of reliable
    multicasts that this member had delivered to itself and p had not, less what was reported to p before; nothing else.

    A loss that was reported within a view because no member retained the messages counts as reported, up to its
    length (in NAKACK's numbers, of which there are as many as messages, or more). Messages that the group delivered
    before p joined it do not count.
    """
    if facts.interests or facts.too_slow:
        return                       # members that filter topics or skip messages deliver less than what arrived
    yield from _ranges(facts)
    own = _own_multicasts(facts)
    changed = {install.view.id: None for install in facts.installs if install.previous is not None}
    got: dict[Address, Counts] = {}
    group: dict[ViewId, Counts] = {}                 # view -> the counts of those that came there from another view
    joined: dict[ViewId, list[Address]] = {}         # view -> members that began with it and wait for these counts
    for event in _installs_and_deliveries(facts):
        mine = got.setdefault(event.member, {})
        if isinstance(event, h.MessageDelivered):
            mine[event.src] = mine.get(event.src, 0) + sum(1 for payload in event.payloads if _counts(facts, payload))
        elif event.previous is None:
            if event.view.id in group:
                _join([event.member], got, group[event.view.id])
            elif event.view.id in changed:
                joined.setdefault(event.view.id, []).append(event.member)
        else:
            if not any(event.member in waiting for waiting in joined.values()):
                yield from _check_missed(facts, event, mine, own)
            if event.view.id not in group:
                group[event.view.id] = dict(mine)
                _join(joined.pop(event.view.id, []), got, mine)


def _join(joiners: list[Address], got: dict[Address, Counts], counts: Counts) -> None:
    """Give joiners the counts of the group that they joined."""
    for joiner in joiners:
        for sender, number in counts.items():
            got[joiner][sender] = got[joiner].get(sender, 0) + number


def _check_missed(
    facts: Facts, event: h.InstalledView, mine: Counts, own: dict[tuple[Address, ViewId], int],
) -> Iterator[Violation]:
    view = event.view
    if not isinstance(view, MergeView):
        return
    for sender, number in view.missed.items():
        # It left or crashed meanwhile, is apart again, or never installs this view.
        if sender not in view or (sender, view.id) not in own:
            mine[sender] = mine.get(sender, 0) + number
    for member in view.members:
        sent = own.get((member, view.id))
        if sent is not None and member != event.member:
            lacks, reported = sent - mine.get(member, 0), view.missed.get(member, 0)
            mine[member] = sent
            if not reported <= lacks <= reported + facts.unretained.get((event.member, member), 0):
                yield Violation("S9", f"{facts.show_id(view)} reports to {facts.name(event.member)} that it missed "
                                f"{reported} multicasts of {facts.name(member)}; it lacks {lacks}", event.at_ns)


def _ranges(facts: Facts) -> Iterator[Violation]:
    """With RELAY: between two relayed multicasts of its own site that a member delivers, each number that it lacks is
    declared lost (messages_lost with its own site) exactly once, and no number that it delivers is, nor one that was
    sent before it joined."""
    reported: Losses = {}
    reports = reported_losses(facts, own_site=True)
    yield from declared_twice(facts, "S9", reports, reported)
    for lost in reports:
        yield from _not_owed(facts, lost)
    delivered: dict[tuple[Address, Address], dict[int, h.MessageDelivered]] = {}
    for delivery, message in facts.local_deliveries(unicast=False):
        if message.relay_number:
            delivered.setdefault((delivery.member, message.sender), {})[message.relay_number] = delivery
    for (member, origin), numbers in reported.items():
        theirs = delivered.get((member, origin), {})
        for number in [number for number in theirs if number in numbers]:
            yield Violation("S9", f"{facts.name(member)} delivered number {number} of {facts.name(origin)}, of its "
                            "own site, which was declared lost to it", theirs[number].at_ns)
    for (member, origin), deliveries in delivered.items():
        lost_here = reported.get((member, origin), Ranges())
        for number in range(min(deliveries), max(deliveries)):
            if facts.history.sites.get(member) and number not in deliveries and number not in lost_here:
                yield Violation("S9", f"{facts.name(member)} never delivered number {number} of {facts.name(origin)}, "
                                "of its own site, and it was not declared lost", deliveries[max(deliveries)].at_ns)
                break


def _not_owed(facts: Facts, lost: h.Lost) -> Iterator[Violation]:
    """A member that was alone until its first view with the origin is a joiner in that view."""
    for install in facts.installs_of.get(lost.member, ()):
        if lost.origin in install.view:
            sent = facts.by_relay_number.get(lost.origin, ())
            if lost.first <= len(sent) and sent[lost.first - 1].at_ns < install.at_ns <= lost.at_ns:
                yield Violation("S9", f"number {lost.first} of {facts.name(lost.origin)} was declared lost to "
                                f"{facts.name(lost.member)}, of its own site, which joined later", lost.at_ns)
            return
        if len(install.view) > 1:
            return


def _counts(facts: Facts, payload: bytes) -> bool:
    message = facts.messages.get(payload)
    return message is not None and message.reliable


def _installs_and_deliveries(facts: Facts) -> Iterator[h.InstalledView | h.MessageDelivered]:
    """In order of time: view changes, and deliveries of multicasts of a member's own group."""
    for entry in facts.history.entries:
        if isinstance(entry, h.InstalledView) or (
                isinstance(entry, h.MessageDelivered) and entry.dest is None and facts.is_local(entry)):
            yield entry


def _own_multicasts(facts: Facts) -> dict[tuple[Address, ViewId], int]:
    """(member, view) -> how many multicasts it had delivered to itself when it installed that view."""
    so_far: Counts = {}
    found: dict[tuple[Address, ViewId], int] = {}
    for event in _installs_and_deliveries(facts):
        if isinstance(event, h.InstalledView):
            found[event.member, event.view.id] = so_far.get(event.member, 0)
        elif event.src == event.member:
            so_far[event.member] = so_far.get(event.member, 0) + sum(1 for p in event.payloads if _counts(facts, p))
    return found
