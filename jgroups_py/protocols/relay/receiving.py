"""The receiving half of RELAY: SYNC at every view, dissemination of other sites' messages, acknowledgement.

Every member keeps a seen vector and delivers only what extends it. The relay sends SYNC as its first multicast in a
view; until it came, and from anybody but the coordinator, a DISSEMINATE is ignored. Members answer HAVE; the lowest
entry of all members is the site's vector: the relay asks the senders for everything above. It acknowledges what it and
its backups have delivered, and nothing before every member of the view has answered. Rules 4 to 6 and 17 of RELAY.
"""
from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from jgroups_py.address import Address, ProxyUUID
from jgroups_py.batch import NO_FC, NO_RELAY, Batch
from jgroups_py.jumps import MAX_JUMP, TOP
from jgroups_py.outputs import MessagesLost
from jgroups_py.protocols.relay.buffer import missing
from jgroups_py.protocols.relay.headers import (
    Base,
    Confirm,
    Disseminate,
    Fetch,
    Forward,
    Have,
    Need,
    Numbers,
    Seen,
    Sync,
    Vector,
)
from jgroups_py.protocols.relay.peers import Peer
from jgroups_py.protocols.relay.vectors import copied, differing, lower, overlaid, raised, unheard
from jgroups_py.units import seconds
from jgroups_py.view import MergeView

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.relay import Relay

RELIABLE = NO_RELAY | NO_FC
"""Flags of RELAY's own messages in the local group: in order with the data, not numbered, not held up by credits."""

SYNC_AGAIN_NS = seconds(5)
"""Until it is asked again a member has answered SYNC, unless it stands, or its connection to the relay is broken."""


