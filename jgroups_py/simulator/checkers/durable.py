"""R11: what the journals of a site have on disk survives the crash of the whole site."""
from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

import attrs

from jgroups_py.model.address import Address
from jgroups_py.simulator import history as h
from jgroups_py.simulator.checkers.facts import Facts, SentMessage, Violation
from jgroups_py.simulator.checkers.relayed import missing_numbers


def durability(facts: Facts) -> Iterator[Violation]:
    """R11: with `hold_dir`, a message on the disk of a crashed holder that runs again at the end was delivered by every
    member of another site that ran all the time, or was declared lost to it. The same holds for what such a holder
    had multicast and delivered to itself, unless its disk failed or lost power.

    R3 and R4 judge duplicates and order. A message that no member of another site delivered is in the ledger of the
    site that had it on disk: as held, or as lost, and then the loss was declared at that site.
    """
    if facts.end is None or facts.healed_ns is None or not facts.on_disk:
        return
    got: dict[tuple[Address, Address], set[int]] = {}
    for delivery, message in facts.remote_deliveries():
        got.setdefault((delivery.member, message.sender), set()).add(message.relay_number)
    for sender, messages in _on_disk(facts).items():
        for member in facts.live():
            known_ns = facts.known_ns(sender, facts.site(member))
            due = [message for message in messages if known_ns is not None and known_ns < message.at_ns]
            if due and facts.site(member) != facts.site(sender):
                for found in missing_numbers(facts, member, due, got.get((member, sender), set())):
                    yield attrs.evolve(found, guarantee="R11", text=f"{found.text}; its site had it on disk")
    yield from _forgotten(facts)


def _forgotten(facts: Facts) -> Iterator[Violation]:
    """Messages on intact disks that no member of another site delivered and that the ledger does not account for.

    With TOPICS a site acknowledges messages that none of its members subscribes to: they arrive there, as messages or
    as numbers, and TOPICS drops them. So arrival counts here, whatever the interests are at the end. Whether a member
    that lacks a message should have delivered it is judged by R3, and by `durability` above.
    """
    came: dict[tuple[str, Address], set[int]] = {}
    for delivery, message in facts.remote_deliveries():
        came.setdefault((facts.site(delivery.member), message.sender), set()).add(message.relay_number)
    torn = dict.fromkeys(facts.site(entry.member) for entry in facts.on_disk if not entry.complete)
    on_disk = _on_disk(facts)
    for ledger in facts.ledgers:
        own_site = facts.site(ledger.member)
        for sender, messages in on_disk.items():
            known_ns = facts.known_ns(sender, ledger.site)
            if facts.site(sender) != own_site or own_site in torn or known_ns is None:
                continue
            for message in messages:
                came_there = message.relay_number in came.get((ledger.site, sender), ())
                wrong = "" if message.at_ns <= known_ns or came_there or _received(ledger, message) \
                    else _wrong(facts, ledger, message)
                if wrong:
                    yield Violation("R11", f"{facts.show(message.payload)} (number {message.relay_number}) of "
                                    f"{facts.name(sender)} was on a disk of {own_site} and no member of "
                                    f"{ledger.site} delivered it; {wrong}", ledger.at_ns)
                    break                                 # one violation for each origin


def _received(ledger: h.LedgerReading, message: SentMessage) -> bool:
    """Whether the message, or its number, arrived at TOPICS of a member of the site."""
    return any(first <= message.relay_number < stop for first, stop in ledger.received.get(message.sender, ()))


def _wrong(facts: Facts, ledger: h.LedgerReading, message: SentMessage) -> str:
    """What is wrong with the ledger about a message that never came; "" if nothing is."""
    number, origin = message.relay_number, message.sender
    if any(first <= number < stop for first, stop in ledger.lost.get(origin, ())):
        declared = any(lost.origin == origin and lost.dest_site == ledger.site and lost.first <= number < lost.stop
                   for lost in facts.lost_elsewhere)
        return "" if declared else f"it is lost, but the loss was not declared at {facts.site(ledger.member)}"
    if ledger.acked.get(origin, 1) <= number < ledger.numbers.get(origin, 1):
        return ""
    return f"the ledger of {facts.name(ledger.member)} does not account for it"


def _on_disk(facts: Facts) -> dict[Address, list[SentMessage]]:
    """Origin -> its messages on disks whose owners run again, in order of their numbers."""
    running = dict.fromkeys(_name(facts, member) for member in facts.live())
    entries = [entry for entry in facts.on_disk if _name(facts, entry.member) in running]
    payloads = {payload: None for entry in entries for payload in entry.payloads}
    whole = dict.fromkeys(entry.member for entry in entries if entry.complete)
    payloads.update((message.payload, None) for delivery, message in facts.local_deliveries(unicast=False)
                    if delivery.member in whole and delivery.src == delivery.member and message.relay_number)
    found: dict[Address, list[SentMessage]] = {}
    for payload in payloads:
        message = facts.messages.get(payload)
        if message is not None:                          # else it was planted there: a delivery of it breaks S1
            found.setdefault(message.sender, []).append(message)
    return {sender: sorted(messages, key=attrgetter("relay_number")) for sender, messages in found.items()}


def _name(facts: Facts, member: Address) -> str:
    """A member's name without the number of its incarnation."""
    return facts.name(member).partition("#")[0]
