"""Grouping the rows of a record batch by columns of few values: the inner loop of every digest, without a Python loop.

Each column becomes small integer codes (the indices of its dictionary if it has one), the codes of a row one number,
and a stable sort by that number brings the rows of a group together in the order in which they were recorded.
"""
from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
FEW_CODES = 1 << 16                      # numpy sorts 16-bit integers by counting, which is several times as fast
MOST_PASSES = 32                         # up to so many codes, one pass over the rows for each is faster than a sort
CODE_LIMIT = 1 << 62
MOST_CUTS, FEW_CUTS = 4, 1024            # `Groups.cut` does not sort if it makes at most 4 times as many groups + 1024


@attrs.frozen
class Groups:
    """Rows sorted by group. order: positions in the batch; starts: where in `order` each group begins, and its end."""

    order: Numbers
    starts: Numbers

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def firsts(self) -> Numbers:
        """The position of each group's first row in the batch."""
        return self.order[self.starts[:-1]]

    @property
    def lengths(self) -> Numbers:
        """How many rows each group has."""
        return np.diff(self.starts)

    @property
    def number(self) -> Numbers:
        """For each row in `order`, the number of its group."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def only(self, wanted: NDArray[np.bool_]) -> Groups:
        """The groups for which `wanted` (one value a group) is true."""
        if wanted.all():
            return self
        return Groups(self.order[np.repeat(wanted, self.lengths)], np.append(0, np.cumsum(self.lengths[wanted])))

    def cut(self, values: Numbers) -> Groups:
        """These groups, cut into smaller ones of equal `values` (one for each row, in `order`).

        Values mostly grow from row to row, so groups are cut where the value changes, which needs no sorting. One value
        may then have several groups; if that makes far more groups than there were, the rows are sorted instead.
        """
        starts = np.union1d(self.starts, np.flatnonzero(changes(values)))
        if len(starts) <= MOST_CUTS * len(self.starts) + FEW_CUTS:
            return Groups(self.order, starts)
        order = np.lexsort((values, self.number))
        return Groups(self.order[order], np.union1d(self.starts, np.flatnonzero(changes(values[order]))))


def changes(values: NDArray[Any]) -> NDArray[np.bool_]:
    """For each value, whether it differs from the one before it; true for the first one."""
    found = np.ones(len(values), bool)
    found[1:] = values[1:] != values[:-1]
    return found


def column(table: Any, name: str) -> Any:
    """A column of a batch or table, as one array."""
    found = table.column(name)
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def numbers(table: Any, name: str) -> Numbers:
    """A column of whole numbers; null becomes 0."""
    found = column(table, name)
    if found.null_count:
        found = found.fill_null(0)
    return np.asarray(found.to_numpy(zero_copy_only=False), np.int64)


def codes(array: Any) -> tuple[Numbers, int]:
    """A small number for each value, equal for equal values, and how many there may be. Null is a value."""
    found, size = _indices(array)
    return found.astype(np.int64), size


def _indices(array: Any) -> tuple[NDArray[Any], int]:
    """The same, in the integer type of the dictionary's indices."""
    nulls = array.null_count
    if nulls == len(array):
        return np.zeros(len(array), np.int32), 1
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    size = len(array.dictionary) + (nulls > 0)
    if size == 1:
        return np.zeros(len(array), np.int32), 1
    found = array.indices.fill_null(len(array.dictionary)) if nulls else array.indices
    return found.to_numpy(zero_copy_only=False), size


def group(table: Any, names: Sequence[str], more: Sequence[tuple[Numbers, int]] = ()) -> Groups:
    """Group rows by columns. more: further (codes, number of codes) that are not a column."""
    every = [*(_indices(column(table, name)) for name in names), *more]
    every = [(found, count) for found, count in every if count > 1]
    if prod(count for _, count in every) <= FEW_CODES:
        small = np.zeros(len(table), np.uint16)
        for found, count in every:
            small *= np.uint16(count)
            small += found.astype(np.uint16)
        return _counted(small)
    combined = np.zeros(len(table), np.int64)
    size = 1
    for found, count in every:
        if size * count >= CODE_LIMIT:
            _, combined = np.unique(combined, return_inverse=True)
            size = int(combined.max(initial=0)) + 1
        combined = combined * count + found
        size *= count
    return _sorted(combined)


def _counted(keys: NDArray[np.uint16]) -> Groups:
    """Groups of equal 16-bit codes."""
    counts = np.bincount(keys)
    present = np.flatnonzero(counts)
    starts = np.append(0, np.cumsum(counts[present]))
    if len(present) <= MOST_PASSES:
        passes = [np.flatnonzero(keys == np.uint16(code)) for code in present.tolist()]
        return Groups(np.concatenate(passes) if passes else np.zeros(0, np.int64), starts)
    return Groups(np.argsort(keys, kind="stable"), starts)


def _sorted(keys: Numbers) -> Groups:
    """Groups of equal codes of any size."""
    order = np.argsort(keys, kind="stable")
    return Groups(order, np.append(np.flatnonzero(changes(keys[order])), len(keys)))


def take(table: Any, names: Sequence[str], positions: Numbers) -> list[Any]:
    """The values of columns at these positions; dictionaries are decoded to strings."""
    index = pa.array(positions)
    found = [column(table, name).take(index) for name in names]
    return [each.dictionary_decode() if pa.types.is_dictionary(each.type) else each for each in found]
