"""R1 to R9 and R12: the guarantees across sites.

A message is identified by (origin, number): its place among the relayed multicasts of its origin.
"""
from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from jgroups_py.model.address import Address, ProxyUUID
from jgroups_py.model.units import seconds
from jgroups_py.model.view import ViewId
from jgroups_py.simulator import history as h
from jgroups_py.simulator.checkers.facts import Facts, SentMessage, Violation
from jgroups_py.simulator.checkers.losses import Losses, declared_twice, reported_losses

OWN_DELIVERY_NS = seconds(2)             # R5: how long a multicast may take at its own sender in an undisturbed site
QUIET_NS = seconds(5)                    # R5: a site counts as disturbed this long before and after a view change
GRACE_NS = seconds(2)                    # R3: how long after its first view a member may begin with a later number
UNDER_WAY_NS = seconds(1)                # R6: what is sent so shortly before the end may be on its way then
RESENT_NS = seconds(12)                  # R6: how long after healing a unicast may wait for its retransmission

Window = tuple[int, int]


def origin(facts: Facts) -> Iterator[Violation]:
    """R1: a remote delivery has a real send; ProxyUUID, origin and bytes kept."""
    for delivery in facts.deliveries:
        name, src = facts.name(delivery.member), delivery.src
        site = facts.site(src)
        if isinstance(src, ProxyUUID):
            if src.site != site:
                yield Violation("R1", f"{name} delivered {h.show_payloads(delivery.payloads)} as from "
                                f"{facts.name(src)}, but its origin is at {site or 'no site'}", delivery.at_ns)
        elif site != facts.site(delivery.member):
            yield Violation("R1", f"{name} delivered {h.show_payloads(delivery.payloads)} of {facts.name(src)} at "
                            f"{site} without a ProxyUUID", delivery.at_ns)
        if site != facts.site(delivery.member):
            yield from _real(facts, delivery)


def _real(facts: Facts, delivery: h.MessageDelivered) -> Iterator[Violation]:
    for payload in delivery.payloads:
        message = facts.messages.get(payload)
        if message is None or message.sender != delivery.src or (message.dest is None and not message.relay_number):
            yield Violation("R1", f"{facts.name(delivery.member)} delivered {facts.show(payload)} from "
                            f"{facts.name(delivery.src)}, which never sent it to other sites", delivery.at_ns)


def no_echo(facts: Facts) -> Iterator[Violation]:
    """R2: nothing comes back to the site it was sent from."""
    for delivery in facts.deliveries:
        if isinstance(delivery.src, ProxyUUID) and facts.site(delivery.src) == facts.site(delivery.member):
            yield Violation("R2", f"{facts.name(delivery.member)} delivered {h.show_payloads(delivery.payloads)} of "
                            "its own site by way of a relay", delivery.at_ns)


def exactly_once(facts: Facts) -> Iterator[Violation]:
    """R3: at most once at each live remote member; exactly once, or `messages_lost` names it once and it does not come.

    Holes before a member's first message of an origin count only if the message was sent after the member had been in
    its group for GRACE_NS, and after origin and member knew each other's sites. Judged for messages that a member of
    the origin's site delivered that runs at the end.
    """
    yield from _at_most_once(facts)
    yield from _lost_or_delivered(facts)
    if facts.end is None or facts.healed_ns is None:
        return
    live = facts.live()
    required = _required(facts, live)
    got: dict[tuple[Address, Address], set[int]] = {}
    for delivery, message in facts.remote_deliveries():
        got.setdefault((delivery.member, message.sender), set()).add(message.relay_number)
    for member in live:
        for sender, messages in required.items():
            if facts.site(sender) != facts.site(member):
                yield from missing_numbers(facts, member, messages, got.get((member, sender), set()))


def _at_most_once(facts: Facts) -> Iterator[Violation]:
    seen: dict[Address, set[bytes]] = {}
    for delivery, message in facts.remote_deliveries():
        delivered = seen.setdefault(delivery.member, set())
        if message.payload in delivered:
            yield Violation("R3", f"{facts.name(delivery.member)} delivered {facts.show(message.payload)} from another "
                            "site twice", delivery.at_ns)
        delivered.add(message.payload)


