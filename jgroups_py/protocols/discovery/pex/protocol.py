"""PEX: peer exchange. Peers send each other lists of peers, beginning with a few seeds whose addresses are known.

A listed peer is pinged, and enters the table only once it has answered itself; so entries of dead peers are not passed
on. Peers are pinged in turn, and dropped after some pings without an answer. An answer lists one page of its sender's
table: the pages of a seed are requested one after the other to the end; those of other peers begin at a random
identity, so that all of them together cover the table. A leaving peer sends a leave message. As discovery, PEX sends
requests to seeds and peers. Alone above a transport it carries best-effort broadcasts to the peers that are interested
in their topic (blocks/gossip).

Source: InfluxDB's gossip (2023). Deviations: pages (there an answer with all peers outgrows a datagram at 190 to 268
and the exchange stops); a bounded number of pings at a time; a leave message; new peers are pinged at a bounded rate; a
peer whose first frame is a broadcast is pinged for its interest; interests may change.
"""
from __future__ import annotations

import math
from collections.abc import Iterable

from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.batch import Batch
from jgroups_py.model.counters import counter, declare, drop, figure
from jgroups_py.model.events import (
    AddressesKnown,
    Broadcast,
    Connect,
    Disconnect,
    Left,
    NameResolved,
    SendTo,
    Subscribe,
    Unsubscribe,
)
from jgroups_py.model.ports import AddressBook, PeerInfo, Peers, ViewSource
from jgroups_py.model.topics import Interest, interest_in
from jgroups_py.model.units import millis, seconds
from jgroups_py.model.view import View
from jgroups_py.protocols.discovery.base import Discovery
from jgroups_py.protocols.discovery.hosts import Hosts
from jgroups_py.protocols.discovery.pex.config import PexConfig
from jgroups_py.protocols.discovery.pex.headers import PeerBroadcast, PeerLeave, PeerPing, PeerPong
from jgroups_py.protocols.discovery.pex.table import LOWEST, PeerTable, PexPeer
from jgroups_py.stack.protocol import CONTROL, STOP, on, receives, timer
from jgroups_py.wire.topic_headers import topic_of

NEW_PINGS_NS = millis(10)      # between two bursts of pings to new peers
FIRST_SEEDS_NS = millis(250)   # seeds may start at the same time as this peer: the first repetitions come soon
SILENT_NS = seconds(5)         # a seed's name is resolved again when no frame has come from its address for so long
MAX_REQUESTS = 60              # peers that a request of GMS or MERGE3 goes to, beside the seeds


class NoGroup(ViewSource):
    """The port in a stack without views."""

    def current_view(self) -> View | None:
        return None


