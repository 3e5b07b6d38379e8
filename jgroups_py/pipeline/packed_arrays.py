"""Arrays of numbers in one cell of a table, as binary: a digest has one such cell for a whole block of messages."""
from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_HALF = 1 << 31


def pack(values: Any, kind: str = "<i8") -> bytes:
    """Numbers as little-endian bytes."""
    return np.ascontiguousarray(values, np.dtype(kind)).tobytes()


def unpack(data: bytes | None, kind: str = "<i8") -> NDArray[Any]:
    """The numbers that `pack` was given."""
    return np.frombuffer(data or b"", np.dtype(kind))


def pack_times(times: NDArray[np.int64]) -> tuple[int, bytes]:
    """Times (ns) as (the first one, the steps from each to the next). A step takes 4 bytes if all are below 2.1 s, else
    8."""
    steps = np.diff(times)
    small = steps.min(initial=0) >= -_HALF and steps.max(initial=0) < _HALF
    return int(times[0]), pack(steps, "<i4" if small else "<i8")


def unpack_times(first: int, data: bytes, count: int) -> NDArray[np.int64]:
    """The times that `pack_times` was given. count: how many there were."""
    times = np.empty(count, np.int64)
    times[0] = first
    times[1:] = unpack(data, "<i4" if len(data) == 4 * (count - 1) else "<i8")
    return np.cumsum(times)


def joined(pieces: list[bytes], kind: str = "<i8") -> NDArray[Any]:
    """The numbers of several packed arrays, one behind the other."""
    return np.frombuffer(b"".join(pieces), np.dtype(kind))
