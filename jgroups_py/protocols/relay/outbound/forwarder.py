"""Sends what is held to other sites, and takes their acknowledgements (relay rule 3).

Every remote relay has its own cursor into the hold and its own byte window, so no site waits for another. A relay that
lacks something requests it (NEED) and the cursor goes back. A relay that acknowledges nothing gets a PROBE, which it
answers; sending everything again would only lengthen the queue of a slow link. What follows for a site from what it
acknowledges is decided in sites/ (SiteAcknowledged).
"""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.counters import observe
from jgroups_py.protocols.relay.announcements import DiskCaughtUp, PeerAcknowledged, SiteAcknowledged
from jgroups_py.protocols.relay.group import LocalGroup
from jgroups_py.protocols.relay.headers import BaseHeader, Forward, NeedHeader, Numbers, ProbeHeader, SeenHeader
from jgroups_py.protocols.relay.origin.hold import HeldBatch, Hold
from jgroups_py.protocols.relay.outbound.peers import RelayPeer, RelayPeers
from jgroups_py.protocols.relay.part import RelayPart, on_announcement, receives_from_bridge
from jgroups_py.protocols.relay.ports import BridgePort, ForwarderPort, JournalPort, TopicFilterPort
from jgroups_py.stack.component import needs
from jgroups_py.stack.protocol import timer


class Forwarder(RelayPart, ForwarderPort):
    """See the module. Does nothing unless its member is the relay."""

    group: LocalGroup = needs(LocalGroup)
    hold: Hold = needs(Hold)
    peers: RelayPeers = needs(RelayPeers)
    bridge: BridgePort = needs(BridgePort)
    journal: JournalPort = needs(JournalPort)
    topic_filter: TopicFilterPort = needs(TopicFilterPort)

    def pump(self) -> None:
        for peer in self.peers:
            self.pump_to(peer)

    @on_announcement(DiskCaughtUp)
    def disk_caught_up(self, event: DiskCaughtUp) -> None:
        """hold_sync=every: what waited for the disk may be sent now."""
        if self.group.is_relay:
            self.pump()

    def pump_to(self, peer: RelayPeer) -> None:
        if peer.site.silenced or not self.config.relay_multicasts:
            return
        for origin, held in peer.next_batches(self.hold, self.now_ns, self.journal.unsynced):
            for filtered in self.topic_filter.filtered(peer, origin, held):
                self.forward(peer, origin, filtered)
        if peer.in_flight_bytes:
            self.set_timer_once("resend", self.config.resend_interval_ns)
        if peer.in_flight_bytes >= peer.window.nbytes:
            self.flush_numbers(peer)                  # the window is full, so no more numbers will join these

    def forward(self, peer: RelayPeer, origin: Address, held: HeldBatch) -> None:
        """Send one batch of an origin to one peer."""
        epoch = self.group.view.id
        if peer.base_epoch != epoch:
            # A BASE of an earlier epoch may have been refused there. Without BASE, a site that has nothing of an origin
            # would take the first FORWARD that arrives for the first message meant for it, and lose those below it
            # without a report (relay rule 3).
            self.send_base(peer, always=True)
        base = min(peer.base(origin), held.first)
        header = Forward(self.config.site, epoch, origin, held.first, base, held.batch.flags)
        self.count("forwarded", held.batch.count)
        self.bridge.send_to(peer.address, header, held.batch.payloads, held.batch.headers)

    @timer("passed")
    def flush_all_numbers(self) -> None:
        """On a timer: send to all peers the numbers that have waited long enough to be joined with others."""
        for peer in self.peers:
            self.flush_numbers(peer)

    def flush_numbers(self, peer: RelayPeer) -> None:
        """Send the numbers that wait for a peer."""
        for origin, held in self.topic_filter.deferred(peer):
            self.forward(peer, origin, held)

    # --- what comes back --------------------------------------------------------------------------------------------

    @receives_from_bridge(SeenHeader)
    def on_seen(self, header: SeenHeader, batch: Batch) -> None:
        """One relay acknowledges. Its site has acknowledged what all its relays have, the lowest (relay rule 7)."""
        peer = self.peers.get(batch.src)
        if peer is None:
            return self.drop("non_peer_dropped", batch, "its relay has not sent HELLO", header)
        if peer.acknowledge(header.numbers, self.now_ns):
            before, numbers = dict(peer.site.acked), self.peers.acknowledged(peer.site.name)
            if peer.site.acknowledge(numbers):
                self.count_delays(peer.site.name, before, numbers)
                self.announce(SiteAcknowledged(peer.site))
            self.pump_to(peer)
            self.announce(PeerAcknowledged(peer))
        return None

    def count_delays(self, site: str, before: Numbers, numbers: Numbers) -> None:
        """Count how long each batch was held that a site has acknowledged now."""
        for origin, number in numbers.items():
            for since_ns in self.hold.since_of(origin, before.get(origin, 1), number):
                observe(self.count, f"delay_{site}", max(0, self.now_ns - since_ns))

    @receives_from_bridge(NeedHeader)
    def on_need(self, header: NeedHeader, batch: Batch) -> None:
        """A relay lacks something: it did not receive it, or some members there lack what others have delivered."""
        peer = self.peers.get(batch.src)
        if peer is None:
            return self.drop("non_peer_dropped", batch, "its relay has not sent HELLO", header)
        self.count("needs")
        self.send_base(peer, header.numbers)
        peer.go_back(header.numbers, self.now_ns)
        return self.pump_to(peer)

    def send_base(self, peer: RelayPeer, numbers: Numbers | None = None, *, always: bool = False) -> None:
        """If the peer's watermark is below the lowest number that is still sent to its site, send BASE.

        numbers: the watermark; by default what the peer acknowledged, or requested since. always: even if it is not
        below, since the first BASE makes messages count as meant for the site (relay rule 5).
        """
        epoch = self.group.view.id
        if always:
            peer.base_sent(epoch)
        if numbers is None:
            acked = {**dict.fromkeys(peer.site.trimmable, 1), **peer.acked}
            numbers = {origin: min(number, peer.cursor.get(origin, number)) for origin, number in acked.items()}
        gone = {origin: peer.base(origin) for origin, number in numbers.items() if number < peer.base(origin)}
        if gone or always:
            owed = {origin: number for origin, number in peer.site.owed.items() if origin in gone}
            self.bridge.send_to(peer.address, BaseHeader(self.config.site, epoch, gone, owed))

    @timer("resend")
    def probe(self) -> None:
        """On a timer while anything is in flight: PROBE peers that have not acknowledged for `resend_interval`."""
        for peer in self.peers:
            if not peer.in_flight_bytes:
                continue
            if self.now_ns - peer.progress_ns >= self.config.resend_interval_ns:
                sent = {origin: number for origin, number in peer.cursor.items() if peer.in_flight.get(origin)}
                self.count("probes")
                self.bridge.send_to(peer.address, ProbeHeader(sent))
            self.set_timer_once("resend", self.config.resend_interval_ns)

    def everything_acknowledged(self) -> bool:
        return all(peer.site.paused or peer.acked.get(origin, peer.base(origin)) >= self.hold.end(origin)
                   for peer in self.peers for origin in self.hold.batches)
