"""Problems: what is wrong with a stack file, each with its place, gathered so that one run shows them all.

Parsing and checking add to a `Problems` list and go on; `raise_if_any` ends in one StackError, which is a
ConfigError whose text has a line per problem: `nyc.xml:12: NAKACK: what is wrong; what is allowed`.
"""
from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

import attrs

from jgroups_py.model.errors import ConfigError

MAX_SHOWN = 60


@attrs.frozen
class Place:
    """Where something stands. line 0: the source has no lines (Python)."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@attrs.frozen
class Problem:
    """One thing that is wrong."""

    place: Place
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


class StackError(ConfigError):
    """A stack is wrong; `problems` are all that were found, in the order of the file."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems

    def __reduce__(self) -> tuple[type[StackError], tuple[tuple[Problem, ...]]]:
        return StackError, (self.problems,)


class Problems:
    """Gathers problems (which stop the loading) and warnings (which travel with the StackSpec)."""

    def __init__(self) -> None:
        self.found: list[Problem] = []
        self.warnings: list[str] = []

    def add(self, place: Place, text: str) -> None:
        """Something is wrong at `place`."""
        self.found.append(Problem(place, text))

    def warn(self, place: Place, text: str) -> None:
        """Allowed, but worth a warning to the user, once."""
        warning = f"{place}: {text}"
        if warning not in self.warnings:
            self.warnings.append(warning)

    def raise_if_any(self) -> None:
        """End the loading if something was wrong."""
        if self.found:
            raise StackError(tuple(self.found))


def stop(place: Place, text: str) -> StackError:
    """The error for a single problem after which reading cannot go on."""
    return StackError((Problem(place, text),))


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` was most likely meant to be, None if none is near.

    >>> nearest("xmit_intervall", ["xmit_interval", "max_bytes"]), nearest("nakak2", ["NAKACK2", "GMS"])
    ('xmit_interval', 'NAKACK2')
    >>> nearest("colour", ["xmit_interval"]) is None
    True
    """
    by_lower = {name.lower(): name for name in known}
    matches = get_close_matches(word[:MAX_SHOWN].lower(), by_lower, n=1)
    return by_lower[matches[0]] if matches else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """"; did you mean ...?" or nothing."""
    found = nearest(word, known)
    return f"; did you mean {found!r}?" if found else ""


def shown(value: object) -> str:
    """`value` in quotes, cut if it is long: what stands in a file may be anything."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}... ({len(text)} characters)"
