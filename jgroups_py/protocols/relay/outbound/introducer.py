"""Introductions and fencing of relays: HELLO, VIEW, REFUSED, GOODBYE (relay rules 8 to 11 and 13).

The relay sends HELLO, with what its site has acknowledged, to every relay on the bridge until it is answered; a HELLO
makes its sender a peer. A split site has a relay for each half. Only claims of the one with the highest epoch count;
the others get REFUSED. Otherwise each half could declare which of the site's messages are lost, and which members the
site has. A refused relay still holds, receives and acknowledges for its half. It raises its own epoch only if the relay
of the higher epoch is not on the bridge.
"""
from __future__ import annotations

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.counter_jumps import MAX_JUMP
from jgroups_py.model.events import RaiseView
from jgroups_py.model.outputs import RelayAccepted
from jgroups_py.model.units import seconds
from jgroups_py.model.version import OWN, misfit
from jgroups_py.model.view import View as GroupView
from jgroups_py.model.view import ViewId
from jgroups_py.protocols.relay.announcements import (
    BridgeGone,
    PeerGone,
    PeerIntroduced,
    SiteAcknowledged,
    SyncCompleted,
    TrustChanged,
)
from jgroups_py.protocols.relay.group import LocalGroup
from jgroups_py.protocols.relay.headers import Goodbye, HelloHeader, RefusedHeader, ViewHeader
from jgroups_py.protocols.relay.origin.hold import Hold
from jgroups_py.protocols.relay.outbound.duplicate_sites import DuplicateSites
from jgroups_py.protocols.relay.outbound.peers import RelayPeer, RelayPeers
from jgroups_py.protocols.relay.part import RelayPart, RelayPort, on_announcement, receives_from_bridge
from jgroups_py.protocols.relay.ports import (
    AcknowledgerPort,
    AdminPort,
    BridgePort,
    ForwarderPort,
    IntroducerPort,
    NumberingPort,
    SiteGuardPort,
    SiteStatusPort,
    SyncPort,
    TopicFilterPort,
    TrimmerPort,
)
from jgroups_py.protocols.relay.sites.table import UP, Site, SiteTable
from jgroups_py.stack.component import needs
from jgroups_py.stack.protocol import timer
from jgroups_py.windows.path import PathWindow
from jgroups_py.wire import Releases, releases_in

MOST_RAISE_NS = seconds(60)
SILENT_HELLO_NS = seconds(2)         # HELLO is repeated so often to a member of the bridge that has sent none itself
RAISES_FORGOTTEN_NS = seconds(120)       # after the pause that the last raise began


@attrs.define(eq=False)
class Raise:
    """Of one site that had this one raise its epoch: how often, when it may do so next, and what waits until then."""

    times: int = 0
    next_ns: int = 0
    waiting: RefusedHeader | None = None

    def again(self, now_ns: int, least_ns: int) -> None:
        """Note a raise."""
        self.times += 1
        self.next_ns = now_ns + min(least_ns << min(self.times - 1, 16), MOST_RAISE_NS)
        self.waiting = None


