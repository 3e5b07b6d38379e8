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
