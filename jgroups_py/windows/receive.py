"""The receiving half of a reliable stream: puts runs in order, knows what is missing, delivers each message once.

With `keep` a delivered message stays until `forget`, because others may ask for it (multicasts); without, it goes as
it is taken (unicasts).
"""
from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from jgroups_py.batch import Batch
from jgroups_py.windows.ranges import Range
from jgroups_py.windows.runs import Runs

RUN_BYTES = 256                      # of memory, that a kept run takes beside its payloads, about


class ReceiveWindow:
    """Runs of one sender.

    next: the number wanted next, everything below was taken; low: everything below is forgotten (low <= next);
    stop: one above the highest number known to exist, received or announced (stop >= next); ahead_bytes: payload bytes
    of what is kept and was not taken yet.
    """

    __slots__ = ("ahead_bytes", "keep", "low", "next", "runs", "stop")

    def __init__(self, first: int = 1, *, keep: bool = False) -> None:
        self.low = first
        self.next = first
        self.stop = first
        self.keep = keep
        self.ahead_bytes = 0
        self.runs = Runs()

    @property
    def ahead_weight(self) -> int:
        """What is kept and was not taken yet, in bytes of memory: small runs take more than their payloads."""
        firsts = self.runs.firsts
        if not firsts or firsts[-1] < self.next:
            return 0
        return self.ahead_bytes + RUN_BYTES * (len(firsts) - bisect_left(firsts, self.next))

    def drop_last(self, above: int = 0) -> Batch | None:
        """Drop the run that is furthest ahead, if it begins above the number `above` and there is a hole before it."""
        firsts, runs = self.runs.firsts, self.runs.runs
        if not firsts or firsts[-1] <= above or firsts[-1] < self.reach:
            return None
        firsts.pop()
        run = runs.pop()
        self.ahead_bytes -= run.nbytes
        return run

    def add(self, first: int, run: Batch) -> int:
        """Keep `run`, whose first message has number `first`, as far as it is new; how many messages were new."""
        stop = first + (len(run.payloads) or 1)
        if first < self.next:
            if stop <= self.next:
                return 0
            run, first = run.cut(self.next - first, stop - first), self.next
        if stop > self.stop:
            self.stop = stop
        added = self.runs.add(first, run)
        self.ahead_bytes += self.runs.added_bytes
        return added

    def straight(self, first: int, run: Batch) -> bool:
        """Keep and take `run` if it is simply the next one and nothing else is known of: the ordinary case."""
        if first != self.next or first != self.stop or not self.keep:
            return False
        self.runs.firsts.append(first)
        self.runs.runs.append(run)
        self.next = self.stop = first + (len(run.payloads) or 1)
        return True

    def take(self, below: int | None = None) -> list[Batch]:
        """The runs that are next in order (only messages below `below`, if given); they count as delivered."""
        firsts, runs = self.runs.firsts, self.runs.runs
        if below is None:
            if not firsts or firsts[-1] < self.next:
                return []
            if firsts[-1] == self.next and self.keep:          # the ordinary case: one run, just arrived
                self.next += len(runs[-1].payloads) or 1
                self.ahead_bytes -= runs[-1].nbytes
                return runs[-1:]
        elif below <= self.next:
            return []
        else:
            self.runs.split(below)
        start = at = bisect_left(firsts, self.next)
        while at < len(firsts) and firsts[at] == self.next and (below is None or self.next < below):
            self.next += len(runs[at].payloads) or 1
            at += 1
        taken = runs[start:at]
        for run in taken:
            self.ahead_bytes -= run.nbytes
        if not self.keep:
            del firsts[:at], runs[:at]
            self.low = self.next
        return taken

    def announce(self, stop: int) -> None:
        """Messages up to `stop` (exclusive) are known to exist."""
        if stop > self.stop:
            self.stop = stop

    def skip(self, below: int) -> list[Batch]:
        """Nothing that is missing below `below` will come: what is kept below it, in order; it counts as taken."""
        self.runs.split(below)
        taken = [run for _, run in self.runs.between(self.next, below)]
        for run in taken:
            self.ahead_bytes -= run.nbytes
        self.next = max(self.next, below)
        self.announce(below)
        if not self.keep:
            self.low = self.next
            self.runs.forget(below)
        return taken

    def holes(self, stop: int | None = None) -> list[Range]:
        """What is missing, ascending: from the number wanted next to `stop`, by default to all known to exist."""
        upper = self.stop if stop is None else stop
        return self.runs.holes(self.next, upper) if self.next < upper else []

    @property
    def reach(self) -> int:
        """The first number that is missing: everything below was received, taken or not."""
        firsts, runs = self.runs.firsts, self.runs.runs
        number = self.next
        for at in range(bisect_left(firsts, number), len(firsts)):
            if firsts[at] != number:
                break
            number += runs[at].count
        return number

    @property
    def complete(self) -> bool:
        """Whether everything known to exist was taken."""
        return self.next == self.stop

    def between(self, first: int, stop: int) -> Iterator[tuple[int, Batch]]:
        """What is kept of `first` to `stop`: (number, run), ascending, cut at both ends."""
        return self.runs.between(first, stop)

    def forget(self, below: int) -> None:
        """Delivered messages below `below` need not be kept any longer."""
        assert below <= self.next, "only what was delivered can be forgotten"
        if below > self.low:
            self.low = below
            self.runs.forget(below)
