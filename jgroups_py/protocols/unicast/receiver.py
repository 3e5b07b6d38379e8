"""The receiving half of UNICAST: order, duplicates, holes, acknowledgements.

A batch that is next in order goes up at once, and enters no table. Everything else is `out_of_order`: a duplicate, a
batch behind a hole, one that closes a hole, an OOB message. Holes are requested in rounds: a new hole once it has
lasted for `gap_delay`, as frames may overtake each other (RFC 5681 waits for three duplicate acknowledgements for the
same reason); all holes again when the round ends, with exponential backoff while nothing is delivered.

What is kept behind holes is bounded, separately for members and for peers that never were in the view (unknown ones),
so that non-members never take room that a member needs.
"""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.model.batch import OOB, Batch
from jgroups_py.model.counter_jumps import plausible
from jgroups_py.model.counters import counter, declare, drop
from jgroups_py.model.events import ViewChange
from jgroups_py.protocols.unicast.config import UnicastConfig
from jgroups_py.protocols.unicast.headers import UnicastAck, UnicastBase, UnicastData, UnicastNak
from jgroups_py.protocols.unicast.ports import PeersPort
from jgroups_py.protocols.unicast.state import Incoming, WaitTimes, within
from jgroups_py.stack.component import Component, LayerPort, on, receives, timer
from jgroups_py.windows.budget import has_share
from jgroups_py.windows.receive import BATCH_BYTES, ReceiveWindow

MAX_RANGES = 512                # in one request: 8 KB of header, which fits every frame
MAX_EARLY_BATCHES = 4096        # before the first view, however small they are
MAX_REMEMBERED = 4096           # closed connections of former members, and of unknown peers: about 0.5 MB each


