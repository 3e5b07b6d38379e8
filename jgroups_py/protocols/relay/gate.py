"""Keeps back what the application multicasts while the hold is full, where a stack says `on_full=block`.

Against R5, for those to whom a lost message is worse than a late one: senders of this site wait for other sites. What
waits counts as pending, so the channel's send queue fills up behind it and `send` blocks, as with flow control.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Callable

from jgroups_py.batch import NO_RELAY, Batch


class Gate:
    """A queue before the numbering of our multicasts. `onward` numbers a batch and passes it down."""

    def __init__(self, onward: Callable[[Batch], None]) -> None:
        self.onward = onward
        self.closed = False
        self.waiting: deque[Batch] = deque()
        self.nbytes = 0
        self.unnumbered = 0                       # messages among what waits that will be numbered

    def keep(self, batch: Batch) -> None:
        """While the gate is closed: a batch that waits, behind what waits already."""
        self.waiting.append(batch)
        self.nbytes += batch.nbytes
        self.unnumbered += 0 if batch.flags & NO_RELAY else batch.count

    def shut(self, closed: bool) -> None:
        """What the relay says: the hold is full, or there is room again."""
        self.closed = closed
        while self.waiting and not closed:
            batch = self.waiting.popleft()
            self.nbytes -= batch.nbytes
            self.unnumbered -= 0 if batch.flags & NO_RELAY else batch.count
            self.onward(batch)
