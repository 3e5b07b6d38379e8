"""How receivers of the sink's messages take each row once.

A Spark task may run twice (retried, or its whole batch after a restart), and each run multicasts its rows. A row is
identified by (query, epoch, partition, number), which is the same in every run and travels in one application header. A
receiver asks its `Deduplicator` whether a message is new. Imports nothing of Spark.
"""
from __future__ import annotations

import struct
from collections.abc import Mapping

import attrs

from jgroups_py.model.errors import WireError
from jgroups_py.windows.ranges import Ranges

HEADER_ID = 900
"""Id of the application header that carries the row, by default."""
_ROW = struct.Struct(">B16sqIQ")
_VERSION = 1
KEPT_EPOCHS = 64


@attrs.frozen
class Row:
    """The row that a message carries. query: 16 bytes; epoch: the batch's number; number: of the row in its
    partition."""

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
            WireError: the bytes are no encoded row.
        """
        if len(data) != _ROW.size or data[0] != _VERSION:
            raise WireError(f"{len(data)} bytes are no row of a sink: expected {_ROW.size} bytes of version {_VERSION}")
        return cls(*_ROW.unpack(data)[1:])


class Deduplicator:
    """The rows that a receiver has, as ranges by query, epoch and partition, for the newest epochs of each query.

    >>> seen, headers = Deduplicator(), {HEADER_ID: Row(bytes(16), 0, 0, 5).encode()}
    >>> seen.is_new(headers), seen.is_new(headers), seen.is_new({})
    (True, False, True)
    """

    def __init__(self, header_id: int = HEADER_ID, kept_epochs: int = KEPT_EPOCHS) -> None:
        self.header_id, self.kept_epochs = header_id, kept_epochs
        self.duplicates = 0                                     # messages that were not new
        self._seen: dict[bytes, dict[int, dict[int, Ranges]]] = {}     # query -> epoch -> partition -> rows

    def is_new(self, headers: Mapping[int, bytes]) -> bool:
        """Whether a message with these headers is new; its row counts as seen from then on.

        A message that no sink sent is always new.
        """
        data = headers.get(self.header_id)
        if data is None:
            return True
        row = Row.decode(data)
        epochs = self._seen.setdefault(row.query, {})
        if row.epoch not in epochs:
            if len(epochs) >= self.kept_epochs and row.epoch < min(epochs):
                self.duplicates += 1
                return False                                # a batch long done; only the last one is ever run again
            epochs[row.epoch] = {}
            while len(epochs) > self.kept_epochs:
                del epochs[min(epochs)]
        rows = epochs[row.epoch].setdefault(row.partition, Ranges())
        if row.number in rows:
            self.duplicates += 1
            return False
        rows.add(row.number, row.number + 1)
        return True
