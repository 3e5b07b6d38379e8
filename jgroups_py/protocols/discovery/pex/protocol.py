"""PEX: peers tell each other of peers, beginning with a few seeds whose addresses are known.

Whoever is told of a peer pings it and takes it for one once it has answered; so nobody is known by hearsay, and word of
the dead dies out. Peers are pinged in turn and dropped after some silent pings. An answer tells one page of the peers
that its sender knows: a seed's are walked to the end, others' begin anywhere, so that all of them together tell of
everybody. A peer that goes says so. As discovery, PEX passes questions on to seeds and peers. Alone above a transport
it carries best-effort broadcasts to the peers that want their topic (blocks/gossip).
Source: InfluxDB's gossip (2023). Deviations: pages (there an answer with all peers outgrows a datagram at 190 to 268
and exchange stops); a bounded number of pings at a time; a leave message; new peers are pinged at a bounded pace; who
is first heard by a broadcast is asked what it wants; interests may change.
"""
from __future__ import annotations

import math
from collections.abc import Iterable

from jgroups_py.address import Address, PhysicalAddress
from jgroups_py.batch import Batch
from jgroups_py.events import AddressesKnown, Connect, Disconnect, Left, SendTo
from jgroups_py.gossip import Broadcast, PeerInfo, Peers
from jgroups_py.naming import NameResolved
from jgroups_py.ports import AddressBook, Membership
from jgroups_py.protocol import CONTROL, STOP, on, receives, timer
from jgroups_py.protocols.discovery.base import Discovery
from jgroups_py.protocols.discovery.hosts import Hosts
from jgroups_py.protocols.discovery.pex.config import PexConfig
from jgroups_py.protocols.discovery.pex.headers import PeerLeave, PeerPing, PeerPong, PeerSaid
from jgroups_py.protocols.discovery.pex.table import NOBODY, Peer, PeerTable
from jgroups_py.topics import Interest, Subscribe, Unsubscribe, interest_in, topic_of
from jgroups_py.units import millis, seconds
from jgroups_py.view import View

MEET_NS = millis(10)
FIRST_SEEDS_NS = millis(250)   # seeds may start at the same time as we: they are asked again soon, then ever later
SILENT_NS = seconds(5)         # a seed's name is looked for again when nobody was heard from its place for so long
MAX_ASKED = 60                 # peers that a question of GMS or MERGE3 goes to, beside the seeds


class NoGroup(Membership):
    """What is known of the view in a stack that has none."""

    def current_view(self) -> View | None:
        return None


