"""The sending half of a reliable stream: gives numbers to batches and keeps them until they are acknowledged."""
from __future__ import annotations

from collections.abc import Iterator

from jgroups_py.model.batch import Batch
from jgroups_py.windows.numbered_batches import NumberedBatches


class SendWindow:
    """Batches that were sent, by number.

    next: the number that the next message gets; low: everything below was dropped. first: where numbering begins.
    """

    __slots__ = ("kept", "low", "next")

    def __init__(self, first: int = 1) -> None:
        self.low = first
        self.next = first
        self.kept = NumberedBatches()

    def __bool__(self) -> bool:
        """Whether something is kept."""
        return self.low < self.next

    def add(self, batch: Batch) -> int:
        """Number and keep `batch`. Returns the number of its first message."""
        first = self.next
        batches = self.kept
        batches.firsts.append(first)
        batches.batches.append(batch)
        self.next = first + (len(batch.payloads) or 1)
        return first

    def between(self, first: int, stop: int) -> Iterator[tuple[int, Batch]]:
        """What is kept of `first` to `stop`: (number, batch), ascending, cut at both ends."""
        return self.kept.between(first, stop)

    def forget(self, below: int) -> bool:
        """All messages below `below` are acknowledged. Returns whether that changed anything."""
        assert below <= self.next, "only what was sent can be acknowledged"
        if below <= self.low:
            return False
        self.low = below
        self.kept.forget(below)
        return True
