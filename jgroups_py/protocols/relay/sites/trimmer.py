"""TRIM, the limits of the hold, and holes that no member can fill (relay rules 7, 14 and 18).

The relay multicasts TRIM with the site table and, per origin, the number below which every site has acknowledged or
lost everything; holders drop on TRIM only. At `hold_bytes` and `hold_age` the sites furthest behind go OFFLINE, so that
senders never wait for another site (unless on_full=block).

A relay that has begun its group keeps what it holds for `split_grace` even if it knows no other site: it may be a part
of its site, cut off from the rest as it started, or all that there is again after a crash. Other sites know that site
then, and are owed what it multicast before it met them.
"""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.events import ViewChange
from jgroups_py.model.units import seconds
from jgroups_py.protocols.relay.announcements import SiteAcknowledged, SyncCompleted
from jgroups_py.protocols.relay.config import BLOCK
from jgroups_py.protocols.relay.group import LocalGroup
from jgroups_py.protocols.relay.headers import Numbers, SiteRow, Trim
from jgroups_py.protocols.relay.origin.hold import Hold
from jgroups_py.protocols.relay.origin.send_gate import FULL
from jgroups_py.protocols.relay.part import RELIABLE, RelayPart, RelayPort, on_announcement
from jgroups_py.protocols.relay.ports import (
    ForwarderPort,
    GatePort,
    JournalPort,
    NumberingPort,
    SiteNewsPort,
    SiteStatusPort,
    SyncPort,
    TrimmerPort,
)
from jgroups_py.protocols.relay.sites.table import OFFLINE, Site, SiteTable
from jgroups_py.stack.component import needs
from jgroups_py.stack.protocol import on, receives, timer

HOLES_NS = seconds(1)            # how often the relay looks for holes, and for what is too old


