"""Unicasts between sites: numbered per (origin, destination), held by the origin until the destination has them.

The origin keeps a pair's letters, sends them on their way through both relays, and sends them again when nothing was
acknowledged for a while or when a relay changed. The destination delivers each once, in order. A letter that is given
up (the destination is unknown, its site DOWN, the time over) moves `base` past it, so that later ones do not wait and
late copies are dropped; the application is told `unreachable`, which means: not known to be delivered.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import attrs

from jgroups_py.address import Address
from jgroups_py.batch import Batch
from jgroups_py.jumps import plausible

MOST_DOUBLINGS = 3


@attrs.define(eq=False)
class Outbox:
    """Letters of ours to one destination."""

    dest: Address
    site: str
    next_number: int = 1
    base: int = 1                                          # below it: acknowledged or given up
    runs: deque[tuple[int, Batch, int]] = attrs.Factory(deque)    # (first, batch, sent first at), ascending
    progress_ns: int = 0                                   # when something was acknowledged, or sent again, last
    resent: int = 0                                        # how often since the last acknowledgement

    def add(self, batch: Batch, now_ns: int) -> int:
        """Number a run; its first number."""
        first = self.next_number
        if not self.runs:
            self.progress_ns = now_ns
        self.runs.append((first, batch, now_ns))
        self.next_number += batch.count
        return first

    def acknowledge(self, next_number: int, now_ns: int) -> bool:
        """The destination has everything below; whether that is news."""
        next_number = min(next_number, self.next_number)
        if next_number <= self.base:
            return False
        self.base = next_number
        self.progress_ns, self.resent = now_ns, 0
        while self.runs and self.runs[0][0] < next_number:
            first, batch, since_ns = self.runs.popleft()
            if first + batch.count > next_number:
                rest = batch.cut(next_number - first, batch.count)
                self.runs.appendleft((next_number, rest, since_ns))
        return True

    def is_silent(self, now_ns: int, interval_ns: int) -> bool:
        """Whether it is time to send again: after an interval without an answer, then after twice as long, and so on.

        A slow link has what was sent before in its queue; sending the same again at a steady pace would fill it.
        """
        return now_ns - self.progress_ns >= interval_ns << min(self.resent, MOST_DOUBLINGS)

    def expired(self, before_ns: int) -> int | None:
        """One past the last letter that was first sent before `before_ns`; None if there is none."""
        found = None
        for first, batch, since_ns in self.runs:
            if since_ns > before_ns:
                break
            found = first + batch.count
        return found


class Outboxes:
    """Letters of ours to all destinations."""

    def __init__(self) -> None:
        self.boxes: dict[Address, Outbox] = {}

    def __iter__(self) -> Iterator[Outbox]:
        return iter(list(self.boxes.values()))

    def box(self, dest: Address, site: str) -> Outbox:
        """The outbox for a destination."""
        found = self.boxes.get(dest)
        if found is None:
            found = self.boxes[dest] = Outbox(dest, site)
        return found

    def get(self, dest: Address) -> Outbox | None:
        """The outbox if something was ever sent there."""
        return self.boxes.get(dest)

    @property
    def waiting(self) -> int:
        """Letters that are not acknowledged."""
        return sum(box.next_number - box.base for box in self.boxes.values())


class Inbox:
    """What arrived here, per origin at another site."""

    def __init__(self) -> None:
        self.wanted: dict[Address, int] = {}             # origin -> next number wanted

    def take(self, origin: Address, first: int, base: int, batch: Batch) -> Batch | None:
        """The part of a run that is new and in order, if any; moves past what was given up."""
        wanted = self.wanted.get(origin, 1)
        if base > wanted and plausible(base, wanted):
            wanted = self.wanted[origin] = base
        stop = first + batch.count
        if first > wanted or stop <= wanted:
            return None
        self.wanted[origin] = stop
        return batch.cut(wanted - first, batch.count)
