"""Claim: a plain list is the faster sorted collection for windows, `sortedcontainers` for large tables.

`python -m benchmarks.sorted_collections`: time per operation of both, at several sizes, for the three ways in which the
project uses sorted collections (design/decisions/0014-sorted-collections.md):

    window    numbers are appended, found by search, and leave from the front (windows/)
    ranges    one range in the middle grows, is cut and mended (windows/ranges.py)
    table     keys come and go anywhere (the hash tree of anti-entropy, the table of peers of PEX)
"""
from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from random import Random
from time import perf_counter_ns

from sortedcontainers import SortedDict, SortedList

SIZES = (1, 10, 1_000, 100_000)
ROUNDS = 2_000
REPEATS = 5


def window_list(size: int) -> None:
    firsts = list(range(0, size * 10, 10))
    stop = size * 10
    start(window_list)
    for _ in range(ROUNDS):
        firsts.append(stop)
        bisect_right(firsts, stop - 5 * size)
        del firsts[:1]
        stop += 10


def window_sorted(size: int) -> None:
    firsts: SortedList[int] = SortedList(range(0, size * 10, 10))
    stop = size * 10
    start(window_sorted)
    for _ in range(ROUNDS):
        firsts.add(stop)
        firsts.bisect_right(stop - 5 * size)
        del firsts[0]
        stop += 10


def ranges_list(size: int) -> None:
    firsts, stops = list(range(0, size * 10, 10)), list(range(5, size * 10 + 5, 10))
    start(ranges_list)
    for number in range(ROUNDS):
        first = number * 7 % size * 10 + 5               # fills the hole behind a range, and opens it again
        left, right = bisect_left(stops, first), bisect_right(firsts, first + 5)
        kept = firsts[left:right], stops[left:right]
        firsts[left:right], stops[left:right] = [kept[0][0]], [kept[1][-1]]
        firsts[left:left + 1], stops[left:left + 1] = kept


def ranges_sorted(size: int) -> None:
    held: SortedDict[int, int] = SortedDict((first, first + 5) for first in range(0, size * 10, 10))
    keys = held.keys()
    start(ranges_sorted)
    for number in range(ROUNDS):
        first = number * 7 % size * 10 + 5
        left, right = max(0, held.bisect_right(first) - 1), held.bisect_right(first + 5)
        kept = [(begin, held[begin]) for begin in keys[left:right]]
        for begin, _ in kept[1:]:
            del held[begin]
        held[kept[0][0]] = kept[-1][1]
        held.update(kept)


def table_list(size: int) -> None:
    rng, keys = Random(1), {}
    order: list[int] = []
    for _ in range(size):
        insort(order, key := rng.getrandbits(62))
        keys[key] = key
    start(table_list)
    for _ in range(ROUNDS):
        insort(order, key := rng.getrandbits(62))
        keys[key] = key
        bisect_left(order, rng.getrandbits(62))
        old = order[rng.randrange(len(order))]
        del keys[old]
        del order[bisect_left(order, old)]


def table_sorted(size: int) -> None:
    rng = Random(1)
    keys: SortedDict[int, int] = SortedDict()
    keys.update((key, key) for key in (rng.getrandbits(62) for _ in range(size)))
    start(table_sorted)
    for _ in range(ROUNDS):
        key = rng.getrandbits(62)
        keys[key] = key
        keys.bisect_left(rng.getrandbits(62))
        keys.popitem(rng.randrange(len(keys)))


_STARTED: dict[Callable[[int], None], int] = {}


def start(work: Callable[[int], None]) -> None:
    """Called when the collection is filled: the time until here does not count."""
    _STARTED[work] = perf_counter_ns()


def ns_per_round(work: Callable[[int], None], size: int) -> float:
    """The best of a few repeats, by round of operations."""
    best = float("inf")
    for _ in range(REPEATS):
        work(size)
        best = min(best, (perf_counter_ns() - _STARTED[work]) / ROUNDS)
    return best


def main() -> int:
    """Print the table."""
    print(f"{'use':<8} {'entries':>8} {'list, ns':>9} {'sorted, ns':>11} {'list : sorted':>14}")
    for name, plain, container in (("window", window_list, window_sorted), ("ranges", ranges_list, ranges_sorted),
                                   ("table", table_list, table_sorted)):
        for size in SIZES:
            ours, theirs = ns_per_round(plain, size), ns_per_round(container, size)
            print(f"{name:<8} {size:>8} {ours:>9.0f} {theirs:>11.0f} {ours / theirs:>14.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
