"""RELAY: joins the group of this site with the groups of other sites, and loses nothing when a relay dies.

The coordinator (the relay) joins a global group, the bridge. Multicasts are numbered by their origin, held by the
origin, the relay and the next `backups` members until every site has acknowledged them, forwarded by the relay, and
disseminated in the other site with a ProxyUUID as their sender. Every member drops what it has seen, so sending again
is always right: a new relay asks each site what it has seen and sends the rest. It is the top layer of the local
stack; the node gives it the bridge. Source: RELAY.txt (2010), whose failover Java JGroups never built.
Deviations from it: numbers per origin, contiguous prefixes, replay of the higher numbers (design/protocols/relay.md).

This file is the room's hall: numbering and holding, views, leaving; `receiving` brings other sites' messages here,
`sending` brings ours there, `status` decides about sites, `orders` obeys operators, `post` carries unicasts.
"""
from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from jgroups_py.address import Address, ProxyUUID
from jgroups_py.batch import NO_RELAY, NO_RELIABILITY, Batch, Header
from jgroups_py.disk import Told
from jgroups_py.events import (
    BridgeClosed,
    BridgeDelivered,
    BridgeView,
    LeaveWanted,
    SiteCommand,
    ViewChange,
)
from jgroups_py.jumps import MAX_JUMP
from jgroups_py.outputs import (
    CloseBridge,
    GlobalViewInstalled,
    MessagesLost,
    Note,
    OpenBridge,
    Output,
    SiteStatusChanged,
    ToBridge,
)
from jgroups_py.ports import SiteReporter
from jgroups_py.protocol import STOP, on, receives, timer
from jgroups_py.protocols.relay.bridge import from_bridge
from jgroups_py.protocols.relay.buffer import Hold
from jgroups_py.protocols.relay.config import RelayConfig
from jgroups_py.protocols.relay.copies import Copies
from jgroups_py.protocols.relay.divergence import Divergence
from jgroups_py.protocols.relay.gate import Gate
from jgroups_py.protocols.relay.headers import Numbered, Numbers, SiteRow
from jgroups_py.protocols.relay.interests import Interests, InterestTalk
from jgroups_py.protocols.relay.journal import Journal, JournalTalk
from jgroups_py.protocols.relay.leaving import Leaver
from jgroups_py.protocols.relay.memory import Memory
from jgroups_py.protocols.relay.orders import Orders
from jgroups_py.protocols.relay.post import Post
from jgroups_py.protocols.relay.receipts import Receipts, ReceiptTalk
from jgroups_py.protocols.relay.receiving import Receiving
from jgroups_py.protocols.relay.report import report
from jgroups_py.protocols.relay.sending import Sending
from jgroups_py.protocols.relay.sites import OFFLINE, STATUS_NAMES, UP, Book, Site, SiteTable, total
from jgroups_py.protocols.relay.state import States, StateTalk
from jgroups_py.protocols.relay.status import Status
from jgroups_py.protocols.relay.talk import LocalTalk
from jgroups_py.units import seconds
from jgroups_py.view import GlobalView, MergeView, View, ViewId

REOPEN_NS = seconds(1)          # after the bridge failed; an address that is taken stays taken for a while
HOLES_NS = seconds(1)


