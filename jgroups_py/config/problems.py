"""Problems of a stack file, each with its place, collected so that one run shows them all.

Parsing and checking add to a `Problems` list and continue; at the end `raise_if_any` raises one StackError, a
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
    """A place in a source. line: from 1 on; 0: the source has no lines (Python), or the line is unknown."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@attrs.frozen
class Problem:
    """An error and its place."""

    place: Place
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


class StackError(ConfigError):
    """A stack has errors; `problems` are all that were found, in the order of the file."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems

    def __reduce__(self) -> tuple[type[StackError], tuple[tuple[Problem, ...]]]:
        return StackError, (self.problems,)


class Problems:
    """Collects errors, which end the loading, and warnings, which the StackSpec has."""

    def __init__(self) -> None:
        self.found: list[Problem] = []
        self.warnings: list[str] = []

    def add(self, place: Place, text: str) -> None:
        """Add an error at `place`."""
        self.found.append(Problem(place, text))

    def warn(self, place: Place, text: str) -> None:
        """Add a warning at `place`, unless there is the same one already."""
        warning = f"{place}: {text}"
        if warning not in self.warnings:
            self.warnings.append(warning)

    def raise_if_any(self) -> None:
        """End the loading if there are errors.

        Raises:
            StackError: with all of them.
        """
        if self.found:
            raise StackError(tuple(self.found))


def stop(place: Place, text: str) -> StackError:
    """The error for one problem after which reading cannot continue."""
    return StackError((Problem(place, text),))


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is most similar to `word`; None if none is similar.

    >>> nearest("xmit_intervall", ["xmit_interval", "max_bytes"]), nearest("nakak2", ["NAKACK2", "GMS"])
    ('xmit_interval', 'NAKACK2')
    >>> nearest("colour", ["xmit_interval"]) is None
    True
    """
    by_lower = {name.lower(): name for name in known}
    matches = get_close_matches(word[:MAX_SHOWN].lower(), by_lower, n=1)
    return by_lower[matches[0]] if matches else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """"; did you mean ...?", or "" if no known word is similar."""
    found = nearest(word, known)
    return f"; did you mean {found!r}?" if found else ""


def shown(value: object) -> str:
    """`value` as Python writes it, shortened if it is long, since a file may contain anything."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}... ({len(text)} characters)"
