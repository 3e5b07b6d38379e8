"""RELAY: joins the group of this site with the groups of other sites, and loses nothing when a relay dies.

The coordinator (the relay) joins a global group, the bridge. Multicasts are numbered by their origin, held by the
origin, the relay and the next `backups` members until every site has acknowledged them, forwarded by the relay, and
disseminated in the other site with a ProxyUUID as their sender. Every member drops what it has seen, so sending again
is always right: a new relay asks each site what it has seen and sends the rest. It is the top layer of the local
stack; the node gives it the bridge. Source: RELAY.txt (2010), whose failover Java JGroups never built.
Deviations from it: numbers per origin, contiguous prefixes, replay of the higher numbers (design/protocols/relay.md).

This file is the room's hall: numbering and holding, views, leaving; `receiving` brings other sites' messages here,
`sending` brings ours there, `post` carries unicasts.
"""
from __future__ import annotations

from collections.abc import Hashable

from jgroups_py.address import Address, ProxyUUID
from jgroups_py.batch import NO_RELAY, NO_RELIABILITY, Batch, Header
from jgroups_py.events import (
    BridgeClosed,
    BridgeDelivered,
    BridgeView,
    LeaveWanted,
    ViewChange,
)
from jgroups_py.outputs import (
    CloseBridge,
    GlobalViewInstalled,
    Note,
    OpenBridge,
    ReadyToLeave,
    SiteStatusChanged,
    ToBridge,
)
from jgroups_py.protocol import Protocol, on, receives, timer
from jgroups_py.protocols.relay.bridge import from_bridge
from jgroups_py.protocols.relay.buffer import Hold
from jgroups_py.protocols.relay.config import RelayConfig
from jgroups_py.protocols.relay.headers import (
    Base,
    Confirm,
    Copy,
    Disseminate,
    Fetch,
    Have,
    Letter,
    LetterSeen,
    Numbered,
    Numbers,
    SiteRow,
    Sync,
    Trim,
)
from jgroups_py.protocols.relay.memory import Memory
from jgroups_py.protocols.relay.post import Post
from jgroups_py.protocols.relay.receiving import Receiving
from jgroups_py.protocols.relay.sending import Sending
from jgroups_py.protocols.relay.sites import DOWN, STATUS_NAMES, UP, SiteTable
from jgroups_py.units import seconds
from jgroups_py.view import GlobalView, View

REOPEN_NS = seconds(1)          # after the bridge failed; an address that is taken stays taken for a while
BRIDGE_LEAVE_NS = seconds(1)    # a leaving relay waits this long for its leave of the bridge
HOLES_NS = seconds(1)