class Pex(Discovery, Peers):
    """The layer: discovery, the exchange of peers, and broadcasts."""

    control_only = False                             # broadcasts are passed up
    Config = PexConfig
    config: PexConfig
    COUNTERS = declare(
        counter("pings_sent", "Pings to peers."),
        counter("peers_discovered", "Peers that entered the table."),
        counter("peers_queued", "Addresses listed by other peers that were queued for a ping."),
        counter("peers_left", "Peers that sent a leave message."),
        counter("peers_removed", "Peers that left too many pings unanswered."),
        counter("names_looked_up", "Host names of seeds given to the resolvers."),
        counter("broadcasts", "Broadcasts of the application."),
        counter("broadcast_frames", "Frames sent for them."),
        drop("pings_unanswered", "Pings for whose senders the table has no room, or before the own address was known."),
        drop("filtered", "Broadcasts about topics that the application is not interested in."),
        figure("peers", "Peers in the table."),
        figure("peers_waiting", "New peers that wait for their first ping."),
    )

    needs = {"addresses": AddressBook}

    def start(self) -> None:
        super().start()
        found: ViewSource | None = self.stack.find(ViewSource)
        self.alone = found is None
        self.membership = found if found is not None else NoGroup()
        self.table = PeerTable(self.config.max_peers, self.config.queue)
        self.interest: Interest = interest_in(*self.config.interests)
        self.connected = False
        self.seeds = Hosts(self.config.seeds, SILENT_NS)
        self.seeds_wait_ns = 0

    def known_peers(self) -> tuple[PeerInfo, ...]:
        return tuple(PeerInfo(peer.identity, peer.place, peer.interest) for peer in self.table)

    def stats(self) -> dict[str, float]:
        return {**super().stats(), "peers": len(self.table), "peers_waiting": len(self.table.queue)}

    # --- as discovery -------------------------------------------------------------------------------------------------

    def send_request(self, request: Batch) -> None:
        peers = list(self.table)
        chosen = peers if len(peers) <= MAX_REQUESTS else self.rng.sample(peers, MAX_REQUESTS)
        self.resolve_seeds()
        own = self.addresses.my_physical()
        for place in dict.fromkeys([*self.seeds, *(peer.place for peer in chosen)]):
            if place != own:
                self.pass_down(SendTo(place, request))

    # --- connect and leave --------------------------------------------------------------------------------------------

    @on(Connect)
    def on_connect(self, event: Connect) -> None:
        self.connected, self.seeds_wait_ns = True, FIRST_SEEDS_NS
        self.later(self.exchange_with_seeds)
        # At a random time, or peers that started together would ping together.
        self.set_timer("sweep", self.rng.randint(1, self.config.ping_interval_ns))

    @on(Disconnect)
    def on_disconnect(self, event: Disconnect) -> None:
        """Send a leave message to all peers; in a group GMS handles the leave itself."""
        if self.connected:
            self.connected = False
            for peer in self.table:
                self.send_to_peer(peer, PeerLeave())
            for name in ("sweep", "seeds", "new_pings"):
                self.cancel_timer(name)
        if self.alone:
            self.pass_up(Left())

    @receives(PeerLeave)
    def on_leave(self, header: PeerLeave, batch: Batch) -> None:
        if self.table.remove(batch.src):
            self.count("peers_left")

    # --- exchange -----------------------------------------------------------------------------------------------------

    def resolve_seeds(self) -> None:
        """Resolve the seeds that are given by name, where that is due."""
        for wanted in self.seeds.due(self.now_ns):
            self.count("names_looked_up")
            self.pass_down(wanted)

    @on(NameResolved)
    def on_name_resolved(self, event: NameResolved) -> None:
        self.ping_seeds(self.seeds.resolved(event, self.now_ns))

    def ping_seeds(self, places: Iterable[PhysicalAddress]) -> None:
        own = self.addresses.my_physical()
        for place in places:
            if place != own and self.connected:
                self.ping(place, None, LOWEST, walk=True)

    @timer("seeds")
    def exchange_with_seeds(self) -> None:
        self.resolve_seeds()
        self.ping_seeds(self.seeds)
        self.set_timer("seeds", min(self.seeds_wait_ns, self.config.seed_interval_ns))
        self.seeds_wait_ns *= 2

    @timer("sweep")
    def sweep(self) -> None:
        """Ping the peers whose turn it is; drop those that left too many pings unanswered."""
        self.resolve_seeds()
        for peer in self.table.longest_unpinged(self.config.max_pings):
            peer.unacked += 1
            peer.pinged_ns = self.now_ns
            if peer.unacked > self.config.max_unacked:
                self.table.remove(peer.identity)
                self.count("peers_removed")
            else:
                self.ping(peer.place, peer.identity, self.random_start(), walk=False)
        self.set_timer("sweep", self.config.ping_interval_ns)

    def random_start(self) -> Address:
        """A random identity for a page to begin after: the pages that different peers request cover the table."""
        return Address(self.rng.getrandbits(8 * len(LOWEST.raw)).to_bytes(len(LOWEST.raw), "big"))

    def ping(self, place: PhysicalAddress, identity: Address | None, after: Address, *, walk: bool) -> None:
        own = self.addresses.my_physical()
        if own is not None:
            self.count("pings_sent")
            header = PeerPing(self.interest.announced, own, after, walk)
            self.pass_down(SendTo(place, Batch(self.me, identity, (), (header,), CONTROL)))

    def send_to_peer(self, peer: PexPeer, header: PeerPong | PeerLeave) -> None:
        self.pass_down(SendTo(peer.place, Batch(self.me, peer.identity, (), (header,), CONTROL)))

    def frame_from(self, identity: Address, announced: PhysicalAddress | None) -> PexPeer | None:
        """The peer that sent a frame, entered into the table if it is new; None if there is no room, or no address.

        Its physical address is where its frames come from, else the one that it announced.
        """
        place = self.addresses.physical_of(identity) or announced
        if place is None or not self.connected:
            return None
        self.seeds.answered(place, self.now_ns)
        is_new = identity not in self.table.peers
        peer = self.table.frame_from(identity, place)
        if peer is not None and is_new:
            self.count("peers_discovered")
            self.pass_down(AddressesKnown({identity: place}))
        return peer

    @receives(PeerPing)
    def on_ping(self, header: PeerPing, batch: Batch) -> None:
        """Answer with a page of the table."""
        peer, own = self.frame_from(batch.src, header.place), self.addresses.my_physical()
        if peer is None or own is None:
            return self.drop("pings_unanswered", batch, "no room for its source, or no own address yet", header)
        peer.interest = header.interest
        page, more = self.table.page(header.after, self.config.page_peers)
        if not header.walk and not page:
            page, more = self.table.page(LOWEST, self.config.page_peers)      # past the highest identity: start again
        peers = tuple((other.identity, other.place) for other in page if other is not peer)
        return self.send_to_peer(peer, PeerPong(self.interest.announced, own, peers, more, header.walk))

    @receives(PeerPong)
    def on_pong(self, header: PeerPong, batch: Batch) -> None:
        """Queue the listed peers for a ping; request the next page of a seed."""
        peer = self.frame_from(batch.src, header.place)
        if peer is None:
            return
        peer.interest = header.interest
        not_since_ns = self.now_ns - self.config.ping_interval_ns
        for identity, place in header.peers:
            if identity != self.me and self.table.enqueue(identity, place, not_since_ns):
                self.count("peers_queued")
        if self.table.queue and not self.timer_is_set("new_pings"):
            self.set_timer("new_pings", 0)
        if header.walk and header.more and header.peers:
            self.ping(peer.place, peer.identity, header.peers[-1][0], walk=True)

    @timer("new_pings")
    def ping_new(self) -> None:
        """Ping a burst of the queued peers; at once, all of them would answer in the same moment."""
        for _, place in self.table.next_to_try(self.config.burst, self.now_ns):
            self.ping(place, None, self.random_start(), walk=False)
        if self.table.queue:
            self.set_timer("new_pings", NEW_PINGS_NS)

    # --- broadcasts ---------------------------------------------------------------------------------------------------

    @on(Broadcast)
    def on_broadcast_request(self, event: Broadcast) -> object:
        topic = topic_of(event.headers)
        interested = [peer for peer in self.table if topic is None or peer.interest.includes(topic)]
        if event.ratio < 1:
            interested = self.rng.sample(interested, math.ceil(event.ratio * len(interested)))
        self.count("broadcasts")
        self.count("broadcast_frames", len(interested))
        headers = (*event.headers, PeerBroadcast())
        for peer in interested:
            self.pass_down(SendTo(peer.place, Batch(self.me, peer.identity, (event.payload,), headers, CONTROL)))
        return STOP

    @receives(PeerBroadcast)
    def on_broadcast(self, header: PeerBroadcast, batch: Batch) -> None:
        known = batch.src in self.table.peers
        peer = self.frame_from(batch.src, None)
        if peer is not None and not known:
            self.ping(peer.place, peer.identity, self.random_start(), walk=False)    # its pong brings its interest
        topic = topic_of(batch.headers)
        if topic is not None and not self.interest.includes(topic):
            # The sender may have an outdated interest of this peer, or none yet.
            return self.drop("filtered", batch, f"no interest in topic {topic!r}", header)
        return self.pass_up(batch)

    @on(Subscribe)
    def on_subscribe(self, event: Subscribe) -> None:
        self.set_interest(self.interest.union(event.interest))

    @on(Unsubscribe)
    def on_unsubscribe(self, event: Unsubscribe) -> None:
        self.set_interest(self.interest.without(event.interest))

    def set_interest(self, interest: Interest) -> None:
        """Announce a new interest to all peers with a ping; if that is lost, the next ping announces it."""
        if interest != self.interest:
            self.interest = interest
            for peer in self.table:
                self.ping(peer.place, peer.identity, self.random_start(), walk=False)
