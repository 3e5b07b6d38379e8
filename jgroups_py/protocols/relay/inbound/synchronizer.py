"""SYNC at every view: the relay reports what it has, every member answers where it differs (relay rule 17).

Problem: what a relay had on record about other sites is lost when it crashes, and the next one may be a joiner, or come
from another half of a split site. It must not acknowledge what some member lacks, nor trim what some member holds for a
site that is not in its table.

Idea: SYNC is the relay's first multicast in a view; until it arrives nothing else of the relay counts. Members answer
with HAVE. Per origin, the lowest entry of all members is the site's vector: the relay requests from the senders
everything above it, and from members the held batches that it lacks. Nothing is acknowledged, trimmed or sent to other
sites before every member has answered: a member that has not may hold messages, or have a site in its table, that the
relay lacks.
"""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.events import ViewChange
from jgroups_py.model.units import seconds
from jgroups_py.model.view import MergeView
from jgroups_py.protocols.relay.announcements import SyncCompleted
from jgroups_py.protocols.relay.group import LocalGroup
from jgroups_py.protocols.relay.headers import FetchHeader, Have, Numbers, Sync, Vector
from jgroups_py.protocols.relay.inbound.vectors import copied, differing, lower, overlaid, raised, unknown_origins
from jgroups_py.protocols.relay.origin.hold import Hold, missing
from jgroups_py.protocols.relay.part import RELIABLE, RelayPart, RelayPort
from jgroups_py.protocols.relay.ports import (
    AcknowledgerPort,
    AdminPort,
    ClockPort,
    DeliveryPort,
    DisseminatorPort,
    JournalPort,
    NumberingPort,
    SiteNewsPort,
    SyncPort,
)
from jgroups_py.protocols.relay.sites.table import SiteTable
from jgroups_py.stack.component import needs
from jgroups_py.stack.protocol import on, receives, timer

SYNC_AGAIN_NS = seconds(5)
"""A member that has not answered for so long is paused, or its connection to the relay is broken: SYNC goes again."""