class Receiving:
    """See the module. One object a member; what only the relay uses is marked so."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.seen: Vector = {}                       # other site -> origin -> next number wanted
        self.fresh = True                            # no SYNC was ever received
        self.joined = False                          # this view's was the first
        self.met: dict[str, None] = {}               # sites that have said from where on we are owed, to us or before
        self.meant: dict[str, None] = {}             # sites whose messages were meant for us before this view
        self.synced = False                          # the coordinator's SYNC came in this view
        self.behind = False                          # our vector was below the SYNC's in this view
        self.unconfirmed: Vector = {}                # delivered, not yet told to the relay
        self.known_ends: Numbers = {}                # own site: origin -> next number, as this view began
        self.proxies: dict[Address, ProxyUUID] = {}  # origin -> as the application sees it
        # The relay's:
        self.awaited: dict[Address, None] = {}       # members that have not answered SYNC
        self.sync_vector: Vector = {}                # what SYNC said in this view
        self.said: Sync | None = None                # SYNC itself
        self.haves: dict[Address, Have] = {}
        self.confirmed: dict[Address, Vector] = {}   # member -> what it told in this view, where it told anything
        self.confirmers: list[Address] = []          # backups, and members that were behind
        self.complete = False                        # all have answered: acknowledgements may rise
        self.next_out: Vector = {}                   # what is disseminated next
        self.in_flight: dict[Address, deque[tuple[Disseminate, Batch]]] = {}    # disseminated, not yet back
        self.asked: dict[Address, tuple[int, Address, int]] = {}    # origin -> hole asked for last, of whom, when
        self.acked_out: Vector = {}                  # what may be acknowledged
        self.to_ack: Vector = {}                     # what the next ack timer sends

    # --- views and SYNC ---------------------------------------------------------------------------------------------

    def view_changed(self) -> None:
        """A new view: nothing from the relay counts before its SYNC."""
        self.synced = self.behind = self.complete = False
        self.unconfirmed, self.haves, self.confirmed = {}, {}, {}
        self.confirmers, self.proxies = [], {}
        self.known_ends = self.relay.current_numbers()
        self.meant = {**self.met, **dict.fromkeys(self.relay.statuses)}
        if self.relay.is_relay:
            self.start_sync()
        else:
            self.in_flight, self.next_out, self.acked_out, self.to_ack = {}, {}, {}, {}
            self.asked = {}

    def start_sync(self) -> None:
        """As relay: tell what we have, ask what the others have; then repeat what the view change swallowed."""
        relay = self.relay
        self.awaited = {member: None for member in relay.view.members if member != relay.me}
        self.sync_vector = copied(self.seen)
        vector = copied(self.seen)
        vector[relay.config.site] = dict(relay.numbers)      # where newcomers begin
        self.said = Sync(vector, relay.table.rows(), dict(relay.hold.trimmed), relay.journal.clock.now_ns)
        relay.send(self.said, dest=None, flags=RELIABLE)
        relay.set_timer("sync", SYNC_AGAIN_NS)
        wanted_again: Vector = {}                    # who has joined may want messages of which we have numbers only
        for origin, runs in self.in_flight.items():
            if relay.interests.outdated(runs):
                wanted_again.setdefault(runs[0][0].site, {})[origin] = runs[0][0].first
                continue
            for header, batch in runs:
                relay.pass_down(batch.push(header))
        self.rewind(wanted_again)
        if not self.awaited:
            self.sync_complete()

    def sync_again(self) -> None:
        """As relay, on a timer: ask those that have not answered once more, or nothing would cross in this view."""
        if self.awaited and self.said is not None:
            for member in self.awaited:
                self.relay.count("syncs_again")
                self.relay.send(self.said, member, flags=RELIABLE)
            self.relay.set_timer("sync", SYNC_AGAIN_NS)

    def sync(self, header: Sync, batch: Batch) -> None:
        """The coordinator's SYNC: adopt (a joiner), or say where we differ."""
        relay = self.relay
        if batch.src != relay.view.coordinator:
            return relay.count("sync_of_no_coordinator")
        again, self.synced = self.synced, True
        if relay.is_relay:
            self.fresh = False
            return None
        if again:
            # Our answer did not arrive: the connection that it took is broken. NAKACK begins anew in each view.
            return self.answer(header, None)
        relay.journal.clock.heard(header.clock_ns)
        joined = self.joined = self.fresh
        self.fresh = False
        theirs = copied(header.vector)
        own = theirs.pop(relay.config.site, {})
        if joined:
            self.seen = copied(theirs)
            relay.divergence.joined(own)
        self.adopt(theirs)
        self.met.update(dict.fromkeys(theirs))
        relay.table.not_known_by(header.table, header.trimmed)      # we do, from disk or from another half
        relay.follow_table(header.table, header.trimmed, joined=joined)
        return self.answer(header, batch.src)

    def answer(self, header: Sync, to: Address | None) -> None:
        """HAVE: where we differ from the relay, and what we hold."""
        relay = self.relay
        theirs = copied(header.vector)
        theirs.pop(relay.config.site, None)
        differs = differing(self.seen, theirs)
        for site, numbers in differs.items():
            for origin in [origin for origin, number in numbers.items() if number == 0]:
                # We were a member elsewhere: what is under way now is ahead of us, all of it will be sent again.
                self.seen.setdefault(site, {})[origin] = 1
        # After a merge others may have what neither the relay nor we have anything of.
        self.behind = bool(lower(differs, theirs)) or isinstance(relay.view, MergeView)
        for site in () if self.joined else self.meant:
            differs.setdefault(site, {})
        if self.known_ends:
            differs[relay.config.site] = self.known_ends      # the relay may have been in another half, or founded it
        held = {origin: relay.hold.ranges(origin) for origin in relay.hold.runs}
        have = Have(relay.view.id, differs, relay.table.rows(), held, dict(relay.hold.trimmed), relay.journal.holders(),
                    relay.journal.clock.now_ns)
        return relay.send(have, to, flags=RELIABLE)

    def adopt(self, vector: Vector) -> None:
        """Begin where the others are with sites of which nothing was meant for us before this view.

        A member that founded a group, and met nobody before it merged, is like a joiner: what the others had by then
        was sent before its time.
        """
        for site, numbers in vector.items():
            if site not in self.meant:
                mine = self.seen.setdefault(site, {})
                for origin, number in numbers.items():
                    mine.setdefault(origin, number)

    def have(self, header: Have, batch: Batch) -> None:
        """As relay: a member's answer."""
        relay = self.relay
        if not relay.is_relay or header.view_id != relay.view.id or batch.src not in self.awaited:
            return relay.count("have_outside_view")
        del self.awaited[batch.src]
        self.haves[batch.src] = header
        relay.learn_ends(header.vector.get(relay.config.site, {}))
        relay.table.learn(header.table, header.trimmed, relay.hold.trimmed)
        relay.orders.overtaken()
        relay.journal.heard(header)
        wanted = {}
        for origin, ranges in header.held.items():
            below = relay.hold.trimmed.get(origin, 1)
            lacking = missing(tuple((max(first, below), stop) for first, stop in ranges if stop > below),
                              relay.hold.ranges(origin))
            if lacking:
                wanted[origin] = lacking
        if wanted:
            relay.send(Fetch(wanted), batch.src, flags=RELIABLE)
        if not self.awaited:
            self.sync_complete()
        return None

    def sync_complete(self) -> None:
        """As relay: every member has answered; the lowest entries are the site's vector."""
        relay = self.relay
        self.complete = True
        relay.cancel_timer("sync")
        lowest = copied(self.sync_vector)
        for have in self.haves.values():
            for site, numbers in have.vector.items():
                if site != relay.config.site:
                    entries = lowest.setdefault(site, {})
                    for origin, number in numbers.items():
                        entries[origin] = max(1, min(number, entries.get(origin, number)))
        unknown: Vector = {}                         # origins of which others have messages, and some of us none at all
        raised(unknown, unheard(lowest, {site: {} for site in self.meant}, self.sync_vector))
        for member, have in self.haves.items():
            lacking = unheard(lowest, have.vector, self.sync_vector)
            raised(unknown, lacking)
            if relay.is_backup(member) or lacking or lower(have.vector, self.sync_vector):
                self.confirmers.append(member)
                told = self.confirmed.get(member, {})
                self.confirmed[member] = raised(overlaid(self.sync_vector, have.vector), told)
        lowest = overlaid(lowest, unknown)
        self.adopt(lowest)
        self.rewind(overlaid(lower(lowest, self.sync_vector), unknown))
        self.acked_out = lowest
        for site, numbers in lowest.items():
            self.ack_again(site, numbers)
        relay.copies.to_backups(self.haves)
        relay.divergence.announce()
        relay.status.watch_absent()
        relay.status.tell_table()
        relay.sending.introduce()

    def rewind(self, behind: Vector) -> None:
        """As relay: a member is behind; have everything from there on sent again (those who have it drop it)."""
        for site, numbers in behind.items():
            again: Numbers = {}
            for origin, number in numbers.items():
                again[origin] = self.next_out.setdefault(site, {})[origin] = max(1, number)
                self.in_flight.pop(origin, None)
            self.relay.count("rewinds", len(again))
            self.relay.to_relays_of(site, Need(again))

    # --- FORWARD in, DISSEMINATE out (the relay) --------------------------------------------------------------------

    def forward(self, header: Forward, batch: Batch, peer: Peer) -> None:
        """A run from another site: multicast here what is new and in order, ask for what is missing."""
        relay = self.relay
        if header.first > TOP:
            return relay.count("jumps_refused", batch.count)
        if relay.states.carrier.puts_off(header.site, header.origin):
            return relay.count("forwards_put_off", batch.count)
        wanted = self.wanted(header.site, header.origin, header.base)
        if header.base > wanted:
            if header.base - wanted > MAX_JUMP:
                return relay.count("jumps_refused", batch.count)
            wanted = header.base
        stop = header.first + batch.count
        if header.first > wanted:
            relay.count("forwards_ahead", batch.count)
            return self.ask(header.origin, wanted, peer.address)
        if stop <= wanted:
            relay.count("forwards_again", batch.count)
            return self.ack_again(header.site, {header.origin: stop})
        if relay.interests.refuses(batch):
            relay.interests.refuse(peer, batch)
            return self.ask(header.origin, wanted, peer.address)
        if header.first < wanted:
            relay.count("forwards_again", wanted - header.first)
        piece = batch.cut(wanted - header.first, batch.count)
        out = Disseminate(header.site, header.origin, wanted, min(header.base, wanted), header.flags)
        self.next_out.setdefault(header.site, {})[header.origin] = stop
        local = Batch(relay.me, None, piece.payloads, piece.headers, NO_RELAY)
        self.in_flight.setdefault(header.origin, deque()).append((out, local))
        relay.count("disseminated", piece.count)
        relay.pass_down(local.push(out))
        return relay.receipts.disseminated(header.site, header.origin)

    def ask(self, origin: Address, wanted: int, sender: Address) -> None:
        """Ask for a hole, once for all the runs that are on their way behind it: each answer is a whole window."""
        relay = self.relay
        before, whom, asked_ns = self.asked.get(origin, (0, sender, 0))
        again_ns = asked_ns + relay.config.resend_interval_ns
        if (before, whom) != (wanted, sender) or relay.now_ns >= again_ns:
            self.asked[origin] = wanted, sender, relay.now_ns
            relay.to_bridge(sender, Need({origin: wanted}))

    def gone(self, header: Base) -> None:
        """As relay: what a member of ours lacks is gone; tell them all."""
        out = self.next_out.setdefault(header.site, {})
        for origin, number in header.numbers.items():
            if 0 < number - self.wanted(header.site, origin, number) <= MAX_JUMP:
                out[origin] = number
        if header.numbers or header.site not in self.met:
            self.relay.send(header, dest=None, flags=RELIABLE)

    def wanted(self, site: str, origin: Address, base: int) -> int:
        """The number that is to be disseminated next; where the site has no entry, its base."""
        out = self.next_out.get(site, {}).get(origin)
        return self.seen.get(site, {}).get(origin, base) if out is None else out

    def probe(self, site: str, numbers: Numbers, peer: Peer) -> None:
        """The sender waits for acknowledgements: say again what we have, or what we miss."""
        lacking = {}
        for origin, sent in numbers.items():
            wanted = self.wanted(site, origin, 1)
            if wanted < sent:
                lacking[origin] = wanted
        if lacking and self.relay.states.carrier.fetch is None:
            self.relay.to_bridge(peer.address, Need(lacking))
        self.ack_again(site, numbers)

    # --- DISSEMINATE in (every member) ------------------------------------------------------------------------------

    def disseminate(self, header: Disseminate, batch: Batch) -> None:
        """Deliver what extends the seen vector."""
        relay = self.relay
        if not self.synced or batch.src != relay.view.coordinator:
            return relay.count("disseminate_before_sync", batch.count)
        if header.first > TOP:
            return relay.count("jumps_refused", batch.count)
        self.met[header.site] = None
        numbers = self.seen.setdefault(header.site, {})
        wanted = numbers.get(header.origin)
        if wanted is None:
            wanted = header.first
            relay.receipts.polls.skipped(header.origin, 1, wanted)
        elif header.base > wanted:
            if not self.jump(header.site, header.origin, header.base):
                return None
            wanted = header.base
        stop = header.first + batch.count
        if header.first > wanted:
            return relay.count("disseminate_ahead", batch.count)
        if stop > wanted:
            numbers[header.origin] = stop
            self.deliver(header, batch.cut(wanted - header.first, batch.count), batch.src)
        else:
            relay.count("disseminate_again", batch.count)
            numbers.setdefault(header.origin, wanted)
        return self.delivered(header.site, header.origin, numbers[header.origin])

    def base(self, header: Base, batch: Batch) -> None:
        """The relay says that nothing below these numbers will come."""
        if not self.synced or batch.src != self.relay.view.coordinator:
            return self.relay.count("base_before_sync")
        seen = self.seen.setdefault(header.site, {})
        for origin, number in header.numbers.items():
            owed, before = header.owed.get(origin, 1), seen.get(origin, 1)
            if origin not in seen:
                # What was meant for this site while we were its member is lost for us, here or elsewhere.
                seen[origin] = owed if header.site in self.met else number
            self.relay.receipts.polls.skipped(origin, before, seen[origin])
            if number > seen[origin] and self.jump(header.site, origin, number):
                self.delivered(header.site, origin, number)
        self.met[header.site] = None
        return None

    def jump(self, site: str, origin: Address, number: int) -> bool:
        """Nothing below `number` will come: tell the application what it misses. False: so far nobody jumps."""
        numbers = self.seen[site]
        if number - numbers[origin] > MAX_JUMP:
            self.relay.count("jumps_refused")
            return False
        self.relay.tell(MessagesLost(site, origin, numbers[origin], number))
        self.relay.count("lost", number - numbers[origin])
        self.relay.receipts.polls.skipped(origin, numbers[origin], number)
        numbers[origin] = number
        return True

    def deliver(self, header: Disseminate, batch: Batch, relay_address: Address) -> None:
        """To the application, in the name of the origin."""
        proxy = self.proxies.get(header.origin)
        if proxy is None or proxy.relay != relay_address:
            proxy = self.proxies[header.origin] = ProxyUUID(header.origin, relay_address, header.site)
        self.relay.count("delivered_remote", batch.count)
        self.relay.pass_up(Batch(proxy, None, batch.payloads, batch.headers, header.flags))

    def delivered(self, site: str, origin: Address, number: int) -> None:
        """Bookkeeping after a delivery: the relay acknowledges, backups confirm, who asked is told."""
        relay = self.relay
        relay.receipts.polls.delivered(site, origin)
        relay.states.provider.delivered()
        if relay.is_relay:
            runs = self.in_flight.get(origin)
            while runs and runs[0][0].first + runs[0][1].count <= number:
                runs.popleft()
            self.ack_again(site, {origin: number})
        elif self.behind or relay.is_backup(relay.me):
            self.unconfirmed.setdefault(site, {})[origin] = number
            relay.set_timer_once("confirm", relay.config.ack_interval_ns)

    def confirm(self) -> None:
        """As backup, on a timer: tell the relay what we have delivered."""
        if self.unconfirmed:
            vector, self.unconfirmed = self.unconfirmed, {}
            self.relay.send(Confirm(self.relay.view.id, vector), self.relay.view.coordinator, flags=RELIABLE)

    def confirms(self, header: Confirm, batch: Batch) -> None:
        """As relay: a backup has delivered."""
        relay = self.relay
        if not relay.is_relay or header.view_id != relay.view.id:
            return
        self.confirmed[batch.src] = raised(self.confirmed.get(batch.src, {}), header.vector)
        for site, numbers in header.vector.items():
            self.ack_again(site, numbers)

    # --- acknowledging (the relay) ----------------------------------------------------------------------------------

    def ack_again(self, site: str, numbers: Numbers) -> None:
        """Acknowledge these origins soon."""
        self.to_ack.setdefault(site, {}).update(numbers)
        self.relay.set_timer_once("ack", self.relay.config.ack_interval_ns)

    def acknowledge(self) -> None:
        """On a timer: tell each site what every confirming member has of its messages."""
        if not self.complete:
            return                                # nothing rises before every member answered SYNC
        to_ack, self.to_ack = self.to_ack, {}
        for site, numbers in to_ack.items():
            acked = self.acked_out.setdefault(site, {})
            for origin in numbers:
                acked[origin] = max(acked.get(origin, 1), self.ackable(site, origin))
            self.relay.to_relays_of(site, Seen({origin: acked[origin] for origin in numbers}))

    def ackable(self, site: str, origin: Address) -> int:
        """The prefix that we and everybody who must confirm have delivered."""
        mine = self.seen.get(site, {}).get(origin, 1)
        theirs = [self.confirmed.get(member, {}).get(site, {}).get(origin, 1) for member in self.confirmers]
        return min([mine, *theirs])
