"""Audits the ledger of RELAY (R9) after every step of a member: numbered = acknowledged + held + lost.

The ledger's own sums add up by the way they are made, so the audit counts independently: what counts as held must lie
in the hold, what counts as acknowledged must have been seen by some member of that site, what was lost stays lost, and
nothing was dropped that is not settled. A relay acknowledges only what each member of its view has, or gets within the
view because it began it with no less than the relay. It costs a comparison or two a step unless something changed.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from jgroups_py.address import Address
from jgroups_py.protocols.relay import Relay
from jgroups_py.protocols.relay.buffer import missing
from jgroups_py.protocols.relay.headers import Vector
from jgroups_py.protocols.relay.sites import Site
from jgroups_py.protocols.relay.vectors import copied
from jgroups_py.sim import history as h
from jgroups_py.view import View, ViewId

if TYPE_CHECKING:
    from jgroups_py.sim.world import World

Ranges = tuple[tuple[int, int], ...]


class Books:
    """The auditor of one member. The first discrepancy goes into the history, then it is silent."""

    def __init__(self, world: World, relay: Relay) -> None:
        self.world = world
        self.relay = relay
        self.total = 0                                               # of all numbers in the books at the last audit
        self.audited: dict[str, tuple[int, ...]] = {}                # site -> our own numbers at their last audit
        self.settled: dict[str, tuple[int, Ranges]] = {}             # site -> acked and lost of our own messages
        self.view: View | None = None
        self.began: dict[ViewId, Vector] = {}                        # view -> what was seen when it was installed
        self.acked_total = 0                                         # of all that was acknowledged as relay
        self.silent = False

    def look(self) -> None:
        """After a step of the member."""
        relay = self.relay
        if relay.has_view and relay.view is not self.view:
            self.view = relay.view
            self.began[self.view.id] = copied(relay.receiving.seen)
        if self.silent:
            return
        self.look_at_ledger()
        if relay.is_relay:
            self.look_at_acknowledgements()

    def complain(self, wrong: str) -> None:
        """Something is wrong, unless the text is empty."""
        if wrong:
            self.silent = True
            self.world.history.add(h.Unbalanced(self.world.now_ns, self.relay.me, wrong))

    # --- what this site is owed and has ------------------------------------------------------------------------------

    def look_at_ledger(self) -> None:
        relay = self.relay
        total = relay.next_number + sum(relay.numbers.values()) + sum(relay.hold.trimmed.values())
        for site in relay.table.sites.values():
            total += sum(site.acked.values())
        if total == self.total:
            return                                # numbers only grow, so equal sums mean equal numbers
        self.total = total
        self.complain(next((text for site in relay.table for text in (self.own(site), self.dropped(site)) if text), ""))

    def own(self, site: Site) -> str:
        """The origin's own ledger, exact at any moment; what is wrong, "" if nothing is."""
        relay, me = self.relay, self.relay.me
        acked, owed, delivered = site.acked.get(me, 1), site.owed.get(me, 1), relay.numbers.get(me, 1)
        numbers = relay.next_number, acked, delivered, relay.hold.trimmed.get(me, 1)
        if self.audited.get(site.name) == numbers:
            return ""
        self.audited[site.name] = numbers
        book = site.book(me, relay.next_number)
        lost = tuple(site.lost.get(me, ()))
        acked_before, lost_before = self.settled.get(site.name, (1, ()))
        self.settled[site.name] = acked, lost
        where = f"for {site.name}"
        if book.numbered != book.acknowledged + book.held + book.lost or min(book.acknowledged, book.held) < 0:
            return f"{where}: {book}"
        if acked > relay.next_number:
            return f"{where} everything below {acked} is settled, but only {relay.next_number} were numbered"
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
        """Whether anybody's message was dropped that is not settled; what, "" if none."""
        for origin, number in self.relay.hold.trimmed.items():
            if number > site.acked.get(origin, 1):
                return (f"for {site.name} everything of {self.world.history.name(origin)} below {number} was dropped, "
                        f"but only what is below {site.acked.get(origin, 1)} is settled")
        return ""

    def seen_at(self, site: str, origin: Address) -> int:
        """What any member of a site, dead ones too, has seen of an origin of ours."""
        ours = self.relay.config.site
        return max((process.books.relay.receiving.seen.get(ours, {}).get(origin, 1)
                    for process in self.world.all_processes if process.site == site and process.books is not None),
                   default=1)

    # --- what a relay acknowledges -----------------------------------------------------------------------------------

    def look_at_acknowledgements(self) -> None:
        acked = self.relay.receiving.acked_out
        total = sum(sum(numbers.values()) for numbers in acked.values())
        if total == self.acked_total:
            return
        self.acked_total = total
        self.complain(next((text for site, numbers in acked.items() for origin, number in numbers.items()
                            for text in (self.lacking(site, origin, number),) if text), ""))

    def lacking(self, site: str, origin: Address, number: int) -> str:
        """Which member of the relay's view may never get what it acknowledges; "" if none."""
        view = self.relay.view
        mine = self.relay.receiving.sync_vector.get(site, {}).get(origin, 1)
        for member in view.members:
            books = self.world.by_address[member].books
            if books is None or number <= books.relay.receiving.seen.get(site, {}).get(origin, number):
                continue
            # Without an entry it adopts one; if it has not installed the view yet, it delivers no more before it does.
            began = books.began.get(view.id, books.relay.receiving.seen).get(site, {}).get(origin, mine)
            if began < mine and books.relay.view.id <= view.id:
                return (f"everything of {self.world.history.name(origin)} below {number} is acknowledged to {site}, "
                        f"but {self.world.history.name(member)} began this view with {began}, not {mine}")
        return ""