class UnicastReceiver(Component):
    """See the module.

    closed, closed_unknown: sender -> (connection, next) of a receiving end that was closed, of former members and of
    unknown peers; unknown_bytes: the weight of what the windows of unknown peers keep; before_view: what came before
    the first view.
    """

    COUNTERS = declare(
        counter("acks_sent", "Acknowledgements sent."),
        counter("requests_sent", "Requests for missing messages sent."),
        counter("skipped", "Numbers skipped because their sender no longer keeps them."),
        drop("early_dropped", "Messages that arrived before the first view, when there was no more room."),
        drop("duplicates", "Messages that arrived more than once."),
        drop("too_far_ahead_dropped", "Messages whose number is more than max_ahead above the next one in order."),
        drop("ahead_dropped", "Messages behind a hole for which there was no room; they are sent again."),
        drop("old_connection_dropped", "Messages of a connection that is over."),
        drop("replaced_connection_dropped", "Messages behind a hole when their sender opened a new connection."),
        drop("out_of_order_dropped", "Messages behind a hole when the connection was closed."),
        drop("stale_bases", "Answers about a connection that is over."),
        drop("malformed_dropped", "Messages whose numbers contradict each other."),
    )

    config: UnicastConfig

    def __init__(self, layer: LayerPort, peers: PeersPort, waits: WaitTimes) -> None:
        super().__init__(layer)
        self.peers = peers
        self.waits = waits
        self.incoming: dict[Address, Incoming] = {}
        self.closed: dict[Address, tuple[int, int]] = {}
        self.closed_unknown: dict[Address, tuple[int, int]] = {}
        self.unknown_bytes = 0
        self.before_view: list[tuple[UnicastData, Batch]] = []
        self.before_view_bytes = 0
        self.ack_due: dict[Address, Incoming] = {}           # peers that get an acknowledgement with the next tick
        self.ack_timer_set = False

    @receives(UnicastData)
    def on_data(self, header: UnicastData, batch: Batch) -> None:
        """Messages of a connection. Before the first view there is no receiving end, and `accept` keeps them."""
        src = batch.src
        inc = self.incoming.get(src)
        if inc is None or inc.connection != header.connection:
            inc = self.accept(header, batch)
            if inc is None:
                return None
        if not batch.flags & OOB and inc.take_in_order(header.first, len(batch.payloads) or 1):
            self.pass_up(batch)
            return self.acknowledge_soon(src, inc)
        if src not in self.peers.unknown:
            return self.out_of_order(header, batch, inc)
        # The sum over unknown peers is updated by the difference: adding up a thousand of them each time is too slow.
        before = inc.window.ahead_weight
        self.out_of_order(header, batch, inc)
        self.unknown_bytes += inc.window.ahead_weight - before
        return None

    def out_of_order(self, header: UnicastData, batch: Batch, inc: Incoming) -> None:
        """A batch that is not simply the next one: OOB, a duplicate, behind a hole, or closing one."""
        window = inc.window
        if header.base > window.next:
            # The sender drops only what was acknowledged, so an earlier receiving end of this process delivered it:
            # waiting for it here would stop the connection, and delivering it again would be a duplicate (S2).
            if header.base > header.first or not plausible(header.base, window.next):
                return self.drop("malformed_dropped", batch, "its base contradicts its numbers", header)
            self.skip(inc, header.base)
        if header.first > window.next + self.config.max_ahead:
            return self.drop("too_far_ahead_dropped", batch, f"more than max_ahead above {window.next}", header)
        if not self.fits(batch.src, window, header.first, batch.nbytes):
            return self.drop("ahead_dropped", batch, f"no room behind the hole at {window.next}", header)
        if batch.flags & OOB:
            self.pass_up_new(inc, header.first, batch)       # before `add`, which makes it all old
        opens_gap = header.first > window.stop
        fresh = window.add(header.first, batch)
        doubled = batch.count - fresh
        inc.came_ahead(header.first, header.first + batch.count, fresh, self.now_ns)
        if window.kept.firsts:
            self.deliver(inc, window.take())
        inc.used = True
        if doubled:
            self.drop("duplicates", batch, "it arrived before", header, number=doubled)
        if opens_gap:
            self.gap_opened(batch.src, inc)
        # Duplicates are acknowledged again: the acknowledgement may be lost, and the sender repeats until one arrives.
        return self.acknowledge_soon(batch.src, inc)

    def fits(self, src: Address, window: ReceiveWindow, first: int, nbytes: int) -> bool:
        """Whether a batch may be kept; the next one in order always may, so that delivery goes on."""
        if first <= window.next:
            return True
        if src in self.peers.unknown:
            return self.unknown_bytes + nbytes + BATCH_BYTES <= self.config.max_non_member_bytes
        members = self.peers.members or {}
        ends = [self.incoming.get(member) for member in members]
        weight = sum([inc.window.ahead_weight for inc in ends if inc is not None])
        return has_share(window, weight, len(members) or 1, nbytes, self.config.max_ahead_bytes)

    def skip(self, inc: Incoming, base: int) -> None:
        """The sender keeps nothing below `base`: deliver what is kept here below it, and continue at `base`."""
        self.count("skipped", base - inc.window.next)
        self.deliver(inc, inc.window.skip(base))

    def deliver(self, inc: Incoming, batches: list[Batch]) -> None:
        for batch in batches:
            inc.unacked += len(batch.payloads) or 1
            if not batch.flags & OOB:                           # OOB batches were passed up on arrival
                self.pass_up(batch)

    def pass_up_new(self, inc: Incoming, first: int, batch: Batch) -> None:
        """Pass up what is new of an OOB batch. The window keeps it, as the record that it was delivered (S2)."""
        window = inc.window
        stop = first + batch.count
        for begin, end in window.kept.holes(max(first, window.next), stop):
            self.pass_up(batch.cut(begin - first, end - first))

    # --- opening and closing the receiving end ----------------------------------------------------------------------

    def accept(self, header: UnicastData, batch: Batch) -> Incoming | None:
        """The receiving end for a connection that has none here; None: this batch is dropped, or kept for later.

        A higher number is a new connection, whose sender closed the old one; a lower one a late frame of an old one.
        A connection that was closed here continues where it ended, so that no message is delivered twice (S2).
        """
        if self.peers.members is None:
            self.keep_before_view(header, batch)
            return None
        src = batch.src
        known = self.incoming.get(src)
        connection, first = (known.connection, known.window.next) if known else self.recall(src)
        if header.connection < connection:
            self.drop("old_connection_dropped", batch, f"the connection is {connection} now", header)
            return None
        if not 0 < header.base <= header.first or not plausible(header.base, first, anew=True):
            self.drop("malformed_dropped", batch, "its base contradicts its numbers", header)
            return None
        if header.connection > connection:
            first = header.base
            if known and known.window.kept.firsts:
                # What is kept behind a hole can never be delivered: the sender closed the connection, and with it
                # dropped what would fill the hole.
                self.unknown_bytes -= known.window.ahead_weight if src in self.peers.unknown else 0
                for ahead in known.window.kept.batches:
                    self.drop("replaced_connection_dropped", ahead, f"connection {header.connection} replaces it")
        self.closed.pop(src, None)
        self.closed_unknown.pop(src, None)
        self.ack_due.pop(src, None)
        inc = self.incoming[src] = Incoming(header.connection, first, self.peers.trip_of(src))
        self.peers.close_later(src)
        return inc

    def recall(self, peer: Address) -> tuple[int, int]:
        """(connection, next) of its receiving end that was closed, else (0, 0)."""
        return self.closed.get(peer) or self.closed_unknown.get(peer) or (0, 0)

    def keep_before_view(self, header: UnicastData, batch: Batch) -> None:
        """Keep a batch until the first view (M3), unacknowledged: what does not fit is sent again."""
        self.before_view_bytes += batch.nbytes
        if self.before_view_bytes > self.config.max_early_bytes or len(self.before_view) >= MAX_EARLY_BATCHES:
            return self.drop("early_dropped", batch, "there is no view yet, and no more room", header)
        return self.before_view.append((header, batch))

    @on(ViewChange)
    def on_view_change(self, event: ViewChange) -> None:
        """Take up what arrived before the first view. UnicastPeers observes the event first, so `members` is new."""
        early, self.before_view, self.before_view_bytes = self.before_view, [], 0
        for header, batch in early:
            self.on_data(header, batch)

    def release_share(self, peer: Address) -> None:
        """See ReceivingPort."""
        if peer in self.incoming:
            self.unknown_bytes -= self.incoming[peer].window.ahead_weight

    def close_incoming(self, peer: Address, *, unknown: bool) -> None:
        """See ReceivingPort. The remembered numbers tell late retransmissions from new messages (S2)."""
        inc = self.incoming.pop(peer, None)
        if inc is None:
            return
        self.cancel_timer("ask", peer)
        self.ack_due.pop(peer, None)
        if inc.window.kept.firsts:
            for batch in inc.window.kept.batches:
                self.drop("out_of_order_dropped", batch, f"the connection was closed, {inc.window.next} is missing")
        # Two tables, so that forged peers never displace the numbers of a former member.
        closed = self.closed_unknown if unknown else self.closed
        closed[peer] = (inc.connection, inc.window.next)
        if len(closed) > MAX_REMEMBERED:
            del closed[next(iter(closed))]

    def close_idle_incoming(self) -> None:
        """See ReceivingPort."""
        for peer in [peer for peer, inc in self.incoming.items() if not inc.used and inc.window.complete]:
            self.close_incoming(peer, unknown=peer in self.peers.unknown)
        for inc in self.incoming.values():
            inc.used = False

    # --- acknowledging ----------------------------------------------------------------------------------------------

    def acknowledge_soon(self, src: Address, inc: Incoming) -> None:
        """Acknowledge at once after `ack_threshold` messages, else with the next tick of the one timer for all peers.

        Delayed acknowledgements (RFC 1122, 4.2.3.2): one for many messages. One timer, since with one per peer each
        batch would cost a timer.
        """
        if inc.unacked >= self.config.ack_threshold:
            self.ack_due.pop(src, None)
            return self.acknowledge(src, inc)
        if src not in self.ack_due:
            self.ack_due[src] = inc
            if not self.ack_timer_set:
                self.ack_timer_set = True
                self.set_timer("ack", self.config.ack_delay_ns)
        return None

    @timer("ack")
    def acknowledge_all(self) -> None:
        """`ack_delay` after the first message that is not acknowledged."""
        self.ack_timer_set = False
        due, self.ack_due = self.ack_due, {}
        for src, inc in due.items():
            self.acknowledge(src, inc)

    def acknowledge(self, src: Address, inc: Incoming) -> None:
        inc.unacked = 0
        self.count("acks_sent")
        self.send(UnicastAck(inc.connection, inc.window.next), src)

    # --- requesting holes --------------------------------------------------------------------------------------------

    def gap_opened(self, src: Address, inc: Incoming) -> None:
        """Request the new hole once it has lasted for `gap_delay`."""
        delay_ns = self.config.gap_delay_ns
        if not inc.due_ns or inc.due_ns > self.now_ns + delay_ns:
            self.arm_ask(src, inc, delay_ns)

    def arm_ask(self, src: Address, inc: Incoming, wait_ns: int) -> None:
        inc.due_ns = self.now_ns + wait_ns
        inc.ask_stop = inc.window.stop
        self.set_timer("ask", wait_ns, src)

    @timer("ask")
    def ask(self, src: Address) -> None:
        """Request holes that existed when the timer was set: the new ones, and all when the round is over."""
        inc = self.incoming.get(src)
        if inc is None:
            return
        inc.due_ns = 0
        window = inc.window
        if window.next >= window.stop:
            return
        if self.now_ns >= inc.again_ns:
            self.begin_round(inc)
        lower = max(inc.asked_stop, window.next)
        holes = window.kept.holes(lower, inc.ask_stop)[:MAX_RANGES] if lower < inc.ask_stop else []
        inc.asked_stop = max(lower, inc.ask_stop)
        ranges = within(holes, inc.quota - inc.asked)
        if ranges:
            inc.asks(ranges, self.now_ns)
            self.count("requests_sent")
            self.send(UnicastNak(inc.connection, ranges), src)
        # Holes that opened after the timer was set may be mere reordering: they get their own `gap_delay`.
        younger = inc.asked_stop < window.stop and window.kept.holes(inc.asked_stop, window.stop)
        wait_ns = inc.again_ns - self.now_ns
        self.arm_ask(src, inc, min(wait_ns, self.config.gap_delay_ns) if younger else wait_ns)

    def begin_round(self, inc: Incoming) -> None:
        """All holes may be requested again. Rounds get longer while nothing is delivered (the path may be cut), and
        smaller (`pace`) while most of what was requested does not arrive (the path is congested)."""
        inc.pace(self.config.max_xmit_req_size)
        inc.watch.again()
        moved = inc.window.next > inc.asked_next
        trip = inc.watch.trip
        least_ns = self.waits.least_ns(trip)
        # RFC 6298, 5.5: the wait doubles while there is no progress; with progress it begins anew.
        inc.wait_ns = least_ns if moved else max(least_ns, min(2 * inc.wait_ns, self.waits.longest_ns(trip)))
        inc.asked_next = inc.window.next
        inc.asked_stop = 0
        inc.again_ns = self.now_ns + inc.wait_ns

    @receives(UnicastBase)
    def on_base(self, base: UnicastBase, batch: Batch) -> None:
        """The sender no longer keeps what was requested: it was acknowledged, so it was delivered. Continue there."""
        inc = self.incoming.get(batch.src)
        if inc is None or inc.connection != base.connection:
            return self.drop("stale_bases", batch, "the connection is over", base)
        if not plausible(base.base, inc.window.next):
            return self.drop("malformed_dropped", batch, "its base is implausibly high", base)
        if base.base > inc.window.next:
            before = inc.window.ahead_weight
            self.skip(inc, base.base)
            self.deliver(inc, inc.window.take())
            if batch.src in self.peers.unknown:
                self.unknown_bytes += inc.window.ahead_weight - before
            self.acknowledge_soon(batch.src, inc)
        return None
