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

    def has_room(self, first: int, nbytes: int, most: int) -> bool:
        """Whether a run may be kept so that not more than `most` bytes wait; the one that is wanted next always may."""
        return first <= self.next or self.ahead_bytes + nbytes <= most

    def make_room(self, first: int, nbytes: int, most: int) -> int:
        """Drop what is furthest ahead, as far as that lets a run be kept (`has_room`); how many messages were dropped.

        They are holes again: what comes first is worth more, since only it lets anything be delivered.
        """
        firsts, runs = self.runs.firsts, self.runs.runs
        dropped = 0
        while firsts and firsts[-1] > first and firsts[-1] >= self.next and self.ahead_bytes + nbytes > most:
            run = runs.pop()
            firsts.pop()
            self.ahead_bytes -= run.nbytes
            dropped += run.count
        return dropped

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
        holes = self.holes()
        return holes[0][0] if holes else max(self.next, self.stop)

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
