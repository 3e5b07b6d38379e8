"""Bytes that are sent only as far as the receiver has requested them: the sending side of a state transfer."""
from __future__ import annotations

from collections import deque


class PacedBytes:
    """What was written and may not be sent yet.

    sent: bytes that were read out; stop: the receiver's requests cover the bytes below this offset.
    """

    __slots__ = ("queue", "queued_bytes", "sent", "stop")

    def __init__(self) -> None:
        self.queue: deque[bytes] = deque()
        self.queued_bytes = 0
        self.sent = 0
        self.stop = 0

    def write(self, data: bytes) -> None:
        """Append bytes."""
        if data:
            self.queue.append(data)
            self.queued_bytes += len(data)

    def read(self) -> bytes | None:
        """The next bytes that may be sent; None: there are none, or the receiver has requested no more."""
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
