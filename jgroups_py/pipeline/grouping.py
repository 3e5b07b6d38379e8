"""Grouping the rows of a record batch by columns of few values: the inner loop of every digest, without a Python loop.

Columns become small integer codes (a dictionary's own indices where there is one), the codes one number a row, and a
stable sort by that number brings the rows of a group together in the order in which they were recorded.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
RADIX_LIMIT = 1 << 16                    # numpy sorts 16-bit integers by counting, which is several times as fast
CODE_LIMIT = 1 << 62


@attrs.frozen
class Groups:
    """Rows sorted by group. order: positions in the batch; starts: where in `order` a group begins, and the end."""

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
        """Of each row in `order`: which group it is in."""
        return np.repeat(np.arange(len(self)), self.lengths)


def column(table: Any, name: str) -> Any:
    """One array of a batch or table."""
    found = table.column(name)
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def numbers(table: Any, name: str) -> Numbers:
    """A column of whole numbers; 0 where there is none."""
    found = column(table, name)
    if found.null_count:
        found = found.fill_null(0)
    return np.asarray(found.to_numpy(zero_copy_only=False), np.int64)


def codes(array: Any) -> tuple[Numbers, int]:
    """A small number for each value, equal for equal values, and how many there may be. Null is a value."""
    nulls = array.null_count
    if nulls == len(array):
        return np.zeros(len(array), np.int64), 1
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    size = len(array.dictionary) + (nulls > 0)
    if size == 1:
        return np.zeros(len(array), np.int64), 1
    found = array.indices.fill_null(len(array.dictionary)) if nulls else array.indices
    return found.to_numpy(zero_copy_only=False).astype(np.int64), size


def group(table: Any, names: Sequence[str], more: Sequence[tuple[Numbers, int]] = ()) -> Groups:
    """Group rows by columns; `more`: codes made elsewhere, with their number."""
    combined = np.zeros(len(table), np.int64)
    size = 1
    for found, count in [*(codes(column(table, name)) for name in names), *more]:
        if count == 1:
            continue
        if size * count >= CODE_LIMIT:
            _, combined = np.unique(combined, return_inverse=True)
            size = int(combined.max(initial=0)) + 1
        combined = combined * count + found
        size *= count
    return sorted_groups(combined, size)


def sorted_groups(combined: Numbers, size: int) -> Groups:
    """Groups of equal codes below `size`."""
    keys = combined.astype(np.uint16) if size <= RADIX_LIMIT else combined
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1]))) if len(keys) else np.zeros(0, int)
    return Groups(order, np.append(starts, len(keys)))


def take(table: Any, names: Sequence[str], positions: Numbers) -> list[Any]:
    """Columns at these positions, strings where there are dictionaries."""
    index = pa.array(positions)
    found = [column(table, name).take(index) for name in names]
    return [each.dictionary_decode() if pa.types.is_dictionary(each.type) else each for each in found]
