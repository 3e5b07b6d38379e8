"""The way of unicasts between sites: origin -> its relay -> the other relay -> destination; acknowledgements go back.

Where a unicast goes is decided by address, not by class (relay rule 12): to a member of the local view directly, to a
member of another site's view through both relays, else it is unreachable. Relays keep nothing of it, so their crash
costs no more than a retransmission: numbers, retention and retransmissions are the origin's, order and duplicates the
destination's (outbox.py).
"""
from __future__ import annotations

from collections.abc import Iterable

from jgroups_py.model.address import Address, ProxyUUID
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.counter_jumps import TOP
from jgroups_py.model.events import ViewChange
from jgroups_py.model.outputs import Unreachable
from jgroups_py.model.units import seconds
from jgroups_py.protocols.relay.announcements import EpochRaised, OriginForgotten, SiteNoLongerUp, UnicastsAcknowledged
from jgroups_py.protocols.relay.group import LocalGroup
from jgroups_py.protocols.relay.headers import SiteUnicast, SiteUnicastSeen
from jgroups_py.protocols.relay.outbound.peers import RelayPeers
from jgroups_py.protocols.relay.part import RELIABLE, RelayPart, RelayPort, on_announcement, receives_from_bridge
from jgroups_py.protocols.relay.ports import BridgePort, IntroducerPort, SiteGuardPort, SiteNewsPort, UnicastPort
from jgroups_py.protocols.relay.sites.table import UP, SiteTable
from jgroups_py.protocols.relay.unicast.outbox import UnicastInbox, UnicastOutbox, UnicastOutboxes
from jgroups_py.stack.component import needs
from jgroups_py.stack.protocol import on, receives, timer

SILENCE_NS = seconds(2)          # a site without traffic for so long was cut off, not slow


