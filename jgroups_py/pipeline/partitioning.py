"""Spreads pieces of work over Spark tasks: few tasks, as each takes some 0.05 s to begin, that end at the same time."""
from __future__ import annotations


def tasks_of(count: int, workers: int, most: int | None = None, least: int = 1) -> list[range]:
    """The pieces of each task, in the order in which tasks start: the first ones do many (at most `most`), the last
    ones `least`.

    >>> [len(task) for task in tasks_of(100, 2)]
    [25, 18, 14, 10, 8, 6, 4, 3, 3, 2, 1, 1, 1, 1, 1, 1, 1]
    >>> [len(task) for task in tasks_of(30, 2, most=5)]
    [5, 5, 5, 3, 3, 2, 1, 1, 1, 1, 1, 1, 1]
    >>> [len(task) for task in tasks_of(71, 2, most=8, least=4)]
    [8, 8, 8, 8, 8, 7, 6, 4, 4, 4, 4, 2]
    """
    found, first = [], 0
    while first < count:
        wanted = max(least, (count - first) // (2 * workers))
        stop = min(count, first + (wanted if most is None else min(wanted, most)))
        found.append(range(first, stop))
        first = stop
    return found
