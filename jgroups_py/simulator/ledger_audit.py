"""Audits the ledger of RELAY (R9) after every step of a member: numbered = acknowledged + held + lost.

The ledger's own sums are true by construction, so the audit counts independently: messages that count as held must be
in the hold, acknowledged ones must have been seen by some member of that site, lost ones stay lost, and no unsettled
message was trimmed. A relay acknowledges only what each member of its view has delivered, or will deliver within the
view because it began the view with the relay's vector or a higher one. An audit costs two comparisons unless something
changed.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from jgroups_py.model.address import Address
from jgroups_py.model.view import View, ViewId
from jgroups_py.protocols.relay import Relay
from jgroups_py.protocols.relay.headers import Vector
from jgroups_py.protocols.relay.inbound.vectors import copied
from jgroups_py.protocols.relay.origin.hold import missing
from jgroups_py.protocols.relay.sites.table import Site
from jgroups_py.simulator import history as h
from jgroups_py.windows.ranges import Ranges as RangeSet

Ranges = tuple[tuple[int, int], ...]


class AuditedWorld(Protocol):
    """The part of a world that an audit reads besides its own RELAY."""

    history: h.History
    untrusted: dict[str, None]

    @property
    def now_ns(self) -> int:
        """The virtual time."""

    @property
    def audits(self) -> Mapping[Address, LedgerAudit]:
        """Incarnation -> its audit, for all incarnations with RELAY, ended ones included."""


class LedgerAudit:
    """The audit of one incarnation. It reports the first discrepancy to the history and stops."""

    def __init__(self, world: AuditedWorld, relay: Relay, *, has_topics: bool) -> None:
        self.world = world
        self.relay = relay
        self.has_topics = has_topics
        # The totals are sums of numbers that only grow: an equal sum at the next audit means that nothing changed.
        self.passed_up = 0                                           # messages of other sites that RELAY passed up
        self.seen_total = 0
        self.seen: Vector = {}                                       # RELAY's delivery vector at the last audit
        self.received: dict[str, dict[Address, RangeSet]] = {}       # site -> origin -> numbers passed up to TOPICS
        self.total = 0                                               # of all numbers in the ledger
        self.audited: dict[str, tuple[int, ...]] = {}                # site -> this member's numbers at the last audit
        self.settled: dict[str, tuple[int, Ranges]] = {}             # site -> acked and lost of this member's messages
        self.view: View | None = None
        self.began: dict[ViewId, Vector] = {}                        # view -> delivery vector when it was installed
        self.acked_total = 0                                         # of all numbers acknowledged as relay
        self.silent = False

    def audit(self) -> None:
        """Audit after a step of the member."""
        relay = self.relay
        if relay.group.has_view and relay.group.view is not self.view:
            self.view = relay.group.view
            self.began[self.view.id] = copied(relay.delivery.seen)
        if self.has_topics:
            self.record_received()
        if self.silent:
            return
        self.audit_ledger()
        if relay.group.is_relay:
            self.audit_acknowledgements()

    def report(self, wrong: str) -> None:
        """Report a discrepancy, unless the text is empty."""
        if wrong:
            self.silent = True
            self.world.history.add(h.Unbalanced(self.world.now_ns, self.relay.me, wrong))

    # --- what TOPICS received ----------------------------------------------------------------------------------------

    def record_received(self) -> None:
        """Record which numbers of other sites RELAY passed up, as messages or as bare numbers.

        A message that TOPICS drops, since no member of the view subscribes to it, appears in no delivery, and interests
        change until the end of a run. So R11 counts this record.
        """
        came = self.relay.counters.get("delivered_remote", 0) - self.passed_up
        seen = self.relay.delivery.seen
        total = sum(sum(numbers.values()) for numbers in seen.values())
        if not came and total == self.seen_total:
            return                                # numbers only grow, so equal sums mean equal numbers
        before, self.seen, self.seen_total = self.seen, copied(seen), total
        self.passed_up += came
        for site, numbers in seen.items() if came else ():
            for origin, stop in numbers.items():
                # BASE and SYNC raise the entry in the same step, too, but only below what was passed up.
                first = max(before.get(site, {}).get(origin, 1), stop - came)
                if first < stop:
                    self.received.setdefault(site, {}).setdefault(origin, RangeSet()).add(first, stop)

    # --- the ledger of this member ------------------------------------------------------------------------------------

    def audit_ledger(self) -> None:
        relay = self.relay
        total = relay.numbering.next_number + sum(relay.numbering.numbers.values()) + sum(relay.hold.trimmed.values())
        for site in relay.table.sites.values():
            total += sum(site.acked.values())
        if total == self.total:
            return                                # numbers only grow, so equal sums mean equal numbers
        self.total = total
        self.report(next((text for site in relay.table if site.name not in self.world.untrusted
                          for text in (self.own(site), self.dropped(site)) if text), ""))

    def own(self, site: Site) -> str:
        """The discrepancy in the ledger of this member's own messages, which is exact at any moment; "" if none."""
        relay, me = self.relay, self.relay.me
        acked, owed, delivered = site.acked.get(me, 1), site.owed.get(me, 1), relay.numbering.numbers.get(me, 1)
        numbers = relay.numbering.next_number, acked, delivered, relay.hold.trimmed.get(me, 1)
        if self.audited.get(site.name) == numbers:
            return ""
        self.audited[site.name] = numbers
        book = site.book(me, relay.numbering.next_number)
        lost = tuple(site.lost.get(me, ()))
        acked_before, lost_before = self.settled.get(site.name, (1, ()))
        self.settled[site.name] = acked, lost
        where = f"for {site.name}"
        if book.numbered != book.acknowledged + book.held + book.lost or min(book.acknowledged, book.held) < 0:
            return f"{where}: {book}"
        if acked > relay.numbering.next_number:
            return f"{where} everything below {acked} is settled, but only {relay.numbering.next_number} were numbered"
        if acked < acked_before:
            return f"{where} everything below {acked_before} was settled, now only below {acked}"
        if missing(lost_before, lost) or missing(lost, ((owed, acked),)):
            return f"{where} {lost_before} were lost, now {lost}, of {owed}..{acked}"
        gone = missing(((acked, delivered),), relay.hold.ranges(me))
        if gone:
            return f"{where} {gone} are neither settled nor held"
        rose = acked > max(acked_before, owed) and not (me in site.lost and acked - 1 in site.lost[me])
        if rose and self.seen_at(site.name, me) < acked:
            return f"{where} everything below {acked} is acknowledged, which no member there has"
        return ""

    def dropped(self, site: Site) -> str:
        """The discrepancy if an unsettled message of any origin was trimmed; "" if none."""
        for origin, number in self.relay.hold.trimmed.items():
            if number > site.acked.get(origin, 1):
                return (f"for {site.name} everything of {self.world.history.name(origin)} below {number} was dropped, "
                        f"but only what is below {site.acked.get(origin, 1)} is settled")
        return ""

    def seen_at(self, site: str, origin: Address) -> int:
        """The highest next number of an origin of this site at any member of another site, ended ones included."""
        own_site = self.relay.config.site
        return max((audit.relay.delivery.seen.get(own_site, {}).get(origin, 1)
                    for audit in self.world.audits.values() if audit.relay.config.site == site), default=1)

    # --- what a relay acknowledges -----------------------------------------------------------------------------------

    def audit_acknowledgements(self) -> None:
        acked = self.relay.acknowledger.acked_out
        total = sum(sum(numbers.values()) for numbers in acked.values())
        if total == self.acked_total:
            return
        self.acked_total = total
        self.report(next((text for site, numbers in acked.items() if site not in self.world.untrusted
                          for origin, number in numbers.items()
                          for text in (self.lacking(site, origin, number),) if text), ""))

    def lacking(self, site: str, origin: Address, number: int) -> str:
        """The discrepancy if a member of the relay's view may never deliver what the relay acknowledged; "" if none."""
        view = self.relay.group.view
        mine = self.relay.synchronizer.sync_vector.get(site, {}).get(origin, 1)
        for member in view.members:
            audit = self.world.audits.get(member)
            if audit is None or number <= audit.relay.delivery.seen.get(site, {}).get(origin, number):
                continue
            # A member without an entry adopts the relay's; one that has not installed the view yet delivers nothing
            # more before it does.
            began = audit.began.get(view.id, audit.relay.delivery.seen).get(site, {}).get(origin, mine)
            if began < mine and audit.relay.group.view.id <= view.id:
                return (f"everything of {self.world.history.name(origin)} below {number} is acknowledged to {site}, "
                        f"but {self.world.history.name(member)} began this view with {began}, not {mine}")
        return ""
