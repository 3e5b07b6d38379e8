"""Arithmetic of vectors: site -> origin -> next number; below it everything was delivered.

No entry and the entry 1 differ. With an entry, the member waits for the numbers from there on; without one it begins at
the first number that arrives. After a merge the relay has to decide, member by member, which of the two is right
(`differing`, `unknown_origins`; relay rule 17).
"""
from __future__ import annotations

from jgroups_py.protocols.relay.headers import Vector


def copied(vector: Vector) -> Vector:
    """A copy that shares no dict with the original."""
    return {site: dict(numbers) for site, numbers in vector.items()}


def overlaid(vector: Vector, differences: Vector) -> Vector:
    """The vector with some entries replaced."""
    result = copied(vector)
    for site, numbers in differences.items():
        result.setdefault(site, {}).update(numbers)
    return result


def raised(vector: Vector, other: Vector) -> Vector:
    """The higher entry of both. Changes and returns `vector`."""
    for site, numbers in other.items():
        entries = vector.setdefault(site, {})
        for origin, number in numbers.items():
            entries[origin] = max(number, entries.get(origin, 1))
    return vector


def lower(vector: Vector, other: Vector) -> Vector:
    """The entries of `vector` that are below those of `other`."""
    result: Vector = {}
    for site, numbers in vector.items():
        theirs = other.get(site, {})
        for origin, number in numbers.items():
            if number < theirs.get(origin, 0):
                result.setdefault(site, {})[origin] = number
    return result


def differing(mine: Vector, theirs: Vector) -> Vector:
    """The entries of `mine` where they differ from `theirs`; 0 where only `theirs` has one."""
    result: Vector = {}
    for site, numbers in theirs.items():
        entries = mine.get(site, {})
        for origin, number in numbers.items():
            if entries.get(origin, 0) != number:
                result.setdefault(site, {})[origin] = entries.get(origin, 0)
    for site, numbers in mine.items():
        known = theirs.get(site, {})
        for origin, number in numbers.items():
            if origin not in known:
                result.setdefault(site, {})[origin] = number
    return result


def unknown_origins(lowest: Vector, vector: Vector, sync: Vector) -> Vector:
    """The origins, each from 1 on, of which neither a member nor its relay has an entry, but another member has one.

    lowest: with an entry for every origin that any member has. vector: the member's in its HAVE, with an entry for each
    site whose messages were meant for it. sync: the relay's in SYNC; where that has an entry, HAVE itself has a 0.
    """
    result: Vector = {}
    for site, mine in vector.items():
        known = sync.get(site, {})
        nothing = {origin: 1 for origin in lowest.get(site, ()) if origin not in mine and origin not in known}
        if nothing:
            result[site] = nothing
    return result
