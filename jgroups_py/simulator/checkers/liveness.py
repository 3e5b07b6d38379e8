"""L: after all faults healed, the group comes to rest and everything sent arrives.

It covers messages sent under faults, too: of members that live to the end and have each other in every view from that
of the send on, one must deliver what the other sent, whatever faults hit other members and the network meanwhile.
"""
from __future__ import annotations

from collections.abc import Iterator

from jgroups_py.model.address import Address
from jgroups_py.simulator.checkers.facts import Facts, SentMessage, Violation
from jgroups_py.simulator.checkers.together import Together


def liveness(facts: Facts) -> Iterator[Violation]:
    """L: after faults heal: one exact view, own messages delivered, every send terminates.

    Judged at the end of a run that healed. Own messages are the reliable multicasts of members that still run. A
    message reaches those members of the view of its send (or the unicast's destination) that were in all views of the
    sender from there to the end, as the sender was in theirs. So a message of the final view reaches all its members.
    """
    end = facts.end
    if end is None or facts.healed_ns is None:
        return
    if facts.membership_changes and not facts.installs:
        return                                            # SWIM alone has no views and no messages: see W1 and W2
    for text in (*_views(facts), *_leavers(facts), *_pending(facts), *_messages(facts)):
        yield Violation("L", text, end.at_ns)


def _sites(facts: Facts) -> dict[str, list[Address]]:
    sites: dict[str, list[Address]] = {}
    for member in facts.live():
        sites.setdefault(facts.site(member), []).append(member)
    return sites


def _views(facts: Facts) -> Iterator[str]:
    for members in _sites(facts).values():
        first = facts.final_view(members[0])
        for member in members:
            view = facts.final_view(member)
            if view is None or sorted(view.members) != sorted(members) or view != first:
                shown = facts.history.view(view)
                yield f"{facts.name(member)} ends in {shown}, but {facts.history.members(members)} are alive"


def _leavers(facts: Facts) -> Iterator[str]:
    for member in facts.leaving:
        yield f"{facts.name(member)} asked to leave and never left"


def _pending(facts: Facts) -> Iterator[str]:
    assert facts.end is not None, "judged at the end"
    for member, nbytes in facts.end.live.items():
        if nbytes:
            yield f"{facts.name(member)} still queues {nbytes} bytes that its application sent"


def _messages(facts: Facts) -> Iterator[str]:
    live = dict.fromkeys(facts.live())
    got: dict[Address, set[bytes]] = {member: set() for member in live}
    for delivery in facts.deliveries:
        if delivery.member in got:
            got[delivery.member].update(delivery.payloads)
    reported: dict[tuple[Address, Address], None] = {}
    undelivered: dict[tuple[Address, Address], int] = {}       # (sender, member) -> messages never delivered
    together = Together(facts)
    for message in facts.messages.values():
        if message.sender not in live or not message.reliable:
            continue
        for member in _must_have(message, together):
            if member not in live or message.payload in got[member] or (message.sender, member) in reported or \
                    facts.may_lack(member, message):
                continue
            undelivered[message.sender, member] = undelivered.get((message.sender, member), 0) + (message.dest is None)
            if message.dest is not None or undelivered[message.sender, member] > facts.skipped(member, message.sender):
                reported[message.sender, member] = None
                yield (f"{facts.name(member)} never delivered {facts.show(message.payload)} of "
                       f"{facts.name(message.sender)}" + ("" if member == message.sender else
                                                          ", though each was in every view of the other"))


def _must_have(message: SentMessage, together: Together) -> list[Address]:
    """The destinations that were together with the sender from the view of the send to the end."""
    view, sender = message.view, message.sender
    wanted = (message.dest,) if message.dest is not None else view.members if view is not None else (sender,)
    return [member for member in wanted if member == sender or together.since(sender, member, view)]
