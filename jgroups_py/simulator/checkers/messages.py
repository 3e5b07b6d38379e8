"""S1, S2, S4, S5, F: the guarantees of message delivery within a site."""
from __future__ import annotations

from collections.abc import Callable, Iterator

from jgroups_py.model.address import Address
from jgroups_py.model.view import View, ViewId
from jgroups_py.simulator import history as h
from jgroups_py.simulator.checkers.facts import Facts, SentMessage, Stream, Violation
from jgroups_py.simulator.checkers.together import Together


def integrity(facts: Facts) -> Iterator[Violation]:
    """S1: deliver(q, m) implies an earlier send of m, same bytes, same sender (and to q, if it was a unicast)."""
    for delivery in facts.deliveries:
        name = facts.name(delivery.member)
        for payload in delivery.payloads:
            message = facts.messages.get(payload)
            if message is None or message.at_ns > delivery.at_ns:
                yield Violation("S1", f"{name} delivered {facts.show(payload)}, which no member had sent",
                                delivery.at_ns)
            elif message.sender != delivery.src:
                yield Violation("S1", f"{name} delivered {facts.show(payload)} as from {facts.name(delivery.src)}, "
                                f"but {facts.name(message.sender)} sent it", delivery.at_ns)
            elif message.dest is not None and message.dest != delivery.member:
                yield Violation("S1", f"{name} delivered {facts.show(payload)}, which was sent to "
                                f"{facts.name(message.dest)}", delivery.at_ns)


def no_duplicates(facts: Facts) -> Iterator[Violation]:
    """S2: no p delivers m twice, from its own site or from another."""
    seen: dict[Address, set[bytes]] = {}
    for delivery in facts.deliveries:
        delivered = seen.setdefault(delivery.member, set())
        for payload in delivery.payloads:
            if payload in delivered and (payload not in facts.messages or facts.messages[payload].reliable):
                yield Violation("S2", f"{facts.name(delivery.member)} delivered {facts.show(payload)} twice",
                                delivery.at_ns)
            delivered.add(payload)


def same_view(facts: Facts) -> Iterator[Violation]:
    """S4: p delivers m in V and q delivers m in W implies V = W."""
    first: dict[bytes, h.MessageDelivered] = {}
    for delivery, message in facts.local_deliveries(unicast=False):
        other = first.setdefault(message.payload, delivery)
        if other.view != delivery.view:
            yield Violation("S4", f"{facts.name(delivery.member)} delivered {facts.show(message.payload)} in "
                            f"{facts.show_id(delivery.view)}, but {facts.name(other.member)} did in "
                            f"{facts.show_id(other.view)}", delivery.at_ns)


def virtual_synchrony(facts: Facts) -> Iterator[Violation]:
    """S5: p and q both go from V to W implies both delivered the same set in V.

    For messages of other sites it applies where both came to V from one view as well, and the member that lacks the
    message had not delivered it before, had delivered an earlier one of that origin (so the message is not older than
    its membership), and the message was not declared lost to it.
    """
    local = _delivered_in(facts, remote=False)
    remote = _delivered_in(facts, remote=True)
    first: dict[tuple[ViewId, ViewId], h.InstalledView] = {}
    first_of_three: dict[tuple[View | None, ViewId, ViewId], h.InstalledView] = {}
    came_from = {(install.member, install.view.id): install.previous for install in facts.installs}
    for install in facts.installs:
        view, previous = install.view, install.previous
        if previous is None:
            continue
        other = first.setdefault((previous.id, view.id), install)
        yield from _compare(facts, local, other, install, _no_excuse)
        path = (came_from.get((install.member, previous.id)), previous.id, view.id)
        other = first_of_three.setdefault(path, install)
        if remote:
            yield from _compare(facts, remote, other, install, _remote_excuse)


Sets = dict[tuple[Address, ViewId], dict[bytes, h.MessageDelivered]]


def _delivered_in(facts: Facts, *, remote: bool) -> Sets:
    """(member, view) -> the multicasts it delivered there."""
    found: Sets = {}
    pairs = facts.remote_deliveries() if remote else facts.local_deliveries(unicast=False)
    for delivery, message in pairs:
        if delivery.view is not None:
            found.setdefault((delivery.member, delivery.view.id), {})[message.payload] = delivery
    return found


Excuse = Callable[[Facts, h.InstalledView, bytes], bool]