def _lost_or_delivered(facts: Facts) -> Iterator[Violation]:
    reported: Losses = {}
    yield from declared_twice(facts, "R3", reported_losses(facts, own_site=False), reported)
    for delivery, message in facts.remote_deliveries() if reported else ():
        if message.relay_number in reported.get((delivery.member, message.sender), ()):
            yield Violation("R3", f"{facts.name(delivery.member)} delivered {facts.show(message.payload)} (number "
                            f"{message.relay_number}) of {facts.name(message.sender)}, which was declared lost to it",
                            delivery.at_ns)


def _required(facts: Facts, live: list[Address]) -> dict[Address, list[SentMessage]]:
    """Origin -> the relayed multicasts that a member of its site delivered that runs at the end."""
    live_members = dict.fromkeys(live)
    seen: dict[bytes, None] = {}
    for delivery, message in facts.local_deliveries(unicast=False):
        if message.relay_number and delivery.member in live_members:
            seen[message.payload] = None
    required: dict[Address, list[SentMessage]] = {}
    for payload in seen:
        message = facts.messages[payload]
        required.setdefault(message.sender, []).append(message)
    return {sender: sorted(messages, key=attrgetter("relay_number")) for sender, messages in required.items()}


def missing_numbers(facts: Facts, member: Address, messages: list[SentMessage], got: set[int]) -> Iterator[Violation]:
    """The first of one origin's messages that a member (which has the numbers `got`) lacks without a declared loss."""
    assert facts.end is not None, "judged at the end"
    first = min(got, default=None)
    joined_ns = facts.installs_of[member][0].at_ns + GRACE_NS if member in facts.installs_of else facts.end.at_ns
    declared = [(lost.first, lost.stop) for lost in facts.lost
            if lost.member == member and lost.origin == messages[0].sender]
    sender = messages[0].sender
    known_ns = facts.both_known_ns(sender, member)
    for message in messages:
        number = message.relay_number
        if number in got or any(start <= number < stop for start, stop in declared) or facts.may_lack(member, message):
            continue
        if (first is None or number < first) and (message.at_ns < joined_ns or message.at_ns <= known_ns
                                                   or facts.settled_before(member, message)):
            continue
        yield Violation("R3", f"{facts.name(member)} never delivered {facts.show(message.payload)} (number {number}) "
                        f"of {facts.name(message.sender)} at {facts.site(message.sender)}, and it was not declared "
                        "lost", facts.end.at_ns)
        return                                            # one violation for each pair


def fifo_across_sites(facts: Facts) -> Iterator[Violation]:
    """R4: per origin in the order of its numbers, also across relay failovers; only declared holes."""
    declared: dict[tuple[Address, Address], list[Window]] = {}
    for lost in facts.lost:
        declared.setdefault((lost.member, lost.origin), []).append((lost.first, lost.stop))
    latest: dict[tuple[Address, Address], SentMessage] = {}
    for delivery, message in facts.remote_deliveries():
        key = (delivery.member, message.sender)
        before = latest.get(key)
        latest[key] = message
        if before is None or message.relay_number == before.relay_number + 1:
            continue
        name, now, then = facts.name(delivery.member), facts.show(message.payload), facts.show(before.payload)
        if message.relay_number < before.relay_number:
            yield Violation("R4", f"{name} delivered {now} (number {message.relay_number}) after {then} (number "
                            f"{before.relay_number}) of {facts.name(message.sender)}", delivery.at_ns)
        elif not _declared([*declared.get(key, []), *_unwanted(facts, delivery.member, before, message)],
                           before.relay_number + 1, message.relay_number):
            yield Violation("R4", f"{name} delivered {then} and then {now} of {facts.name(message.sender)}: numbers "
                            f"{before.relay_number + 1} to {message.relay_number} are missing and not declared lost",
                            delivery.at_ns)


def _unwanted(facts: Facts, member: Address, before: SentMessage, after: SentMessage) -> list[Window]:
    """The numbers between two of one origin that the member may lack, since it is not subscribed to their topics."""
    between = facts.by_relay_number[after.sender][before.relay_number:after.relay_number - 1]
    return [(message.relay_number, message.relay_number + 1) for message in between
            if facts.may_lack(member, message)]


