"""Bytes that leave as far as the receiver has asked for them: the sending side of a state."""
from __future__ import annotations

from collections import deque


class PacedBytes:
    """What was written and may not leave yet.

    sent: bytes that went out; stop: up to which byte the receiver asked.
    """

    __slots__ = ("queue", "queued_bytes", "sent", "stop")

    def __init__(self) -> None:
        self.queue: deque[bytes] = deque()
        self.queued_bytes = 0
        self.sent = 0
        self.stop = 0

    def write(self, data: bytes) -> None:
        """The next bytes."""
        if data:
            self.queue.append(data)
            self.queued_bytes += len(data)

    def read(self) -> bytes | None:
        """The next bytes that may go out, None if there are none."""
        room = self.stop - self.sent
        if not self.queue or room <= 0:
            return None
        data = self.queue.popleft()
        if len(data) > room:
            self.queue.appendleft(data[room:])
            data = data[:room]
        self.queued_bytes -= len(data)
        self.sent += len(data)
        return data
