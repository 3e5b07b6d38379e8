"""Keeps back what the application multicasts while the hold is full, where a stack says `on_full=block`, and while a
state of another site is on its way.

Against R5, for those to whom a lost message is worse than a late one: senders of this site wait for other sites. What
waits counts as pending, so the channel's send queue fills up behind it and `send` blocks, as with flow control.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Callable

from jgroups_py.batch import NO_RELAY, Batch

FULL = "full hold"


class Gate:
    """A queue before the numbering of our multicasts. `onward` numbers a batch and passes it down."""

    def __init__(self, onward: Callable[[Batch], None]) -> None:
        self.onward = onward
        self.closed = False
        self.reasons: dict[str, None] = {}
        self.waiting: deque[Batch] = deque()
        self.nbytes = 0
        self.unnumbered = 0                       # messages among what waits that will be numbered

    def keep(self, batch: Batch) -> None:
        """While the gate is closed: a batch that waits, behind what waits already."""
        self.waiting.append(batch)
        self.nbytes += batch.nbytes
        self.unnumbered += 0 if batch.flags & NO_RELAY else batch.count

    def shut(self, closed: bool, why: str = FULL) -> None:
        """Close it, or take that reason away: the last one opens it. The relay says whether its hold is full."""
        if closed:
            self.reasons[why] = None
        else:
            self.reasons.pop(why, None)
        self.closed = bool(self.reasons)
        while self.waiting and not self.closed:
            batch = self.waiting.popleft()
            self.nbytes -= batch.nbytes
            self.unnumbered -= 0 if batch.flags & NO_RELAY else batch.count
            self.onward(batch)
