"""Numbered batches, kept as they arrived: what a sender may have to retransmit and a receiver has not delivered yet.

An entry is a batch and the number of its first message. Entries ascend and never overlap: a batch that arrives is cut
where its numbers are present already. Payloads are shared with the batch that arrived. Batches mostly arrive in order,
so adding is appending.
"""
from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from jgroups_py.model.batch import Batch
from jgroups_py.windows.ranges import Range


class NumberedBatches:
    """Batches by number. `firsts` and `batches` have one entry each per batch; only the methods change them, and the
    windows, which append what is next in order.

    added_bytes: payload bytes that were kept by the last `add`.
    """

    __slots__ = ("added_bytes", "batches", "firsts")

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self.batches: list[Batch] = []
        self.added_bytes = 0

    def __len__(self) -> int:
        """How many batches."""
        return len(self.firsts)

    @property
    def stop(self) -> int:
        """One above the highest number, 0 if nothing is kept."""
        return self.firsts[-1] + self.batches[-1].count if self.firsts else 0

    @property
    def nbytes(self) -> int:
        """Payload bytes kept. It may visit each message, so it is for statistics only."""
        return sum(batch.nbytes for batch in self.batches)

    def add(self, first: int, batch: Batch) -> int:
        """Keep what is new of `batch`, whose first message has number `first`. Returns how many messages were new."""
        firsts = self.firsts
        if not firsts or first >= firsts[-1] + (len(self.batches[-1].payloads) or 1):
            firsts.append(first)
            self.batches.append(batch)
            self.added_bytes = batch.nbytes
            return len(batch.payloads) or 1
        # Out of order: only its pieces that fall into holes are kept, so that no message is there twice (S2).
        added = self.added_bytes = 0
        for begin, end in self.holes(first, first + batch.count):
            at = bisect_left(firsts, begin)
            firsts.insert(at, begin)
            piece = batch.cut(begin - first, end - first)
            self.batches.insert(at, piece)
            self.added_bytes += piece.nbytes
            added += end - begin
        return added

    def between(self, first: int, stop: int) -> Iterator[tuple[int, Batch]]:
        """What is kept of `first` to `stop`: (number, batch), ascending, cut at both ends."""
        firsts, batches = self.firsts, self.batches
        for at in range(max(0, bisect_right(firsts, first) - 1), bisect_left(firsts, stop)):
            begin, batch = firsts[at], batches[at]
            lower, upper = max(first, begin), min(stop, begin + batch.count)
            if lower < upper:
                yield lower, batch.cut(lower - begin, upper - begin)

    def holes(self, first: int, stop: int) -> list[Range]:
        """What of `first` to `stop` is not kept, ascending."""
        firsts, batches = self.firsts, self.batches
        missing = []
        at = first
        for index in range(max(0, bisect_right(firsts, first) - 1), bisect_left(firsts, stop)):
            begin = firsts[index]
            if at < begin:
                missing.append((at, begin))
            at = max(at, begin + batches[index].count)
        if at < stop:
            missing.append((at, stop))
        return missing

    def split(self, number: int) -> None:
        """Make `number` the first of a batch, if a batch has it in its middle."""
        at = bisect_right(self.firsts, number) - 1
        if at < 0:
            return
        first, batch = self.firsts[at], self.batches[at]
        if first < number < first + batch.count:
            self.batches[at:at + 1] = [batch.cut(0, number - first), batch.cut(number - first, batch.count)]
            self.firsts.insert(at + 1, number)

    def forget(self, below: int) -> None:
        """Drop all messages with numbers below `below`."""
        at = bisect_left(self.firsts, below)
        if at and self.firsts[at - 1] + self.batches[at - 1].count > below:
            self.split(below)
        if at:
            del self.firsts[:at], self.batches[:at]

    def clear(self) -> None:
        """Drop everything."""
        self.firsts.clear()
        self.batches.clear()
