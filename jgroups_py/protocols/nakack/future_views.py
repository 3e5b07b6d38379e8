"""Batches of views that are not installed here yet: the latest of them, within bounds. Pure.

Members do not install a view at the same moment, and one that has it multicasts in it at once. Dropping such batches
would cost a retransmission per member and view change, although the view is mostly installed here a moment later.
The bounds hold because the source may be outside any view that this member will ever install.
"""
from __future__ import annotations

from collections import deque

from jgroups_py.model.batch import Batch
from jgroups_py.protocols.nakack.headers import MulticastData


class FutureViews:
    """At most `most_batches` batches and `most_bytes` payload bytes, in order of arrival; the oldest make room."""

    __slots__ = ("kept", "most_batches", "most_bytes", "nbytes")

    def __init__(self, most_batches: int, most_bytes: int) -> None:
        self.most_batches = most_batches
        self.most_bytes = most_bytes
        self.kept: deque[tuple[MulticastData, Batch]] = deque()
        self.nbytes = 0

    def put(self, header: MulticastData, batch: Batch) -> list[tuple[MulticastData, Batch]]:
        """Keep a batch. Returns those that were dropped for it, itself included if it is too large.

        Dropping is no loss: in the view that is installed next these numbers are holes, and are requested.
        """
        self.kept.append((header, batch))
        self.nbytes += batch.nbytes
        dropped = []
        while len(self.kept) > self.most_batches or self.nbytes > self.most_bytes:
            dropped.append(self.kept.popleft())
            self.nbytes -= dropped[-1][1].nbytes
        return dropped

    def take(self) -> list[tuple[MulticastData, Batch]]:
        """All of them; none is kept any longer. NAKACK puts back those of a view later than the new one."""
        taken = list(self.kept)
        self.kept.clear()
        self.nbytes = 0
        return taken
