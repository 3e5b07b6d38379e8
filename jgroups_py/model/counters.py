"""Counters: what each part did, and what it dropped, as plain numbers under declared names.

A class that counts declares its counters in one place, with documentation, as it declares its properties:

    COUNTERS = declare(
        counter("votes_sent", "Votes multicast to the group."),
        drop("votes_malformed", "Votes that do not name the members of the view."),
        figure("members", "Members of the view."),
    )

`jgroups counters` and docs/reference/counters.md are made from these declarations. Counting a name that is not declared
is a bug; it is found when the name is counted first, so that the check costs nothing afterwards. A name may contain
"<...>" where the system supplies a word: "send_<error>_dropped" declares "send_ENOBUFS_dropped".
"""
from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from functools import cache

import attrs

COUNTER, DROP, FIGURE = "counter", "drop", "figure"
BOUNDS_MS = (1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000)
"""Of the durations that a histogram counts apart."""
BEYOND = "inf"
_VARIABLE = re.compile(r"<[a-z]+>")


@attrs.frozen
class Counter:
    """One declared name of `ch.stats()`. kind: COUNTER, DROP or FIGURE."""

    name: str
    doc: str
    kind: str

    @property
    def is_drop(self) -> bool:
        """Whether it counts messages, or frames, that go no further."""
        return self.kind == DROP


def counter(name: str, doc: str) -> Counter:
    """Declare a counter of something that was done or that happened."""
    return Counter(name, doc, COUNTER)


def drop(name: str, doc: str) -> Counter:
    """Declare a counter of messages, or frames, that go no further."""
    return Counter(name, doc, DROP)


def figure(name: str, doc: str) -> Counter:
    """Declare a figure that `stats` adds to the counters: what is kept now, or a sum that is kept elsewhere."""
    return Counter(name, doc, FIGURE)


def histogram(name: str, doc: str) -> tuple[Counter, Counter]:
    """Declare what `observe` counts. doc: what takes the time, without a full stop."""
    return (counter(f"{name}_within_<milliseconds>", f"{doc}, at most so long and longer than the bound before: "
                    f"{', '.join(map(str, BOUNDS_MS))}, {BEYOND} ms."),
            counter(f"{name}_us", "Their sum, in microseconds."))


def observe(count: Callable[[str, int], object], name: str, duration_ns: int) -> None:
    """Count a duration in a histogram.

    >>> found = {}
    >>> def count(name, number):
    ...     found[name] = found.get(name, 0) + number
    >>> for duration_ms in (1, 2, 3, 90_000):
    ...     observe(count, "pause", duration_ms * 10**6)
    >>> found
    {'pause_within_1': 1, 'pause_us': 90006000, 'pause_within_2.5': 1, 'pause_within_5': 1, 'pause_within_inf': 1}
    """
    at = bisect_left(BOUNDS_MS, duration_ns / 1_000_000)
    count(f"{name}_within_{BOUNDS_MS[at] if at < len(BOUNDS_MS) else BEYOND}", 1)
    count(f"{name}_us", duration_ns // 1000)


def declare(*counters: Counter) -> tuple[Counter, ...]:
    """The COUNTERS of a class. Each name once."""
    assert len(table(counters)) == len(counters), "a counter is declared twice"
    return counters


def table(counters: Iterable[Counter]) -> dict[str, Counter]:
    """Name -> declaration; of two with one name the later one counts."""
    return {one.name: one for one in counters}


def declared_by(*classes: type) -> dict[str, Counter]:
    """What these classes and their bases declare as COUNTERS, by name."""
    return table(one for cls in classes for base in reversed(cls.__mro__) for one in vars(base).get("COUNTERS", ()))


def declaration(name: str, declared: Mapping[str, Counter]) -> Counter | None:
    """The declaration of a counted name, None: there is none."""
    known = declared.get(name)
    if known is not None:
        return known
    return next((one for one in declared.values() if "<" in one.name and _pattern(one.name).fullmatch(name)), None)


@cache
def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(".+".join(map(re.escape, _VARIABLE.split(name))))


class Counters(dict[str, int]):
    """Name -> how often. A name exists from its first count on. declared: the names that may be counted."""

    __slots__ = ("declared",)

    def __init__(self, declared: Mapping[str, Counter]) -> None:
        super().__init__()
        self.declared = declared

    def __missing__(self, name: str) -> int:
        assert declaration(name, self.declared) is not None, \
            f"the counter {name!r} is counted but not declared in COUNTERS"
        return 0

    def add(self, name: str, number: int = 1) -> None:
        """Count `name` `number` times.

        >>> counters = Counters(table([counter("votes_sent", "Votes multicast to the group.")]))
        >>> counters.add("votes_sent")
        >>> counters
        {'votes_sent': 1}
        """
        self[name] += number
