"""The peers that were heard, and those of whom we were only told. Pure."""
from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

import attrs

from jgroups_py.address import Address, PhysicalAddress
from jgroups_py.topics import EVERYTHING, Interest

NOBODY = Address(bytes(16))


@attrs.define(eq=False)
class Peer:
    """Somebody who has answered. unacked: pings since its last sign of life; pinged_ns: when it was pinged last."""

    identity: Address
    place: PhysicalAddress
    interest: Interest = EVERYTHING
    unacked: int = 0
    pinged_ns: int = -1


class PeerTable:
    """Peers by identity, in its order; and a bounded queue of places where there may be more."""

    def __init__(self, max_peers: int, max_queue: int) -> None:
        self.max_peers = max_peers
        self.max_queue = max_queue
        self.peers: dict[Address, Peer] = {}
        self.order: list[Address] = []
        self.queue: dict[Address, PhysicalAddress] = {}        # identity that we were told -> where it is said to be
        self.tried: dict[Address, int] = {}                    # identity -> when it was pinged, though unknown

    def __len__(self) -> int:
        return len(self.peers)

    def __iter__(self) -> Iterator[Peer]:
        return iter([self.peers[identity] for identity in self.order])

    def heard(self, identity: Address, place: PhysicalAddress) -> Peer | None:
        """Somebody spoke: the peer, new or known, at its place of now; None if there are too many."""
        peer = self.peers.get(identity)
        if peer is None:
            if len(self.peers) >= self.max_peers:
                return None
            peer = self.peers[identity] = Peer(identity, place)
            insort(self.order, identity)
            self.queue.pop(identity, None)
            self.tried.pop(identity, None)
        peer.place, peer.unacked = place, 0
        return peer

    def remove(self, identity: Address) -> bool:
        """Forget a peer; whether it was known."""
        if self.peers.pop(identity, None) is None:
            return False
        del self.order[bisect_left(self.order, identity)]
        return True

    def page(self, after: Address, number: int) -> tuple[list[Peer], bool]:
        """The peers whose identities follow `after`, and whether there are more of them."""
        start = bisect_right(self.order, after)
        return [self.peers[identity] for identity in self.order[start:start + number]], start + number < len(self.order)

    def told_of(self, identity: Address, place: PhysicalAddress, not_since_ns: int) -> bool:
        """Somebody may be there: whether it is worth a ping. Not if it is known, waits, or was tried of late."""
        tried_ns = self.tried.get(identity)
        if identity in self.peers or identity in self.queue or len(self.queue) >= self.max_queue:
            return False
        if tried_ns is not None and tried_ns >= not_since_ns:
            return False
        self.queue[identity] = place
        return True

    def next_to_try(self, number: int, now_ns: int) -> list[tuple[Address, PhysicalAddress]]:
        """Take so many out of the queue."""
        chosen = list(self.queue.items())[:number]
        for identity, _ in chosen:
            del self.queue[identity]
            self.tried.pop(identity, None)
            self.tried[identity] = now_ns                      # the latest stand last
        while len(self.tried) > self.max_peers:
            del self.tried[next(iter(self.tried))]
        return chosen

    def longest_unpinged(self, number: int) -> list[Peer]:
        """Whose turn it is; 0: everybody's."""
        if not number or number >= len(self.peers):
            return list(self)
        return sorted(self, key=lambda peer: peer.pinged_ns)[:number]
