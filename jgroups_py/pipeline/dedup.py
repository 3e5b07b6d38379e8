"""Which row of which query a message carries, and which receivers have it: how they take each row of a sink once.

A Spark task may run twice (retried, or its whole batch after a restart), and each run multicasts its rows. A row is
(query, epoch, partition, number), the same in every run; it travels in one application header. A receiver asks its
`Deduplicator` whether a message is new. Needs nothing of Spark.
"""
from __future__ import annotations

import struct
from collections.abc import Mapping

import attrs

from jgroups_py.model.errors import WireError
from jgroups_py.windows.ranges import Ranges

HEADER_ID = 900
"""Of the application's headers, by default."""
_ROW = struct.Struct(">B16sqIQ")
_VERSION = 1
KEPT_EPOCHS = 64


@attrs.frozen
class Row:
    """Where a message comes from. query: 16 bytes; epoch: the batch's number."""

    query: bytes
    epoch: int
    partition: int
    number: int

    def encode(self) -> bytes:
        """As the header's bytes.

        >>> row = Row(bytes(16), 7, 2, 41)
        >>> Row.decode(row.encode()) == row, len(row.encode())
        (True, 37)
        """
        return _ROW.pack(_VERSION, self.query, self.epoch, self.partition, self.number)

    @classmethod
    def decode(cls, data: bytes) -> Row:
        """Raises:
            WireError: these are no such bytes.
        """
        if len(data) != _ROW.size or data[0] != _VERSION:
            raise WireError(f"{len(data)} bytes are no row of a sink: {_ROW.size} bytes of version {_VERSION} are")
        return cls(*_ROW.unpack(data)[1:])


class Deduplicator:
    """A receiver's memory of rows: ranges by query, epoch and partition; the newest epochs of each query only.

    >>> seen, headers = Deduplicator(), {HEADER_ID: Row(bytes(16), 0, 0, 5).encode()}
    >>> seen.is_new(headers), seen.is_new(headers), seen.is_new({})
    (True, False, True)
    """

    def __init__(self, header_id: int = HEADER_ID, kept_epochs: int = KEPT_EPOCHS) -> None:
        self.header_id, self.kept_epochs = header_id, kept_epochs
        self.doubles = 0                                        # messages that were not new
        self._seen: dict[bytes, dict[int, dict[int, Ranges]]] = {}     # query -> epoch -> partition -> rows

    def is_new(self, headers: Mapping[int, bytes]) -> bool:
        """Whether a message with these headers is to be taken; one that no sink sent always is."""
        data = headers.get(self.header_id)
        if data is None:
            return True
        row = Row.decode(data)
        epochs = self._seen.setdefault(row.query, {})
        if row.epoch not in epochs:
            if len(epochs) >= self.kept_epochs and row.epoch < min(epochs):
                self.doubles += 1
                return False                                # long over; a batch is run again only if it was the last
            epochs[row.epoch] = {}
            while len(epochs) > self.kept_epochs:
                del epochs[min(epochs)]
        rows = epochs[row.epoch].setdefault(row.partition, Ranges())
        if row.number in rows:
            self.doubles += 1
            return False
        rows.add(row.number, row.number + 1)
        return True
