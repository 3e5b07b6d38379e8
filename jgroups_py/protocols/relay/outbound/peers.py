"""The relays of other sites on the bridge, with a cursor each, so that no site waits for another (relay rule 3).

A peer's cursor is, per origin of this site, the next number to send to it. What was sent and not acknowledged counts
against its window. Receivers drop what they have already, so going back is always right: whenever a peer may lack
something, its cursor returns to what it acknowledged.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.topics import EVERYTHING, Interest
from jgroups_py.model.view import ViewId
from jgroups_py.protocols.relay.headers import Numbers
from jgroups_py.protocols.relay.origin.hold import HeldBatch, Hold
from jgroups_py.protocols.relay.sites.table import Site
from jgroups_py.windows.path import PathWindow


def no_limit(origin: Address) -> None:
    """The limit of an origin without a journal: no message waits for a disk."""


class SentPiece(NamedTuple):
    """A batch in flight. stop: one above its highest number; acked_bytes: `RelayPeer.acked_bytes` when it was sent."""

    stop: int
    nbytes: int
    sent_ns: int
    acked_bytes: int


@attrs.define(eq=False)
class RelayPeer:
    """One remote relay. address: that on the bridge, another one than its member has in its site."""

    address: Address
    site: Site
    epoch: ViewId
    window: PathWindow
    acked: Numbers = attrs.Factory(dict)             # origin -> next number, as this relay acknowledged it
    cursor: Numbers = attrs.Factory(dict)            # origin -> next number to send
    in_flight: dict[Address, deque[SentPiece]] = attrs.Factory(dict)   # origin -> what was sent, ascending
    in_flight_bytes: int = 0
    acked_bytes: int = 0                             # of what was in flight, so far
    progress_ns: int = 0                             # when it last acknowledged, or the cursor last went back
    interest: Interest = EVERYTHING                  # the topics to which members of its site have subscribed
    deferred_numbers: dict[Address, HeldBatch] = attrs.Factory(dict)   # origin -> numbers to be sent later
    base_epoch: ViewId | None = None                 # this relay's epoch in which it last sent BASE to the peer

    def enter(self, epoch: ViewId) -> None:
        """The peer's site is in this epoch from now on."""
        self.epoch = epoch

    def base_sent(self, epoch: ViewId) -> None:
        """A BASE of this epoch of this site was sent to the peer."""
        self.base_epoch = epoch

    def subscribe(self, interest: Interest) -> None:
        """Its site's interest changed. Numbers that wait are sent: the relay there refuses those it wants."""
        self.interest = interest

    def defer_numbers(self, origin: Address, held: HeldBatch) -> None:
        """Let numbers without payloads wait, to be joined with those that follow."""
        self.deferred_numbers[origin] = held

    def take_deferred(self, origin: Address) -> Iterator[HeldBatch]:
        """Take the numbers that wait, if there are any."""
        held = self.deferred_numbers.pop(origin, None)
        if held is not None:
            yield held

    def base(self, origin: Address) -> int:
        """Nothing below this number will be sent to the peer's site any more.

        While a grace runs it is below what the site has acknowledged, since members there that were cut off may need
        what the others have (relay rule 7).
        """
        return self.site.trimmable.get(origin, 1)

    def next_number(self, origin: Address) -> int:
        """The next number to send: the cursor, or the base if that has passed it."""
        return max(self.cursor.get(origin, 1), self.base(origin))

    def acknowledge(self, numbers: Numbers, now_ns: int) -> bool:
        """Take an acknowledgement; whether it covers more than earlier ones."""
        rose, last = False, None
        for origin, number in numbers.items():
            if number > self.acked.get(origin, 1):
                self.acked[origin] = number
                rose = True
            sent = self.in_flight.get(origin)
            while sent and sent[0].stop <= number:
                last = sent.popleft()
                self.in_flight_bytes -= last.nbytes
                self.acked_bytes += last.nbytes
        if last is not None:
            self.window.acknowledged(now_ns, last.sent_ns, self.acked_bytes - last.acked_bytes)
        if rose:
            self.progress_ns = now_ns
        return rose

    def begin_anew(self, numbers: Numbers, now_ns: int) -> None:
        """HELLO of another epoch: its site has acknowledged this, less than before if members joined or merged."""
        self.acked = {origin: min(number, numbers.get(origin, 1)) for origin, number in self.acked.items()}
        self.go_back({**dict.fromkeys(self.acked, 1), **numbers}, now_ns)

    def go_back(self, numbers: Numbers, now_ns: int) -> None:
        """Move the cursor back to these numbers, where they are below it: what follows is sent again."""
        for origin, number in numbers.items():
            if number < self.cursor.get(origin, 1):
                self.cursor[origin] = number
                for piece in self.in_flight.pop(origin, ()):
                    self.in_flight_bytes -= piece.nbytes
                waiting = self.deferred_numbers.pop(origin, None)
                if waiting is not None and waiting.first < number:
                    self.deferred_numbers[origin] = waiting.cut(waiting.first, number)
        self.progress_ns = now_ns

    def abandon_in_flight(self) -> None:
        """The site went OFFLINE: what is in flight will not be acknowledged, and does not fill the window any more."""
        self.in_flight, self.in_flight_bytes, self.deferred_numbers = {}, 0, {}

    def limit(self, unsynced: int | None, origin: Address) -> int | None:
        """The number before which to stop sending an origin: the mark of a drain, or the first not on disk yet."""
        drained = None if self.site.draining is None else self.site.draining.get(origin, 1)
        return drained if unsynced is None else unsynced if drained is None else min(drained, unsynced)

    def next_batches(
        self, hold: Hold, now_ns: int, unsynced: Callable[[Address], int | None] = no_limit,
    ) -> Iterator[tuple[Address, HeldBatch]]:
        """The batches that may be sent now; moves the cursor. unsynced: the number from which on an origin waits for
        the disk."""
        window_bytes = self.window.nbytes
        for origin in list(hold.batches):
            end = self.limit(unsynced(origin), origin)
            while self.in_flight_bytes < window_bytes:
                number = self.next_number(origin)
                held = hold.batch_from(origin, number, max(1, window_bytes - self.in_flight_bytes))
                if held is None:
                    break
                if end is not None:
                    if number >= end:
                        break
                    held = held.cut(number, min(held.stop, end))
                if not self.in_flight_bytes:
                    self.progress_ns = now_ns
                self.cursor[origin] = held.stop
                piece = SentPiece(held.stop, held.nbytes, now_ns, self.acked_bytes)
                self.in_flight.setdefault(origin, deque()).append(piece)
                self.in_flight_bytes += held.nbytes
                yield origin, held


