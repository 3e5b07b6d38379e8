"""Unicasts between sites, on their way: origin -> its relay -> the other relay -> destination, and acknowledged back.

Where a letter goes is decided by address, not by class (rule 12): to a member of the local view directly, to a member
of another site's view through both relays, else it is unreachable. Relays only pass letters on; numbering, holding and
resending are the origin's, order and duplicates the destination's (letters.py).
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from jgroups_py.address import Address, ProxyUUID
from jgroups_py.batch import Batch, Header
from jgroups_py.jumps import TOP
from jgroups_py.outputs import Unreachable
from jgroups_py.protocols.relay.headers import Letter, LetterSeen
from jgroups_py.protocols.relay.letters import Inbox, Outbox, Outboxes
from jgroups_py.protocols.relay.receiving import RELIABLE
from jgroups_py.protocols.relay.sites import UP
from jgroups_py.units import seconds

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.relay import Relay

SILENCE_NS = seconds(2)

class Post:
    """See the module."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.out = Outboxes()
        self.inbox = Inbox()
        self.to_ack: dict[Address, str] = {}          # origin -> its site; acknowledged on a timer
        self.heard_ns: dict[str, int] = {}            # site -> when something last came from it

    # --- the origin -------------------------------------------------------------------------------------------------

    def send(self, dest: Address, batch: Batch) -> None:
        """A unicast of ours to somebody who is not in the local view."""
        relay = self.relay
        known = self.out.get(dest)
        site = relay.table.get(relay.site_of_member.get(dest, known.site if known is not None else ""))
        if site is None or site.status != UP or self.out.waiting >= relay.config.max_letters:
            relay.count("unreachable", batch.count)
            return relay.tell(Unreachable(dest))
        box = self.out.box(dest, site.name)
        first = box.add(batch, relay.now_ns)
        self.dispatch(box, first, batch)
        relay.set_timer_once("letters", relay.config.resend_interval_ns)
        return None

    def dispatch(self, box: Outbox, first: int, batch: Batch) -> None:
        """Put a run on its way."""
        relay = self.relay
        header = Letter(relay.me, relay.config.site, box.dest, box.site, first, box.base, batch.flags, None)
        self.onward(header, batch)

    def resend(self) -> None:
        """On a timer while letters wait: give up what is too old, send again what got no answer."""
        relay = self.relay
        oldest_ns = relay.now_ns - relay.config.unicast_timeout_ns
        waiting = False
        for box in self.out:
            site = relay.table.get(box.site)
            gone = site is None or site.status != UP
            late = box.next_number if gone and box.runs else box.expired(oldest_ns)
            if late is not None:
                self.give_up(box, late)
            waiting = waiting or bool(box.runs)
            if box.is_silent(relay.now_ns, relay.config.resend_interval_ns):
                self.send_again(box)
        if waiting:
            relay.set_timer_once("letters", relay.config.resend_interval_ns)

    def send_again(self, box: Outbox) -> None:
        """All unacknowledged letters of a pair, as far as one window goes."""
        room = self.relay.config.window_bytes
        for first, batch, _ in list(box.runs):
            self.relay.count("letters_again", batch.count)
            self.dispatch(box, first, batch)
            room -= batch.nbytes
            if room <= 0:
                break
        box.progress_ns = self.relay.now_ns
        box.resent += 1

    def relay_changed(self) -> None:
        """Our relay, or another site's, is a new one: letters may have died with the old."""
        if self.out.waiting:
            for box in self.out:
                box.resent = 0
                self.send_again(box)

    def heard_from(self, site: str) -> None:
        """Something came from another site. After a silence the way was not slow but shut, so the waits begin anew."""
        now_ns = self.relay.now_ns
        before_ns, self.heard_ns[site] = self.heard_ns.get(site, now_ns), now_ns
        if now_ns - before_ns > SILENCE_NS:
            for box in self.out:
                if box.site == site:
                    box.resent = 0

    def give_up(self, box: Outbox, below: int) -> None:
        """Letters below a number will not be waited for; the application is told once."""
        before = box.base
        if box.acknowledge(below, self.relay.now_ns):
            self.relay.count("unreachable", box.base - before)
            self.relay.tell(Unreachable(box.dest))

    # --- on the way -------------------------------------------------------------------------------------------------

    def onward(self, header: Letter, batch: Batch) -> None:
        """One hop further: to our relay, or over the bridge, or to the destination."""
        relay = self.relay
        if header.first > TOP:
            return relay.count("jumps_refused", batch.count)
        if header.dest == relay.me:
            self.arrived(header, batch)
        elif header.dest_site == relay.config.site:
            if header.dest in relay.view:
                self.local_hop(header.dest, header, batch)
            else:
                relay.count("letters_to_unknown", batch.count)
                self.acknowledge(header.origin, header.origin_site, header.dest,
                                 header.first + batch.count, known=False)
        elif relay.is_relay:
            peer = relay.sending.peers.accepted(header.dest_site)
            if peer is None:
                return relay.count("letters_without_relay", batch.count)      # the origin sends it again
            relay.to_bridge(peer.address, header.stamped(relay.view.id), batch.payloads, batch.headers)
        else:
            self.local_hop(relay.view.coordinator, header, batch)
        return None

    def local_hop(self, to: Address, header: Header, batch: Batch) -> None:
        """A local unicast that carries a letter."""
        relay = self.relay
        relay.pass_down(Batch(relay.me, to, batch.payloads, (*batch.headers, header), RELIABLE))

    # --- the destination --------------------------------------------------------------------------------------------

    def arrived(self, header: Letter, batch: Batch) -> None:
        """A letter for us: deliver what is new and in order, acknowledge."""
        relay = self.relay
        piece = self.inbox.take(header.origin, header.first, header.base, batch)
        if piece is None:
            relay.count("letters_not_next", batch.count)
        else:
            src = ProxyUUID(header.origin, relay.view.coordinator, header.origin_site)
            relay.pass_up(Batch(src, relay.me, piece.payloads, piece.headers, header.flags))
        self.to_ack[header.origin] = header.origin_site
        relay.set_timer_once("letters_seen", relay.config.ack_interval_ns)

    def acknowledge_arrived(self) -> None:
        """On a timer: tell the origins what came."""
        origins, self.to_ack = self.to_ack, {}
        for origin, site in origins.items():
            self.acknowledge(origin, site, self.relay.me, self.inbox.wanted.get(origin, 1), known=True)

    def acknowledge(self, origin: Address, site: str, dest: Address, next_number: int, *, known: bool) -> None:
        """Send a LetterSeen on its way to the origin."""
        self.seen_onward(LetterSeen(origin, site, dest, next_number, known))

    def seen_onward(self, header: LetterSeen) -> None:
        """One hop further back."""
        relay = self.relay
        if header.origin == relay.me:
            self.acknowledged(header)
        elif header.origin_site == relay.config.site:
            if header.origin in relay.view:
                relay.send(header, header.origin, flags=RELIABLE)
        elif relay.is_relay:
            peer = relay.sending.peers.accepted(header.origin_site)
            if peer is not None:
                relay.to_bridge(peer.address, header)
        else:
            relay.send(header, relay.view.coordinator, flags=RELIABLE)

    def acknowledged(self, header: LetterSeen) -> None:
        """Our letters arrived, or their destination is unknown over there."""
        box = self.out.get(header.dest)
        if box is None:
            return
        if header.known:
            box.acknowledge(header.next, self.relay.now_ns)
            self.relay.leaving_check()
        else:
            self.give_up(box, header.next)
