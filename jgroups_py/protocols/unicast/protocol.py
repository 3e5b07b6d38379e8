"""UNICAST: each message to one member arrives once, in the order in which its sender sent it.

Problem: frames get lost, duplicated and reordered, and either end may close its half of a connection (a false
exclusion, a merge) while the other end keeps its own. Idea: a connection per sender and receiver numbers messages from
1. The receiver puts them in order, requests holes (negative acknowledgements) and acknowledges what it delivered, after
`ack_threshold` messages or `ack_delay`. The sender keeps what is not acknowledged. While acknowledgements do not move,
it repeats only the highest message; the receiver then requests what is missing, or acknowledges again. Each batch
carries `base`, the lowest number that its sender still keeps, so a receiver without a connection starts there at once:
the first message of a connection needs no handshake, and when it is lost it is an ordinary hole.

This file is the layer and its sending half; receiver.py is the receiving half, peers.py how long connections are
kept, state.py the two ends of a connection.

Place: above the transport and the fault layers, below all layers that need reliable unicasts. Messages to this member
itself are passed up here. NO_RELIABILITY passes untouched. OOB messages are numbered like all others, but passed up as
they arrive. Nothing is passed up before the first view (M3); it is kept, unacknowledged, until then.

Source: JGroups UNICAST3. Deviations: connection numbers only grow, so stale acknowledgements need no timestamps;
`base` in each batch replaces the request for a connection's first message; the numbers of a closed connection are
remembered, so that late retransmissions are recognised as duplicates.
"""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_RELIABILITY, Batch
from jgroups_py.model.counters import counter, declare, drop, figure
from jgroups_py.protocols.unicast.config import UnicastConfig
from jgroups_py.protocols.unicast.headers import UnicastAck, UnicastBase, UnicastData, UnicastNak
from jgroups_py.protocols.unicast.peers import UnicastPeers
from jgroups_py.protocols.unicast.receiver import UnicastReceiver
from jgroups_py.protocols.unicast.state import Outgoing, WaitTimes
from jgroups_py.stack.component import Component
from jgroups_py.stack.protocol import UNICASTS, Protocol, only, receives, timer