class Introducer(RelayPart, IntroducerPort):
    """See the module. Does nothing unless its member is the relay."""

    group: LocalGroup = needs(LocalGroup)
    hold: Hold = needs(Hold)
    table: SiteTable = needs(SiteTable)
    peers: RelayPeers = needs(RelayPeers)
    bridge: BridgePort = needs(BridgePort)
    numbering: NumberingPort = needs(NumberingPort)
    synchronizer: SyncPort = needs(SyncPort)
    acknowledger: AcknowledgerPort = needs(AcknowledgerPort)
    forwarder: ForwarderPort = needs(ForwarderPort)
    topic_filter: TopicFilterPort = needs(TopicFilterPort)
    status: SiteStatusPort = needs(SiteStatusPort)
    trimmer: TrimmerPort = needs(TrimmerPort)
    admin: AdminPort = needs(AdminPort)
    guard: SiteGuardPort = needs(SiteGuardPort)
    duplicate_sites: DuplicateSites = needs(DuplicateSites)

    def __init__(self, layer: RelayPort) -> None:
        super().__init__(layer)
        self.answered: dict[Address, ViewId] = {}        # bridge address -> epoch of the HELLO that it answered
        self.hello_epochs: dict[Address, ViewId] = {}    # bridge address -> the epoch of the last HELLO to it
        self.hello_sent_ns: dict[Address, int] = {}      # bridge address -> when that was
        self.early_views: dict[Address, ViewHeader] = {}     # bridge address -> a VIEW whose HELLO has not arrived yet
        self.early_refusals: dict[Address, RefusedHeader] = {}   # the same of a REFUSED
        self.raised: dict[str, Raise] = {}               # site -> when it had this one raise its epoch
        self.reported: dict[str, ViewId] = {}            # site -> the accepted epoch that was reported last
        self.release = OWN                               # what this relay runs
        self.goodbye_sent = False                        # this relay is leaving, and sends no HELLO any more

    # --- the bridge -------------------------------------------------------------------------------------------------

    @on_announcement(BridgeGone)
    def bridge_gone(self, event: BridgeGone) -> None:
        self.peers.clear()
        self.answered, self.hello_epochs, self.early_views, self.early_refusals = {}, {}, {}, {}
        self.hello_sent_ns = {}
        if event.for_good:
            self.cancel_timer("hello")

    def bridge_view_changed(self, view: GroupView) -> None:
        for peer in self.peers:
            if peer.address not in view:
                self.peer_gone(peer, graceful=False)
        self.duplicate_sites.bridge_view_changed(view)
        self.answered = {address: epoch for address, epoch in self.answered.items() if address in view}
        self.early_views = {address: early for address, early in self.early_views.items() if address in view}
        self.early_refusals = {address: early for address, early in self.early_refusals.items() if address in view}
        self.introduce()

    def peer_gone(self, peer: RelayPeer, *, graceful: bool) -> None:
        """A remote relay left the bridge. graceful: it sent GOODBYE."""
        self.peers.remove(peer.address)
        self.announce(PeerGone(peer))
        if not graceful:
            # Members of its site may have vanished with it, and be in another half (relay rule 7).
            self.status.start_grace(peer.site)
        # What only this relay had not acknowledged counts as acknowledged by its site from now on. It is computed here,
        # since the site's other relays may have acknowledged everything and then send no further SEEN.
        if peer.site.acknowledge(self.peers.acknowledged(peer.site.name)):
            self.announce(SiteAcknowledged(peer.site))
        self.status.watch_absent()

    # --- HELLO ------------------------------------------------------------------------------------------------------

    @on_announcement(SyncCompleted)
    def synced(self, event: SyncCompleted) -> None:
        """What this site has delivered is known now, so HELLO can carry it (relay rule 8)."""
        self.introduce()

    @timer("hello")
    def introduce(self) -> None:
        """Send HELLO to every bridge member that has not answered one of this epoch; again on a timer.

        Members that have sent none themselves get it less often: a standby does not answer before it is the relay, and
        a relay that was not ready sends HELLO when it is.
        """
        view, epoch = self.bridge.view, self.group.view.id
        if not self.group.is_relay or not self.synchronizer.complete or view is None:
            return
        waiting = [member for member in view.members
                   if member != self.bridge.own_address and self.answered.get(member) != epoch
                   and not self.guard.shut_out(member)]
        for member in waiting:
            silent = self.peers.get(member) is None and self.hello_epochs.get(member) == epoch
            if not silent or self.now_ns - self.hello_sent_ns.get(member, 0) >= SILENT_HELLO_NS:
                self.hello(member, answer=False)
        if waiting:
            self.set_timer("hello", self.config.hello_interval_ns)

    def hello(self, to: Address, *, answer: bool) -> None:
        if self.goodbye_sent:
            return
        site, epoch = self.config.site, self.group.view.id
        seen = {name: dict(numbers) for name, numbers in self.acknowledger.acked_out.items()}
        # VIEW first: if it shows that members vanished, the grace must begin at the other relay before the vector in
        # HELLO counts there, since only the remaining members have acknowledged that (relay rule 7).
        self.bridge.send_to(to, ViewHeader(site, epoch, self.group.view.members))
        self.bridge.send_to(to, HelloHeader(site, epoch, seen, answer), (), (Releases({self.me: self.release}),))
        self.topic_filter.send_interest(to)
        self.hello_epochs[to] = epoch
        self.hello_sent_ns[to] = self.now_ns
        peer = self.peers.get(to)
        if peer is not None:
            self.forwarder.send_base(peer, always=True)     # after HELLO, without which the other relay drops it

    @receives_from_bridge(HelloHeader)
    def on_hello(self, header: HelloHeader, batch: Batch) -> None:
        """A remote relay introduces itself: send it everything above what its site has acknowledged (relay rule 8)."""
        src = batch.src
        why = misfit([self.release], releases_in(batch).values(), f"the relay of site {header.site}", "this relay")
        if why:
            # The bridge's GMS keeps such relays apart before they get here; what a site sends is held meanwhile.
            self.warn(f"does not exchange messages with site {header.site}: {why}")
            return self.drop("releases_refused", batch, why, header)
        if header.answer and self.hello_epochs.get(src) == self.group.view.id:
            # Only then: an answer to the HELLO of an earlier view does not prove that the HELLO of this view arrived.
            self.answered[src] = self.group.view.id
        if header.site == self.config.site:
            self.duplicate_sites.hello_received(src, header.epoch)
            self.answered[src] = self.group.view.id        # the other half of this site: nothing is sent there
            return None
        if not (self.table.get(header.site) or Site(header.site)).plausible_epoch(header.epoch):
            return self.drop("implausible_dropped", batch, f"epoch {header.epoch} is far ahead", header)
        site = self.site_of(header)
        if site.goodbye_epoch is not None and header.epoch <= site.goodbye_epoch:
            # It was under way when its relay sent GOODBYE, or that relay answered a HELLO while it left.
            return self.drop("hello_after_goodbye", batch, f"its relay sent GOODBYE in epoch {site.goodbye_epoch}",
                             header)
        seen = header.seen.get(self.config.site, {})
        peer = self.peers.get(src)
        if peer is None:
            window = PathWindow(self.config.window_bytes, self.config.max_window_bytes)
            peer = RelayPeer(src, site, header.epoch, window, dict(seen), dict(seen), progress_ns=self.now_ns)
            self.peers.add(peer)
        elif header.epoch != peer.epoch:
            peer.begin_anew(seen, self.now_ns)       # members that joined or merged there may lack more
        peer.enter(header.epoch)
        peer.acknowledge(seen, self.now_ns)
        site.lacks(peer.acked)
        if site.accepts(header.epoch):
            self.status.relay_appeared(site)
        else:
            self.refuse(site, src, header)
        early = self.early_views.pop(src, None)
        if early is not None:
            self.take_view(early, src)
        refusal = self.early_refusals.pop(src, None)
        if refusal is not None:
            self.take_refusal(refusal, site.name)
        if header.answer:
            self.forwarder.send_base(peer, always=True)
        elif self.synchronizer.complete:
            self.hello(src, answer=True)
        site.acknowledge(self.peers.acknowledged(site.name))
        self.admin.check_drained(site)
        self.trimmer.publish_table()
        self.forwarder.pump_to(peer)
        return self.announce(PeerIntroduced(peer))

    def site_of(self, header: HelloHeader) -> Site:
        """The row of the relay's site. A site that is new begins at the current numbers (relay rule 14)."""
        site = self.table.get(header.site)
        if site is None:
            site = self.table.add(header.site)
            seen = header.seen.get(self.config.site, {})
            if seen:
                # It has messages of this site, so an earlier relay of this site had it in its table: a relay that
                # crashed before it multicast the table, or one of another half. What it has counts as acknowledged. A
                # grace keeps everything all the same: other members there may have less, and members here may hold it.
                site.acknowledge(seen)
                self.status.start_grace(site, kept={})
            else:
                site.begin(self.numbering.current_numbers())
            site.lose(self.hold.trimmed)
        return site

    @receives_from_bridge(ViewHeader)
    def on_view(self, header: ViewHeader, batch: Batch) -> None:
        """The members of another site."""
        self.take_view(header, batch.src)

    def take_view(self, header: ViewHeader, src: Address) -> None:
        """Take a VIEW: when it arrives, or when the HELLO that follows it has made its site known (relay rule 13)."""
        if header.site == self.config.site:
            return
        site = self.table.get(header.site)
        if site is None:
            self.early_views[src] = header                # the HELLO that follows makes the site known
        elif not site.accepts(header.epoch):
            self.refuse(site, src, header)
        elif site.view_epoch != header.epoch or site.members != header.members:
            if any(member not in header.members for member in site.members):
                self.status.start_grace(site)
            site.see(header.epoch, header.members)
            self.trimmer.publish_table()

    # --- fencing ----------------------------------------------------------------------------------------------------

    def accepted_sender(self, site_name: str, epoch: ViewId, header: Header, batch: Batch) -> RelayPeer | None:
        peer = self.peers.get(batch.src)
        if peer is None or peer.site.name != site_name:
            self.drop("non_peer_dropped", batch, f"its source is no relay of {site_name} that has sent HELLO", header)
            return None
        if not peer.site.accepts(epoch):
            self.refuse(peer.site, batch.src, header)
            return None
        peer.enter(max(peer.epoch, epoch))
        if self.reported.get(site_name) != epoch:
            self.reported[site_name] = epoch
            self.notify(RelayAccepted(site_name, epoch))
        return peer

    def refuse(self, site: Site, src: Address, header: Header) -> None:
        """Send REFUSED: a higher epoch of the relay's site is known (relay rule 11)."""
        if site.epoch is None:                        # an epoch that no site can have reached
            return self.drop("implausible_dropped", Batch(src, self.me), "its epoch is far ahead", header)
        holder = self.peers.accepted(site.name)
        self.count("refused")
        return self.bridge.send_to(src, RefusedHeader(site.epoch, holder.address if holder is not None else None))

    @receives_from_bridge(RefusedHeader)
    def on_refused(self, header: RefusedHeader, batch: Batch) -> None:
        """This relay is fenced. If the relay of the higher epoch is not on the bridge, raise the view above that epoch.

        If it is on the bridge, its claims count for the site, and the two halves merge once their network is whole
        (relay rule 11). Without raising, a site whose members have all restarted would be refused for ever, since its
        views count from 1 again.
        """
        self.count("fenced")
        site = self.guard.site_of(batch.src)
        if site is None:
            self.early_refusals[batch.src] = header       # its HELLO follows; nobody is obeyed before it names its site
        else:
            self.take_refusal(header, site)

    def take_refusal(self, header: RefusedHeader, site: str) -> None:
        """Raise the view above the epoch that another site knows, but not at any pace: each raise stops this group for
        a moment, so a site that has it raise again and again is obeyed ever later, once a minute in the end."""
        own, view = self.group.view.id, self.bridge.view
        if header.epoch <= own or (view is not None and header.relay is not None and header.relay in view):
            return
        raised = self.raised.get(site)
        if raised is not None and self.now_ns < raised.next_ns:
            self.drop("refusals_delayed", None, f"site {site} had the epoch raised {raised.times} times", header)
            raised.waiting = header
            return self.set_timer_once("raise", raised.next_ns - self.now_ns, site)
        if raised is None or self.now_ns > raised.next_ns + RAISES_FORGOTTEN_NS:
            raised = self.raised[site] = Raise()
        raised.again(self.now_ns, self.config.hello_interval_ns)
        # An epoch that is far ahead is reached in steps, since GMS refuses a view that jumps further.
        return self.pass_down(RaiseView(min(header.epoch.counter, own.counter + MAX_JUMP)))

    @timer("raise")
    def raise_later(self, site: str) -> None:
        """On a timer: obey a REFUSED that had to wait, if it still counts."""
        raised = self.raised.get(site)
        if raised is not None and raised.waiting is not None and self.group.is_relay:
            header, raised.waiting = raised.waiting, None
            self.take_refusal(header, site)

    # --- trust ------------------------------------------------------------------------------------------------------

    @on_announcement(TrustChanged)
    def trust_changed(self, event: TrustChanged) -> None:
        """Relays of sites that do not count any more are peers no longer; those that count again are greeted anew."""
        for peer in self.peers:
            if self.guard.shut_out(peer.address):
                self.answered.pop(peer.address, None)
                self.peer_gone(peer, graceful=True)
        self.introduce()

    # --- GOODBYE ----------------------------------------------------------------------------------------------------

    def goodbye(self, *, last: bool, forget: bool) -> None:
        self.goodbye_sent = True
        for peer in self.peers:
            self.bridge.send_to(peer.address, Goodbye(self.config.site, self.group.view.id, last, last and forget))

    @receives_from_bridge(Goodbye)
    def on_goodbye(self, header: Goodbye, batch: Batch) -> None:
        """A relay leaves as planned; with `last`, no member of its site stays (relay rule 10)."""
        peer = self.accepted_sender(header.site, header.epoch, header, batch)
        if peer is None:
            return
        peer.site.left(header.epoch)
        self.peer_gone(peer, graceful=True)
        if header.last and not self.peers.of(header.site):
            self.status.site_left(peer.site, header.forget)

    def knows_all_peers(self) -> bool:
        return all(site.status != UP or bool(self.peers.of(site.name)) for site in self.table)
