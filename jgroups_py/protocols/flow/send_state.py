"""What a sender tracks of the bytes that it sent, and of the bytes that its receivers allow."""
from __future__ import annotations

from collections import deque

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.windows.path import PathWindow


class SendState:
    """The state of one stream: the unicasts to one receiver, or the multicasts to a view.

    position: payload bytes passed down so far; marked: position of the last mark; granted: receiver -> the position up
    to which it has passed everything up; limit: the highest position allowed, None without receivers; queue: batches
    above the limit; queued_bytes: their payload bytes; window: how many may be under way; timed: the marks that not
    all have granted yet, ascending: (position, when it was set, the lowest position granted then).
    """

    __slots__ = ("granted", "limit", "marked", "position", "queue", "queued_bytes", "timed", "window")

    def __init__(self, window: PathWindow) -> None:
        self.position = 0
        self.marked = 0
        self.granted: dict[Address, int] = {}
        self.limit: int | None = None
        self.queue: deque[Batch] = deque()
        self.queued_bytes = 0
        self.window = window
        self.timed: deque[tuple[int, int, int]] = deque()


def messages_within(batch: Batch, room: int) -> int:
    """How many of the first messages of `batch` have at most `room` payload bytes together."""
    number = 0
    for payload in batch.payloads:      # only where the limit lies inside the batch
        room -= len(payload)
        if room < 0:
            break
        number += 1
    return number
