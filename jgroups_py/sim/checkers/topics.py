"""T1 and T2: what TOPICS promises of interests that change while messages flow.

Those who want a topic all the time are judged by S5, F, L, R3 and R4 as ever.
"""
from __future__ import annotations

from collections.abc import Iterator

import attrs

from jgroups_py.address import Address
from jgroups_py.sim import history as h
from jgroups_py.sim.checkers.facts import Facts, Message, Violation
from jgroups_py.topics import Interest
from jgroups_py.view import View

Key = tuple[Address, str, Address]                # member, topic, sender


def unwanted(facts: Facts) -> Iterator[Violation]:
    """T1: deliver(p, m) implies that p wants what m is about, at that moment."""
    interests: dict[Address, Interest] = {}
    for entry in facts.history.entries:
        if isinstance(entry, h.Interested):
            interests[entry.who] = entry.interest
        elif isinstance(entry, h.Delivery) and entry.who in interests:
            for payload in entry.payloads:
                message = facts.messages.get(payload)
                if message is not None and message.topic and not interests[entry.who].wants(message.topic):
                    yield Violation("T1", f"{facts.name(entry.who)} delivered {facts.show(payload)}, but wants only "
                                    f"{interests[entry.who]}", entry.at_ns)


@attrs.frozen(eq=False)
class Place:
    """How far a member is in one sender's messages about one topic."""

    message: Message
    view: View | None


def unbroken(facts: Facts) -> Iterator[Violation]:
    """T2: between p's subscribe and unsubscribe, per sender, no hole after the first message about the topic.

    Holes count within a view for messages of the own site (as F has it), and are excused by `messages_lost` for those
    of other sites (as R4 has it).
    """
    streams = _streams(facts)
    places: dict[Key, Place] = {}
    for entry in facts.history.entries:
        if isinstance(entry, h.Interested):
            for key in [key for key in places if key[0] == entry.who and not entry.interest.wants(key[1])]:
                del places[key]
        elif isinstance(entry, h.Delivery) and entry.dest is None:
            for payload in entry.payloads:
                message = facts.messages.get(payload)
                if message is not None and message.topic:
                    yield from _next(facts, streams, places, entry, message)


Streams = dict[tuple[Address, str, bool], list[Message]]


def _streams(facts: Facts) -> Streams:
    """(sender, topic, whether for other sites) -> its messages, in the order that counts there."""
    found: Streams = {}
    for message in facts.messages.values():
        if message.topic and message.number:
            found.setdefault((message.sender, message.topic, False), []).append(message)
        if message.topic and message.relay_number:
            found.setdefault((message.sender, message.topic, True), []).append(message)
    return found


def _next(
    facts: Facts, streams: Streams, places: dict[Key, Place], delivery: h.Delivery, message: Message,
) -> Iterator[Violation]:
    remote = not facts.is_local(delivery)
    if not (message.relay_number if remote else message.number):
        return                                            # in any order, or not reliable
    key = (delivery.who, message.topic, message.sender)
    before, places[key] = places.get(key), Place(message, delivery.view)
    if before is None or (not remote and before.view != delivery.view):
        return
    stream = streams[message.sender, message.topic, remote]
    for lacked in stream[stream.index(before.message) + 1:stream.index(message)]:
        if not (remote and _told(facts, delivery.who, lacked)):
            yield Violation("T2", f"{facts.name(delivery.who)} wants {message.topic} and delivered "
                            f"{facts.show(before.message.payload)} and then {facts.show(message.payload)}, without "
                            f"{facts.show(lacked.payload)} between them", delivery.at_ns)
            return


def _told(facts: Facts, member: Address, message: Message) -> bool:
    return any(lost.who == member and lost.origin == message.sender and lost.first <= message.relay_number < lost.stop
               for lost in facts.lost)
