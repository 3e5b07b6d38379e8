"""R10: a receipt means that all running members of the site have the message; every send with `until` ends with one.

The members are those of the views that the receipt names. A member is excused if it joined after the message had been
delivered in its group (the message is part of the state that it may fetch); at the sender's own site, if it was not in
the view in which the sender delivered the message.
"""
from __future__ import annotations

from collections.abc import Iterator

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.view import View, ViewId
from jgroups_py.simulator import history as h
from jgroups_py.simulator.checkers.facts import Facts, SentMessage, Violation


@attrs.define(eq=False)
class Arrivals:
    """When each member delivered the messages with receipts, and in which view their senders did.

    at: (member, payload) -> time; first_at: (site, payload) -> the earliest time at that site; own_view: payload ->
    the view in which its sender delivered it.
    """

    at: dict[tuple[Address, bytes], int] = attrs.Factory(dict)
    first_at: dict[tuple[str, bytes], int] = attrs.Factory(dict)
    own_view: dict[bytes, View] = attrs.Factory(dict)

    def note(self, site: str, payload: bytes, at_ns: int) -> None:
        """A member of the site has it since `at_ns`."""
        self.first_at[site, payload] = min(at_ns, self.first_at.get((site, payload), at_ns))


def receipts(facts: Facts) -> Iterator[Violation]:
    """R10: receipts are correct, and every awaited one arrives; see the module."""
    if not facts.awaited:
        return
    arrivals = _arrivals(facts)
    views = {install.view.id: install.view for install in facts.installs}
    out = {entry.member: entry.at_ns for entry in facts.history.entries if isinstance(entry, h.Crash | h.MemberLeft)}
    for receipt in facts.receipts:
        for site, ids in receipt.views.items():
            for view_id in ids:
                yield from _had_by_all(facts, receipt, site, views.get(view_id), view_id, arrivals, out)
        if receipt.lost_for:
            yield from _really_lost(facts, receipt, arrivals)
    yield from _all_answered(facts)


def _arrivals(facts: Facts) -> Arrivals:
    wanted = {awaited.payload: None for awaited in facts.awaited}
    found = Arrivals()
    for delivery in facts.deliveries:
        for payload in delivery.payloads:
            if payload not in wanted:
                continue
            found.at.setdefault((delivery.member, payload), delivery.at_ns)
            found.note(facts.site(delivery.member), payload, delivery.at_ns)
            if delivery.member == delivery.src and delivery.view is not None:
                found.own_view[payload] = delivery.view
    for covered in facts.history.entries:
        if isinstance(covered, h.Covered):
            for message in facts.by_relay_number.get(covered.origin, [])[covered.first - 1:covered.stop - 1]:
                found.at.setdefault((covered.member, message.payload), covered.at_ns)
                found.note(facts.site(covered.member), message.payload, covered.at_ns)
    return found


def _had_by_all(
    facts: Facts, receipt: h.Receipted, site: str, view: View | None, view_id: ViewId, arrivals: Arrivals,
    out: dict[Address, int],
) -> Iterator[Violation]:
    waiter, what = facts.name(receipt.member), facts.show(receipt.payload)
    if view is None:
        yield Violation("R10", f"{waiter} has a receipt for {what} of a view of {site} that no member installed: "
                        f"{view_id}", receipt.at_ns)
        return
    for member in view.members:
        alive = out.get(member, receipt.at_ns) >= receipt.at_ns
        if facts.site(member) != site:
            yield Violation("R10", f"{waiter} has a receipt for {what} of {site} from a view with "
                            f"{facts.name(member)} of {facts.site(member)}", receipt.at_ns)
        elif alive and arrivals.at.get((member, receipt.payload), receipt.at_ns + 1) > receipt.at_ns and \
                not facts.may_lack(member, facts.messages[receipt.payload]) and \
                not _excused(facts, member, site, facts.messages[receipt.payload], arrivals):
            yield Violation("R10", f"{waiter} has a receipt that all members of {facts.show_id(view)} at {site} have "
                            f"{what}, but {facts.name(member)} has not", receipt.at_ns)


def _excused(facts: Facts, member: Address, site: str, message: SentMessage, arrivals: Arrivals) -> bool:
    if site == facts.site(message.sender):
        own = arrivals.own_view.get(message.payload)
        return own is not None and member not in own
    joined_ns = facts.installs_of[member][0].at_ns if member in facts.installs_of else 0
    return arrivals.first_at.get((site, message.payload), joined_ns + 1) <= joined_ns


def _really_lost(facts: Facts, receipt: h.Receipted, arrivals: Arrivals) -> Iterator[Violation]:
    """A receipt with "lost for a site": the site was OFFLINE, a loss was declared, or a member there lacks it."""
    site, message = receipt.lost_for, facts.messages[receipt.payload]
    members = [member for member, its in facts.history.sites.items() if its == site]
    if any((member, receipt.payload) not in arrivals.at for member in members):
        return
    declared = any(
        (isinstance(entry, h.SiteStatusSeen) and entry.site == site and entry.status == "OFFLINE")
        or (isinstance(entry, h.Lost) and entry.origin == message.sender and
            entry.first <= message.relay_number < entry.stop)
        for entry in facts.history.entries)
    if not declared:
        yield Violation("R10", f"{facts.name(receipt.member)} has a receipt that {facts.show(receipt.payload)} is lost "
                        f"for {site}, but every member there has it", receipt.at_ns)


def _all_answered(facts: Facts) -> Iterator[Violation]:
    """In the end every awaited receipt has arrived."""
    if facts.end is None or facts.healed_ns is None:
        return
    answered = {receipt.payload: None for receipt in facts.receipts}
    live = dict.fromkeys(facts.live())
    for awaited in facts.awaited:
        if awaited.member in live and awaited.payload not in answered:
            yield Violation("R10", f"{facts.name(awaited.member)} still waits for a receipt of "
                            f"{' '.join(awaited.sites)} for {facts.show(awaited.payload)}", facts.end.at_ns)
