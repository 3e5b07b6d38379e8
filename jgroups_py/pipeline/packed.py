"""Arrays of numbers inside a table's cells, as binary: what a digest carries for a block of messages at once."""
from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def pack(values: Any, kind: str = "<i8") -> bytes:
    """Numbers as little-endian bytes."""
    return np.ascontiguousarray(values, np.dtype(kind)).tobytes()


def unpack(data: bytes | None, kind: str = "<i8") -> NDArray[Any]:
    """What `pack` was given."""
    return np.frombuffer(data or b"", np.dtype(kind))


def joined(pieces: list[bytes], kind: str = "<i8") -> NDArray[Any]:
    """Several of them, one behind the other."""
    return np.frombuffer(b"".join(pieces), np.dtype(kind))
