"""Unicasts between sites: numbered per (origin, destination), held by the origin until the destination has them.

The origin keeps the unicasts of a pair, sends them through both relays, and retransmits them when nothing was
acknowledged for a while or when a relay changed. The destination delivers each once, in order. A unicast that is given
up (the destination is unknown, its site DOWN, the time over) moves `base` past it, so that later ones do not wait and
late copies are dropped; the application gets `unreachable`, which means: not known to be delivered (relay rule 12).
"""
from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.counter_jumps import plausible

MAX_DOUBLINGS = 3


@attrs.define(eq=False)
class UnicastOutbox:
    """Unicasts of this member to one destination that are not acknowledged. site: that of the destination."""

    dest: Address
    site: str
    next_number: int = 1
    base: int = 1                                          # below it: acknowledged or given up
    batches: deque[tuple[int, Batch, int]] = attrs.Factory(deque)  # (first number, batch, when first sent), ascending
    progress_ns: int = 0                                   # when something was last acknowledged or retransmitted
    resent: int = 0                                        # how often since the last acknowledgement

    def add(self, batch: Batch, now_ns: int) -> int:
        """Number a batch and keep it; its first number."""
        first = self.next_number
        if not self.batches:
            self.progress_ns = now_ns
        self.batches.append((first, batch, now_ns))
        self.next_number += batch.count
        return first

    def acknowledge(self, next_number: int, now_ns: int) -> bool:
        """The destination has everything below a number; returns whether that is more than before."""
        next_number = min(next_number, self.next_number)
        if next_number <= self.base:
            return False
        self.base = next_number
        self.progress_ns, self.resent = now_ns, 0
        while self.batches and self.batches[0][0] < next_number:
            first, batch, since_ns = self.batches.popleft()
            if first + batch.count > next_number:
                rest = batch.cut(next_number - first, batch.count)
                self.batches.appendleft((next_number, rest, since_ns))
        return True

    def retransmitted(self, now_ns: int) -> None:
        """Everything that waits was sent once more: the next retransmission waits longer (backoff)."""
        self.progress_ns = now_ns
        self.resent += 1

    def end_backoff(self) -> None:
        """The path has changed, or works again: the next retransmission waits no longer than the first one did."""
        self.resent = 0

    def retransmission_due(self, now_ns: int, interval_ns: int) -> bool:
        """Whether it is time to retransmit: after an interval without an answer, then after twice as long, and so on.

        A slow link still queues what was sent before, so retransmissions at a steady pace would lengthen its queue
        (backoff).
        """
        return now_ns - self.progress_ns >= interval_ns << min(self.resent, MAX_DOUBLINGS)

    def expired(self, before_ns: int) -> int | None:
        """One past the last unicast that was first sent before `before_ns`; None if there is none."""
        found = None
        for first, batch, since_ns in self.batches:
            if since_ns > before_ns:
                break
            found = first + batch.count
        return found


class UnicastOutboxes:
    """Unicasts of this member to all destinations."""

    def __init__(self) -> None:
        self.boxes: dict[Address, UnicastOutbox] = {}

    def __iter__(self) -> Iterator[UnicastOutbox]:
        return iter(list(self.boxes.values()))

    def box(self, dest: Address, site: str) -> UnicastOutbox:
        """The outbox for a destination."""
        found = self.boxes.get(dest)
        if found is None:
            found = self.boxes[dest] = UnicastOutbox(dest, site)
        return found

    def get(self, dest: Address) -> UnicastOutbox | None:
        """The outbox of a destination, if anything was sent there."""
        return self.boxes.get(dest)

    def forget(self, dest: Address) -> None:
        """Drop the outbox of a destination, unless unicasts wait in it."""
        box = self.boxes.get(dest)
        if box is not None and not box.batches:
            del self.boxes[dest]

    @property
    def waiting(self) -> int:
        """How many unicasts are not acknowledged."""
        return sum(box.next_number - box.base for box in self.boxes.values())


class UnicastInbox:
    """The next number of each origin at another site, for its unicasts to this member."""

    def __init__(self) -> None:
        self.wanted: dict[Address, int] = {}             # origin -> next number

    def take(self, origin: Address, first: int, base: int, batch: Batch) -> Batch | None:
        """The part of a batch that is new and next in order, if any; what comes too early its origin retransmits.

        A higher `base` skips what the origin has given up: otherwise this member would wait for it for ever.
        """
        wanted = self.wanted.get(origin, 1)
        if base > wanted and plausible(base, wanted):
            wanted = self.wanted[origin] = base
        stop = first + batch.count
        if first > wanted or stop <= wanted:
            return None
        self.wanted[origin] = stop
        return batch.cut(wanted - first, batch.count)

    def forget(self, origin: Address) -> None:
        """Drop the entry of an origin."""
        self.wanted.pop(origin, None)
