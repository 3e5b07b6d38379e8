"""Arrays of numbers inside a table's cells, as binary: what a digest carries for a block of messages at once."""
from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_HALF = 1 << 31


def pack(values: Any, kind: str = "<i8") -> bytes:
    """Numbers as little-endian bytes."""
    return np.ascontiguousarray(values, np.dtype(kind)).tobytes()


def unpack(data: bytes | None, kind: str = "<i8") -> NDArray[Any]:
    """What `pack` was given."""
    return np.frombuffer(data or b"", np.dtype(kind))


def pack_times(times: NDArray[np.int64]) -> tuple[int, bytes]:
    """Times as (the first one, the ways from each to the next): these in 4 bytes if all are below 2 seconds, else in
    8."""
    ways = np.diff(times)
    return int(times[0]), pack(ways, "<i4" if ways.min(initial=0) >= -_HALF and ways.max(initial=0) < _HALF else "<i8")


def unpack_times(first: int, data: bytes, count: int) -> NDArray[np.int64]:
    """What `pack_times` was given. count: how many there were."""
    times = np.empty(count, np.int64)
    times[0] = first
    times[1:] = unpack(data, "<i4" if len(data) == 4 * (count - 1) else "<i8")
    return np.cumsum(times)


def joined(pieces: list[bytes], kind: str = "<i8") -> NDArray[Any]:
    """Several of them, one behind the other."""
    return np.frombuffer(b"".join(pieces), np.dtype(kind))