def _declared(declared: list[Window], first: int, stop: int) -> bool:
    for start, end in sorted(declared):
        if start <= first < end:
            first = end
    return first >= stop


def autonomy(facts: Facts) -> Iterator[Violation]:
    """R5: no local send or delivery waits on another site.

    Judged by the sender's own delivery while the views of its site do not change and no fault hits the site: a member
    that cannot be reached holds up flow control, too, from the moment of the fault on.
    """
    if not any(facts.history.sites.values()):
        return
    disturbed: dict[str, list[int]] = {}
    for install in facts.installs:
        disturbed.setdefault(facts.site(install.member), []).append(install.at_ns)
    for at_ns, text in ((entry.at_ns, entry.text) for entry in facts.history.entries if isinstance(entry, h.Remark)):
        if text.startswith("site ") or " is paused" in text or " goes on" in text:
            for times in disturbed.values():
                times.append(at_ns)
        elif text.startswith("partition "):
            for site in _torn(facts, text.removeprefix("partition ")):
                disturbed.setdefault(site, []).append(at_ns)
    own = {payload: delivery.at_ns for delivery in facts.deliveries if delivery.src == delivery.member
           for payload in delivery.payloads}
    end_ns = facts.history.entries[-1].at_ns
    for message in facts.messages.values():
        if message.dest is not None or not message.reliable or message.sender in facts.out or \
                facts.may_lack(message.sender, message):
            continue
        waited_ns = own.get(message.payload, end_ns) - message.at_ns
        if waited_ns > OWN_DELIVERY_NS and not any(
                -QUIET_NS < at_ns - message.at_ns < QUIET_NS for at_ns in disturbed[facts.site(message.sender)]):
            yield Violation("R5", f"{facts.show(message.payload)} waited {waited_ns / seconds(1):.1f} s for its own "
                            "sender's delivery in an undisturbed site", message.at_ns)


def _torn(facts: Facts, sides: str) -> list[str]:
    """The sites of which members are on more than one of the sides, as a remark names them ("A B | C D")."""
    side_of = {name: number for number, side in enumerate(sides.split(" | ")) for name in side.split()}
    found: dict[str, dict[int, None]] = {}
    for member, site in facts.history.sites.items():
        name = facts.name(member).partition("#")[0]
        if name in side_of:
            found.setdefault(site, {})[side_of[name]] = None
    return [site for site, numbers in found.items() if len(numbers) > 1]


def replies(facts: Facts) -> Iterator[Violation]:
    """R6: a unicast to another site reaches its destination only, at most once, or is reported as unreachable.

    S1 and S2 cover "only" and "at most once"; here it must arrive, or `unreachable` must be reported. RESENT_NS after
    healing, that report is a violation if the destination runs: the unicast had to be retransmitted. Applications that
    send for as long as they run may do so just before the end (UNDER_WAY_NS).
    """
    if facts.end is None or facts.healed_ns is None:
        return
    arrived: set[bytes] = set()
    for delivery in facts.deliveries:
        if delivery.dest is not None:
            arrived.update(delivery.payloads)
    declared: dict[tuple[Address, Address], int] = {}
    for unreached in facts.unreached:
        declared[unreached.member, unreached.dest] = unreached.at_ns
    live = dict.fromkeys(facts.live())
    for message in facts.messages.values():
        if message.dest is None or facts.site(message.dest) == facts.site(message.sender) or not message.reliable:
            continue
        if message.sender not in live or message.payload in arrived or facts.end.at_ns - message.at_ns < UNDER_WAY_NS:
            continue
        what = f"{facts.show(message.payload)} of {facts.name(message.sender)} never reached {facts.name(message.dest)}"
        reported_ns = declared.get((message.sender, message.dest), -1)
        if reported_ns < message.at_ns:
            yield Violation("R6", f"{what}, and it was not reported as unreachable", facts.end.at_ns)
        elif message.dest in live and reported_ns > facts.healed_ns + RESENT_NS:
            yield Violation("R6", f"{what}, which was alive, and it was given up long after all had healed",
                            reported_ns)


