"""What the relay decides about other sites: DOWN, OFFLINE and back, what is lost, what holders drop.

DOWN is told by the bridge: no accepted relay for `site_down_after`, or the GOODBYE of a site's last member; traffic has
no say. OFFLINE is where memory ends: at `hold_bytes` and `hold_age` the sites furthest behind go first, or an operator
decides, or a site that stops for good asks for it. What is not acknowledged
then, and whatever is numbered until the site returns, is lost for it, declared by range at both sides. Only the
coordinator decides (a fenced one and one without a bridge too) and tells its members by TRIM. Rules 7, 14 and 18.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from jgroups_py.address import Address
from jgroups_py.batch import Batch
from jgroups_py.outputs import Note, StateAdvised
from jgroups_py.protocols.relay.config import BLOCK
from jgroups_py.protocols.relay.headers import Numbers, SiteRow, Standing, Trim
from jgroups_py.protocols.relay.receiving import RELIABLE
from jgroups_py.protocols.relay.sites import DOWN, OFFLINE, UP, Grace, Site

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.relay import Relay

GRACES_AT_ONCE = 8                           # of a site, about; what begins within a share of a grace is one of them


class Status:
    """See the module. One object a member; but for `trimmed` only the relay's does anything."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.table_told: tuple[SiteRow, ...] = ()        # what the last TRIM of ours said of the sites
        self.full = False                                # and whether it said that the hold is full
        self.holes: dict[tuple[str, Address], tuple[int, int]] = {}     # (site, origin) -> the number that it lacks and
                                                                        # nobody holds, since when
        self.takes_us_for: dict[str, int] = {}           # site -> our status over there, where its relay said so
        self.paused: dict[str, None] = {}                # sites that were paused when we looked last

    # --- UP and DOWN ------------------------------------------------------------------------------------------------

    def bridge_lost(self) -> None:
        """No other relay is seen any more: members of any site may have vanished unseen, sites may not show up."""
        for site in self.relay.table:
            self.start_grace(site)
        self.watch_absent()

    def watch_absent(self) -> None:
        """Sites without an accepted relay are DOWN if none comes in time."""
        for site in self.relay.table:
            if site.status == UP and self.relay.sending.peers.accepted(site.name) is None:
                self.relay.set_timer_once("site_down", self.relay.config.site_down_after_ns, site.name)

    def take_over_graces(self) -> None:
        """As a new relay, or one that merged: others may have begun graces unknown here. What is still held is kept."""
        trimmed = self.relay.hold.trimmed
        for site in self.relay.table:
            kept = {origin: min(number, trimmed.get(origin, 1)) for origin, number in site.acked.items()}
            site.graces.clear()                          # no other keeps more, or ends later
            self.start_grace(site, kept)

    def start_grace(self, site: Site, kept: Numbers | None = None) -> None:
        """Rule 7: who vanished may sit in another half and need what the rest has acknowledged.

        Every grace ends when its own time is over, or a site that changes all the time would never be trimmed for.
        kept: what holders need not keep below (None: what is acknowledged now).
        """
        if site.status == OFFLINE:
            return
        now_ns, grace_ns = self.relay.now_ns, self.relay.config.split_grace_ns
        until_ns = now_ns + grace_ns
        if site.graces and now_ns - site.graces[-1].began_ns < grace_ns // GRACES_AT_ONCE:
            site.graces[-1].until_ns = until_ns          # together with one that began just now, which keeps more
        else:
            site.graces.append(Grace(now_ns, until_ns, dict(site.acked) if kept is None else kept))
        self.relay.set_timer_once("grace", grace_ns, site.name)

    def grace_over(self, name: str) -> None:
        """The time of a site's oldest grace has passed."""
        site = self.relay.table.get(name)
        if site is None or not site.graces:
            return
        while site.graces and site.graces[0].until_ns <= self.relay.now_ns:
            del site.graces[0]
        if site.graces:
            self.relay.set_timer("grace", site.graces[0].until_ns - self.relay.now_ns, name)
        self.tell_gone(site)
        self.relay.set_timer_once("trim", self.relay.config.trim_interval_ns)

    def site_down(self, name: str) -> None:
        """The site had no accepted relay for `site_down_after`."""
        site = self.relay.table.get(name)
        if site is not None and site.status == UP and self.relay.sending.peers.accepted(name) is None:
            site.status = DOWN
            self.tell_table()

    def site_left(self, site: Site, forget: bool) -> None:
        """The site's last member left as planned: held for as after a crash, unless it asked to be forgotten."""
        if forget:
            site.members = ()
            self.take_offline(site, "its last member left for good", "warning")
        elif site.status == UP:
            self.relay.cancel_timer("site_down", site.name)
            site.status = DOWN
            self.relay.emit(Note("info", f"site {site.name} is DOWN: its last member left; what is for it is held"))
            self.tell_table()

    def relay_here(self, site: Site) -> None:
        """The accepted relay of a site said HELLO."""
        self.relay.cancel_timer("site_down", site.name)
        if site.status != OFFLINE:
            site.status = UP
        elif site.forbidden:
            self.tell_standing(site)
        else:
            self.bring_back(site)

    # --- OFFLINE and back -------------------------------------------------------------------------------------------

    def take_offline(self, site: Site, why: str, level: str = "error") -> None:
        """Hold nothing for the site any more: what it has not acknowledged is lost for it."""
        relay = self.relay
        site.status, site.draining = OFFLINE, None
        site.graces.clear()
        relay.cancel_timer("grace", site.name)
        lost = self.lose(site)
        relay.count("sites_given_up")
        relay.emit(Note(level, f"site {site.name} is OFFLINE: {why}; {lost} messages are lost for it"))
        for peer in relay.sending.peers.of(site.name):
            peer.recall()
        self.tell_gone(site)
        self.tell_standing(site)
        self.tell_table()

    def bring_back(self, site: Site) -> None:
        """UP again, from the current numbers on: what was numbered while it was OFFLINE is lost for it."""
        relay = self.relay
        self.lose(site)
        site.status = UP
        self.tell_gone(site)
        self.tell_standing(site, missed=True)
        self.tell_table()
        relay.emit(Note("info", f"site {site.name} is UP again, from the current numbers on"))

    def lose(self, site: Site) -> int:
        """All that is numbered and not acknowledged is lost for the site."""
        lost = site.lose(self.relay.current_numbers())
        if lost:
            self.relay.count("declared_lost", lost)
        return lost

    def tell_standing(self, site: Site, *, missed: bool = False) -> None:
        """Tell the site's relays what we take it for."""
        relay = self.relay
        header = Standing(relay.config.site, relay.view.id, site.status, site.forbidden, missed)
        relay.to_relays_of(site.name, header)

    def on_standing(self, header: Standing, src: Address) -> None:
        """Another site says what it takes us for. OFFLINE ends with our HELLO, which a slow site must not say at once:
        it would fill the hold again, and lose more than it gets."""
        relay = self.relay
        if relay.sending.obeyed(header.site, header.epoch, src) is None:
            return
        self.takes_us_for[header.site] = header.status
        if header.status == OFFLINE and not header.forbidden:
            relay.set_timer_once("return", relay.config.site_down_after_ns, header.site)
        else:
            relay.cancel_timer("return", header.site)
        if header.missed:
            relay.emit(StateAdvised(header.site))             # ours should ask it for a state (rule 16)

    def say_hello(self, name: str) -> None:
        """We were OFFLINE for a site long enough."""
        peer = self.relay.sending.peers.accepted(name)
        if peer is not None and self.relay.receiving.complete and self.takes_us_for.get(name) == OFFLINE:
            self.relay.sending.hello(peer.address, answer=False)

    # --- limits -----------------------------------------------------------------------------------------------------

    def limit_age(self) -> None:
        """What is older than `hold_age` is held for nobody: neither for a site that is behind nor for a grace.

        Time in which an operator's order kept it back does not count.
        """
        relay = self.relay
        self.watch_pauses()
        before_ns = relay.now_ns - relay.config.hold_age_ns
        for site in relay.table:
            while site.graces and relay.hold.has_older(site.graces[0].kept, before_ns):
                del site.graces[0]
                self.tell_gone(site)
            if site.status != OFFLINE and not self.is_spared(site) and relay.hold.has_older(site.acked, before_ns):
                self.take_offline(site, "it has not acknowledged for hold_age")

    def watch_pauses(self) -> None:
        """Note which sites are paused, and which are so no longer."""
        for site in self.relay.table:
            if site.paused:
                self.paused[site.name] = None
            elif site.name in self.paused:
                del self.paused[site.name]
                site.resumed_ns = self.relay.now_ns

    def is_spared(self, site: Site) -> bool:
        """Whether a site is paused, or was so too short a time ago to have what was held meanwhile."""
        resumed_ns = site.resumed_ns
        return site.paused or (
            resumed_ns is not None and self.relay.now_ns - resumed_ns < self.relay.config.hold_age_ns)

    def limit_bytes(self) -> None:
        """A full hold ends graces first; then the sites furthest behind go OFFLINE, no more of them than needed."""
        relay, hold = self.relay, self.relay.hold
        limit_bytes = relay.config.hold_bytes
        if hold.nbytes <= limit_bytes:
            return
        for site in relay.table:
            if site.graces:
                site.graces.clear()
                self.tell_gone(site)
        while relay.config.on_full != BLOCK:
            kept = relay.table.droppable(hold.runs, relay.current_numbers())
            behind = {site.name: hold.bytes_from(site.acked) for site in relay.table if site.status != OFFLINE}
            if hold.bytes_from(kept) <= limit_bytes or not any(behind.values()):
                return
            furthest = relay.table.sites[max(behind, key=lambda name: behind[name])]
            self.take_offline(furthest, f"{behind[furthest.name]} bytes were held for it, more than hold_bytes")

    def give_up_holes(self) -> None:
        """Rule 18: a run that nobody in the view has held for long is lost.

        Of an origin that is gone, another half may hold it. One that is present holds all that is owed; if numbers are
        missing all the same, its later messages must not wait for them for ever.
        """
        relay = self.relay
        awaited: dict[tuple[str, Address], tuple[int, int]] = {}
        for origin, end in relay.current_numbers().items():
            for site in relay.table:
                wanted = site.acked.get(origin, 1)
                held = relay.hold.first_from(origin, wanted)
                if held is None:
                    held = end                    # the last that our site delivered of the origin: they are gone too
                if held <= wanted:
                    continue
                number, since_ns = self.holes.get((site.name, origin), (wanted, relay.now_ns))
                if number != wanted:
                    since_ns = relay.now_ns
                awaited[site.name, origin] = wanted, since_ns
                waited_ns = relay.now_ns - since_ns
                if waited_ns >= relay.config.lost_after_ns and not relay.journal.may_fill(origin, held):
                    relay.count("declared_lost", site.lose({origin: held}))
                    self.tell_gone(site)
                    self.tell_table()
        self.holes = awaited
        relay.sending.pump()

    def tell_gone(self, site: Site) -> None:
        """Tell the relays of a site what will not come; of a dead origin no later message would."""
        for peer in self.relay.sending.peers.of(site.name):
            self.relay.sending.tell_base(peer)

    def check(self) -> None:
        """Now and then: what may be given up, or is too old."""
        self.give_up_holes()
        if self.relay.hold.runs:
            self.relay.set_timer_once("trim", self.relay.config.trim_interval_ns)

    # --- TRIM -------------------------------------------------------------------------------------------------------

    def tell_table(self) -> None:
        """A status or a view of another site changed: tell our members now."""
        self.relay.set_timer("trim", 0)

    def trim(self) -> None:
        """Multicast the site table and what holders may drop."""
        relay, hold = self.relay, self.relay.hold
        if not relay.is_relay or not relay.receiving.complete:
            return                                # who has not answered SYNC may hold for a site we know nothing of
        for site in relay.table:
            if site.status == OFFLINE:
                self.lose(site)
        self.limit_age()
        self.limit_bytes()
        below = relay.table.droppable(hold.runs, relay.current_numbers())
        below = {origin: number for origin, number in below.items() if number > hold.trimmed.get(origin, 1)}
        rows, full = relay.table.rows(), self.hold_is_full()
        if below or rows != self.table_told or full != self.full:
            self.table_told, self.full = rows, full
            relay.send(Trim(rows, below, full), dest=None, flags=RELIABLE)

    def hold_is_full(self) -> bool:
        """Whether senders are to wait; with a margin, so that they do not stop and go at every TRIM."""
        config, nbytes = self.relay.config, self.relay.hold.nbytes
        return config.on_full == BLOCK and nbytes > (config.hold_bytes * 3 // 4 if self.full else config.hold_bytes)

    def trimmed(self, header: Trim, batch: Batch) -> None:
        """The relay's TRIM, its own included."""
        relay = self.relay
        if batch.src != relay.view.coordinator:
            return relay.count("trim_of_no_coordinator")
        relay.follow_table(() if relay.is_relay else header.table, header.below)
        self.watch_pauses()
        if relay.is_relay and self.full and not self.hold_is_full():
            self.tell_table()
        return relay.gate.shut(header.full)

    def resigned(self) -> None:
        """We are no longer the relay."""
        self.table_told, self.full, self.holes, self.takes_us_for = (), False, {}, {}
        for site in self.relay.table:
            site.draining = None
