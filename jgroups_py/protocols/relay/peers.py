"""The relays of other sites, as this relay sees them on the bridge; one cursor each, so that no site waits for another.

A peer's cursor says, per origin of ours, the next number to send to it. What was sent and not acknowledged counts
against its window. Going back is always right (receivers drop what they have), so whenever in doubt the cursor
returns to what was acknowledged.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import attrs

from jgroups_py.address import Address
from jgroups_py.protocols.relay.buffer import HeldRun, Hold
from jgroups_py.protocols.relay.headers import Numbers
from jgroups_py.protocols.relay.sites import Site
from jgroups_py.topics import EVERYTHING, Interest
from jgroups_py.view import ViewId


def no_limit(origin: Address) -> None:
    """Nothing waits for a disk."""


@attrs.define(eq=False)
class Peer:
    """One remote relay. `address` is the one on the bridge."""

    address: Address
    site: Site
    epoch: ViewId
    acked: Numbers = attrs.Factory(dict)             # origin -> next number, as this relay acknowledged it
    cursor: Numbers = attrs.Factory(dict)            # origin -> next number to send
    flying: dict[Address, deque[tuple[int, int]]] = attrs.Factory(dict)   # origin -> (stop, bytes) sent, ascending
    flying_bytes: int = 0
    progress_ns: int = 0                             # when it last acknowledged, or we last went back
    interest: Interest = EVERYTHING                  # what its site wants of messages about a topic
    passed: dict[Address, HeldRun] = attrs.Factory(dict)     # origin -> numbers below the cursor that are not sent yet
    told_base: ViewId | None = None                  # our epoch in which it was told last where it may begin

    def base(self, origin: Address) -> int:
        """Below this nothing will be sent to the peer's site any more.

        While a grace runs that is less than what it has acknowledged: members that were cut off may need the rest.
        """
        return self.site.trimmable.get(origin, 1)

    def next_number(self, origin: Address) -> int:
        """Where the cursor stands."""
        return max(self.cursor.get(origin, 1), self.base(origin))

    def acknowledge(self, numbers: Numbers, now_ns: int) -> bool:
        """Take an acknowledgement; whether it brought anything."""
        rose = False
        for origin, number in numbers.items():
            if number > self.acked.get(origin, 1):
                self.acked[origin] = number
                rose = True
            sent = self.flying.get(origin)
            while sent and sent[0][0] <= number:
                self.flying_bytes -= sent.popleft()[1]
        if rose:
            self.progress_ns = now_ns
        return rose

    def go_back(self, numbers: Numbers, now_ns: int) -> None:
        """Send again from these numbers on (lower than the cursor, else nothing happens)."""
        for origin, number in numbers.items():
            if number < self.cursor.get(origin, 1):
                self.cursor[origin] = number
                for _, nbytes in self.flying.pop(origin, ()):
                    self.flying_bytes -= nbytes
                waiting = self.passed.pop(origin, None)
                if waiting is not None and waiting.first < number:
                    self.passed[origin] = waiting.cut(waiting.first, number)
        self.progress_ns = now_ns

    def recall(self) -> None:
        """Nothing that is on its way will be acknowledged: the site was given up."""
        self.flying, self.flying_bytes, self.passed = {}, 0, {}

    def limit(self, unsynced: int | None, origin: Address) -> int | None:
        """Where to stop sending an origin's runs: an operator's drain ends there, or the disk has no more."""
        drained = None if self.site.draining is None else self.site.draining.get(origin, 1)
        return drained if unsynced is None else unsynced if drained is None else min(drained, unsynced)

    def next_runs(
        self, hold: Hold, window_bytes: int, now_ns: int, unsynced: Callable[[Address], int | None] = no_limit,
    ) -> Iterator[tuple[Address, HeldRun]]:
        """What may be sent now, moving the cursor. unsynced: from where on an origin's runs wait for the disk."""
        for origin in list(hold.runs):
            end = self.limit(unsynced(origin), origin)
            while self.flying_bytes < window_bytes:
                number = self.next_number(origin)
                run = hold.run_from(origin, number, max(1, window_bytes - self.flying_bytes))
                if run is None:
                    break
                if end is not None:
                    if number >= end:
                        break
                    run = run.cut(number, min(run.stop, end))
                if not self.flying_bytes:
                    self.progress_ns = now_ns
                self.cursor[origin] = run.stop
                self.flying.setdefault(origin, deque()).append((run.stop, run.nbytes))
                self.flying_bytes += run.nbytes
                yield origin, run


class Peers:
    """All remote relays that introduced themselves, by bridge address."""

    def __init__(self) -> None:
        self.by_address: dict[Address, Peer] = {}

    def __iter__(self) -> Iterator[Peer]:
        return iter(list(self.by_address.values()))

    def __bool__(self) -> bool:
        return bool(self.by_address)

    def get(self, address: Address) -> Peer | None:
        """The peer at a bridge address."""
        return self.by_address.get(address)

    def add(self, peer: Peer) -> None:
        """A relay said hello for the first time."""
        self.by_address[peer.address] = peer

    def drop(self, address: Address) -> Peer | None:
        """It left the bridge, or said goodbye."""
        return self.by_address.pop(address, None)

    def of(self, site: str) -> list[Peer]:
        """All relays of a site; more than one while it is split."""
        return [peer for peer in self.by_address.values() if peer.site.name == site]

    def accepted(self, site: str) -> Peer | None:
        """The relay whose claims are obeyed: the one of the site's highest epoch, if it is on the bridge."""
        best = max(self.of(site), key=lambda peer: peer.epoch, default=None)
        if best is None or (best.site.epoch is not None and best.epoch < best.site.epoch):
            return None
        return best

    def acknowledged(self, site: str) -> Numbers:
        """What all relays of a site on the bridge have: the lowest, per origin."""
        peers = self.of(site)
        if not peers:
            return {}
        return {origin: min(peer.acked.get(origin, 1) for peer in peers) for origin in peers[0].acked}