def _compare(
    facts: Facts, sets: Sets, one: h.InstalledView, other: h.InstalledView, excuse: Excuse,
) -> Iterator[Violation]:
    if one is other:
        return
    previous = other.previous
    assert previous is not None, "both come from a view"
    first = sets.get((one.member, previous.id), {})
    second = sets.get((other.member, previous.id), {})
    if first.keys() == second.keys():
        return
    for having, lacking, has, lacks in ((first, second, one, other), (second, first, other, one)):
        declared = dict(facts.skipped_in.get((lacks.member, previous.id), {}))      # declared gaps are no difference
        for payload in having:
            if payload not in lacking and not facts.may_lack(lacks.member, facts.messages[payload]) and \
                    not excuse(facts, lacks, payload):
                sender = facts.messages[payload].sender
                if declared.get(sender, 0):
                    declared[sender] -= 1
                    continue
                yield Violation("S5", f"{facts.name(one.member)} and {facts.name(other.member)} both went from "
                                f"{facts.show_id(previous)} to {facts.show_id(other.view)}, but there only "
                                f"{facts.name(has.member)} delivered {facts.show(payload)}", other.at_ns)
                break                                     # one violation for each pair


def _no_excuse(facts: Facts, lacks: h.InstalledView, payload: bytes) -> bool:
    return False


def _remote_excuse(facts: Facts, lacks: h.InstalledView, payload: bytes) -> bool:
    """Why `lacks.member` may lack a message from another site; see virtual_synchrony."""
    wanted = facts.messages[payload]
    if facts.declared_lost(lacks.member, wanted):
        return True
    had_earlier = False
    for delivery in facts.deliveries:
        if delivery.at_ns > lacks.at_ns:
            break
        if delivery.member == lacks.member and delivery.src == wanted.sender and delivery.dest is None:
            if payload in delivery.payloads:
                return True
            message = facts.messages.get(delivery.payloads[0]) if delivery.payloads else None
            had_earlier = had_earlier or (message is not None and 0 < message.relay_number < wanted.relay_number)
    return not had_earlier


def reliable_fifo(facts: Facts) -> Iterator[Violation]:
    """F: per sender in send order, no holes within a view; regular multicasts and regular unicasts alike.

    Multicasts that have a place in a TOTAL order and those that NO_TOTAL_ORDER frees are two streams. What RELAY
    numbers has its place whatever its flags.

    Messages that were declared lost because the receiver was too slow are no hole (FLOW). A unicast hole counts if
    sender and receiver had each other in all their views, from the view of the send before the hole to the views of
    the send and the delivery after it: a sender that saw the receiver leave and return starts a new connection.
    """
    together = Together(facts)
    for unicast in (False, True):
        latest: dict[tuple[Address, Stream], tuple[SentMessage, h.MessageDelivered]] = {}
        for delivery, message in facts.local_deliveries(unicast=unicast):
            if not message.number:
                continue                                  # OOB
            key = (delivery.member, message.stream)
            before = latest.get(key)
            latest[key] = (message, delivery)
            if before is not None:
                yield from _follows(facts, together, before, (message, delivery))


def _follows(
    facts: Facts, together: Together, before: tuple[SentMessage, h.MessageDelivered],
    after: tuple[SentMessage, h.MessageDelivered],
) -> Iterator[Violation]:
    (earlier, previous), (later, delivery) = before, after
    name = facts.name(delivery.member)
    if later.number < earlier.number:
        yield Violation("F", f"{name} delivered {facts.show(later.payload)} after {facts.show(earlier.payload)}, which "
                        f"{facts.name(later.sender)} sent later", delivery.at_ns)
    elif later.number > earlier.number + 1 and (
            previous.view == delivery.view if later.dest is None else
            together.between(later.sender, later.dest, earlier.view, later.view, delivery.view)):
        between = facts.ordered[later.stream][earlier.number:later.number - 1]
        number = len([message for message in between if not facts.may_lack(delivery.member, message)])
        if not number:
            return                                        # all of them about topics it is not subscribed to
        if later.dest is None and number <= facts.skipped_between(previous, delivery):
            return
        yield Violation("F", f"{name} delivered {facts.show(earlier.payload)} and then {facts.show(later.payload)} in "
                        f"{facts.show_id(delivery.view)}, without {number} that {facts.name(later.sender)} sent "
                        "between them", delivery.at_ns)
