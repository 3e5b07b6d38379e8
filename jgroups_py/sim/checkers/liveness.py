"""L: after all faults healed, the group comes to rest and everything sent arrives.

What arrives is not only what is sent when all is well again. Members that live to the end and have each other in every
view, from that of the send on, were never apart for the group: what one of them sent the other must have, whatever
befell the others and the network meanwhile.
"""
from __future__ import annotations

from collections.abc import Iterator

from jgroups_py.address import Address
from jgroups_py.sim.checkers.facts import Facts, Message, Violation
from jgroups_py.sim.checkers.together import Together


def liveness(facts: Facts) -> Iterator[Violation]:
    """L: after faults heal: one exact view, own messages delivered, every send terminates.

    Judged at the end of a run that healed; own messages are the reliable multicasts of members that still live. What
    was sent reaches the members of the view of the send, or the unicast's destination, that were together with the
    sender from there on to the end. What was sent in the final view therefore reaches all its members.
    """
    end = facts.end
    if end is None or facts.healed_ns is None:
        return
    if facts.member_news and not facts.installs:
        return                                            # SWIM alone: no views, no messages; W1 and W2 judge it
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
        yield f"{facts.name(member)} wanted to leave and never got out"


def _pending(facts: Facts) -> Iterator[str]:
    assert facts.end is not None, "judged at the end"
    for member, nbytes in facts.end.live.items():
        if nbytes:
            yield f"{facts.name(member)} still keeps back {nbytes} bytes that its application sent"


def _messages(facts: Facts) -> Iterator[str]:
    live = dict.fromkeys(facts.live())
    got: dict[Address, set[bytes]] = {member: set() for member in live}
    for delivery in facts.deliveries:
        if delivery.who in got:
            got[delivery.who].update(delivery.payloads)
    complained: dict[tuple[Address, Address], None] = {}
    gone: dict[tuple[Address, Address], int] = {}              # (sender, member) -> messages that it never got
    together = Together(facts)
    for message in facts.messages.values():
        if message.sender not in live or not message.reliable:
            continue
        for member in _must_have(message, together):
            if member not in live or message.payload in got[member] or (message.sender, member) in complained or \
                    facts.may_lack(member, message):
                continue
            gone[message.sender, member] = gone.get((message.sender, member), 0) + (message.dest is None)
            if message.dest is not None or gone[message.sender, member] > facts.skipped(member, message.sender):
                complained[message.sender, member] = None
                yield (f"{facts.name(member)} never delivered {facts.show(message.payload)} of "
                       f"{facts.name(message.sender)}" + ("" if member == message.sender else
                                                          ", though each was in every view of the other"))


def _must_have(message: Message, together: Together) -> list[Address]:
    """Who was together with the sender, from the view of the send to the end, of those that it was sent to."""
    view, sender = message.view, message.sender
    wanted = (message.dest,) if message.dest is not None else view.members if view is not None else (sender,)
    return [member for member in wanted if member == sender or together.since(sender, member, view)]
