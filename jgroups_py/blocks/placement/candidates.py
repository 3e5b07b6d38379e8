"""Candidates: members that may hold partitions, with id, weight and zone."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

MAX_WEIGHT = 2.0 ** 100                    # so that the quotient of a cost and a weight is always a normal number
MIN_WEIGHT = 2.0 ** -100


@dataclass(frozen=True, slots=True)
class Candidate:
    """A member that may hold partitions.

    weight: its share of the sum of all weights, in any unit; 0: it gets no partition. zone: members of one zone (a
    site, a rack) are likely to fail together.
    """

    id: str
    weight: float = 1.0
    zone: str = ""

    def __post_init__(self) -> None:
        if not self.id:
            raise ValueError("a candidate needs an id: a text that is equal at all members, for example its name")
        if self.weight != 0 and not MIN_WEIGHT <= self.weight <= MAX_WEIGHT:
            raise ValueError(f"candidate {self.id!r} has weight {self.weight!r}: a weight is 0 or a positive number "
                             "(2^-100 to 2^100)")


def in_order(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """The candidates with a weight above 0, sorted by the bytes of their ids, which break ties.

    Raises:
        ValueError: an id occurs twice.
    """
    found = sorted(candidates, key=lambda candidate: candidate.id.encode())
    for one, other in pairwise(found):
        if one.id == other.id:
            raise ValueError(f"candidate {one.id!r} occurs twice: ids are unique")
    return tuple(candidate for candidate in found if candidate.weight)