class Trimmer(RelayPart, TrimmerPort):
    """See the module. Everything but `trimmed` has an effect at the relay only."""

    group: LocalGroup = needs(LocalGroup)
    hold: Hold = needs(Hold)
    table: SiteTable = needs(SiteTable)
    numbering: NumberingPort = needs(NumberingPort)
    synchronizer: SyncPort = needs(SyncPort)
    status: SiteStatusPort = needs(SiteStatusPort)
    forwarder: ForwarderPort = needs(ForwarderPort)
    journal: JournalPort = needs(JournalPort)
    site_news: SiteNewsPort = needs(SiteNewsPort)
    send_gate: GatePort = needs(GatePort)

    def __init__(self, layer: RelayPort) -> None:
        super().__init__(layer)
        self.last_table: tuple[SiteRow, ...] = ()        # as this relay multicast it last
        self.full = False                                # as in that TRIM: the hold is full
        self.began_ns: int | None = None                 # when this member began its group, as its relay
        # (site, origin) -> the number that the site lacks and no member holds, since when
        self.holes: dict[tuple[str, Address], tuple[int, int]] = {}
        self.paused: dict[str, None] = {}                # sites that were paused at the last look

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        if self.group.is_relay and not self.group.was_relay:
            self.set_timer("holes", HOLES_NS)
            self.began_ns = self.now_ns if event.previous is None else None
        elif self.group.was_relay and not self.group.is_relay:
            self.last_table, self.full, self.holes = (), False, {}

    @on_announcement(SyncCompleted)
    def synced(self, event: SyncCompleted) -> None:
        self.publish_table()

    @on_announcement(SiteAcknowledged)
    def site_acknowledged(self, event: SiteAcknowledged) -> None:
        self.trim_soon()

    # --- TRIM -------------------------------------------------------------------------------------------------------

    def publish_table(self) -> None:
        self.set_timer("trim", 0)

    def trim_soon(self) -> None:
        self.set_timer_once("trim", self.config.trim_interval_ns)

    @timer("trim")
    def trim(self) -> None:
        """Multicast the site table and what holders may drop."""
        hold = self.hold
        if not self.group.is_relay or not self.synchronizer.complete:
            # A member that has not answered SYNC may hold for a site that is not in this table (relay rule 17).
            return
        for site in self.table:
            if site.status == OFFLINE:
                self.status.lose(site)
        self.limit_age()
        self.limit_bytes()
        below: Numbers = {}
        if not self.keeps_for_unknown_sites():
            below = self.table.droppable(hold.batches, self.numbering.current_numbers())
            below = {origin: number for origin, number in below.items() if number > hold.trimmed.get(origin, 1)}
        rows, full = self.table.rows(), self.hold_is_full()
        if below or rows != self.last_table or full != self.full:
            self.last_table, self.full = rows, full
            self.send(Trim(rows, below, full), dest=None, flags=RELIABLE)

    def keeps_for_unknown_sites(self) -> bool:
        """Whether nothing is dropped yet, though no site is known that it is held for."""
        return (self.began_ns is not None and not self.table.sites and self.hold.nbytes <= self.config.hold_bytes
                and self.now_ns - self.began_ns < self.config.split_grace_ns)

    def hold_is_full(self) -> bool:
        """on_full=block: whether senders wait. They go on at three quarters, so that they do not stop at every TRIM."""
        config, nbytes = self.config, self.hold.nbytes
        return config.on_full == BLOCK and nbytes > (config.hold_bytes * 3 // 4 if self.full else config.hold_bytes)

    @receives(Trim)
    def trimmed(self, header: Trim, batch: Batch) -> None:
        """The relay's TRIM, its own included."""
        if batch.src != self.group.view.coordinator:
            return self.drop("trim_of_no_coordinator", batch, "not of the coordinator of this view", header)
        self.site_news.follow_table(() if self.group.is_relay else header.table, header.below)
        self.watch_pauses()
        if self.group.is_relay and self.full and not self.hold_is_full():
            self.publish_table()
        return self.send_gate.shut(header.full, FULL)

    # --- limits -----------------------------------------------------------------------------------------------------

    def limit_age(self) -> None:
        """Nothing older than `hold_age` is held: neither for a site that is behind nor for a grace (relay rule 14).

        Time in which an operator's order kept it back does not count.
        """
        self.watch_pauses()
        before_ns = self.now_ns - self.config.hold_age_ns
        for site in self.table:
            while site.keeps_acknowledged and self.hold.has_older(site.trimmable, before_ns):
                site.end_oldest_grace()
                self.status.send_bases(site)
            if site.status != OFFLINE and not self.is_spared(site) and self.hold.has_older(site.acked, before_ns):
                self.status.take_offline(site, "it has not acknowledged for hold_age")

    def watch_pauses(self) -> None:
        """Note which sites are paused; where a pause has ended, the age of what was held for it counts from now on."""
        for site in self.table:
            if site.paused:
                self.paused[site.name] = None
            elif site.name in self.paused:
                del self.paused[site.name]
                site.resumed(self.now_ns)

    def is_spared(self, site: Site) -> bool:
        """Whether a site is paused, or was so within `hold_age`: it has that long to get what was held meanwhile."""
        resumed_ns = site.resumed_ns
        return site.paused or (
            resumed_ns is not None and self.now_ns - resumed_ns < self.config.hold_age_ns)

    def limit_bytes(self) -> None:
        """A full hold ends graces first; then the sites furthest behind go OFFLINE, no more of them than needed."""
        hold = self.hold
        limit_bytes = self.config.hold_bytes
        if hold.nbytes <= limit_bytes:
            return
        for site in self.table:
            if site.keeps_acknowledged:
                site.end_graces()
                self.status.send_bases(site)
        while self.config.on_full != BLOCK:
            kept = self.table.droppable(hold.batches, self.numbering.current_numbers())
            behind = {site.name: hold.bytes_from(site.acked) for site in self.table if site.status != OFFLINE}
            if hold.bytes_from(kept) <= limit_bytes or not any(behind.values()):
                return
            furthest = self.table.sites[max(behind, key=lambda name: behind[name])]
            self.status.take_offline(furthest, f"{behind[furthest.name]} bytes were held for it, more than hold_bytes")

    def give_up_holes(self) -> None:
        """Declare lost what no member of the view has held for `lost_after` (relay rule 18).

        Of an origin that is gone, another half may hold it, so this waits. An origin that is present holds all that is
        owed; if numbers are missing all the same, its later messages must not wait for them for ever.
        """
        awaited: dict[tuple[str, Address], tuple[int, int]] = {}
        for origin, end in self.numbering.current_numbers().items():
            for site in self.table:
                wanted = site.acked.get(origin, 1)
                held = self.hold.first_from(origin, wanted)
                if held is None:
                    held = end                    # nothing behind the hole is held: it ends where the origin does
                if held <= wanted:
                    continue
                number, since_ns = self.holes.get((site.name, origin), (wanted, self.now_ns))
                if number != wanted:
                    since_ns = self.now_ns
                awaited[site.name, origin] = wanted, since_ns
                waited_ns = self.now_ns - since_ns
                if waited_ns >= self.config.lost_after_ns and not self.journal.may_fill(origin, held):
                    self.drop("declared_lost", None, f"no member holds what {site.name} lacks of {origin} below {held}",
                              number=site.lose({origin: held}))
                    self.status.send_bases(site)
                    self.publish_table()
        self.holes = awaited
        self.forwarder.pump()

    def pass_over_holes(self) -> None:
        """While a grace runs, another half may bring what a site lacks again and no member here holds. After that it is
        reported as lost there, or it would block what follows it."""
        for site in self.table:
            if self.synchronizer.complete and not site.graces and site.lacks_no_longer(self.hold.first_from):
                self.status.send_bases(site)

    @timer("holes")
    def check(self) -> None:
        """As relay, each second: look for holes and for what is too old."""
        if self.group.is_relay:
            self.pass_over_holes()
            self.give_up_holes()
            if self.hold.batches:
                self.trim_soon()
            self.set_timer("holes", HOLES_NS)
