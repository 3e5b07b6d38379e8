"""When a sender that fell silent tells how far it got. Pure."""
from __future__ import annotations

DOUBLINGS = 6


class Silence:
    """Telling after `first_ns` of silence, then twice as long apart each time, until all is stable.

    fresh: nothing was told since the last send, and a tick is due; otherwise the next send must ask for one.
    times: how often to tell at most, 0: without end; told: how often since the last send; seen: what the last tick saw.
    """

    __slots__ = ("first_ns", "fresh", "seen", "times", "told")

    def __init__(self, first_ns: int, times: int) -> None:
        self.first_ns = first_ns
        self.times = times
        self.fresh = False
        self.told = 0
        self.seen = 0

    def broken(self) -> int:
        """Something was sent after silence; the time until the next tick."""
        self.fresh = True
        self.told = 0
        return self.first_ns

    def tick(self, stop: int, low: int) -> tuple[bool, int | None]:
        """Everything below `stop` was sent, below `low` is stable: (whether to tell, time to the next tick or None)."""
        if low == stop or (self.times and self.told >= self.times):
            self.fresh = False
            return False, None
        tell = self.seen == stop
        if tell:
            self.told += 1
            self.fresh = False
        self.seen = stop
        return tell, self.first_ns << min(self.told, DOUBLINGS)
