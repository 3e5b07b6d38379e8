"""What a sender knows of its credit."""
from __future__ import annotations

from collections import deque

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch


class Account:
    """What we sent to one receiver, or to all of a view.

    position: payload bytes passed down so far; marked: where the last mark was set; granted: receiver -> the position
    up to which it has passed everything up; limit: the position that may be reached now, None without receivers;
    queue: what waits for credit; queued_bytes: its payload bytes.
    """

    __slots__ = ("granted", "limit", "marked", "position", "queue", "queued_bytes")

    def __init__(self) -> None:
        self.position = 0
        self.marked = 0
        self.granted: dict[Address, int] = {}
        self.limit: int | None = None
        self.queue: deque[Batch] = deque()
        self.queued_bytes = 0


def fitting(batch: Batch, room: int) -> int:
    """How many of the first messages of `batch` have at most `room` bytes together."""
    number = 0
    for payload in batch.payloads:      # reached only where credit ends inside the run
        room -= len(payload)
        if room < 0:
            break
        number += 1
    return number
