"""O1 to O8: one order of all multicasts (TOTAL). A history without places is not judged.

*By ticket*: delivered in its view before the member was told that what follows had no final place (`h.Uncertain`).
Messages of other sites count too (O8): each site has one order of all that it delivers.
"""
from __future__ import annotations

from collections.abc import Iterator

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.units import NS_PER_S, seconds
from jgroups_py.model.view import View, ViewId
from jgroups_py.simulator import history as h
from jgroups_py.simulator.checkers.facts import Facts, SentMessage, Violation

WAIT_NS = seconds(1)                     # within which a message must have its place once all is well


@attrs.define(eq=False)
class Sequence:
    """What one member delivered in one view that is to have a place, in order.

    certain: how many of these by ticket; None: all. at_ns: of the last delivery; ends: the view that it went on to.
    """

    member: Address
    view: View
    payloads: list[bytes] = attrs.Factory(list)
    places: list[int] = attrs.Factory(list)
    certain: int | None = None
    at_ns: int = 0
    ends: View | None = None

    @property
    def by_ticket(self) -> int:
        """How many were delivered by ticket."""
        return len(self.payloads) if self.certain is None else self.certain


@attrs.define(eq=False)
class OrderFacts:
    """The sequences of a history, by member and view; and before which of them messages were sent.

    after: payload -> (view, number of deliveries of its sender in it before the send).
    """

    found: dict[tuple[Address, ViewId], Sequence] = attrs.Factory(dict)
    by_view: dict[ViewId, list[Sequence]] = attrs.Factory(dict)
    after: dict[bytes, tuple[ViewId, int]] = attrs.Factory(dict)
    has_places: bool = False


def is_ordered(message: SentMessage | None) -> bool:
    """Whether a message is to have a place."""
    return message is not None and message.dest is None and message.reliable and not message.free


def order_of(facts: Facts) -> OrderFacts:
    """The order in a history; computed once."""
    if facts.order is None:
        facts.order = _collected(facts)
    found: OrderFacts = facts.order
    return found


def _collected(facts: Facts) -> OrderFacts:
    order = OrderFacts()
    now: dict[Address, Sequence] = {}
    for entry in facts.history.entries:
        match entry:
            case h.InstalledView(_, member, view, _):
                if member in now:
                    now[member].ends = view
                now[member] = order.found[member, view.id] = Sequence(member, view)
                order.by_view.setdefault(view.id, []).append(now[member])
            case h.Uncertain(_, member, _):
                if member in now and now[member].certain is None:
                    now[member].certain = len(now[member].payloads)
            case h.MessageSent(_, member, None, payloads, _, view) if member in now and view is not None:
                for payload in payloads:
                    order.after[payload] = view.id, len(now[member].payloads)
            case h.MessageDelivered(at_ns, member, _, None, payloads, _, _, place) if member in now:
                mine = now[member]
                order.has_places = order.has_places or bool(place)
                for number, payload in enumerate(payloads):
                    if is_ordered(facts.messages.get(payload)):
                        mine.payloads.append(payload)
                        mine.places.append(place and place + number)
                        mine.at_ns = at_ns
    return order


def lost_the_order(facts: Facts, sequence: Sequence) -> bool:
    """Whether NAKACK lost messages for good at this member: from there on it cannot know the places of that view."""
    return any(member == sequence.member for member, _ in facts.unretained)


# --- O1 and O8 --------------------------------------------------------------------------------------------------------

def agreed(facts: Facts) -> Iterator[Violation]:
    """O1: p and q both go from V to W: the ordered multicasts of V that both delivered came in one sequence, with the
    same places. O8: those of other sites as well."""
    order = order_of(facts)
    if not order.has_places:
        return
    yield from differences(facts)
    for sequence in order.found.values():
        before = 0
        for payload, place in zip(sequence.payloads, sequence.places, strict=True):
            if place <= before:
                yield Violation("O1", f"{facts.name(sequence.member)} delivered {facts.show(payload)} with place "
                                f"{place} after place {before}", sequence.at_ns)
                break
            before = place


def differences(facts: Facts) -> Iterator[Violation]:
    """Where members that went on together differ in the sequence; for any stack."""
    order = order_of(facts)
    first: dict[tuple[ViewId, ViewId], Sequence] = {}
    for view_id, sequences in order.by_view.items():
        for sequence in sequences:
            if sequence.ends is None or lost_the_order(facts, sequence):
                continue
            other = first.setdefault((view_id, sequence.ends.id), sequence)
            found = None if other is sequence else _difference(other, sequence)
            if found is not None:
                mine, its = found
                site = facts.site(sequence.member)
                far = any(facts.site(facts.messages[payload].sender) != site for payload in found)
                yield Violation("O8" if far else "O1", f"{facts.name(other.member)} and {facts.name(sequence.member)} "
                                f"both went from {facts.show_id(sequence.view)} to {facts.show_id(sequence.ends)}, but "
                                f"where one delivered {facts.show(mine)} the other had {facts.show(its)}",
                                sequence.at_ns)


def _difference(one: Sequence, other: Sequence) -> tuple[bytes, bytes] | None:
    """The first messages that differ, of those that both delivered, with their places; None: there are none."""
    if one.payloads == other.payloads and one.places == other.places:
        return None
    places, its_places = dict(zip(one.payloads, one.places, strict=True)), dict(
        zip(other.payloads, other.places, strict=True))
    mine = [payload for payload in one.payloads if payload in its_places]
    its = [payload for payload in other.payloads if payload in places]
    return next(((left, right) for left, right in zip(mine, its, strict=True)
                 if left != right or places[left] != its_places[left]), None)


# --- O2, O6: also members that part or crash --------------------------------------------------------------------------