class Relay(Protocol):
    """See the module."""

    Config = RelayConfig
    config: RelayConfig

    def start(self) -> None:
        self.view = View.__new__(View)            # replaced by the first ViewChange, which comes before anything else
        self.has_view = False
        self.is_relay = False
        self.next_number = 1                      # of our own multicasts
        self.numbers: Numbers = {}                # own site: origin -> next number expected from it
        self.hold = Hold()
        self.table = SiteTable()
        self.site_of_member: dict[Address, str] = {}
        self.statuses: dict[str, int] = {}        # as the application knows them
        self.global_view: GlobalView | None = None
        self.bridge_wanted = self.leaving = False
        self.receiving = Receiving(self)
        self.sending = Sending(self)
        self.post = Post(self)
        self.memory = Memory(self)

    # --- numbering and holding --------------------------------------------------------------------------------------

    def down(self, batch: Batch) -> None:
        dest = batch.dest
        if dest is not None:
            return self.unicast(dest, batch)
        if batch.flags & (NO_RELAY | NO_RELIABILITY):
            return self.pass_down(batch)
        first = self.next_number
        self.next_number = first + batch.count
        return self.pass_down(batch.push(Numbered(first)))

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
        self.numbers[origin] = header.first + batch.count
        if self.is_relay or origin == self.me or self.is_backup(self.me):
            self.hold.add(origin, header.first, batch, self.now_ns)
            if self.is_relay:
                self.sending.pump()
                self.set_timer_once("trim", self.config.trim_interval_ns)
        self.pass_up(batch)

    def is_backup(self, member: Address) -> bool:
        """Whether the member is one of the `backups` next in line."""
        return member in self.view.members[1:1 + self.config.backups]

    def current_numbers(self) -> Numbers:
        """Origin of our site -> the number that comes next."""
        return dict(self.numbers)

    # --- views ------------------------------------------------------------------------------------------------------

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        """A new local view: maybe a new relay; SYNC in any case."""
        was_relay = self.is_relay
        old_relay = self.view.coordinator if self.has_view else None
        self.view, self.has_view = event.view, True
        self.is_relay = event.view.coordinator == self.me
        self.receiving.view_changed()
        if self.is_relay and not was_relay:
            self.open_bridge()
            self.sending.watch_sites()
            self.set_timer("holes", HOLES_NS)
        elif was_relay and not self.is_relay:
            self.close_bridge()
        if old_relay is not None and old_relay != event.view.coordinator:
            self.post.relay_changed()
        if not self.timer_is_set("forget"):
            self.set_timer("forget", self.config.forget_after_ns)
        self.publish()

    def follow_table(self, rows: tuple[SiteRow, ...], below: Numbers) -> None:
        """As member: what the relay knows of the sites, and what holders drop."""
        epochs = {site.name: site.epoch for site in self.table}
        self.table.follow(rows)
        for origin, number in below.items():
            self.hold.drop_below(origin, number)
        self.publish()
        if any(epochs.get(site.name) != site.epoch for site in self.table):
            self.post.relay_changed()

    def publish(self) -> None:
        """Tell the application what changed: site statuses, the global view."""
        self.site_of_member = {member: site.name for site in self.table for member in site.members}
        for site in self.table:
            if self.statuses.get(site.name) != site.status:
                self.statuses[site.name] = site.status
                self.emit(SiteStatusChanged(site.name, STATUS_NAMES[site.status]))
                if site.status != UP:
                    self.post.resend()
        if not (self.config.present_global_views and self.has_view):
            return
        sites: dict[str, tuple[Address, ...]] = {self.config.site: self.view.members}
        for site in self.table:
            if site.status not in (DOWN,) and site.members:
                sites[site.name] = tuple(ProxyUUID(member, None, site.name) for member in site.members)
        view = GlobalView(sites)
        if view != self.global_view:
            self.global_view = view
            self.emit(GlobalViewInstalled(view))

    # --- messages of the local group --------------------------------------------------------------------------------

    @receives(Sync)
    def on_sync(self, header: Sync, batch: Batch) -> None:
        self.receiving.sync(header, batch)

    @receives(Have)
    def on_have(self, header: Have, batch: Batch) -> None:
        self.receiving.have(header, batch)

    @receives(Fetch)
    def on_fetch(self, header: Fetch, batch: Batch) -> None:
        self.receiving.fetch(header, batch)

    @receives(Copy)
    def on_copy(self, header: Copy, batch: Batch) -> None:
        self.receiving.copy(header, batch)

    @receives(Disseminate)
    def on_disseminate(self, header: Disseminate, batch: Batch) -> None:
        self.receiving.disseminate(header, batch)

    @receives(Base)
    def on_base(self, header: Base, batch: Batch) -> None:
        self.receiving.base(header, batch)

    @receives(Confirm)
    def on_confirm(self, header: Confirm, batch: Batch) -> None:
        self.receiving.confirms(header, batch)

    @receives(Trim)
    def on_trim(self, header: Trim, batch: Batch) -> None:
        if batch.src != self.view.coordinator:
            return self.count("trim_of_no_coordinator")
        if self.is_relay:
            for origin, number in header.below.items():
                self.hold.drop_below(origin, number)
            return self.publish()
        return self.follow_table(header.table, header.below)

    @receives(Letter)
    def on_letter(self, header: Letter, batch: Batch) -> None:
        self.post.onward(header, batch)

    @receives(LetterSeen)
    def on_letter_seen(self, header: LetterSeen, batch: Batch) -> None:
        self.post.seen_onward(header)

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

    @on(BridgeView)
    def bridge_view_changed(self, event: BridgeView) -> None:
        if self.is_relay and self.bridge_wanted:
            self.sending.bridge_view_changed(event.view, event.me)

    @on(BridgeClosed)
    def bridge_closed(self, event: BridgeClosed) -> None:
        """The bridge stack is gone; open it again unless that was wanted."""
        self.sending.stop()
        if self.leaving:
            self.emit(ReadyToLeave())
            self.cancel_timer("left_bridge")
        elif self.is_relay and self.bridge_wanted and event.reason != "opened again":
            self.emit(Note("warning", f"the bridge closed ({event.reason}); it is opened again"))
            self.sending.watch_sites()
            self.set_timer("reopen", REOPEN_NS)

    @on(BridgeDelivered)
    def bridge_delivered(self, event: BridgeDelivered) -> None:
        """A message from another relay."""
        if self.is_relay and event.batch.headers:
            from_bridge(self, event.batch)
        else:
            self.count("from_bridge_while_not_relay")

    # --- leaving ----------------------------------------------------------------------------------------------------

    @on(LeaveWanted)
    def leave_wanted(self, event: LeaveWanted) -> None:
        """Rule 10: hand over what we hold, for `leave_timeout` at most, say GOODBYE, go."""
        if self.leaving:
            return
        self.leaving = True
        if not self.has_view:
            return self.emit(ReadyToLeave())
        self.set_timer("leave", self.config.leave_timeout_ns)
        return self.leaving_check()

    def leaving_check(self) -> None:
        """Whether a leaving member has nothing left to wait for."""
        if self.leaving and self.timer_is_set("leave") and not self.post.out.waiting and (
                not self.is_relay or self.sending.everything_acknowledged()):
            self.cancel_timer("leave")
            self.leave()

    @timer("leave")
    def leave(self) -> None:
        if not (self.is_relay and self.bridge_wanted):
            return self.emit(ReadyToLeave())
        self.sending.goodbye()
        self.set_timer("left_bridge", BRIDGE_LEAVE_NS)
        return self.emit(CloseBridge())

    @timer("left_bridge")
    def left_bridge(self) -> None:
        """The bridge did not let us go in time."""
        self.emit(ReadyToLeave())

    # --- timers -----------------------------------------------------------------------------------------------------

    def set_timer_once(self, name: str, delay_ns: int, about: Hashable = None) -> None:
        """Set a timer unless it is set."""
        if not self.timer_is_set(name, about):
            self.set_timer(name, delay_ns, about)

    @timer("reopen")
    def reopen(self) -> None:
        if self.is_relay and self.bridge_wanted and self.sending.bridge_view is None:
            self.open_bridge()

    @timer("hello")
    def hello_again(self) -> None:
        self.sending.introduce()

    @timer("ack")
    def acknowledge(self) -> None:
        if self.is_relay:
            self.receiving.acknowledge()

    @timer("confirm")
    def confirm(self) -> None:
        self.receiving.confirm()

    @timer("trim")
    def trim(self) -> None:
        self.sending.trim()

    @timer("resend")
    def resend(self) -> None:
        self.sending.probe()

    @timer("letters")
    def resend_letters(self) -> None:
        self.post.resend()

    @timer("letters_seen")
    def acknowledge_letters(self) -> None:
        self.post.acknowledge_arrived()

    @timer("site_down")
    def site_down(self, site: str) -> None:
        if self.is_relay:
            self.sending.site_down(site)

    @timer("grace")
    def grace_over(self, site: str) -> None:
        self.sending.grace_over(site)

    @timer("raise")
    def raise_again(self) -> None:
        """Only spaces RaiseView events."""

    @timer("holes")
    def give_up_holes(self) -> None:
        if self.is_relay:
            self.sending.give_up_holes()
            self.set_timer("holes", HOLES_NS)

    @timer("forget")
    def forget(self) -> None:
        self.memory.forget()
        self.set_timer("forget", self.config.forget_after_ns)

    # --- figures ----------------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, float]:
        """Counters, what is held, and per other site how many of our messages it has not acknowledged."""
        found = super().stats()
        found.update(numbered=self.next_number - 1, held_messages=self.hold.messages, held_bytes=self.hold.nbytes,
                     letters_waiting=self.post.out.waiting)
        for site in self.table:
            found[f"unacknowledged_{site.name}"] = sum(
                max(0, number - site.acked.get(origin, 1)) for origin, number in self.numbers.items())
        return found
