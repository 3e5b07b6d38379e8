"""Placement: maps partitions to a fixed set of candidates."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jgroups_py.blocks.placement.candidates import Candidate, in_order
from jgroups_py.blocks.placement.draws import exponential, hash_member, hash_partition, pair

if TYPE_CHECKING:
    import numpy
    import numpy.typing

MAX_KEY_BYTES = 64                         # of blake2b


@dataclass(frozen=True, slots=True)
class Placed:
    """The holders of a partition, best first; fewer than wanted if there are too few candidates."""

    candidates: tuple[Candidate, ...]
    wanted: int

    @property
    def ids(self) -> tuple[str, ...]:
        """Their ids."""
        return tuple(candidate.id for candidate in self.candidates)

    @property
    def under_replicated(self) -> bool:
        """Whether there are fewer than wanted."""
        return len(self.candidates) < self.wanted


class Placement:
    """The placement of partitions on these candidates.

    key: placements with different keys are independent; for example the name of the store.
    """

    def __init__(self, candidates: Iterable[Candidate], key: str = "") -> None:
        """
        Raises:
            ValueError: an id occurs twice, or the key is longer than 64 bytes.
        """
        self.candidates = in_order(candidates)
        self.key = key.encode()
        if len(self.key) > MAX_KEY_BYTES:
            raise ValueError(f"the key {key[:20]!r}... has {len(self.key)} bytes; {MAX_KEY_BYTES} are allowed")
        self._members = [hash_member(candidate.id, self.key) for candidate in self.candidates]

    def costs(self, partition: str) -> list[float]:
        """The cost of the partition at each of `candidates`: a partition belongs where it costs least."""
        word = hash_partition(partition, self.key)
        return [exponential(pair(word, member)) / float(candidate.weight)
                for candidate, member in zip(self.candidates, self._members, strict=True)]

    def ranking(self, partition: str) -> tuple[Candidate, ...]:
        """All candidates, best first; a tie goes to the lower id."""
        costs = self.costs(partition)
        order = sorted(range(len(costs)), key=costs.__getitem__)          # stable, and candidates are in order of ids
        return tuple(self.candidates[at] for at in order)

    def place(self, partition: str, k: int, *, spread: bool = False) -> Placed:
        """The `k` best candidates. spread: each from the zones that have the fewest replicas so far.

        Raises:
            ValueError: k is below 1.
        """
        _check(k)
        ranking = self.ranking(partition)
        return Placed(_spread(ranking, k) if spread else ranking[:k], k)

    def assign(
        self, partitions: Sequence[str], k: int = 1, *, spread: bool = False,
    ) -> numpy.typing.NDArray[numpy.int32]:
        """The same for many partitions at once: a row a partition of `k` indexes into `candidates`, -1 for none.

        Raises:
            ValueError: k is below 1.
            ImportError: numpy is missing; it comes with the extra `placement`.
        """
        _check(k)
        try:
            from jgroups_py.blocks.placement.vectors import assign
        except ImportError as error:
            raise ImportError("Placement.assign needs numpy: pip install jgroups_py[placement]") from error
        words = [hash_partition(partition, self.key) for partition in partitions]
        zones = [candidate.zone for candidate in self.candidates] if spread else None
        return assign(words, self._members, [float(candidate.weight) for candidate in self.candidates], k, zones)


def _check(k: int) -> None:
    if k < 1:
        raise ValueError(f"{k} replicas: a partition has 1 or more")


def _spread(ranking: Sequence[Candidate], k: int) -> tuple[Candidate, ...]:
    """The best of the zones that have fewest, `k` times."""
    left = list(ranking)
    held = dict.fromkeys((candidate.zone for candidate in ranking), 0)
    chosen: list[Candidate] = []
    while left and len(chosen) < k:
        best = min(left, key=lambda candidate: held[candidate.zone])      # the first of equals, so the best ranked
        left.remove(best)
        held[best.zone] += 1
        chosen.append(best)
    return tuple(chosen)
