"""The same draws for a million partitions at once, with numpy: bit for bit what draws.py gives one by one.

Every numpy operation here is one IEEE operation on each element (or integer arithmetic modulo 2^64), in the order of
draws.py; numpy does not fuse separate calls. A block of partitions stays in the processor's cache through all of them.
"""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jgroups_py.blocks.placement.draws import DRAW_SHIFT, LN_2, MIX, SCALE_BITS, SERIES, SHIFTS, SQRT_HALF, MemberKey

BLOCK = 8192                               # partitions at a time: 64 KB an array; measured, 4096 to 16384 are alike
MANTISSA_BITS = np.uint64(52)
MANTISSA_MASK = np.uint64((1 << 52) - 1)
BIAS = 1022                                # of the exponent of a mantissa from 0.5 to 1
HALF = np.uint64(BIAS << 52)
NOWHERE = np.float64(np.inf)

Words = NDArray[np.uint64]
Floats = NDArray[np.float64]


def assign(
    words: Sequence[int], members: Sequence[MemberKey], weights: Sequence[float], k: int, zones: Sequence[str] | None,
) -> NDArray[np.int32]:
    """For each partition's hash the indexes of its k members, -1 where there are fewer."""
    found = np.full((len(words), k), -1, np.int32)
    if not members:
        return found
    every = np.array(words, np.uint64)
    pick = _Picker(len(members), zones)
    for start in range(0, len(every), BLOCK):
        block = every[start:start + BLOCK]
        costs = np.empty((len(members), len(block)))
        for row, member, weight in zip(costs, members, weights, strict=True):
            np.divide(exponentials(pairs(block, member)), weight, out=row)
        for place in range(min(k, len(members))):
            found[start:start + BLOCK, place] = pick.best(costs, first=place == 0)
    return found


def pairs(partitions: Words, member: MemberKey) -> Words:
    """draws.pair."""
    words = partitions ^ np.uint64(member[0])
    _mix(words)
    words ^= np.uint64(member[1])
    _mix(words)
    return words


def _mix(words: Words) -> None:
    for shift, factor in zip(SHIFTS, MIX, strict=False):
        words ^= words >> np.uint64(shift)
        words *= np.uint64(factor)
    words ^= words >> np.uint64(SHIFTS[-1])


def exponentials(words: Words) -> Floats:
    """draws.exponential."""
    odd = ((words >> np.uint64(DRAW_SHIFT)) << np.uint64(1)) | np.uint64(1)
    bits = odd.astype(np.float64).view(np.uint64)
    exponents = (bits >> MANTISSA_BITS).astype(np.float64) - BIAS
    mantissas = ((bits & MANTISSA_MASK) | HALF).view(np.float64)
    low = (mantissas < SQRT_HALF).astype(np.float64)
    mantissas *= low + 1.0                                   # by 1 or 2, so exactly
    exponents -= low
    parts = (mantissas - 1.0) / (mantissas + 1.0)
    squares = parts * parts
    total = np.full_like(squares, SERIES[0])
    for factor in SERIES[1:]:
        total *= squares
        total += factor
    total *= squares
    total += 1.0
    total *= parts
    total *= 2.0
    return (SCALE_BITS - exponents) * LN_2 - total


class _Picker:
    """Takes the cheapest member of each partition, then the next one, ..."""

    def __init__(self, members: int, zones: Sequence[str] | None) -> None:
        names = [""] * members if zones is None else list(zones)
        numbers = {zone: number for number, zone in enumerate(dict.fromkeys(names))}
        self._spread = zones is not None
        self._zone_of = np.array([numbers[zone] for zone in names])
        self._zones = len(numbers)

    def best(self, costs: Floats, *, first: bool) -> NDArray[np.int32]:
        """The index of the best member of each column of `costs`, which is then marked as taken."""
        columns = costs.shape[1]
        if first:
            self._held = np.zeros((self._zones, columns), np.int16)
        least, chosen = np.full(columns, NOWHERE), np.full(columns, -1, np.int32)
        fewest = np.full(columns, np.iinfo(np.int16).max, np.int16)
        for at, row in enumerate(costs):
            better = row < least
            if self._spread:
                held = self._held[self._zone_of[at]]
                better = (held < fewest) & (row < NOWHERE) | (held == fewest) & better
                np.copyto(fewest, held, where=better)
            np.copyto(least, row, where=better)
            chosen[better] = at
        everywhere = np.arange(columns)
        costs[chosen, everywhere] = NOWHERE
        if self._spread:
            self._held[self._zone_of[chosen], everywhere] += 1
        return chosen
