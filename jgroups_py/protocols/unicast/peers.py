"""The peers of UNICAST: how long connections with processes outside the view are kept, and with how many of them.

Connections with members of the view are never given up: failure detection and GMS decide about members (L).
Those with former members are kept for `conn_close_timeout`, as a false suspicion or a partition may end in a merge.
*Unknown* peers are those that never were in the view. An attacker can forge any number of them, so only the latest
`max_non_members` are kept. An unknown peer that is genuine loses nothing: its next message continues where its
connection was closed, since the numbers of closed connections are remembered (receiver.py).
"""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.model.counters import counter, declare
from jgroups_py.model.events import ViewChange
from jgroups_py.protocols.unicast.config import UnicastConfig
from jgroups_py.protocols.unicast.ports import ReceivingPort, SendingPort
from jgroups_py.protocols.unicast.state import RoundTrip
from jgroups_py.stack.component import Component, LayerPort, on, timer


class UnicastPeers(Component):
    """See the module. A peer is in `non_members` exactly while its close timer is set."""

    COUNTERS = declare(counter("non_members_evicted", "Connections with non-members closed to make room for others."))

    config: UnicastConfig
    receiving: ReceivingPort                  # set by Unicast.assemble: each of the two parts needs the other

    def __init__(self, layer: LayerPort, sending: SendingPort) -> None:
        super().__init__(layer)
        self.sending = sending
        self.members: dict[Address, None] | None = None
        self.non_members: dict[Address, None] = {}
        self.unknown: dict[Address, None] = {}

    def start(self) -> None:
        if self.config.conn_expiry_timeout_ns:
            self.set_timer("expire", self.config.conn_expiry_timeout_ns)

    def trip_of(self, peer: Address) -> RoundTrip:
        """See the port. Both ends with a peer share one round trip: a long path is long for both, and either end may be
        the first to measure it."""
        end = self.sending.outgoing.get(peer) or self.receiving.incoming.get(peer)
        return end.watch.trip if end is not None else RoundTrip()

    @on(ViewChange)
    def on_view_change(self, event: ViewChange) -> None:
        """Connections outlive views: reliability is promised per pair of processes, not per view (S2, L)."""
        self.members = dict.fromkeys(event.view.members)
        for peer in [peer for peer in self.non_members if peer in self.members]:
            del self.non_members[peer]
            self.forget_unknown(peer)
            self.cancel_timer("close", peer)
        outgoing, incoming = self.sending.outgoing, self.receiving.incoming
        for peer in event.left:
            if peer in outgoing or peer in incoming:
                self.bound(peer)                             # a former member, so not an unknown peer
        for peer in [*outgoing, *incoming]:
            self.close_later(peer)

    def close_later(self, peer: Address) -> None:
        """See the port. Called for every new connection: a peer that was not bounded as a former member is unknown."""
        if peer in self.non_members or (self.members is not None and peer in self.members):
            return
        self.bound(peer)
        self.unknown[peer] = None
        if len(self.unknown) > self.config.max_non_members:
            self.evict()

    def bound(self, peer: Address) -> None:
        """Keep the connections with a peer outside the view for `conn_close_timeout` from now on."""
        if peer not in self.non_members:
            self.non_members[peer] = None
            self.set_timer("close", self.config.conn_close_timeout_ns, peer)

    def evict(self) -> None:
        """Close the connections with the oldest unknown peer, if possible one that has acknowledged everything: closing
        the connection of another drops its unacknowledged messages."""
        *others, _ = self.unknown                            # the last one is the peer that needs room
        oldest = next((peer for peer in others if not self.has_unacknowledged(peer)), others[0])
        self.count("non_members_evicted")
        self.cancel_timer("close", oldest)
        self.close(oldest)

    def has_unacknowledged(self, peer: Address) -> bool:
        """Whether some message to `peer` is unacknowledged."""
        out = self.sending.outgoing.get(peer)
        return out is not None and bool(out.window)

    def forget_unknown(self, peer: Address) -> None:
        """`peer` is a member now, or its connections are closed: the bound of unknown peers no longer applies to it."""
        if peer in self.unknown:
            del self.unknown[peer]
            self.receiving.release_share(peer)

    @timer("close")
    def close(self, peer: Address) -> None:
        """Close both ends with `peer`; messages that it has not acknowledged are dropped and counted."""
        unknown = peer in self.unknown
        self.non_members.pop(peer, None)
        self.forget_unknown(peer)
        self.sending.close_outgoing(peer)
        self.receiving.close_incoming(peer, unknown=unknown)

    @timer("expire")
    def expire(self) -> None:
        """Close idle connections. A message opens the next one without a handshake, so keeping them saves nothing."""
        self.sending.close_idle_outgoing()
        self.receiving.close_idle_incoming()
        self.set_timer("expire", self.config.conn_expiry_timeout_ns)
