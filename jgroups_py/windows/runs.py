"""Numbered runs, kept as they came: what a sender may have to resend and a receiver has not delivered yet.

An entry is a run and the number of its first message; entries ascend and never overlap, because a run that arrives
is cut where its numbers are there already. Payloads are shared with the run that came in. Runs mostly come in order,
so that adding is appending.
"""
from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from jgroups_py.batch import Batch
from jgroups_py.windows.ranges import Range


class Runs:
    """Runs by number. `firsts` and `runs` run in parallel; read them, change them only through the methods.

    added_bytes: payload bytes that were kept by the last `add`.
    """

    __slots__ = ("added_bytes", "firsts", "runs")

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self.runs: list[Batch] = []
        self.added_bytes = 0

    def __len__(self) -> int:
        """How many runs."""
        return len(self.firsts)

    @property
    def stop(self) -> int:
        """One above the highest number, 0 if nothing is kept."""
        return self.firsts[-1] + self.runs[-1].count if self.firsts else 0

    @property
    def nbytes(self) -> int:
        """Payload bytes kept; costs by the message, so for statistics only."""
        return sum(run.nbytes for run in self.runs)

    def add(self, first: int, run: Batch) -> int:
        """Keep `run`, whose first message has number `first`, as far as it is new; how many messages were new."""
        firsts = self.firsts
        if not firsts or first >= firsts[-1] + (len(self.runs[-1].payloads) or 1):
            firsts.append(first)
            self.runs.append(run)
            self.added_bytes = run.nbytes
            return len(run.payloads) or 1
        added = self.added_bytes = 0
        for begin, end in self.holes(first, first + run.count):
            at = bisect_left(firsts, begin)
            firsts.insert(at, begin)
            piece = run.cut(begin - first, end - first)
            self.runs.insert(at, piece)
            self.added_bytes += piece.nbytes
            added += end - begin
        return added

    def between(self, first: int, stop: int) -> Iterator[tuple[int, Batch]]:
        """What is kept of `first` to `stop`: (number, run), ascending, cut at both ends."""
        firsts, runs = self.firsts, self.runs
        for at in range(max(0, bisect_right(firsts, first) - 1), bisect_left(firsts, stop)):
            begin, run = firsts[at], runs[at]
            lower, upper = max(first, begin), min(stop, begin + run.count)
            if lower < upper:
                yield lower, run.cut(lower - begin, upper - begin)

    def holes(self, first: int, stop: int) -> list[Range]:
        """What of `first` to `stop` is not kept, ascending."""
        firsts, runs = self.firsts, self.runs
        missing = []
        at = first
        for index in range(max(0, bisect_right(firsts, first) - 1), bisect_left(firsts, stop)):
            begin = firsts[index]
            if at < begin:
                missing.append((at, begin))
            at = max(at, begin + runs[index].count)
        if at < stop:
            missing.append((at, stop))
        return missing

    def split(self, number: int) -> None:
        """Make `number` the first of a run, if a run holds it in its middle."""
        at = bisect_right(self.firsts, number) - 1
        if at < 0:
            return
        first, run = self.firsts[at], self.runs[at]
        if first < number < first + run.count:
            self.runs[at:at + 1] = [run.cut(0, number - first), run.cut(number - first, run.count)]
            self.firsts.insert(at + 1, number)

    def forget(self, below: int) -> None:
        """Drop all messages with numbers below `below`."""
        at = bisect_left(self.firsts, below)
        if at and self.firsts[at - 1] + self.runs[at - 1].count > below:
            self.split(below)
        if at:
            del self.firsts[:at], self.runs[:at]

    def clear(self) -> None:
        """Drop everything."""
        self.firsts.clear()
        self.runs.clear()
