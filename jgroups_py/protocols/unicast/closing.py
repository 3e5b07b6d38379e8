"""Opening and closing connections, and how few of them strangers get.

Members of the view are never given up. With those that left the view a connection is kept for a while, as they may
come back. Of those that never were in it (outsiders) anybody may invent any number, so only the latest `max_strangers`
are kept: that costs an outsider that talks on nothing, since its next message goes on where its connection was closed.
"""
from __future__ import annotations

from jgroups_py.address import Address
from jgroups_py.batch import Batch
from jgroups_py.events import ViewChange
from jgroups_py.protocol import Protocol, on, timer
from jgroups_py.protocols.unicast.config import UnicastConfig
from jgroups_py.protocols.unicast.headers import Data
from jgroups_py.protocols.unicast.state import Incoming, Outgoing, RoundTrip

MAX_REMEMBERED = 4096           # closed incoming connections of former members, and of outsiders: about 0.5 MB each


class Closing(Protocol):
    """The part of UNICAST that opens and closes; its state is set up by the whole."""

    config: UnicastConfig
    outgoing: dict[Address, Outgoing]
    incoming: dict[Address, Incoming]
    owing: dict[Address, Incoming]
    connections: int
    members: dict[Address, None] | None
    strangers: dict[Address, None]
    early: list[tuple[Data, Batch]]
    early_bytes: int
    first_wait_ns: int

    def start(self) -> None:
        self.outsiders: dict[Address, None] = {}             # strangers that never were members, oldest first
        self.outsider_bytes = 0                              # what their incoming windows keep
        self.closed: dict[Address, tuple[int, int]] = {}     # sender -> (connection, next) of a forgotten Incoming
        self.closed_outsiders: dict[Address, tuple[int, int]] = {}

    def data(self, header: Data, batch: Batch) -> None:
        """Messages of a connection came."""
        raise NotImplementedError

    def open(self, dest: Address) -> Outgoing:
        """A new connection to `dest`, numbered above all earlier ones."""
        self.connections += 1
        out = self.outgoing[dest] = Outgoing(self.connections, self.first_wait_ns, self.trip_of(dest))
        self.count("connections_opened")
        self.close_later(dest)
        return out

    def trip_of(self, peer: Address) -> RoundTrip:
        """What is known of how long its answers take."""
        end = self.outgoing.get(peer) or self.incoming.get(peer)
        return end.watch.trip if end is not None else RoundTrip()

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        self.members = dict.fromkeys(event.view.members)
        for peer in [peer for peer in self.strangers if peer in self.members]:
            del self.strangers[peer]
            self.no_outsider(peer)
            self.cancel_timer("close", peer)
        for peer in event.left:
            if peer in self.outgoing or peer in self.incoming:
                self.close_later(peer, former=True)
        for peer in [*self.outgoing, *self.incoming]:
            self.close_later(peer)
        early, self.early, self.early_bytes = self.early, [], 0
        for header, batch in early:
            self.data(header, batch)

    def close_later(self, peer: Address, *, former: bool = False) -> None:
        """Keep the connections with somebody outside the view for `conn_close_timeout` only. former: it was in it."""
        if peer in self.strangers or (self.members is not None and peer in self.members):
            return
        self.strangers[peer] = None
        self.set_timer("close", self.config.conn_close_timeout_ns, peer)
        if not former:
            self.outsiders[peer] = None
            if len(self.outsiders) > self.config.max_strangers:
                self.evict()

    def evict(self) -> None:
        """Close the connections with the outsider that came first, if possible one to whom we owe nothing."""
        *others, _ = self.outsiders                          # the last one is just being let in
        oldest = next((peer for peer in others if not self.owes(peer)), others[0])
        self.count("strangers_evicted")
        self.cancel_timer("close", oldest)
        self.close(oldest)

    def owes(self, peer: Address) -> bool:
        """Whether it has not acknowledged everything that we sent to it."""
        out = self.outgoing.get(peer)
        return out is not None and bool(out.window)

    def no_outsider(self, peer: Address) -> None:
        """It is a member now, or gone."""
        if peer in self.outsiders:
            del self.outsiders[peer]
            if peer in self.incoming:
                self.outsider_bytes -= self.incoming[peer].window.ahead_weight

    @timer("close")
    def close(self, peer: Address) -> None:
        closed = self.closed_outsiders if peer in self.outsiders else self.closed
        self.strangers.pop(peer, None)
        self.no_outsider(peer)
        self.close_outgoing(peer)
        self.close_incoming(peer, closed)

    def close_outgoing(self, peer: Address) -> None:
        out = self.outgoing.pop(peer, None)
        if out is not None:
            self.cancel_timer("resend", peer)
            self.count("connections_closed")
            if out.window:
                self.count("unacknowledged_dropped", out.window.next - out.window.low)

    def close_incoming(self, peer: Address, closed: dict[Address, tuple[int, int]]) -> None:
        """Forget the receiving end but for its numbers, which tell late retransmissions from new messages."""
        inc = self.incoming.pop(peer, None)
        if inc is None:
            return
        self.cancel_timer("ask", peer)
        self.owing.pop(peer, None)
        if inc.window.runs.firsts:
            self.count("out_of_order_dropped", sum(run.count for run in inc.window.runs.runs))
        closed[peer] = (inc.connection, inc.window.next)
        if len(closed) > MAX_REMEMBERED:
            del closed[next(iter(closed))]

    def recall(self, peer: Address) -> tuple[int, int]:
        """(connection, next) of its Incoming that was forgotten, else (0, 0)."""
        return self.closed.get(peer) or self.closed_outsiders.get(peer) or (0, 0)

    @timer("expire")
    def expire(self) -> None:
        """Forget connections that were idle since the last sweep."""
        for peer in [peer for peer, out in self.outgoing.items() if not out.used and not out.window]:
            self.close_outgoing(peer)
        for peer in [peer for peer, inc in self.incoming.items() if not inc.used and inc.window.complete]:
            self.close_incoming(peer, self.closed_outsiders if peer in self.outsiders else self.closed)
        for out in self.outgoing.values():
            out.used = False
        for inc in self.incoming.values():
            inc.used = False
        self.set_timer("expire", self.config.conn_expiry_timeout_ns)
