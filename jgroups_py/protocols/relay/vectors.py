"""Arithmetic of vectors (site -> origin -> next number wanted)."""
from __future__ import annotations

from jgroups_py.protocols.relay.headers import Vector


def copied(vector: Vector) -> Vector:
    """A vector of its own."""
    return {site: dict(numbers) for site, numbers in vector.items()}


def overlaid(vector: Vector, differences: Vector) -> Vector:
    """The vector with some entries replaced."""
    result = copied(vector)
    for site, numbers in differences.items():
        result.setdefault(site, {}).update(numbers)
    return result


def raised(vector: Vector, other: Vector) -> Vector:
    """The higher entry of both; changes and returns `vector`."""
    for site, numbers in other.items():
        mine = vector.setdefault(site, {})
        for origin, number in numbers.items():
            mine[origin] = max(number, mine.get(origin, 1))
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
    """Our entries where they differ from theirs; 0 where they have an entry and we have none."""
    result: Vector = {}
    for site, numbers in theirs.items():
        ours = mine.get(site, {})
        for origin, number in numbers.items():
            if ours.get(origin, 0) != number:
                result.setdefault(site, {})[origin] = ours.get(origin, 0)
    for site, numbers in mine.items():
        known = theirs.get(site, {})
        for origin, number in numbers.items():
            if origin not in known:
                result.setdefault(site, {})[origin] = number
    return result


def unheard(lowest: Vector, vector: Vector, ours: Vector) -> Vector:
    """The origins, each from 1 on, of which neither a member nor its relay has anything, but others of the view have.

    lowest: with an entry for every origin that any of them has. vector: the member's in its HAVE, with one for each
    site whose messages were meant for it. ours: the relay's in SYNC; where it has an entry, the member says 0 itself.
    """
    result: Vector = {}
    for site, mine in vector.items():
        known = ours.get(site, {})
        nothing = {origin: 1 for origin in lowest.get(site, ()) if origin not in mine and origin not in known}
        if nothing:
            result[site] = nothing
    return result
