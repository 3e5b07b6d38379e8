"""UNICAST: makes unicasts reliable: each arrives once, in the order in which its sender sent it.

Problem: frames get lost, doubled and reordered, and either end of a conversation may forget the other (a false
exclusion, a merge) without being restarted. Idea: a connection per sender and receiver numbers messages from 1; the
receiver puts them in order, asks for holes, acknowledges what it delivered, seldom (`ack_threshold`) or a little
later (`ack_delay`); the sender keeps what is not acknowledged. When acknowledgements do not move, it repeats only the
highest message, which makes the receiver ask for what it lacks or acknowledge again. Every run carries `base`, the
lowest number its sender still holds, so a receiver that knows nothing of the connection starts there at once: the
first message of a connection waits for nobody, and when it is lost it is an ordinary hole.

Sits above the transport and the fault layers, below all who want reliable unicasts. Messages to ourselves turn round
here. NO_RELIABILITY passes untouched. OOB messages are numbered like all others, but passed up as they arrive.
Nothing is passed up before our first view (it would lie outside of any view); it is kept, unacknowledged, till then.

Source: JGroups UNICAST3. Deviations: connection numbers only grow, so stale acknowledgements need no timestamps;
`base` in each run replaces the request for a connection's first message; the numbers of a closed connection are
remembered, so that late retransmissions are recognised as duplicates.
"""
from __future__ import annotations

from jgroups_py.address import Address
from jgroups_py.batch import NO_RELIABILITY, OOB, Batch
from jgroups_py.jumps import plausible
from jgroups_py.protocol import UNICASTS, only, receives, timer
from jgroups_py.protocols.unicast.closing import Closing
from jgroups_py.protocols.unicast.config import UnicastConfig
from jgroups_py.protocols.unicast.headers import Ack, Base, Data, Missing
from jgroups_py.protocols.unicast.state import Incoming, Outgoing, RoundTrip, within
from jgroups_py.windows.receive import RUN_BYTES, ReceiveWindow
from jgroups_py.windows.sharing import has_share

FIRST_WAIT_DIVISOR = 8          # the first wait is this fraction of xmit_interval, then it doubles up to it
MARGIN_PART = 4                 # a wait is a quarter longer than answers usually take
MOST_INTERVALS = 8              # no wait is longer than so many xmit_intervals, however slow the peer
MAX_RANGES = 512                # in one request: 8 KB of header, which fits every frame
MAX_EARLY_RUNS = 4096           # before the first view, however small they are