class UnicastRouter(RelayPart, UnicastPort):
    """See the module."""

    group: LocalGroup = needs(LocalGroup)
    table: SiteTable = needs(SiteTable)
    peers: RelayPeers = needs(RelayPeers)
    bridge: BridgePort = needs(BridgePort)
    introducer: IntroducerPort = needs(IntroducerPort)
    site_news: SiteNewsPort = needs(SiteNewsPort)
    guard: SiteGuardPort = needs(SiteGuardPort)

    def __init__(self, layer: RelayPort) -> None:
        super().__init__(layer)
        self.out = UnicastOutboxes()
        self.inbox = UnicastInbox()
        self.to_ack: dict[Address, str] = {}            # origin -> its site; acknowledged on a timer
        self.traffic_ns: dict[str, int] = {}            # site -> when something last arrived from it

    # --- the origin -------------------------------------------------------------------------------------------------

    def route(self, dest: Address, batch: Batch) -> None:
        """Route a unicast of the application by address: a proxy may be local by now, a plain address remote."""
        if not self.group.has_view or dest in self.group.view:
            if isinstance(dest, ProxyUUID):
                batch = batch.replaced(dest=dest.original)
            return self.pass_down(batch)
        return self.send_to_site(dest, batch)

    def send_to_site(self, dest: Address, batch: Batch) -> None:
        """A unicast to a member that is not in the local view."""
        known = self.out.get(dest)
        site = self.table.get(self.site_news.site_of_member.get(dest, known.site if known is not None else ""))
        if site is None or site.status != UP or self.out.waiting >= self.config.max_unicasts:
            not_up = site is None or site.status != UP
            self.drop("unreachable", batch, "it is at no site that is UP" if not_up else "max_unicasts wait already")
            return self.notify(Unreachable(dest))
        box = self.out.box(dest, site.name)
        first = box.add(batch, self.now_ns)
        self.send_first_time(box, first, batch)
        self.set_timer_once("unicasts", self.config.resend_interval_ns)
        return None

    def send_first_time(self, box: UnicastOutbox, first: int, batch: Batch) -> None:
        """Send a batch on its way, as this member's own."""
        header = SiteUnicast(self.me, self.config.site, box.dest, box.site, first, box.base, batch.flags, None)
        self.forward(header, batch)

    @timer("unicasts")
    def check_outboxes(self) -> None:
        """On a timer while unicasts wait: give up what is too old, retransmit what was not acknowledged."""
        oldest_ns = self.now_ns - self.config.unicast_timeout_ns
        waiting = False
        for box in self.out:
            site = self.table.get(box.site)
            not_up = site is None or site.status != UP
            stop = box.next_number if not_up and box.batches else box.expired(oldest_ns)
            if stop is not None:
                self.give_up(box, stop)
            waiting = waiting or bool(box.batches)
            if box.retransmission_due(self.now_ns, self.config.resend_interval_ns):
                self.retransmit(box)
        if waiting:
            self.set_timer_once("unicasts", self.config.resend_interval_ns)

    def retransmit(self, box: UnicastOutbox) -> None:
        """Send the unacknowledged unicasts to one destination again, one window of them at most."""
        room = self.config.window_bytes
        for first, batch, _ in list(box.batches):
            self.count("unicasts_retransmitted", batch.count)
            self.send_first_time(box, first, batch)
            room -= batch.nbytes
            if room <= 0:
                break
        box.retransmitted(self.now_ns)

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        if self.group.relay_changed:
            self.retransmit_all()

    @on_announcement(EpochRaised)
    def remote_relay_changed(self, event: EpochRaised) -> None:
        self.retransmit_all()

    @on_announcement(SiteNoLongerUp)
    def site_no_longer_up(self, event: SiteNoLongerUp) -> None:
        """Unicasts to it are given up at once, not after `unicast_timeout` (relay rule 12)."""
        self.check_outboxes()

    def retransmit_all(self) -> None:
        """This site, or another one, has a new relay. What the old one had not forwarded is lost with it; this member,
        the origin, still holds it (relay rule 12).
        """
        if self.out.waiting:
            for box in self.out:
                box.end_backoff()
                self.retransmit(box)

    def traffic_from(self, site: str) -> None:
        """Traffic after a silence: the path was cut, not slow, so no queue is full, and backoff ends."""
        now_ns = self.now_ns
        before_ns, self.traffic_ns[site] = self.traffic_ns.get(site, now_ns), now_ns
        if now_ns - before_ns > SILENCE_NS:
            for box in self.out:
                if box.site == site:
                    box.end_backoff()

    def give_up(self, box: UnicastOutbox, below: int) -> None:
        """Give up the unicasts below a number; the application gets `unreachable` once (relay rule 12)."""
        before = box.base
        if box.acknowledge(below, self.now_ns):
            self.drop("unreachable", None, f"{box.dest} did not acknowledge: its site is not UP or has no such member, "
                      "or unicast_timeout is over", number=box.base - before)
            self.notify(Unreachable(box.dest))

    # --- every hop --------------------------------------------------------------------------------------------------

    @receives_from_bridge(SiteUnicast)
    def from_other_site(self, header: SiteUnicast, batch: Batch) -> None:
        """A unicast from the bridge; it counts from the accepted relay of the origin's site only (relay rule 11)."""
        if header.epoch is None:
            return self.drop("unexpected_on_bridge", batch, "it is without the epoch of its origin's relay", header)
        if self.introducer.accepted_sender(header.origin_site, header.epoch, header, batch) is None:
            return None
        if not self.guard.rights(header.origin_site).sends:
            return self.drop("not_taken_dropped", batch, f"{header.origin_site} may send nothing (trust file)", header)
        self.forward(header, batch)
        return None

    @receives(SiteUnicast)
    def forward(self, header: SiteUnicast, batch: Batch) -> None:
        """Send a unicast one hop further: to the relay of this site, over the bridge, or to the destination."""
        if header.first > TOP:
            return self.drop("implausible_dropped", batch, "no number is so high", header)
        if header.dest == self.me:
            self.deliver(header, batch)
        elif header.dest_site == self.config.site:
            if header.dest in self.group.view:
                self.send_in_site(header.dest, header, batch)
            else:
                self.drop("unicasts_to_unknown", batch, f"{header.dest} is not in this view", header)
                self.acknowledge(header.origin, header.origin_site, header.dest,
                                 header.first + batch.count, known=False)
        elif self.group.is_relay:
            peer = self.peers.accepted(header.dest_site)
            if not self.guard.may_receive_all(header.dest_site):
                return self.drop("withheld", batch, f"{header.dest_site} may receive no unicasts (trust file)", header)
            if peer is None:
                # The origin still holds it, and sends it again on its timer and when a relay changes (relay rule 12).
                return self.drop("unicasts_without_relay", batch, f"{header.dest_site} has no accepted relay on the "
                                 "bridge", header)
            self.bridge.send_to(peer.address, header.stamped(self.group.view.id), batch.payloads, batch.headers)
        else:
            self.send_in_site(self.group.view.coordinator, header, batch)
        return None

    def send_in_site(self, to: Address, header: Header, batch: Batch) -> None:
        """Send a unicast between sites one hop within this site."""
        self.pass_down(Batch(self.me, to, batch.payloads, (*batch.headers, header), RELIABLE))

    # --- the destination --------------------------------------------------------------------------------------------

    def deliver(self, header: SiteUnicast, batch: Batch) -> None:
        """A unicast for this member: deliver what is new and in order, and acknowledge on a timer.

        What is not new is acknowledged again, as the origin would not retransmit it if the acknowledgement had arrived.
        """
        piece = self.inbox.take(header.origin, header.first, header.base, batch)
        if piece is None:
            self.drop("unicasts_not_next", batch, "it came before, or one ahead of it is missing", header)
        else:
            src = ProxyUUID(header.origin, self.group.view.coordinator, header.origin_site)
            self.pass_up(Batch(src, self.me, piece.payloads, piece.headers, header.flags))
        self.to_ack[header.origin] = header.origin_site
        self.set_timer_once("unicasts_seen", self.config.ack_interval_ns)

    @timer("unicasts_seen")
    def acknowledge_delivered(self) -> None:
        """On a timer: acknowledge to the origins what was delivered."""
        origins, self.to_ack = self.to_ack, {}
        for origin, site in origins.items():
            self.acknowledge(origin, site, self.me, self.inbox.wanted.get(origin, 1), known=True)

    def acknowledge(self, origin: Address, site: str, dest: Address, next_number: int, *, known: bool) -> None:
        """Send an acknowledgement on its way to the origin."""
        header = SiteUnicastSeen(origin, site, dest, next_number, known)
        self.forward_acknowledgement(header, Batch(self.me, self.me))

    @receives_from_bridge(SiteUnicastSeen)
    @receives(SiteUnicastSeen)
    def forward_acknowledgement(self, header: SiteUnicastSeen, batch: Batch) -> None:
        """Send an acknowledgement one hop further: to the relay of this site, over the bridge, or to the origin."""
        if header.origin == self.me:
            self.acknowledged(header)
        elif header.origin_site == self.config.site:
            if header.origin in self.group.view:
                self.send(header, header.origin, flags=RELIABLE)
            else:
                self.drop("unicast_acks_undeliverable", batch, f"{header.origin} is not in this view", header)
        elif self.group.is_relay:
            peer = self.peers.accepted(header.origin_site)
            if peer is not None:
                self.bridge.send_to(peer.address, header)
            else:
                self.drop("unicast_acks_undeliverable", batch, f"{header.origin_site} has no accepted relay on the "
                          "bridge", header)
        else:
            self.send(header, self.group.view.coordinator, flags=RELIABLE)

    def acknowledged(self, header: SiteUnicastSeen) -> None:
        """Unicasts of this member arrived, or their destination is no longer a member of its site."""
        box = self.out.get(header.dest)
        if box is None:
            return
        if header.known:
            box.acknowledge(header.next, self.now_ns)
            self.announce(UnicastsAcknowledged())
        else:
            self.give_up(box, header.next)

    # --- for other parts --------------------------------------------------------------------------------------------

    @property
    def unicasts_waiting(self) -> int:
        return self.out.waiting

    @property
    def remote_members(self) -> Iterable[Address]:
        return [*self.inbox.wanted, *(box.dest for box in self.out)]

    @on_announcement(OriginForgotten)
    def forget(self, event: OriginForgotten) -> None:
        self.inbox.forget(event.origin)
        self.out.forget(event.origin)