class Unicast(Protocol):
    """Reliable FIFO unicasts.

    outgoing: receiver -> the sending end; connections: the last number of a connection, which only grows.
    """

    Config = UnicastConfig
    config: UnicastConfig
    components = (UnicastPeers, UnicastReceiver)
    COUNTERS = declare(
        counter("connections_opened", "Connections opened to send to a peer."),
        counter("connections_closed", "Sending ends that were closed: the peer had left, or was idle."),
        counter("retransmitted", "Messages sent again because they were requested."),
        counter("highest_resent", "Last messages that were sent again because no acknowledgement came."),
        drop("before_view_dropped", "Messages without a number (NO_RELIABILITY) that arrived before the first view."),
        drop("unacknowledged_dropped", "Own messages that were not acknowledged when the connection was closed."),
        drop("stale_acks", "Acknowledgements of a connection that is over, or that acknowledge nothing new."),
        drop("wrong_acks", "Acknowledgements of messages that were never sent."),
        drop("stale_requests", "Requests about a connection that is over."),
        figure("connections", "Connections open now, both ways."),
        figure("unacknowledged", "Messages sent and not acknowledged yet."),
    )

    def assemble(self) -> tuple[Component, ...]:
        """Make the parts. `non_members` is the table of UnicastPeers, read here for each message."""
        self.outgoing: dict[Address, Outgoing] = {}
        self.connections = 0
        self.waits = WaitTimes.of(self.config)
        self.peers = UnicastPeers(self, self)
        self.receiving = self.peers.receiving = UnicastReceiver(self, self.peers, self.waits)
        self.non_members = self.peers.non_members
        return self.peers, self.receiving

    def stats(self) -> dict[str, float]:
        kept = sum(out.window.next - out.window.low for out in self.outgoing.values())
        connections = len(self.outgoing) + len(self.receiving.incoming)
        return {**self.counters, "connections": connections, "unacknowledged": kept}

    @only(UNICASTS)
    def up(self, batch: Batch) -> None:
        """Messages without a number. An application's (NO_RELIABILITY) are dropped before the first view (M3)."""
        if self.peers.members is None and batch.payloads:
            return self.drop("before_view_dropped", batch, "there is no view yet, and it has no number")
        return self.pass_up(batch)

    # --- sending ----------------------------------------------------------------------------------------------------

    @only(UNICASTS)
    def down(self, batch: Batch) -> None:
        dest = batch.dest
        assert dest is not None, "`only` passes nothing but unicasts to this method"
        if batch.flags & NO_RELIABILITY:
            return self.pass_down(batch)
        out = self.outgoing.get(dest)
        if out is None:
            if dest == self.me:
                return self.pass_up(batch)
            out = self.open(dest)
        window = out.window
        # Kept with its header: the window then has what goes over the wire, and `again` only renews `base`.
        numbered = batch.push(UnicastData(out.connection, window.next, window.low))
        window.add(numbered)
        if self.non_members and dest in self.non_members and self.exceeds_unacknowledged(dest, out, batch):
            return None
        out.used = True
        if not out.watch.number:
            out.watch.begin(window.next - 1, self.now_ns)
        if not out.armed:
            self.arm_anew(dest, out)
        return self.pass_down(numbered)

    def exceeds_unacknowledged(self, dest: Address, out: Outgoing, batch: Batch) -> bool:
        """Close the connection to a non-member that acknowledges nothing, before its messages fill memory.

        Flow control does not help here: credits are granted by members only.
        """
        out.unacknowledged_bytes += batch.nbytes
        if out.unacknowledged_bytes <= self.config.max_unacknowledged_bytes:
            return False
        self.close_outgoing(dest)
        return True

    def open(self, dest: Address) -> Outgoing:
        """A new connection to `dest`, numbered above all earlier ones.

        One counter for all receivers: a number is never used twice, even to a peer whose connection was closed, so its
        late frames and acknowledgements are recognised as stale.
        """
        self.connections += 1
        out = self.outgoing[dest] = Outgoing(self.connections, self.waits.first_ns, self.peers.trip_of(dest))
        self.count("connections_opened")
        self.peers.close_later(dest)
        return out

    def arm_anew(self, dest: Address, out: Outgoing) -> None:
        """Messages are unacknowledged again, or acknowledgements moved: begin with the shortest wait."""
        out.moved_ns = self.now_ns
        out.wait_ns = self.waits.least_ns(out.watch.trip)
        self.arm(dest, out)

    def arm(self, dest: Address, out: Outgoing) -> None:
        out.armed = True
        out.tick_low = out.window.low
        self.set_timer("resend", out.wait_ns, dest)

    @timer("resend")
    def resend_highest(self, dest: Address) -> None:
        """Repeat the last message while acknowledgements do not move: it, or its acknowledgement, may be lost.

        One message is enough: the receiver then acknowledges again, or asks for all that is missing. Repeating all that
        is unacknowledged would congest a path that is merely slow.
        """
        out = self.outgoing.get(dest)
        if out is None:
            return
        out.armed = False
        window = out.window
        if not window:                                       # all is acknowledged; the next message sets the timer
            return
        if window.low > out.tick_low:                        # acknowledgements move: the path is open, if slow
            return self.arm_anew(dest, out)
        patience_ns = self.config.max_retransmit_time_ns
        # A member of the view is never given up here: failure detection suspects it, and GMS excludes it (L).
        if patience_ns and dest in self.non_members and self.now_ns - out.moved_ns >= patience_ns:
            return self.close_outgoing(dest)
        out.watch.again()
        for batch in out.again(window.next - 1, window.next):
            self.count("highest_resent")
            self.pass_down(batch)
        out.wait_ns = min(2 * out.wait_ns, self.waits.longest_ns(out.watch.trip))
        self.arm(dest, out)

    @receives(UnicastAck)
    def on_ack(self, ack: UnicastAck, batch: Batch) -> None:
        """Drop what is acknowledged. Late and duplicate acknowledgements change nothing, since `next` only grows."""
        out = self.outgoing.get(batch.src)
        if out is None or out.connection != ack.connection:
            return self.drop("stale_acks", batch, "the connection is over", ack)
        if ack.next > out.window.next:
            # Obeying it would drop messages that are still to be sent: a forged or damaged frame.
            return self.drop("wrong_acks", batch, "more than was sent", ack)
        if not out.window.forget(ack.next):
            return self.drop("stale_acks", batch, "all of it was acknowledged before", ack)
        out.unacknowledged_bytes = 0
        if 0 < out.watch.number < ack.next:
            out.watch.end(self.now_ns)
        return None

    @receives(UnicastNak)
    def on_nak(self, missing: UnicastNak, batch: Batch) -> None:
        """Retransmit what is requested, up to `max_resend_size`; the receiver requests the rest again.

        A request below `low` comes from a receiver that lost its record of what it acknowledged. The messages exist
        nowhere any more, so UnicastBase makes it continue at `low`.
        """
        out = self.outgoing.get(batch.src)
        if out is None or out.connection != missing.connection:
            return self.drop("stale_requests", batch, "the connection is over", missing)
        room = self.config.max_resend_bytes
        low = out.window.low
        if any(first < low for first, _ in missing.ranges):
            self.send(UnicastBase(out.connection, low), batch.src)
        for first, stop in missing.ranges:
            for kept in out.again(first, stop):
                if room <= 0:
                    return None
                room -= kept.nbytes
                self.count("retransmitted", kept.count)
                self.pass_down(kept)
        return None

    # --- closing ----------------------------------------------------------------------------------------------------

    def close_outgoing(self, peer: Address) -> None:
        """See SendingPort. The next message to `peer` opens a connection with a higher number."""
        out = self.outgoing.pop(peer, None)
        if out is None:
            return
        self.cancel_timer("resend", peer)
        self.count("connections_closed")
        if out.window:
            self.drop("unacknowledged_dropped", Batch(self.me, peer),
                      f"numbers {out.window.low}..{out.window.next - 1} when the connection was closed",
                      number=out.window.next - out.window.low)

    def close_idle_outgoing(self) -> None:
        """See SendingPort."""
        for peer in [peer for peer, out in self.outgoing.items() if not out.used and not out.window]:
            self.close_outgoing(peer)
        for out in self.outgoing.values():
            out.used = False