class Unicast(Closing):
    """Reliable FIFO unicasts."""

    Config = UnicastConfig

    def start(self) -> None:
        super().start()
        self.outgoing: dict[Address, Outgoing] = {}
        self.incoming: dict[Address, Incoming] = {}
        self.owing: dict[Address, Incoming] = {}             # to whom an acknowledgement is owed
        self.owing_timer = False
        self.connections = 0                                 # the number given last; they only grow
        self.members: dict[Address, None] | None = None      # of the view; None before the first
        self.strangers: dict[Address, None] = {}             # peers outside the view, whose close timer is set
        self.early: list[tuple[Data, Batch]] = []            # what came before the first view
        self.early_bytes = 0
        self.first_wait_ns = max(self.config.xmit_interval_ns // FIRST_WAIT_DIVISOR, 2 * self.config.ack_delay_ns)
        self.most_ns = MOST_INTERVALS * max(self.config.xmit_interval_ns, self.first_wait_ns)
        if self.config.conn_expiry_timeout_ns:
            self.set_timer("expire", self.config.conn_expiry_timeout_ns)

    def stats(self) -> dict[str, float]:
        kept = sum(out.window.next - out.window.low for out in self.outgoing.values())
        return {**self.counters, "connections": len(self.outgoing) + len(self.incoming), "unacknowledged": kept}

    # --- sending ----------------------------------------------------------------------------------------------------

    @only(UNICASTS)
    def down(self, batch: Batch) -> None:
        dest = batch.dest
        assert dest is not None, "only unicasts come here"
        if batch.flags & NO_RELIABILITY:
            return self.pass_down(batch)
        out = self.outgoing.get(dest)
        if out is None:
            if dest == self.me:
                return self.pass_up(batch)
            out = self.open(dest)
        window = out.window
        run = batch.push(Data(out.connection, window.next, window.low))
        window.add(run)
        if self.strangers and dest in self.strangers and self.too_much(dest, out, batch):
            return None
        out.used = True
        if not out.watch.number:
            out.watch.begin(window.next - 1, self.now_ns)
        if not out.armed:
            self.arm_anew(dest, out)
        return self.pass_down(run)

    def too_much(self, dest: Address, out: Outgoing, batch: Batch) -> bool:
        """Give up a stranger who acknowledges nothing before it fills our memory: no credits bound what it is sent."""
        out.unheard_bytes += batch.nbytes
        if out.unheard_bytes <= self.config.max_unheard_bytes:
            return False
        self.close_outgoing(dest)
        return True

    def arm_anew(self, dest: Address, out: Outgoing) -> None:
        """Something is unacknowledged again."""
        out.moved_ns = self.now_ns
        out.wait_ns = self.least_wait_ns(out.watch.trip)
        self.arm(dest, out)

    def arm(self, dest: Address, out: Outgoing) -> None:
        out.armed = True
        out.tick_low = out.window.low
        self.set_timer("resend", out.wait_ns, dest)

    @timer("resend")
    def resend_highest(self, dest: Address) -> None:
        """Say the last message again if acknowledgements stand still: it or its acknowledgement may be lost."""
        out = self.outgoing.get(dest)
        if out is None:
            return
        out.armed = False
        window = out.window
        if not window:
            return
        if window.low > out.tick_low:
            return self.arm_anew(dest, out)
        patience_ns = self.config.max_retransmit_time_ns
        if patience_ns and dest in self.strangers and self.now_ns - out.moved_ns >= patience_ns:
            return self.close_outgoing(dest)
        out.watch.again()
        for run in out.again(window.next - 1, window.next):
            self.count("highest_resent")
            self.pass_down(run)
        out.wait_ns = min(2 * out.wait_ns, self.longest_wait_ns(out.watch.trip))
        self.arm(dest, out)

    def least_wait_ns(self, trip: RoundTrip) -> int:
        """How long to wait at first. Sooner than answers come would repeat what is under way, and fill a slow path."""
        return min(max(self.first_wait_ns, trip.usual_ns + trip.usual_ns // MARGIN_PART), self.most_ns)

    def longest_wait_ns(self, trip: RoundTrip) -> int:
        """How long to wait at most."""
        return min(max(self.config.xmit_interval_ns, self.first_wait_ns, 2 * trip.usual_ns), self.most_ns)

    @receives(Ack)
    def acknowledged(self, ack: Ack, batch: Batch) -> None:
        out = self.outgoing.get(batch.src)
        if out is None or out.connection != ack.connection:
            return self.count("stale_acks")
        if ack.next > out.window.next:
            return self.count("wrong_acks")
        if not out.window.forget(ack.next):
            return self.count("stale_acks")
        out.unheard_bytes = 0
        if 0 < out.watch.number < ack.next:
            out.watch.end(self.now_ns)
        return None

    @receives(Missing)
    def asked_again(self, missing: Missing, batch: Batch) -> None:
        """Resend what is asked for, up to `max_resend_size`; the rest will be asked for again."""
        out = self.outgoing.get(batch.src)
        if out is None or out.connection != missing.connection:
            return self.count("stale_requests")
        room = self.config.max_resend_bytes
        low = out.window.low
        if any(first < low for first, _ in missing.ranges):
            self.send(Base(out.connection, low), batch.src)
        for first, stop in missing.ranges:
            for run in out.again(first, stop):
                if room <= 0:
                    return None
                room -= run.nbytes
                self.count("retransmitted", run.count)
                self.pass_down(run)
        return None

    # --- receiving --------------------------------------------------------------------------------------------------

    @only(UNICASTS)
    def up(self, batch: Batch) -> None:
        """Messages without a number: of the application (NO_RELIABILITY) not before our first view."""
        if self.members is None and batch.payloads:
            return self.count("before_view_dropped", len(batch.payloads))
        return self.pass_up(batch)

    @receives(Data)
    def data(self, header: Data, batch: Batch) -> None:
        src = batch.src
        inc = self.incoming.get(src)
        if inc is None or inc.connection != header.connection or self.members is None:
            inc = self.accept(header, batch)
            if inc is None:
                return None
        if not batch.flags & OOB and inc.straight(header.first, len(batch.payloads) or 1):
            self.pass_up(batch)
            return self.owe(src, inc)
        if src not in self.outsiders:
            return self.out_of_order(header, batch, inc)
        before = inc.window.ahead_weight
        self.out_of_order(header, batch, inc)
        self.outsider_bytes += inc.window.ahead_weight - before
        return None

    def fits(self, src: Address, window: ReceiveWindow, first: int, nbytes: int) -> bool:
        """Whether a run may be kept; the one that is wanted next always may."""
        if first <= window.next:
            return True
        if src in self.outsiders:
            return self.outsider_bytes + nbytes + RUN_BYTES <= self.config.max_stranger_bytes
        members = self.members or {}
        ends = [self.incoming.get(member) for member in members]
        weight = sum([inc.window.ahead_weight for inc in ends if inc is not None])
        return has_share(window, weight, len(members) or 1, nbytes, self.config.max_ahead_bytes)

    def out_of_order(self, header: Data, batch: Batch, inc: Incoming) -> None:
        """A run that is not simply the next one: OOB, double, behind a hole, or closing one."""
        window = inc.window
        if header.base > window.next:
            if header.base > header.first or not plausible(header.base, window.next):
                return self.count("malformed_dropped", batch.count)
            self.skip(inc, header.base)
        if header.first > window.next + self.config.max_ahead:
            return self.count("too_far_ahead_dropped", batch.count)
        if not self.fits(batch.src, window, header.first, batch.nbytes):
            return self.count("ahead_dropped", batch.count)
        if batch.flags & OOB:
            self.pass_up_fresh(inc, header.first, batch)
        opens_gap = header.first > window.stop
        fresh = window.add(header.first, batch)
        doubled = batch.count - fresh
        inc.came_ahead(header.first, header.first + batch.count, fresh, self.now_ns)
        if window.runs.firsts:
            self.deliver(inc, window.take())
        inc.used = True
        if doubled:
            self.count("duplicates", doubled)
        if opens_gap:
            self.gap_opened(batch.src, inc)
        return self.owe(batch.src, inc)

    def accept(self, header: Data, batch: Batch) -> Incoming | None:
        """The receiving end for a connection we do not have; None if this run is to be dropped or kept for later."""
        if self.members is None:
            self.keep_early(header, batch)
            return None
        src = batch.src
        known = self.incoming.get(src)
        connection, first = (known.connection, known.window.next) if known else self.recall(src)
        if header.connection < connection:
            self.count("old_connection_dropped", batch.count)
            return None
        if not 0 < header.base <= header.first or not plausible(header.base, first, anew=True):
            self.count("malformed_dropped", batch.count)
            return None
        if header.connection > connection:
            first = header.base
            if known and known.window.runs.firsts:
                self.outsider_bytes -= known.window.ahead_weight if src in self.outsiders else 0
                self.count("replaced_connection_dropped", sum(run.count for run in known.window.runs.runs))
        self.closed.pop(src, None)
        self.closed_outsiders.pop(src, None)
        self.owing.pop(src, None)
        inc = self.incoming[src] = Incoming(header.connection, first, self.trip_of(src))
        self.close_later(src)
        return inc

    def keep_early(self, header: Data, batch: Batch) -> None:
        self.early_bytes += batch.nbytes
        if self.early_bytes > self.config.max_early_bytes or len(self.early) >= MAX_EARLY_RUNS:
            return self.count("early_dropped", batch.count)
        return self.early.append((header, batch))

    def skip(self, inc: Incoming, base: int) -> None:
        """The sender holds nothing below `base`: an earlier Incoming of ours, forgotten since, acknowledged it."""
        self.count("skipped", base - inc.window.next)
        self.deliver(inc, inc.window.skip(base))

    def deliver(self, inc: Incoming, runs: list[Batch]) -> None:
        for run in runs:
            inc.unacked += len(run.payloads) or 1
            if not run.flags & OOB:                           # those went up as they arrived
                self.pass_up(run)

    def pass_up_fresh(self, inc: Incoming, first: int, batch: Batch) -> None:
        """Pass up what is new of an OOB run; the window keeps it as a mark that it was delivered."""
        window = inc.window
        stop = first + batch.count
        for begin, end in window.runs.holes(max(first, window.next), stop):
            self.pass_up(batch.cut(begin - first, end - first))

    # --- acknowledging ----------------------------------------------------------------------------------------------

    def owe(self, src: Address, inc: Incoming) -> None:
        """Acknowledge now if much was delivered, else soon."""
        if inc.unacked >= self.config.ack_threshold:
            self.owing.pop(src, None)
            return self.acknowledge(src, inc)
        if src not in self.owing:
            self.owing[src] = inc
            if not self.owing_timer:
                self.owing_timer = True
                self.set_timer("ack", self.config.ack_delay_ns)
        return None

    @timer("ack")
    def acknowledge_all(self) -> None:
        self.owing_timer = False
        owing, self.owing = self.owing, {}
        for src, inc in owing.items():
            self.acknowledge(src, inc)

    def acknowledge(self, src: Address, inc: Incoming) -> None:
        inc.unacked = 0
        self.count("acks_sent")
        self.send(Ack(inc.connection, inc.window.next), src)

    # --- asking for holes -------------------------------------------------------------------------------------------

    def gap_opened(self, src: Address, inc: Incoming) -> None:
        """Ask for the new hole once it has stood for `gap_delay`."""
        delay_ns = self.config.gap_delay_ns
        if not inc.due_ns or inc.due_ns > self.now_ns + delay_ns:
            self.arm_ask(src, inc, delay_ns)

    def arm_ask(self, src: Address, inc: Incoming, wait_ns: int) -> None:
        inc.due_ns = self.now_ns + wait_ns
        inc.ask_stop = inc.window.stop
        self.set_timer("ask", wait_ns, src)

    @timer("ask")
    def ask(self, src: Address) -> None:
        """Ask for holes that stood when the timer was set: new ones, and when it is time again, all."""
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
        holes = window.runs.holes(lower, inc.ask_stop)[:MAX_RANGES] if lower < inc.ask_stop else []
        inc.asked_stop = max(lower, inc.ask_stop)
        ranges = within(holes, inc.quota - inc.asked)
        if ranges:
            inc.asks(ranges, self.now_ns)
            self.count("requests_sent")
            self.send(Missing(inc.connection, ranges), src)
        younger = inc.asked_stop < window.stop and window.runs.holes(inc.asked_stop, window.stop)
        wait_ns = inc.again_ns - self.now_ns
        self.arm_ask(src, inc, min(wait_ns, self.config.gap_delay_ns) if younger else wait_ns)

    def begin_round(self, inc: Incoming) -> None:
        """All holes may be asked for again; the rounds become rarer while nothing is delivered, and smaller while most
        of what was asked for does not come."""
        inc.pace(self.config.max_xmit_req_size)
        inc.watch.again()
        moved = inc.window.next > inc.asked_next
        least_ns = self.least_wait_ns(inc.watch.trip)
        inc.wait_ns = least_ns if moved else max(least_ns, min(2 * inc.wait_ns, self.longest_wait_ns(inc.watch.trip)))
        inc.asked_next = inc.window.next
        inc.asked_stop = 0
        inc.again_ns = self.now_ns + inc.wait_ns

    @receives(Base)
    def based(self, base: Base, batch: Batch) -> None:
        inc = self.incoming.get(batch.src)
        if inc is None or inc.connection != base.connection:
            return self.count("stale_bases")
        if not plausible(base.base, inc.window.next):
            return self.count("malformed_dropped")
        if base.base > inc.window.next:
            before = inc.window.ahead_weight
            self.skip(inc, base.base)
            self.deliver(inc, inc.window.take())
            if batch.src in self.outsiders:
                self.outsider_bytes += inc.window.ahead_weight - before
            self.owe(batch.src, inc)
        return None