class RelayPeers:
    """All remote relays that have sent HELLO, by bridge address."""

    def __init__(self) -> None:
        self.by_address: dict[Address, RelayPeer] = {}

    def __iter__(self) -> Iterator[RelayPeer]:
        return iter(list(self.by_address.values()))

    def clear(self) -> None:
        """The bridge is gone."""
        self.by_address = {}

    def __bool__(self) -> bool:
        return bool(self.by_address)

    def get(self, address: Address) -> RelayPeer | None:
        """The peer at a bridge address."""
        return self.by_address.get(address)

    def add(self, peer: RelayPeer) -> None:
        """The first HELLO of a relay arrived."""
        self.by_address[peer.address] = peer

    def remove(self, address: Address) -> RelayPeer | None:
        """A relay left the bridge, or sent GOODBYE."""
        return self.by_address.pop(address, None)

    def of(self, site: str) -> list[RelayPeer]:
        """All relays of a site; more than one while it is split."""
        return [peer for peer in self.by_address.values() if peer.site.name == site]

    def accepted(self, site: str) -> RelayPeer | None:
        """The relay of the site's highest epoch, if it is on the bridge: only its claims count (relay rule 11)."""
        best = max(self.of(site), key=lambda peer: peer.epoch, default=None)
        if best is None or (best.site.epoch is not None and best.epoch < best.site.epoch):
            return None
        return best

    def acknowledged(self, site: str) -> Numbers:
        """What all relays of a site on the bridge have acknowledged: the lowest, per origin (relay rule 7)."""
        peers = self.of(site)
        if not peers:
            return {}
        return {origin: min(peer.acked.get(origin, 1) for peer in peers) for origin in peers[0].acked}
