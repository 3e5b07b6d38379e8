"""T1 and T2: the guarantees of TOPICS where interests change while messages are under way; T3: of ForSites.

Members that are subscribed to a topic all the time are judged by S5, F, L, R3 and R4 as without TOPICS.
"""
from __future__ import annotations

from collections.abc import Iterator

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.topics import Interest
from jgroups_py.model.view import View
from jgroups_py.simulator import history as h
from jgroups_py.simulator.checkers.facts import Facts, SentMessage, Violation

Key = tuple[Address, str, Address]                # member, topic, sender


def unwanted(facts: Facts) -> Iterator[Violation]:
    """T1: deliver(p, m) implies that p is subscribed to the topic of m at that moment."""
    interests: dict[Address, Interest] = {}
    for entry in facts.history.entries:
        if isinstance(entry, h.InterestDeclared):
            interests[entry.member] = entry.interest
        elif isinstance(entry, h.MessageDelivered) and entry.member in interests:
            for payload in entry.payloads:
                message = facts.messages.get(payload)
                if message is not None and message.topic and not interests[entry.member].includes(message.topic):
                    yield Violation("T1", f"{facts.name(entry.member)} delivered {facts.show(payload)}, but is only "
                                    f"subscribed to {interests[entry.member]}", entry.at_ns)


def elsewhere(facts: Facts) -> Iterator[Violation]:
    """T3: deliver(p, m) implies that m is for p's site, if its sender named sites."""
    for delivery, message in facts.remote_deliveries():
        if not facts.is_for(delivery.member, message):
            yield Violation("T3", f"{facts.name(delivery.member)} at {facts.site(delivery.member)} delivered "
                            f"{facts.show(message.payload)}, which is for {', '.join(message.sites or ())}",
                            delivery.at_ns)


@attrs.frozen(eq=False)
class TopicPlace:
    """The latest message of one sender about one topic that a member delivered, and the view of the delivery."""

    message: SentMessage
    view: View | None


def unbroken(facts: Facts) -> Iterator[Violation]:
    """T2: between p's subscribe and unsubscribe, per sender, no hole after the first message about the topic.

    For messages of the member's own site a hole counts within a view (as in F); for messages of other sites a declared
    loss excuses it (as in R4).
    """
    streams = _streams(facts)
    places: dict[Key, TopicPlace] = {}
    for entry in facts.history.entries:
        if isinstance(entry, h.InterestDeclared):
            for key in [key for key in places if key[0] == entry.member and not entry.interest.includes(key[1])]:
                del places[key]
        elif isinstance(entry, h.MessageDelivered) and entry.dest is None:
            for payload in entry.payloads:
                message = facts.messages.get(payload)
                if message is not None and message.topic:
                    yield from _next(facts, streams, places, entry, message)


Streams = dict[tuple[Address, str, bool], list[SentMessage]]


def _streams(facts: Facts) -> Streams:
    """(sender, topic, whether relayed) -> its messages, in the order of their numbers or relay numbers."""
    found: Streams = {}
    for message in facts.messages.values():
        if message.topic and message.number:
            found.setdefault((message.sender, message.topic, False), []).append(message)
        if message.topic and message.relay_number:
            found.setdefault((message.sender, message.topic, True), []).append(message)
    return found


def _next(
    facts: Facts, streams: Streams, places: dict[Key, TopicPlace], delivery: h.MessageDelivered, message: SentMessage,
) -> Iterator[Violation]:
    remote = not facts.is_local(delivery)
    if not (message.relay_number if remote else message.number):
        return                                            # OOB, or not reliable
    key = (delivery.member, message.topic, message.sender)
    before, places[key] = places.get(key), TopicPlace(message, delivery.view)
    if before is None or (not remote and before.view != delivery.view):
        return
    stream = streams[message.sender, message.topic, remote]
    for lacked in stream[stream.index(before.message) + 1:stream.index(message)]:
        if not (remote and facts.declared_lost(delivery.member, lacked)):
            yield Violation("T2", f"{facts.name(delivery.member)}, subscribed to {message.topic}, delivered "
                            f"{facts.show(before.message.payload)} and then {facts.show(message.payload)}, without "
                            f"{facts.show(lacked.payload)} between them", delivery.at_ns)
            return

