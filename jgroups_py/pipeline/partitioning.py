"""Which pieces of work each task of Spark takes: few tasks, as each takes some 0.05 s to begin, that end together."""
from __future__ import annotations


def shares(count: int, workers: int, most: int | None = None, least: int = 1) -> list[range]:
    """Which pieces each task does, in the order of their start: the first tasks many (at most `most`), the last ones
    `least`.

    >>> [len(share) for share in shares(100, 2)]
    [25, 18, 14, 10, 8, 6, 4, 3, 3, 2, 1, 1, 1, 1, 1, 1, 1]
    >>> [len(share) for share in shares(30, 2, most=5)]
    [5, 5, 5, 3, 3, 2, 1, 1, 1, 1, 1, 1, 1]
    >>> [len(share) for share in shares(71, 2, most=8, least=4)]
    [8, 8, 8, 8, 8, 7, 6, 4, 4, 4, 4, 2]
    """
    found, first = [], 0
    while first < count:
        wanted = max(least, (count - first) // (2 * workers))
        stop = min(count, first + (wanted if most is None else min(wanted, most)))
        found.append(range(first, stop))
        first = stop
    return found
