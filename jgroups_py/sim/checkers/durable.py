"""R11: what the journals of a site have on disk survives the crash of the whole site."""
from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

import attrs

from jgroups_py.address import Address
from jgroups_py.sim import history as h
from jgroups_py.sim.checkers.facts import Facts, Message, Violation
from jgroups_py.sim.checkers.relayed import missing_numbers


def durability(facts: Facts) -> Iterator[Violation]:
    """R11: with `hold_dir`, a message that is on the disk of a crashed holder which runs again at the end was
    delivered at every member of another site that was there all the time, or it was told of the loss. So was what
    such a holder had multicast and delivered to itself, unless its disk failed or had no power.

    Once, and in order, is what R3 and R4 say of everything. And what no member of another site delivered stands in the
    ledger of the site that had it on disk to the end: as held, or as lost, and then somebody there was told.
    """
    if facts.end is None or facts.healed_ns is None or not facts.on_disk:
        return
    got: dict[tuple[Address, Address], set[int]] = {}
    for delivery, message in facts.remote_deliveries():
        got.setdefault((delivery.who, message.sender), set()).add(message.relay_number)
    for sender, messages in _on_disk(facts).items():
        for member in facts.live():
            met_ns = facts.met_ns(sender, facts.site(member))
            owed = [message for message in messages if met_ns is not None and met_ns < message.at_ns]
            if owed and facts.site(member) != facts.site(sender):
                for found in missing_numbers(facts, member, owed, got.get((member, sender), set())):
                    yield attrs.evolve(found, guarantee="R11", text=f"{found.text}; its site had it on disk")
    yield from _forgotten(facts)


def _forgotten(facts: Facts) -> Iterator[Violation]:
    """What was on disks that are whole, came nowhere, and is not in the ledger, or is lost there in silence. What no
    member of a site wants is acknowledged there without being delivered.
    """
    came: dict[tuple[str, Address], set[int]] = {}
    for delivery, message in facts.remote_deliveries():
        came.setdefault((facts.site(delivery.who), message.sender), set()).add(message.relay_number)
    torn = dict.fromkeys(facts.site(entry.who) for entry in facts.on_disk if not entry.complete)
    on_disk = _on_disk(facts)
    for ledger in facts.ledgers:
        ours = facts.site(ledger.who)
        for sender, messages in on_disk.items():
            met_ns = facts.met_ns(sender, ledger.site)
            if facts.site(sender) != ours or ours in torn or met_ns is None:
                continue
            for message in messages:
                came_there = message.relay_number in came.get((ledger.site, sender), ())
                wrong = "" if message.at_ns <= met_ns or came_there or _unwanted(facts, ledger.site, message) \
                    else _wrong(facts, ledger, message)
                if wrong:
                    yield Violation("R11", f"{facts.show(message.payload)} (number {message.relay_number}) of "
                                    f"{facts.name(sender)} was on a disk of {ours} and came to nobody at "
                                    f"{ledger.site}; {wrong}", ledger.at_ns)
                    break                                 # the first one of an origin says enough


def _unwanted(facts: Facts, site: str, message: Message) -> bool:
    """Whether the interests of all members of a site that are left excuse that the message came to nobody there."""
    here = [member for member in facts.live() if facts.site(member) == site]
    return bool(here) and all(facts.may_lack(member, message) for member in here)


def _wrong(facts: Facts, ledger: h.Ledger, message: Message) -> str:
    """What is wrong with the ledger about a message that never came; "" if nothing is."""
    number, origin = message.relay_number, message.sender
    if any(first <= number < stop for first, stop in ledger.lost.get(origin, ())):
        told = any(lost.origin == origin and lost.dest_site == ledger.site and lost.first <= number < lost.stop
                   for lost in facts.lost_far)
        return "" if told else f"it is lost, but nobody at {facts.site(ledger.who)} was told"
    if ledger.acked.get(origin, 1) <= number < ledger.numbers.get(origin, 1):
        return ""
    return f"the ledger of {facts.name(ledger.who)} has forgotten it"


def _on_disk(facts: Facts) -> dict[Address, list[Message]]:
    """Origin -> its messages on disks whose owners run again, in order of their numbers."""
    running = dict.fromkeys(_name(facts, member) for member in facts.live())
    entries = [entry for entry in facts.on_disk if _name(facts, entry.who) in running]
    payloads = {payload: None for entry in entries for payload in entry.payloads}
    whole = dict.fromkeys(entry.who for entry in entries if entry.complete)
    payloads.update((message.payload, None) for delivery, message in facts.local_deliveries(unicast=False)
                    if delivery.who in whole and delivery.src == delivery.who and message.relay_number)
    found: dict[Address, list[Message]] = {}
    for payload in payloads:
        message = facts.messages[payload]
        found.setdefault(message.sender, []).append(message)
    return {sender: sorted(messages, key=attrgetter("relay_number")) for sender, messages in found.items()}


def _name(facts: Facts, member: Address) -> str:
    """A member's name without the number of its incarnation."""
    return facts.name(member).partition("#")[0]
