"""The peers that have answered, and the physical addresses that other peers listed. Pure."""
from __future__ import annotations

from collections.abc import Iterator

import attrs
from sortedcontainers import SortedDict

from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.topics import EVERYTHING, Interest

LOWEST = Address(bytes(16))
"""Below every identity: the page after it is the first one."""


@attrs.define(eq=False)
class PexPeer:
    """A peer that has answered. unacked: pings since its last frame; pinged_ns: when it was pinged last."""

    identity: Address
    place: PhysicalAddress
    interest: Interest = EVERYTHING
    unacked: int = 0
    pinged_ns: int = -1


class PeerTable:
    """Peers in the order of their identities, and a bounded queue of listed peers that have yet to be pinged."""

    def __init__(self, max_peers: int, max_queue: int) -> None:
        self.max_peers = max_peers
        self.max_queue = max_queue
        self.peers: SortedDict[Address, PexPeer] = SortedDict()
        self.queue: dict[Address, PhysicalAddress] = {}        # listed identity -> its physical address
        self.tried: dict[Address, int] = {}                    # identity not in `peers` -> when it was pinged

    def __len__(self) -> int:
        return len(self.peers)

    def __iter__(self) -> Iterator[PexPeer]:
        return iter(list(self.peers.values()))

    def frame_from(self, identity: Address, place: PhysicalAddress) -> PexPeer | None:
        """The peer that sent a frame from `place`, new or known, with that address; None if there is no room."""
        peer = self.peers.get(identity)
        if peer is None:
            if len(self.peers) >= self.max_peers:
                return None
            peer = self.peers[identity] = PexPeer(identity, place)
            self.queue.pop(identity, None)
            self.tried.pop(identity, None)
        peer.place, peer.unacked = place, 0
        return peer

    def remove(self, identity: Address) -> bool:
        """Take a peer out; False if it is not there."""
        return self.peers.pop(identity, None) is not None

    def page(self, after: Address, number: int) -> tuple[list[PexPeer], bool]:
        """The peers whose identities follow `after`, and whether there are more of them."""
        start = self.peers.bisect_right(after)
        return list(self.peers.values()[start:start + number]), start + number < len(self.peers)

    def enqueue(self, identity: Address, place: PhysicalAddress, not_since_ns: int) -> bool:
        """Queue a listed peer for a ping; False if it is in the table, in the queue, or was pinged since then."""
        tried_ns = self.tried.get(identity)
        if identity in self.peers or identity in self.queue or len(self.queue) >= self.max_queue:
            return False
        if tried_ns is not None and tried_ns >= not_since_ns:
            return False
        self.queue[identity] = place
        return True

    def next_to_try(self, number: int, now_ns: int) -> list[tuple[Address, PhysicalAddress]]:
        """Take up to `number` peers out of the queue, to be pinged."""
        chosen = list(self.queue.items())[:number]
        for identity, _ in chosen:
            del self.queue[identity]
            self.tried.pop(identity, None)
            self.tried[identity] = now_ns                      # the latest ones stand last
        while len(self.tried) > self.max_peers:
            del self.tried[next(iter(self.tried))]
        return chosen

    def longest_unpinged(self, number: int) -> list[PexPeer]:
        """Up to `number` peers, those that were pinged longest ago first; 0: all of them."""
        if not number or number >= len(self.peers):
            return list(self)
        return sorted(self, key=lambda peer: peer.pinged_ns)[:number]
