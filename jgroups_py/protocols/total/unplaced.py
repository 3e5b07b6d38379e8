"""The multicasts of one sender that have no place in the order yet, in its own order. Pure."""
from __future__ import annotations

from collections import deque

from jgroups_py.model.batch import Batch


class Unplaced:
    """A queue of batches from which any number of messages can be taken.

    None in it stands for a message that was dropped here while other members have it: it takes a place all the same.
    count, nbytes: of what is in it; taken: how many were taken so far.
    """

    __slots__ = ("batches", "count", "nbytes", "taken")

    def __init__(self) -> None:
        self.batches: deque[Batch | None] = deque()
        self.count = 0
        self.nbytes = 0
        self.taken = 0

    def put(self, batch: Batch) -> None:
        """Append a batch."""
        self.batches.append(batch)
        self.count += len(batch.payloads) or 1
        self.nbytes += batch.nbytes

    def put_dropped(self) -> None:
        """Append the mark of a message that was dropped here."""
        self.batches.append(None)
        self.count += 1

    def take(self, number: int) -> list[Batch | None]:
        """The first `number` messages, which are there, in as few batches as they came in."""
        taken: list[Batch | None] = []
        self.count -= number
        self.taken += number
        while number:
            batch = self.batches.popleft()
            size = 1 if batch is None else len(batch.payloads) or 1
            if batch is not None and size > number:
                self.batches.appendleft(batch.cut(number, size))
                batch, size = batch.cut(0, number), number
            taken.append(batch)
            number -= size
            self.nbytes -= 0 if batch is None else batch.nbytes
        return taken