class Synchronizer(RelayPart, SyncPort):
    """See the module: SYNC and the evaluation of the answers at the relay, the answer at every other member."""

    group: LocalGroup = needs(LocalGroup)
    hold: Hold = needs(Hold)
    table: SiteTable = needs(SiteTable)
    numbering: NumberingPort = needs(NumberingPort)
    delivery: DeliveryPort = needs(DeliveryPort)
    disseminator: DisseminatorPort = needs(DisseminatorPort)
    acknowledger: AcknowledgerPort = needs(AcknowledgerPort)
    site_news: SiteNewsPort = needs(SiteNewsPort)
    admin: AdminPort = needs(AdminPort)
    journal: JournalPort = needs(JournalPort)
    clock: ClockPort = needs(ClockPort)

    def __init__(self, layer: RelayPort) -> None:
        super().__init__(layer)
        self.fresh = True                            # this member never received a SYNC
        self.joined = False                          # this view's SYNC was its first
        self.synced = False                          # the coordinator's SYNC arrived in this view
        self.behind = False                          # in this view: some entry here was below the relay's
        self.known_ends: Numbers = {}                # own site: origin -> next number, as this view began
        # The relay's:
        self.awaited: dict[Address, None] = {}       # members that have not answered SYNC
        self.sync_vector: Vector = {}                # other sites' part of this view's SYNC
        self.sync_header: Sync | None = None         # to be repeated to members that do not answer
        self.haves: dict[Address, Have] = {}
        self.complete = False                        # all have answered: acknowledgements may rise

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        """A new view: nothing from the relay counts before its SYNC."""
        self.synced = self.behind = self.complete = False
        self.haves = {}
        # Before any multicast of this view: here all members of one previous view have the same numbers, by virtual
        # synchrony.
        self.known_ends = self.numbering.current_numbers()
        if self.group.is_relay:
            self.start_sync()

    # --- the relay: SYNC --------------------------------------------------------------------------------------------

    def start_sync(self) -> None:
        """Multicast SYNC, then what was multicast and not delivered before the view changed."""
        self.awaited = {member: None for member in self.group.view.members if member != self.me}
        self.sync_vector = copied(self.delivery.seen)
        vector = copied(self.delivery.seen)
        vector[self.config.site] = dict(self.numbering.numbers)      # where joiners begin with this site's origins
        self.sync_header = Sync(vector, self.table.rows(), dict(self.hold.trimmed), self.clock.shown_ns)
        self.send(self.sync_header, dest=None, flags=RELIABLE)
        self.set_timer("sync", SYNC_AGAIN_NS)
        self.disseminator.repeat_swallowed()
        if not self.awaited:
            self.sync_complete()

    @timer("sync")
    def sync_again(self) -> None:
        """Repeat SYNC to members that have not answered: without their answers nothing crosses in this view."""
        if self.group.is_relay and self.awaited and self.sync_header is not None:
            for member in self.awaited:
                self.count("syncs_again")
                self.send(self.sync_header, member, flags=RELIABLE)
            self.set_timer("sync", SYNC_AGAIN_NS)

    # --- every member: HAVE -----------------------------------------------------------------------------------------

    @receives(Sync)
    def sync(self, header: Sync, batch: Batch) -> None:
        """The coordinator's SYNC: a joiner adopts it; every member answers with HAVE."""
        if batch.src != self.group.view.coordinator:
            return self.drop("sync_of_no_coordinator", batch, "not of the coordinator of this view", header)
        again, self.synced = self.synced, True
        if self.group.is_relay:
            self.fresh = False
            return None
        if again:
            # The answer did not arrive, so the unicast connection to the relay may be broken. Answer by multicast:
            # NAKACK's windows begin anew in each view, so they are not broken for longer than a view.
            return self.answer(header, None)
        self.clock.follow(header.clock_ns)
        joined = self.joined = self.fresh
        self.fresh = False
        theirs = copied(header.vector)              # the relay's
        own = theirs.pop(self.config.site, {})
        if joined:
            # What the group delivered before this view reaches a joiner as state, not as messages.
            self.delivery.begin_at(theirs)
            self.numbering.expect_newcomers(own)
        self.delivery.adopt(theirs)
        self.delivery.add_sites_with_base(theirs)
        # A site may be in this member's table, from disk or from another half, and not in the relay's: what the members
        # of the relay trimmed was not meant for it.
        self.table.never_owed_outside(header.table, header.trimmed)
        self.site_news.follow_table(header.table, header.trimmed, joined=joined)
        return self.answer(header, batch.src)

    def answer(self, header: Sync, to: Address | None) -> None:
        """HAVE: where this member differs from the relay, and what it holds. to: None for all."""
        theirs = copied(header.vector)
        theirs.pop(self.config.site, None)
        differs = differing(self.delivery.seen, theirs)
        for site, numbers in differs.items():
            for origin in [origin for origin, number in numbers.items() if number == 0]:
                # The relay has messages of this origin. This member has none, and was in another view until now.
                # Without an entry it would begin at any number that is under way; all are sent again, from 1 on.
                self.delivery.begin_at_first(site, origin)
        # After a merge a third member may have messages of an origin of which neither the relay nor this one has any.
        self.behind = bool(lower(differs, theirs)) or isinstance(self.group.view, MergeView)
        for site in () if self.joined else self.delivery.sites_before_view:
            differs.setdefault(site, {})
        if self.known_ends:
            # All of them, not only differences: the relay may come from another half, or have founded its group
            # a moment ago.
            differs[self.config.site] = self.known_ends
        held = {origin: self.hold.ranges(origin) for origin in self.hold.batches}
        have = Have(self.group.view.id, differs, self.table.rows(), held, dict(self.hold.trimmed),
                    self.journal.holders(), self.clock.shown_ns)
        return self.send(have, to, flags=RELIABLE)

    # --- the relay: the answers -------------------------------------------------------------------------------------

    @receives(Have)
    def have(self, header: Have, batch: Batch) -> None:
        """A member's answer: merge its table, and fetch held batches that are missing here."""
        if not self.group.is_relay or header.view_id != self.group.view.id or batch.src not in self.awaited:
            return self.drop("have_outside_view", batch, "no answer of its source in that view is missing", header)
        del self.awaited[batch.src]
        self.haves[batch.src] = header
        self.numbering.raise_ends(header.vector.get(self.config.site, {}))
        self.table.combine(header.table, header.trimmed, self.hold.trimmed)
        self.admin.superseded()
        self.clock.follow(header.clock_ns)
        self.journal.add_holders(header.holders)
        # Before anything is trimmed: what only that member holds may be owed to a site (relay rules 2 and 17).
        wanted = {}
        for origin, ranges in header.held.items():
            below = self.hold.trimmed.get(origin, 1)
            lacking = missing(tuple((max(first, below), stop) for first, stop in ranges if stop > below),
                              self.hold.ranges(origin))
            if lacking:
                wanted[origin] = lacking
        if wanted:
            self.send(FetchHeader(wanted), batch.src, flags=RELIABLE)
        if not self.awaited:
            self.sync_complete()
        return None

    def sync_complete(self) -> None:
        """Every member has answered; the lowest entries are the site's vector.

        The entry 0 stands for no entry where the relay has one: the member has nothing of that origin. It counts as 1.
        """
        self.complete = True
        self.cancel_timer("sync")
        lowest = copied(self.sync_vector)
        for have in self.haves.values():
            for site, numbers in have.vector.items():
                if site != self.config.site:
                    entries = lowest.setdefault(site, {})
                    for origin, number in numbers.items():
                        entries[origin] = max(1, min(number, entries.get(origin, number)))
        # Origins of which one member has messages and another has no entry. If messages of their site were meant for
        # that other member before this view, these were too, so everything from 1 on is requested (relay rule 17).
        unknown: Vector = {}
        own: Vector = {site: {} for site in self.delivery.sites_before_view}
        raised(unknown, unknown_origins(lowest, own, self.sync_vector))
        for site, origins in unknown.items():
            for origin in origins:
                self.delivery.begin_at_first(site, origin)     # or it would begin at the next BASE, and miss nothing
        confirmers: dict[Address, Vector] = {}
        for member, have in self.haves.items():
            lacking = unknown_origins(lowest, have.vector, self.sync_vector)
            raised(unknown, lacking)
            # Backups, because an acknowledged message must survive the crash of the relay; members that are behind,
            # because SEEN promises that no member is (relay rule 6).
            if self.group.is_backup(member) or lacking or lower(have.vector, self.sync_vector):
                confirmers[member] = overlaid(self.sync_vector, have.vector)
        lowest = overlaid(lowest, unknown)
        self.delivery.adopt(lowest)
        self.disseminator.rewind(overlaid(lower(lowest, self.sync_vector), unknown))
        self.acknowledger.begin(lowest, confirmers)
        self.announce(SyncCompleted(self.haves))