class Pex(Discovery, Peers):
    """See the module."""

    control_only = False                             # broadcasts are passed up
    Config = PexConfig
    config: PexConfig
    needs = {"addresses": AddressBook}

    def start(self) -> None:
        super().start()
        found: Membership | None = self.stack.find(Membership)
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

    def reach(self, question: Batch) -> None:
        peers = list(self.table)
        asked = peers if len(peers) <= MAX_ASKED else self.rng.sample(peers, MAX_ASKED)
        self.look_for_seeds()
        mine = self.addresses.my_physical()
        for place in dict.fromkeys([*self.seeds, *(peer.place for peer in asked)]):
            if place != mine:
                self.pass_down(SendTo(place, question))

    # --- coming and going ---------------------------------------------------------------------------------------------

    @on(Connect)
    def connecting(self, event: Connect) -> None:
        self.connected, self.seeds_wait_ns = True, FIRST_SEEDS_NS
        self.later(self.ask_seeds)
        # Peers that started together must not ping together.
        self.set_timer("sweep", self.rng.randint(1, self.config.ping_interval_ns))

    @on(Disconnect)
    def disconnecting(self, event: Disconnect) -> None:
        """Say so; in a group the leave itself is GMS' affair."""
        if self.connected:
            self.connected = False
            for peer in self.table:
                self.tell(peer, PeerLeave())
            for name in ("sweep", "seeds", "meet"):
                self.cancel_timer(name)
        if self.alone:
            self.pass_up(Left())

    @receives(PeerLeave)
    def leaves(self, header: PeerLeave, batch: Batch) -> None:
        if self.table.remove(batch.src):
            self.count("peers_left")

    # --- exchange -----------------------------------------------------------------------------------------------------

    def look_for_seeds(self) -> None:
        """Of those that were given by name."""
        for wanted in self.seeds.due(self.now_ns):
            self.count("names_asked")
            self.pass_down(wanted)

    @on(NameResolved)
    def resolved(self, event: NameResolved) -> None:
        self.ping_seeds(self.seeds.resolved(event, self.now_ns))

    def ping_seeds(self, places: Iterable[PhysicalAddress]) -> None:
        mine = self.addresses.my_physical()
        for place in places:
            if place != mine and self.connected:
                self.ping(place, None, NOBODY, walk=True)

    @timer("seeds")
    def ask_seeds(self) -> None:
        self.look_for_seeds()
        self.ping_seeds(self.seeds)
        self.set_timer("seeds", min(self.seeds_wait_ns, self.config.seed_interval_ns))
        self.seeds_wait_ns *= 2

    @timer("sweep")
    def sweep(self) -> None:
        """Ping whose turn it is; drop who stayed silent."""
        self.look_for_seeds()
        for peer in self.table.longest_unpinged(self.config.max_pings):
            peer.unacked += 1
            peer.pinged_ns = self.now_ns
            if peer.unacked > self.config.max_unacked:
                self.table.remove(peer.identity)
                self.count("peers_removed")
            else:
                self.ping(peer.place, peer.identity, self.somewhere(), walk=False)
        self.set_timer("sweep", self.config.ping_interval_ns)

    def somewhere(self) -> Address:
        """Where a page begins that nobody else asks for."""
        return Address(self.rng.getrandbits(8 * len(NOBODY.raw)).to_bytes(len(NOBODY.raw), "big"))

    def ping(self, place: PhysicalAddress, identity: Address | None, after: Address, *, walk: bool) -> None:
        mine = self.addresses.my_physical()
        if mine is not None:
            self.count("pings_sent")
            header = PeerPing(self.interest.told, mine, after, walk)
            self.pass_down(SendTo(place, Batch(self.me, identity, (), (header,), CONTROL)))

    def tell(self, peer: Peer, header: PeerPong | PeerLeave) -> None:
        self.pass_down(SendTo(peer.place, Batch(self.me, peer.identity, (), (header,), CONTROL)))

    def heard(self, identity: Address, said: PhysicalAddress | None) -> Peer | None:
        """Somebody spoke to us: from where we saw it, or where it says that it is."""
        place = self.addresses.physical_of(identity) or said
        if place is None or not self.connected:
            return None
        self.seeds.answered(place, self.now_ns)
        is_new = identity not in self.table.peers
        peer = self.table.heard(identity, place)
        if peer is not None and is_new:
            self.count("peers_discovered")
            self.pass_down(AddressesKnown({identity: place}))
        return peer

    @receives(PeerPing)
    def pinged(self, header: PeerPing, batch: Batch) -> None:
        peer, mine = self.heard(batch.src, header.place), self.addresses.my_physical()
        if peer is None or mine is None:
            return self.count("pings_unanswered")
        peer.interest = header.interest
        page, more = self.table.page(header.after, self.config.page_peers)
        if not header.walk and not page:
            page, more = self.table.page(NOBODY, self.config.page_peers)      # round the corner
        peers = tuple((other.identity, other.place) for other in page if other is not peer)
        return self.tell(peer, PeerPong(self.interest.told, mine, peers, more, header.walk))

    @receives(PeerPong)
    def ponged(self, header: PeerPong, batch: Batch) -> None:
        peer = self.heard(batch.src, header.place)
        if peer is None:
            return
        peer.interest = header.interest
        not_since_ns = self.now_ns - self.config.ping_interval_ns
        for identity, place in header.peers:
            if identity != self.me and self.table.told_of(identity, place, not_since_ns):
                self.count("peers_told")
        if self.table.queue and not self.timer_is_set("meet"):
            self.set_timer("meet", 0)
        if header.walk and header.more and header.peers:
            self.ping(peer.place, peer.identity, header.peers[-1][0], walk=True)

    @timer("meet")
    def meet(self) -> None:
        """Ping some of those of whom we were told."""
        for _, place in self.table.next_to_try(self.config.burst, self.now_ns):
            self.ping(place, None, self.somewhere(), walk=False)
        if self.table.queue:
            self.set_timer("meet", MEET_NS)

    # --- broadcasts ---------------------------------------------------------------------------------------------------

    @on(Broadcast)
    def broadcast(self, event: Broadcast) -> object:
        topic = topic_of(event.headers)
        wanting = [peer for peer in self.table if topic is None or peer.interest.wants(topic)]
        if event.ratio < 1:
            wanting = self.rng.sample(wanting, math.ceil(event.ratio * len(wanting)))
        self.count("broadcasts")
        self.count("broadcast_frames", len(wanting))
        headers = (*event.headers, PeerSaid())
        for peer in wanting:
            self.pass_down(SendTo(peer.place, Batch(self.me, peer.identity, (event.payload,), headers, CONTROL)))
        return STOP

    @receives(PeerSaid)
    def said(self, header: PeerSaid, batch: Batch) -> None:
        known = batch.src in self.table.peers
        peer = self.heard(batch.src, None)
        if peer is not None and not known:
            self.ping(peer.place, peer.identity, self.somewhere(), walk=False)       # what does it want?
        topic = topic_of(batch.headers)
        if topic is not None and not self.interest.wants(topic):
            return self.count("filtered", batch.count)
        return self.pass_up(batch)

    @on(Subscribe)
    def subscribe(self, event: Subscribe) -> None:
        self.change(self.interest.union(event.interest))

    @on(Unsubscribe)
    def unsubscribe(self, event: Unsubscribe) -> None:
        self.change(self.interest.without(event.interest))

    def change(self, interest: Interest) -> None:
        """Tell all peers by a ping; one that is lost is made up for by the next."""
        if interest != self.interest:
            self.interest = interest
            for peer in self.table:
                self.ping(peer.place, peer.identity, self.somewhere(), walk=False)
