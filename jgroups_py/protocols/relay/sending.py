"""The sending half of RELAY: what the relay does on the bridge.

It introduces itself to every relay there (HELLO with what its site has seen, until answered), sends each of them the
held runs from where that relay's site stands, and takes acknowledgements; what follows from all that for the sites,
`status` decides. Nothing here waits for a third site: every remote relay has its own cursor and window. Rules 3, 8 to
11 and 13 of RELAY.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from jgroups_py.address import Address
from jgroups_py.events import RaiseView
from jgroups_py.jumps import MAX_JUMP
from jgroups_py.outputs import RelayObeyed
from jgroups_py.protocols.relay.buffer import HeldRun
from jgroups_py.protocols.relay.headers import (
    Base,
    Forward,
    Goodbye,
    Hello,
    Need,
    Numbers,
    Probe,
    Refused,
    Seen,
    View,
)
from jgroups_py.protocols.relay.namesakes import Namesakes
from jgroups_py.protocols.relay.peers import Peer, Peers
from jgroups_py.protocols.relay.sites import UP, Site
from jgroups_py.view import View as GroupView
from jgroups_py.view import ViewId

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.relay import Relay


class Sending:
    """See the module. Does nothing unless its member is the relay."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.peers = Peers()
        self.namesakes = Namesakes(relay)
        self.bridge_view: GroupView | None = None
        self.bridge_me: Address | None = None
        self.answered: dict[Address, ViewId] = {}        # bridge address -> our epoch of which it answered HELLO
        self.greeted: dict[Address, ViewId] = {}         # bridge address -> the epoch of our last HELLO to it
        self.early_views: dict[Address, View] = {}       # bridge address -> a VIEW whose HELLO has not come yet
        self.obeying: dict[str, ViewId] = {}             # site -> the epoch whose relay we obeyed last
        self.parted = False                              # we have said GOODBYE, and introduce ourselves no more

    # --- on and off -------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """We are no longer the relay, or the bridge is gone."""
        self.peers = Peers()
        self.bridge_view = self.bridge_me = None
        self.answered, self.greeted, self.early_views = {}, {}, {}
        self.namesakes.stop()

    def bridge_view_changed(self, view: GroupView, me: Address) -> None:
        """Relays came or went."""
        self.bridge_view, self.bridge_me = view, me
        for peer in self.peers:
            if peer.address not in view:
                self.peer_gone(peer, graceful=False)
        self.namesakes.bridge_view_changed(view)
        self.answered = {address: epoch for address, epoch in self.answered.items() if address in view}
        self.early_views = {address: early for address, early in self.early_views.items() if address in view}
        self.introduce()

    def peer_gone(self, peer: Peer, *, graceful: bool) -> None:
        """A remote relay left the bridge."""
        self.peers.drop(peer.address)
        self.relay.states.carrier.peer_gone(peer)
        if not graceful:
            self.relay.status.start_grace(peer.site)
        # What only this one lacked is settled: the others said what they have, and may have nothing more to say.
        if peer.site.acknowledge(self.peers.acknowledged(peer.site.name)):
            self.relay.set_timer_once("trim", self.relay.config.trim_interval_ns)
            self.relay.orders.check_drained(peer.site)
        self.relay.status.watch_absent()

    # --- HELLO ------------------------------------------------------------------------------------------------------

    def introduce(self) -> None:
        """HELLO to every bridge member that has not answered one of this epoch; again on a timer."""
        relay = self.relay
        if not relay.is_relay or not relay.receiving.complete or self.bridge_view is None:
            return
        waiting = [member for member in self.bridge_view.members
                   if member != self.bridge_me and self.answered.get(member) != relay.view.id]
        for member in waiting:
            self.hello(member, answer=False)
        if waiting:
            relay.set_timer("hello", relay.config.hello_interval_ns)

    def hello(self, to: Address, *, answer: bool) -> None:
        """HELLO and our VIEW."""
        relay = self.relay
        if self.parted:
            return
        site, epoch = relay.config.site, relay.view.id
        seen = {name: dict(numbers) for name, numbers in relay.receiving.acked_out.items()}
        # VIEW first: if members vanished, the grace must begin before what the rest has acknowledged counts.
        relay.to_bridge(to, View(site, epoch, relay.view.members))
        relay.to_bridge(to, Hello(site, epoch, seen, answer))
        relay.interests.tell(to)
        self.greeted[to] = epoch
        peer = self.peers.get(to)
        if peer is not None:
            self.tell_base(peer, always=True)     # after HELLO: from strangers nobody takes it

    def on_hello(self, header: Hello, src: Address) -> None:
        """A remote relay introduces itself: send it what its site lacks, from what it says it has seen."""
        relay = self.relay
        if header.answer and self.greeted.get(src) == relay.view.id:
            # An answer to the HELLO of an earlier view does not say that ours of this view arrives at all.
            self.answered[src] = relay.view.id
        if header.site == relay.config.site:
            self.namesakes.met(src, header.epoch)
            self.answered[src] = relay.view.id        # the other half of our split site: nothing to send there
            return
        if not (relay.table.get(header.site) or Site(header.site)).credible(header.epoch):
            relay.count("jumps_refused")
            return
        site = self.site_of(header)
        if site.farewell is not None and header.epoch <= site.farewell:
            relay.count("hello_after_goodbye")            # it was under way, or answers ours while its sender goes
            return
        seen = header.seen.get(relay.config.site, {})
        peer = self.peers.get(src)
        if peer is None:
            peer = Peer(src, site, header.epoch, dict(seen), dict(seen), progress_ns=relay.now_ns)
            self.peers.add(peer)
        elif header.epoch != peer.epoch:
            peer.go_back(seen, relay.now_ns)          # who joined or merged over there may lack what the others had
        peer.epoch = header.epoch
        peer.acknowledge(seen, relay.now_ns)
        if site.accepts(header.epoch):
            relay.status.relay_here(site)
        else:
            self.refuse(site, src)
        early = self.early_views.pop(src, None)
        if early is not None:
            self.on_view(early, src)
        if header.answer:
            self.tell_base(peer, always=True)
        elif relay.receiving.complete:
            self.hello(src, answer=True)
        site.acknowledge(self.peers.acknowledged(site.name))
        relay.orders.check_drained(site)
        relay.status.tell_table()
        self.pump_to(peer)
        relay.receipts.peer_came(peer)
        relay.leaving_check()

    def site_of(self, header: Hello) -> Site:
        """The site's entry. One never heard of starts at the current numbers."""
        relay = self.relay
        site = relay.table.get(header.site)
        if site is None:
            site = relay.table.sites[header.site] = Site(header.site)
            seen = header.seen.get(relay.config.site, {})
            if seen:
                # Our predecessor knew the site, but died before it could tell, or is with others of ours elsewhere. So
                # some of that site may have seen less, and some of ours may hold it for them.
                site.acknowledge(seen)
                relay.status.start_grace(site, kept={})
            else:
                site.begin(relay.current_numbers())
            site.lose(relay.hold.trimmed)
        return site

    def on_view(self, header: View, src: Address) -> None:
        """The members of another site."""
        if header.site == self.relay.config.site:
            return
        site = self.relay.table.get(header.site)
        if site is None:
            self.early_views[src] = header                # its relay's HELLO, which follows, makes the site known
        elif not site.accepts(header.epoch):
            self.refuse(site, src)
        elif site.view_epoch != header.epoch or site.members != header.members:
            if any(member not in header.members for member in site.members):
                self.relay.status.start_grace(site)
            site.see(header.epoch, header.members)
            self.relay.status.tell_table()

    # --- fencing ----------------------------------------------------------------------------------------------------

    def obeyed(self, site_name: str, epoch: ViewId, src: Address) -> Peer | None:
        """The peer, if what it says is to be obeyed; else it is refused (rule 11)."""
        peer = self.peers.get(src)
        if peer is None or peer.site.name != site_name:
            self.relay.count("from_strangers")
            return None
        if not peer.site.accepts(epoch):
            self.refuse(peer.site, src)
            return None
        peer.epoch = max(peer.epoch, epoch)
        if self.obeying.get(site_name) != epoch:
            self.obeying[site_name] = epoch
            self.relay.tell(RelayObeyed(site_name, epoch))
        return peer

    def refuse(self, site: Site, src: Address) -> None:
        """Tell a relay that a higher epoch of its site is known."""
        if site.epoch is None:                        # it claims one that no site comes to
            self.relay.count("jumps_refused")
            return
        holder = self.peers.accepted(site.name)
        self.relay.count("refused")
        self.relay.to_bridge(src, Refused(site.epoch, holder.address if holder is not None else None))

    def on_refused(self, header: Refused) -> None:
        """We are fenced. If the holder of the higher epoch is not about, raise our own above it."""
        relay = self.relay
        relay.count("fenced")
        if header.epoch <= relay.view.id or relay.timer_is_set("raise"):
            return
        present = self.bridge_view is not None and header.relay is not None and header.relay in self.bridge_view
        if not present:
            relay.set_timer("raise", relay.config.hello_interval_ns)
            # One that is far ahead of ours is reached in steps, or GMS would not believe it.
            relay.pass_down(RaiseView(min(header.epoch.counter, relay.view.id.counter + MAX_JUMP)))

    # --- FORWARD ----------------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Send every peer what its window allows."""
        for peer in self.peers:
            self.pump_to(peer)

    def pump_to(self, peer: Peer) -> None:
        """Send one peer what its window allows, in order per origin."""
        relay = self.relay
        if peer.site.silenced or not relay.config.relay_multicasts:
            return
        window_bytes = relay.config.window_bytes
        for origin, run in peer.next_runs(relay.hold, window_bytes, relay.now_ns, relay.journal.unsynced):
            relay.interests.pass_on(peer, origin, run)
        if peer.flying_bytes:
            relay.set_timer_once("resend", relay.config.resend_interval_ns)
        if peer.flying_bytes >= window_bytes:
            relay.interests.flush(peer)

    def forward(self, peer: Peer, origin: Address, run: HeldRun) -> None:
        """Send one run of an origin to one peer."""
        relay = self.relay
        if peer.told_base != relay.view.id:
            # What we said in an earlier epoch may have been refused. Without it, a site that has nothing of an origin
            # yet takes our first FORWARD for the first that was meant for it.
            self.tell_base(peer, always=True)
        header = Forward(relay.config.site, relay.view.id, origin, run.first, min(peer.base(origin), run.first),
                         run.batch.flags)
        relay.count("forwarded", run.batch.count)
        relay.to_bridge(peer.address, header, run.batch.payloads, run.batch.headers)

    def on_seen(self, header: Seen, src: Address) -> None:
        """An acknowledgement."""
        peer = self.peers.get(src)
        if peer is None:
            return
        relay = self.relay
        if peer.acknowledge(header.numbers, relay.now_ns):
            if peer.site.acknowledge(self.peers.acknowledged(peer.site.name)):
                relay.set_timer_once("trim", relay.config.trim_interval_ns)
                relay.orders.check_drained(peer.site)
            self.pump_to(peer)
            relay.leaving_check()

    def on_need(self, header: Need, src: Address) -> None:
        """A relay lacks something that we sent, or that its site had and some of its members do not."""
        peer = self.peers.get(src)
        if peer is not None:
            self.relay.count("needs")
            self.tell_base(peer, header.numbers)
            peer.go_back(header.numbers, self.relay.now_ns)
            self.pump_to(peer)

    def tell_base(self, peer: Peer, numbers: Numbers | None = None, *, always: bool = False) -> None:
        """Where a relay's site stands (absent: as it acknowledged, or wanted since) below what is to be had: say so.

        always: also if nothing is, since the first BASE says from where on messages are meant for the site.
        """
        if always:
            peer.told_base = self.relay.view.id
        if numbers is None:
            stands = {**dict.fromkeys(peer.site.trimmable, 1), **peer.acked}
            numbers = {origin: min(number, peer.cursor.get(origin, number)) for origin, number in stands.items()}
        gone = {origin: peer.base(origin) for origin, number in numbers.items() if number < peer.base(origin)}
        if gone or always:
            owed = {origin: number for origin, number in peer.site.owed.items() if origin in gone}
            self.relay.to_bridge(peer.address, Base(self.relay.config.site, self.relay.view.id, gone, owed))

    def probe(self) -> None:
        """On a timer while anything is on its way: ask peers that were silent for long."""
        relay = self.relay
        for peer in self.peers:
            if not peer.flying_bytes:
                continue
            if relay.now_ns - peer.progress_ns >= relay.config.resend_interval_ns:
                sent = {origin: number for origin, number in peer.cursor.items() if peer.flying.get(origin)}
                relay.count("probes")
                relay.to_bridge(peer.address, Probe(sent))
            relay.set_timer_once("resend", relay.config.resend_interval_ns)

    # --- GOODBYE ----------------------------------------------------------------------------------------------------

    def goodbye(self, *, last: bool, forget: bool) -> None:
        """Tell all relays that we go as planned, with `last` that nobody of our site stays."""
        relay = self.relay
        self.parted = True
        for peer in self.peers:
            relay.to_bridge(peer.address, Goodbye(relay.config.site, relay.view.id, last, last and forget))

    def on_goodbye(self, header: Goodbye, src: Address) -> None:
        """A relay goes; with `last`, its site goes too."""
        peer = self.obeyed(header.site, header.epoch, src)
        if peer is None:
            return
        peer.site.farewell = header.epoch
        self.peer_gone(peer, graceful=True)
        if header.last and not self.peers.of(header.site):
            self.relay.status.site_left(peer.site, header.forget)

    def everything_acknowledged(self) -> bool:
        """Whether no peer lacks anything that we hold, but for those to which an operator lets nothing be sent."""
        hold = self.relay.hold
        return all(peer.site.paused or peer.acked.get(origin, peer.base(origin)) >= hold.end(origin)
                   for peer in self.peers for origin in hold.runs)

    def knows_all_peers(self) -> bool:
        """Whether each site that is UP has a relay among our peers."""
        return all(site.status != UP or bool(self.peers.of(site.name)) for site in self.relay.table)
