"""A set of numbers kept as half-open ranges: which seqnos were received, requested, acknowledged.

The ranges are disjoint and ascending, and ranges that touch are joined. Every operation is a binary search plus the
ranges that it concerns.
"""
from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

Range = tuple[int, int]


class Ranges:
    """Numbers as ranges (first, stop).

    >>> seen = Ranges([(1, 4), (4, 6), (9, 12)])
    >>> list(seen), seen.holes(1, 14)
    ([(1, 6), (9, 12)], [(6, 9), (12, 14)])
    """

    __slots__ = ("_firsts", "_stops")

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        self._firsts: list[int] = []
        self._stops: list[int] = []
        for first, stop in ranges:
            self.add(first, stop)

    def __iter__(self) -> Iterator[Range]:
        return iter(list(zip(self._firsts, self._stops, strict=True)))

    def __len__(self) -> int:
        """How many ranges."""
        return len(self._firsts)

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._firsts, number) - 1
        return at >= 0 and number < self._stops[at]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranges) and self._firsts == other._firsts and self._stops == other._stops

    __hash__ = None                            # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Ranges({list(self)})"

    @property
    def total(self) -> int:
        """How many numbers."""
        return sum(self._stops) - sum(self._firsts)

    @property
    def stop(self) -> int:
        """One above the highest number, 0 if there is none."""
        return self._stops[-1] if self._stops else 0

    def covers(self, first: int, stop: int) -> bool:
        """Whether all of `first` to `stop` is in the set."""
        at = bisect_right(self._firsts, first) - 1
        return at >= 0 and stop <= self._stops[at]

    def add(self, first: int, stop: int) -> None:
        """Add `first` to `stop`; an empty range changes nothing."""
        if first >= stop:
            return
        left = bisect_left(self._stops, first)                # first range that reaches `first`, touching counts
        right = bisect_right(self._firsts, stop)              # behind the last one that begins by `stop`
        if left < right:
            first = min(first, self._firsts[left])
            stop = max(stop, self._stops[right - 1])
        self._firsts[left:right] = [first]
        self._stops[left:right] = [stop]

    def subtract(self, first: int, stop: int) -> None:
        """Remove `first` to `stop`, as far as they are in the set."""
        if first >= stop:
            return
        left = bisect_right(self._stops, first)               # first range with something above `first`
        right = bisect_left(self._firsts, stop)               # behind the last one with something below `stop`
        if left >= right:
            return
        kept = [(self._firsts[left], first), (stop, self._stops[right - 1])]
        kept = [(a, b) for a, b in kept if a < b]
        self._firsts[left:right] = [a for a, _ in kept]
        self._stops[left:right] = [b for _, b in kept]

    def overlap(self, first: int, stop: int) -> list[Range]:
        """What of `first` to `stop` is in the set, ascending."""
        left = bisect_right(self._stops, first)
        right = bisect_left(self._firsts, stop)
        return [(max(first, self._firsts[at]), min(stop, self._stops[at])) for at in range(left, right)]

    def holes(self, first: int, stop: int) -> list[Range]:
        """What of `first` to `stop` is not in the set, ascending."""
        missing = []
        at = first
        for begin, end in self.overlap(first, stop):
            if at < begin:
                missing.append((at, begin))
            at = end
        if at < stop:
            missing.append((at, stop))
        return missing