def prefix(facts: Facts) -> Iterator[Violation]:
    """O2: while V stands, what any two members of V delivered by ticket is the same up to the shorter of both."""
    order = order_of(facts)
    if not order.has_places:
        return
    for sequences in order.by_view.values():
        at: dict[int, tuple[bytes, Sequence]] = {}
        for sequence in sequences:
            if lost_the_order(facts, sequence):
                continue
            for payload, place in zip(sequence.payloads[:sequence.by_ticket], sequence.places, strict=False):
                known, other = at.setdefault(place, (payload, sequence))
                if known != payload:
                    yield Violation("O2", f"{facts.name(sequence.member)} delivered {facts.show(payload)} as number "
                                    f"{place} of {facts.show_id(sequence.view)}, where {facts.name(other.member)} had "
                                    f"{facts.show(known)}", sequence.at_ns)
                    break


def safe(facts: Facts) -> Iterator[Violation]:
    """O6: a message delivered as safe in V by any member has its place at every member of V that goes on from V."""
    order = order_of(facts)
    for sequences in order.by_view.values():
        for sequence in sequences:
            wanted = sequence.payloads[:sequence.by_ticket]
            for other in sequences:
                longest = len(wanted) if other.ends is not None else min(len(wanted), len(other.payloads))
                if other is sequence or wanted[:longest] == other.payloads[:longest]:
                    continue
                differs = next(number for number in range(longest)
                               if other.payloads[number:number + 1] != wanted[number:number + 1])
                yield Violation("O6", f"{facts.name(sequence.member)} delivered {facts.show(wanted[differs])} as safe, "
                                f"number {differs + 1} of {facts.show_id(sequence.view)}, but "
                                f"{facts.name(other.member)} did not", other.at_ns)
                break


# --- O3, O4: what the order contains ----------------------------------------------------------------------------------

def fifo(facts: Facts) -> Iterator[Violation]:
    """O3: the order of V contains that of each sender."""
    order = order_of(facts)
    if not order.has_places:
        return
    for sequence in order.found.values():
        latest: dict[Address, int] = {}
        for payload in sequence.payloads:
            message = facts.messages[payload]
            if message.number and message.number < latest.get(message.sender, 0):
                yield Violation("O3", f"{facts.name(sequence.member)} delivered {facts.show(payload)} out of the order "
                                f"of {facts.name(message.sender)}", sequence.at_ns)
                break
            latest[message.sender] = max(message.number, latest.get(message.sender, 0))


def causal(facts: Facts) -> Iterator[Violation]:
    """O4: p delivers m, then sends m', both ordered in V. Nobody delivers m' by ticket before m; nor in the rest of V,
    if the sender of m or that of m' went on with it."""
    order = order_of(facts)
    if not order.has_places:
        return
    for sequence in order.found.values():
        if not lost_the_order(facts, sequence):
            yield from _causal(facts, order, sequence)


def _causal(facts: Facts, order: OrderFacts, sequence: Sequence) -> Iterator[Violation]:
    view_id, ends = sequence.view.id, sequence.ends
    position = {payload: number for number, payload in enumerate(sequence.payloads)}
    known: dict[tuple[Address, bool], list[int]] = {}     # what `latest_among` found
    for number, payload in enumerate(sequence.payloads):
        sender = facts.messages[payload].sender
        view, before = order.after.get(payload, (None, 0))
        cause = order.found.get((sender, view_id))
        if view != view_id or cause is None or not before or sender == sequence.member:
            continue
        certain = number < sequence.by_ticket
        if not certain and ends is None:
            continue
        everything = certain or (ends is not None and sender in ends)
        latest = known.get((sender, everything))
        if latest is None:
            latest = known[sender, everything] = latest_among(facts, cause, position, None if everything else ends)
        if latest[before] > number:
            earlier = sequence.payloads[latest[before]]
            yield Violation("O4", f"{facts.name(sequence.member)} delivered {facts.show(payload)} before "
                            f"{facts.show(earlier)}, which {facts.name(sender)} had before it sent the former",
                            sequence.at_ns)
            return


def latest_among(facts: Facts, cause: Sequence, position: dict[bytes, int], ends: View | None) -> list[int]:
    """For each n, the highest position (-1: none) at another member of the first n messages that `cause` delivered.

    ends: only messages of its members count; None: all do.
    """
    latest = [-1]
    for payload in cause.payloads:
        counts = ends is None or facts.messages[payload].sender in ends
        latest.append(max(latest[-1], position.get(payload, -1) if counts else -1))
    return latest


# --- O7 ---------------------------------------------------------------------------------------------------------------

def prompt(facts: Facts) -> Iterator[Violation]:
    """O7: once all has healed and the last view is installed, nobody waits for a place longer than a second.

    Judged by the sender's own delivery of what it sent half a second after that view, or later.
    """
    order = order_of(facts)
    if not order.has_places or facts.healed_ns is None or not facts.installs:
        return
    rest_ns = max(facts.healed_ns, facts.installs[-1].at_ns) + NS_PER_S // 2
    own = {payload: delivery.at_ns for delivery in facts.deliveries
           if delivery.src == delivery.member and delivery.dest is None for payload in delivery.payloads}
    for message in facts.messages.values():
        if message.at_ns < rest_ns or message.dest is not None or not message.reliable or message.sender in facts.out:
            continue
        waited_ns = own.get(message.payload, facts.history.entries[-1].at_ns) - message.at_ns
        if waited_ns > WAIT_NS:
            yield Violation("O7", f"{facts.show(message.payload)} waited {waited_ns / NS_PER_S:.1f} s for its place "
                            "though all was well", message.at_ns)
