"""Runs that came before the view they belong to was installed here: the latest of them, within bounds. Pure."""
from __future__ import annotations

from collections import deque

from jgroups_py.batch import Batch
from jgroups_py.protocols.nakack.headers import Data


class Early:
    """At most `most_runs` runs and `most_bytes` payload bytes, in order of arrival; the oldest make room."""

    __slots__ = ("kept", "most_bytes", "most_runs", "nbytes")

    def __init__(self, most_runs: int, most_bytes: int) -> None:
        self.most_runs = most_runs
        self.most_bytes = most_bytes
        self.kept: deque[tuple[Data, Batch]] = deque()
        self.nbytes = 0

    def put(self, header: Data, batch: Batch) -> int:
        """Keep a run; how many were dropped for it, itself included if it is too large."""
        self.kept.append((header, batch))
        self.nbytes += batch.nbytes
        dropped = 0
        while len(self.kept) > self.most_runs or self.nbytes > self.most_bytes:
            self.nbytes -= self.kept.popleft()[1].nbytes
            dropped += 1
        return dropped

    def take(self) -> list[tuple[Data, Batch]]:
        """All of them; none are kept any longer."""
        taken = list(self.kept)
        self.kept.clear()
        self.nbytes = 0
        return taken
