"""When a sender that has nothing more to send announces its last number. Pure.

Negative acknowledgements have one gap: a receiver notices a lost message by the next one, and the last one has no
successor. So its sender multicasts its last number, ever more rarely, until its messages are stable: then all members
have them. Source: JGroups NAKACK2, `resend_last_seqno`.
"""
from __future__ import annotations

DOUBLINGS = 6                        # the interval grows to 64 times the first one


class LastSeqnoAnnouncer:
    """Announcing after `first_ns` without a send, then at intervals that double, until all is stable.

    fresh: nothing was announced since the last send, and a tick is due; otherwise the next send must set one.
    times: how often to announce at most, 0: without a limit; announced: how often since the last send; seen: `stop`
    at the last tick.
    """

    __slots__ = ("announced", "first_ns", "fresh", "seen", "times")

    def __init__(self, first_ns: int, times: int) -> None:
        self.first_ns = first_ns
        self.times = times
        self.fresh = False
        self.announced = 0
        self.seen = 0

    def sent(self) -> int:
        """A message was sent and no tick is due. Returns the time until the next one."""
        self.fresh = True
        self.announced = 0
        return self.first_ns

    def tick(self, stop: int, low: int) -> tuple[bool, int | None]:
        """All below `stop` was sent, all below `low` is stable: (whether to announce, time to next tick or None)."""
        # All is stable, so every member has the last message; or the limit of JGroups' resend_last_seqno_max_times.
        if low == stop or (self.times and self.announced >= self.times):
            self.fresh = False
            return False, None
        # Sends do not move the timer, which would cost each of them: a tick after new sends only waits once more.
        due = self.seen == stop
        if due:
            self.announced += 1
            self.fresh = False
        self.seen = stop
        return due, self.first_ns << min(self.announced, DOUBLINGS)