class Relay(LocalTalk, StateTalk, ReceiptTalk, JournalTalk, InterestTalk, SiteReporter):
    """See the module."""

    Config = RelayConfig
    config: RelayConfig

    def start(self) -> None:
        self.view = View(ViewId(0, self.me), (self.me,))          # until the first ViewChange
        self.has_view = False
        self.is_relay = False
        self.next_number = 1                      # of our own multicasts
        self.numbers: Numbers = {}                # own site: origin -> next number expected from it
        self.ends: Numbers = {}                   # own site: origin -> next number as others knew it (HAVE)
        self.hold = Hold()
        self.table = SiteTable()
        self.site_of_member: dict[Address, str] = {}
        self.statuses: dict[str, int] = {}        # as the application knows them
        self.global_view: GlobalView | None = None
        self.bridge_wanted = False
        self.receiving = Receiving(self)
        self.divergence = Divergence(self)
        self.copies = Copies(self)
        self.sending = Sending(self)
        self.status = Status(self)
        self.orders = Orders(self)
        self.gate = Gate(self.multicast)
        self.post = Post(self)
        self.interests = Interests(self)
        self.memory = Memory(self)
        self.journal = Journal(self)
        self.receipts = Receipts(self)
        self.states = States(self)
        self.leaver = Leaver(self)

    # --- numbering and holding --------------------------------------------------------------------------------------

    def down(self, batch: Batch) -> None:
        dest = batch.dest
        if dest is not None:
            return self.unicast(dest, batch)
        if batch.flags & NO_RELIABILITY:
            return self.pass_down(batch)
        if self.gate.closed:
            return self.gate.keep(batch)
        return self.multicast(batch)

    def multicast(self, batch: Batch) -> None:
        """Number what is for other sites too, and send it in ours."""
        if batch.flags & NO_RELAY:
            return self.pass_down(batch)
        first = self.next_number
        self.next_number = first + batch.count
        return self.pass_down(batch.push(Numbered(first)))

    @property
    def coming_number(self) -> int:
        """What the first message gets that the application multicasts next."""
        return self.next_number + self.gate.unnumbered

    def pending_bytes(self) -> int:
        return self.gate.nbytes + self.states.provider.nbytes

    def unicast(self, dest: Address, batch: Batch) -> None:
        """By address, not by class: a proxy may be local by now, a plain address remote."""
        if not self.has_view or dest in self.view:
            if isinstance(dest, ProxyUUID):
                batch = batch.replaced(dest=dest.original)
            return self.pass_down(batch)
        return self.post.send(dest, batch)

    @receives(Numbered)
    def numbered(self, header: Numbered, batch: Batch) -> None:
        """A multicast of our own site."""
        origin = batch.src
        if (self.numbers.get(origin) != header.first or self.divergence.forgotten) and \
                not self.divergence.numbered(origin, header.first):
            return self.count("jumps_refused", batch.count)
        self.numbers[origin] = header.first + batch.count
        if self.is_relay or origin == self.me or self.is_backup(self.me):
            self.hold_run(origin, header.first, batch, self.now_ns)
            if self.is_relay:
                self.sending.pump()
                if self.hold.nbytes > self.config.hold_bytes:
                    self.status.tell_table()
                else:
                    self.set_timer_once("trim", self.config.trim_interval_ns)
        self.pass_up(batch)
        self.receipts.polls.delivered(self.config.site, origin)
        return self.states.delivered()

    def hold_run(self, origin: Address, first: int, batch: Batch, since_ns: int) -> None:
        """Hold messages of our site until all others have them; on disk too, if there is one."""
        self.hold.add(origin, first, batch, since_ns)
        self.journal.added(origin, first, batch, since_ns)

    def is_backup(self, member: Address) -> bool:
        """Whether the member is one of the `backups` next in line."""
        return member in self.view.members[1:1 + self.config.backups]

    def current_numbers(self) -> Numbers:
        """Origin of our site -> the number that comes next, as far as is known here."""
        known = {**self.hold.trimmed, **dict.fromkeys(self.hold.runs, 1), **self.ends, **self.numbers}
        ends, end = self.ends, self.hold.end
        return {origin: max(number, end(origin), ends.get(origin, 1)) for origin, number in known.items()}

    def learn_ends(self, numbers: Numbers) -> None:
        """As relay: how far a member knew the origins of our site when this view began.

        We may have been elsewhere until then, as the founder of a group that merged: what they multicast before is
        neither owed to a site that is met from now on, nor forgotten for one that was met before. Apart from `numbers`,
        since it was not delivered here.
        """
        for origin, number in numbers.items():
            known = max(self.ends.get(origin, 0), self.numbers.get(origin, 0))
            if known and number - known > MAX_JUMP:
                self.count("jumps_refused")
            elif number > known and origin != self.me:
                self.ends[origin] = number

    # --- views ------------------------------------------------------------------------------------------------------

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        """A new local view: maybe a new relay; SYNC in any case."""
        was_relay = self.is_relay
        old_relay = self.view.coordinator if self.has_view else None
        members_before = len(self.view) if self.has_view else 0
        self.view, self.has_view = event.view, True
        self.is_relay = event.view.coordinator == self.me
        self.interests.view_changed(joined=bool(event.joined))
        self.divergence.view_changed(members_before)
        self.receiving.view_changed()
        if self.is_relay and not was_relay:
            self.open_bridge()
            self.status.take_over_graces()
            self.status.watch_absent()
            self.set_timer("holes", HOLES_NS)
        elif was_relay and not self.is_relay:
            self.close_bridge()
            self.status.resigned()
            self.orders.resigned()
        elif self.is_relay and isinstance(event.view, MergeView):
            self.status.take_over_graces()        # those of the other half's relay
        if old_relay is not None and old_relay != event.view.coordinator:
            self.post.relay_changed()
            self.gate.shut(False)                 # the new relay says soon if its hold is full too
        if not self.timer_is_set("forget"):
            self.set_timer("forget", self.config.forget_after_ns)
        self.receipts.view_changed()
        self.journal.trimmed()
        self.states.view_changed(old_relay != event.view.coordinator)
        self.publish()

    def follow_table(self, rows: tuple[SiteRow, ...], below: Numbers, *, joined: bool = False) -> None:
        """What the relay knows of the sites, and what holders drop. joined: what was lost before is not our concern."""
        epochs = {site.name: site.epoch for site in self.table}
        self.table.follow(rows, self.hold.trimmed)
        for origin, number in below.items():
            self.hold.drop_below(origin, number)
        self.journal.trimmed()
        if joined:
            for site in self.table:
                site.untold.clear()
        self.publish()
        if any(epochs.get(site.name) != site.epoch for site in self.table):
            self.post.relay_changed()

    def publish(self) -> None:
        """Tell the application what changed: site statuses, losses, the global view."""
        self.site_of_member = {member: site.name for site in self.table for member in site.members}
        for site in self.table:
            if site.status != OFFLINE or self.statuses.get(site.name) != OFFLINE:
                self.tell_losses(site)
            if self.statuses.get(site.name) != site.status:
                self.statuses[site.name] = site.status
                self.tell(SiteStatusChanged(site.name, STATUS_NAMES[site.status]))
                if site.status != UP:
                    self.memory.site_away(site.name)
                    self.post.resend()
        self.receipts.sites_changed()
        self.leaving_check()
        if not (self.config.present_global_views and self.has_view):
            return
        sites: dict[str, tuple[Address, ...]] = {self.config.site: self.view.members}
        for site in self.table:
            if site.status == UP and site.members:
                sites[site.name] = tuple(ProxyUUID(member, None, site.name) for member in site.members)
        view = GlobalView(sites)
        if view != self.global_view:
            self.global_view = view
            self.tell(GlobalViewInstalled(view))

    def tell(self, output: Output) -> None:
        """Tell the application; ARCHIVE, above, records it."""
        self.emit(output)
        self.pass_up(Told(output))

    def tell_losses(self, site: Site) -> None:
        """Of a site that is OFFLINE the application hears when it goes and when it returns, not all the time."""
        untold, site.untold = site.untold, {}
        for origin, ranges in untold.items():
            for first, stop in ranges:
                self.tell(MessagesLost(self.config.site, origin, first, stop, site.name))

    # --- what an operator says ----------------------------------------------------------------------------------------

    @on(SiteCommand)
    def site_command(self, event: SiteCommand) -> object:
        self.orders.command(event)
        return STOP

    # --- the bridge -------------------------------------------------------------------------------------------------

    def open_bridge(self) -> None:
        """Ask the node for the bridge stack."""
        self.bridge_wanted = True
        self.sending.stop()
        self.emit(OpenBridge(self.config.bridge_props, self.config.bridge_name))

    def close_bridge(self) -> None:
        """We are no longer the relay."""
        self.bridge_wanted = False
        self.sending.stop()
        self.cancel_timer("hello")
        self.emit(CloseBridge())

    def to_bridge(
        self, to: Address, header: Header, payloads: tuple[bytes, ...] = (), headers: tuple[Header, ...] = (),
    ) -> None:
        """Send to a relay on the bridge (reliable and in order there)."""
        self.emit(ToBridge(Batch(self.me, to, payloads, (*headers, header), 0)))

    def to_relays_of(self, site: str, header: Header) -> None:
        """The same to all relays of a site that are on the bridge."""
        for peer in self.sending.peers.of(site):
            self.to_bridge(peer.address, header)

    @on(BridgeView)
    def bridge_view_changed(self, event: BridgeView) -> None:
        if self.is_relay and self.bridge_wanted:
            self.sending.bridge_view_changed(event.view, event.me)

    @on(BridgeClosed)
    def bridge_closed(self, event: BridgeClosed) -> None:
        """The bridge stack is gone; open it again unless that was wanted."""
        self.sending.stop()
        if self.leaving:
            self.leaver.left_bridge()
        elif self.is_relay and self.bridge_wanted and event.reason != "opened again":
            self.emit(Note("warning", f"the bridge closed ({event.reason}); it is opened again"))
            self.status.bridge_lost()
            self.set_timer("reopen", REOPEN_NS)

    @on(BridgeDelivered)
    def bridge_delivered(self, event: BridgeDelivered) -> None:
        """A message from another relay."""
        if self.is_relay and event.batch.headers:
            from_bridge(self, event.batch)
        else:
            self.count("from_bridge_while_not_relay")

    # --- leaving ----------------------------------------------------------------------------------------------------

    @property
    def leaving(self) -> bool:
        """Whether the application wants to leave."""
        return self.leaver.leaving

    @on(LeaveWanted)
    def leave_wanted(self, event: LeaveWanted) -> None:
        self.leaver.begin(event.forget)

    def leaving_check(self) -> None:
        """Something arrived that a leaving member may wait for."""
        self.leaver.check()

    @timer("leave")
    def leave(self) -> None:
        self.leaver.go()

    @timer("left_bridge")
    def left_bridge(self) -> None:
        self.leaver.left_bridge()

    # --- timers -----------------------------------------------------------------------------------------------------

    def set_timer_once(self, name: str, delay_ns: int, about: Hashable = None) -> None:
        """Set a timer unless it is set."""
        if not self.timer_is_set(name, about):
            self.set_timer(name, delay_ns, about)

    @timer("reopen")
    def reopen(self) -> None:
        if self.is_relay and self.bridge_wanted and self.sending.bridge_view is None:
            self.open_bridge()

    @timer("holes")
    def check_holes(self) -> None:
        if self.is_relay:
            self.status.check()
            self.set_timer("holes", HOLES_NS)

    @timer("forget")
    def forget(self) -> None:
        self.memory.forget()
        self.set_timer("forget", self.config.forget_after_ns)

    # --- figures ----------------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, float]:
        """Counters, what is held, and the ledger's sums for each other site."""
        found = super().stats()
        found.update(numbered=self.next_number - 1, held_messages=self.hold.messages, held_bytes=self.hold.nbytes,
                     letters_waiting=self.post.out.waiting, **self.journal.stats())
        for name, books in self.ledger().items():
            found[f"status_{name}"] = self.table.sites[name].status
            for figure, number in total(books.values()).items():
                found[f"{figure}_{name}"] = number
        return found

    def site_report(self) -> dict[str, Any]:
        return report(self)

    def ledger(self) -> dict[str, dict[Address, Book]]:
        """Rule 15: other site -> origin of ours -> what became of its messages. Our own is exact at any moment."""
        stops = {**self.current_numbers(), self.me: self.next_number}
        return {site.name: {origin: site.book(origin, stop) for origin, stop in stops.items()} for site in self.table}
