"""The receiving half of a reliable stream: puts batches in order, lists what is missing, delivers each message once.

With `keep` a delivered message stays until `forget`, because other members may request it (multicasts); without, it is
dropped when it is taken (unicasts).
"""
from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from jgroups_py.model.batch import Batch
from jgroups_py.windows.numbered_batches import NumberedBatches
from jgroups_py.windows.ranges import Range

BATCH_BYTES = 256                    # of memory, that a kept batch takes beside its payloads, about


class ReceiveWindow:
    """Batches of one sender.

    next: the next number in order, everything below was taken; low: everything below was dropped (low <= next);
    stop: one above the highest number known to exist, received or announced (stop >= next); ahead_bytes: payload bytes
    of what is kept and was not taken yet.
    """

    __slots__ = ("ahead_bytes", "keep", "kept", "low", "next", "stop")

    def __init__(self, first: int = 1, *, keep: bool = False) -> None:
        self.low = first
        self.next = first
        self.stop = first
        self.keep = keep
        self.ahead_bytes = 0
        self.kept = NumberedBatches()

    @property
    def ahead_weight(self) -> int:
        """What is kept and was not taken yet, in bytes of memory: small batches take more than their payloads."""
        firsts = self.kept.firsts
        if not firsts or firsts[-1] < self.next:
            return 0
        return self.ahead_bytes + BATCH_BYTES * (len(firsts) - bisect_left(firsts, self.next))

    def drop_last(self, above: int = 0) -> Batch | None:
        """Drop the batch that is furthest ahead, if it begins above number `above` and there is a hole before it."""
        firsts, batches = self.kept.firsts, self.kept.batches
        if not firsts or firsts[-1] <= above or firsts[-1] < self.reach:
            return None
        firsts.pop()
        batch = batches.pop()
        self.ahead_bytes -= batch.nbytes
        return batch

    def add(self, first: int, batch: Batch) -> int:
        """Keep what is new of `batch`, whose first message has number `first`. Returns how many messages were new."""
        stop = first + (len(batch.payloads) or 1)
        if first < self.next:
            if stop <= self.next:
                return 0
            batch, first = batch.cut(self.next - first, stop - first), self.next
        if stop > self.stop:
            self.stop = stop
        added = self.kept.add(first, batch)
        self.ahead_bytes += self.kept.added_bytes
        return added

    def take_in_order(self, first: int, batch: Batch) -> bool:
        """Keep and take `batch` if it is the next one and nothing is missing or ahead: the usual case, in one step."""
        if first != self.next or first != self.stop or not self.keep:
            return False
        self.kept.firsts.append(first)
        self.kept.batches.append(batch)
        self.next = self.stop = first + (len(batch.payloads) or 1)
        return True

    def take(self, below: int | None = None) -> list[Batch]:
        """The batches that are next in order (only messages below `below`, if given); they count as delivered."""
        firsts, batches = self.kept.firsts, self.kept.batches
        if below is None:
            if not firsts or firsts[-1] < self.next:
                return []
            if firsts[-1] == self.next and self.keep:          # the usual case: one batch, just arrived
                self.next += len(batches[-1].payloads) or 1
                self.ahead_bytes -= batches[-1].nbytes
                return batches[-1:]
        elif below <= self.next:
            return []
        else:
            self.kept.split(below)
        start = at = bisect_left(firsts, self.next)
        while at < len(firsts) and firsts[at] == self.next and (below is None or self.next < below):
            self.next += len(batches[at].payloads) or 1
            at += 1
        taken = batches[start:at]
        for batch in taken:
            self.ahead_bytes -= batch.nbytes
        if not self.keep:
            del firsts[:at], batches[:at]
            self.low = self.next
        return taken

    def announce(self, stop: int) -> None:
        """Messages up to `stop` (exclusive) are known to exist."""
        if stop > self.stop:
            self.stop = stop

    def skip(self, below: int) -> list[Batch]:
        """What is missing below `below` will never come. Returns what is kept below it, in order, as taken."""
        self.kept.split(below)
        taken = [batch for _, batch in self.kept.between(self.next, below)]
        for batch in taken:
            self.ahead_bytes -= batch.nbytes
        self.next = max(self.next, below)
        self.announce(below)
        if not self.keep:
            self.low = self.next
            self.kept.forget(below)
        return taken

    def holes(self, stop: int | None = None) -> list[Range]:
        """What is missing, ascending: from `next` to `stop`, by default to all known to exist."""
        upper = self.stop if stop is None else stop
        return self.kept.holes(self.next, upper) if self.next < upper else []

    @property
    def reach(self) -> int:
        """The first number that is missing: everything below was received, taken or not."""
        firsts, batches = self.kept.firsts, self.kept.batches
        number = self.next
        for at in range(bisect_left(firsts, number), len(firsts)):
            if firsts[at] != number:
                break
            number += batches[at].count
        return number

    @property
    def complete(self) -> bool:
        """Whether everything known to exist was taken."""
        return self.next == self.stop

    def between(self, first: int, stop: int) -> Iterator[tuple[int, Batch]]:
        """What is kept of `first` to `stop`: (number, batch), ascending, cut at both ends."""
        return self.kept.between(first, stop)

    def forget(self, below: int) -> None:
        """Delivered messages below `below` need not be kept any longer."""
        assert below <= self.next, "only what was delivered can be forgotten"
        if below > self.low:
            self.low = below
            self.kept.forget(below)
