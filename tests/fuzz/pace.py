"""How slow this machine is at the moment: a limit of CPU time is one of a machine, and 1 s of one is 2 s of another.

A finding must be one of the reader. So a cost that is above its limit is taken again, each time beside a fixed piece of
Python (`work`), and counts as so much less as that takes longer than where the limits were set.
"""
from __future__ import annotations

from time import process_time

WORK_SECONDS = 0.002                     # of CPU, for `work` on the machine where the limits were set
REPEATS = 3


def slowness() -> float:
    """How many times as long as there the same Python takes here and now; at least 1."""
    return max(1.0, min(_took() for _ in range(REPEATS)) / WORK_SECONDS)


def work() -> int:
    """Dicts, numbers and strings, as readers use them."""
    counts: dict[int, int] = {}
    for number in range(10_000):
        at = number * 7 % 97
        counts[at] = counts.get(at, 0) + len(str(number))
    return sum(counts.values())


def _took() -> float:
    began_s = process_time()
    work()
    return process_time() - began_s
