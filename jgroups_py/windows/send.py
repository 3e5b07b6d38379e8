"""The sending half of a reliable stream: gives numbers to runs and keeps them until they are acknowledged."""
from __future__ import annotations

from collections.abc import Iterator

from jgroups_py.batch import Batch
from jgroups_py.windows.runs import Runs


class SendWindow:
    """Runs that were sent, by number.

    next: the number that the next message gets; low: everything below is forgotten. first: where numbering begins.
    """

    __slots__ = ("low", "next", "runs")

    def __init__(self, first: int = 1) -> None:
        self.low = first
        self.next = first
        self.runs = Runs()

    def __bool__(self) -> bool:
        """Whether something is kept."""
        return self.low < self.next

    def add(self, run: Batch) -> int:
        """Number and keep `run`; the number of its first message."""
        first = self.next
        runs = self.runs
        runs.firsts.append(first)
        runs.runs.append(run)
        self.next = first + (len(run.payloads) or 1)
        return first

    def between(self, first: int, stop: int) -> Iterator[tuple[int, Batch]]:
        """What is kept of `first` to `stop`: (number, run), ascending, cut at both ends."""
        return self.runs.between(first, stop)

    def forget(self, below: int) -> bool:
        """All messages below `below` are acknowledged. Returns whether that was news."""
        assert below <= self.next, "only what was sent can be acknowledged"
        if below <= self.low:
            return False
        self.low = below
        self.runs.forget(below)
        return True