def global_view(facts: Facts) -> Iterator[Violation]:
    """R7: local view united with the latest remote views; monotone per site; converges."""
    ranks = _view_ranks(facts)
    latest: dict[tuple[Address, str], int] = {}
    last: dict[Address, h.GlobalInstall] = {}
    for install in facts.global_installs:
        last[install.member] = install
        for site, members in install.view.sites.items():
            if site == facts.site(install.member):
                continue
            ranked = ranks.get((site, tuple(members)), [])
            low = latest.get((install.member, site), 0)
            rank = next((rank for rank in ranked if rank >= low), None)
            if rank is None:
                what = "is older than the one before" if ranked else f"was never a view of {site}"
                yield Violation("R7", f"{facts.name(install.member)} sees {site} as {facts.history.members(members)}, "
                                f"which {what}", install.at_ns)
            else:
                latest[install.member, site] = rank
    yield from _converged(facts, last)


def _view_ranks(facts: Facts) -> dict[tuple[str, tuple[Address, ...]], list[int]]:
    """(site, members) -> the counters of the views of that site that had exactly these members, ascending."""
    ranks: dict[tuple[str, tuple[Address, ...]], dict[int, None]] = {}
    for install in facts.installs:
        key = (facts.site(install.member), install.view.members)
        ranks.setdefault(key, {})[install.view.id.counter] = None
    return {key: sorted(counters) for key, counters in ranks.items()}


def _converged(facts: Facts, last: dict[Address, h.GlobalInstall]) -> Iterator[Violation]:
    if facts.end is None or facts.healed_ns is None or not facts.global_installs:
        return
    live: dict[str, list[Address]] = {}
    for member in facts.live():
        live.setdefault(facts.site(member), []).append(member)
    wanted = {site: sorted(members) for site, members in live.items()}
    for member in facts.live():
        install = last.get(member)
        seen = {site: sorted(members) for site, members in install.view.sites.items()} if install else {}
        if seen != wanted:
            shown = facts.history.show(install).split("globally ")[1] if install else "nothing"
            yield Violation("R7", f"{facts.name(member)} ends with the global view {shown}; alive are "
                            f"{facts.history.members(facts.live())}", facts.end.at_ns)


def fencing(facts: Facts) -> Iterator[Violation]:
    """R8: stale relays are fenced: a relay accepts the epochs of a site in ascending order, and a member delivers only
    what the coordinator of its own view disseminates."""
    highest: dict[tuple[Address, str], ViewId] = {}
    for accepted in facts.accepted_epochs:
        key = accepted.member, accepted.site
        before = highest.setdefault(key, accepted.epoch)
        if accepted.epoch < before:
            yield Violation("R8", f"{facts.name(accepted.member)} accepted the epoch of {accepted.site} of "
                            f"{facts.name(accepted.epoch.coordinator)}|{accepted.epoch.counter} after that of "
                            f"{facts.name(before.coordinator)}|{before.counter}", accepted.at_ns)
        highest[key] = max(before, accepted.epoch)
    for delivery in facts.deliveries:
        src = delivery.src
        if isinstance(src, ProxyUUID) and delivery.dest is None and delivery.view is not None and \
                src.relay is not None and src.relay != delivery.view.coordinator:
            yield Violation("R8", f"{facts.name(delivery.member)} delivered {h.show_payloads(delivery.payloads)} "
                            f"brought by {facts.name(src.relay)}, but the coordinator of "
                            f"{facts.show_id(delivery.view)} is "
                            f"{facts.name(delivery.view.coordinator)}", delivery.at_ns)


def conservation(facts: Facts) -> Iterator[Violation]:
    """R9: numbered = acknowledged + held + lost, per destination site and origin, at every step (ledger_audit.py)."""
    for found in facts.unbalanced:
        yield Violation("R9", f"the ledger of {facts.name(found.member)} does not add up: {found.text}", found.at_ns)


def progress(facts: Facts) -> Iterator[Violation]:
    """R12: while the relays of two sites can communicate, what one holds for the other is acknowledged or declared lost
    within a bound, whatever else fails meanwhile (`simulator/stalls.py`)."""
    for found in facts.stalled:
        yield Violation("R12", f"{facts.name(found.member)} makes no progress {found.text}", found.at_ns)
