"""How many bytes may be under way on a path: what its bandwidth times its delay comes to, between two bounds.

A constant window carries window / round trip bytes a second, whatever the path could: 4 MB over 200 ms are 20 MB/s. So
the window follows what is measured. When bytes are acknowledged, the caller reports when they were sent and how much
was acknowledged since then: that much was under way, and took this round trip. At the shortest round trip of late the
same rate needs `under way * shortest / this one` bytes; the window is GAIN times that. While nothing queues on the path
this doubles the window each round trip; once a queue adds as much time as the path itself takes, it stays.

So a receiver that falls behind is not sent more: its answers take longer, and the window goes back to `least`. In a
local network answers queue from the first bytes on, so it stays at `least` there.

Source: TCP Vegas (the ratio of the shortest round trip to the present one), BBR (the product of bandwidth and delay;
the pause in which the queue drains: once a queue stands, the shortest round trip could not be measured otherwise).
"""
from __future__ import annotations

from jgroups_py.model.units import seconds

GAIN = 2                        # a window of twice what is under way finds out whether the path carries more
LOWERING = 4                    # a smaller target weighs a quarter each shortest round trip: one late answer is no path
SMALLEST = 64 << 10            # bytes under way while the queue drains, at least
PERIOD_NS = seconds(10)         # the shortest round trip is that of this period and the one before it
LEAST_TRIPS = 16                # a period has so many round trips: measuring costs one of them


class PathWindow:
    """The window of one stream, in bytes; see the module.

    nbytes: the window. least, most: its bounds; equal ones make it constant. shortest_ns: the shortest round trip of
    this period, before_ns: of the one before, 0: none was measured.
    """

    __slots__ = ("before_ns", "least", "lowered_ns", "most", "nbytes", "period_ns", "shortest_ns", "steady_ns")

    def __init__(self, least: int, most: int) -> None:
        self.nbytes = self.least = least
        self.most = max(least, most)
        self.shortest_ns = self.before_ns = 0
        self.period_ns = 0                   # when this period began
        self.lowered_ns = 0                  # when the window was last made smaller
        self.steady_ns = 0                   # until then it does not grow: the queue on the path drains

    @property
    def trip_ns(self) -> int:
        """The shortest round trip of late; 0: none was measured."""
        return min(self.shortest_ns, self.before_ns) if self.before_ns else self.shortest_ns

    def acknowledged(self, now_ns: int, sent_ns: int, passed_bytes: int) -> None:
        """What was sent at `sent_ns` is acknowledged now; `passed_bytes` were acknowledged since, it included."""
        if self.most == self.least:
            return
        trip_ns = max(1, now_ns - sent_ns)
        if self.shortest_ns and now_ns - self.period_ns < max(PERIOD_NS, LEAST_TRIPS * trip_ns):
            self.shortest_ns = min(self.shortest_ns, trip_ns)
        else:
            self.before_ns, self.shortest_ns, self.period_ns = self.shortest_ns, trip_ns, now_ns
            if trip_ns > self.trip_ns:
                self._drain(now_ns, trip_ns, passed_bytes)
        if now_ns < self.steady_ns:
            return
        target = min(max(GAIN * passed_bytes * self.trip_ns // trip_ns, self.least), self.most)
        if target > self.nbytes:
            self.nbytes = target
        elif now_ns - self.lowered_ns >= self.trip_ns:
            self.lowered_ns = now_ns
            self.nbytes -= (self.nbytes - target) // LOWERING

    def _drain(self, now_ns: int, trip_ns: int, passed_bytes: int) -> None:
        """A period begins: until what is under way now is acknowledged, half of what the path seems to hold is all that
        may be, even if that is below `least`. So the queue of our own drains, and the round trips that follow show the
        path without it; one that has become shorter is found out by halves."""
        self.nbytes = min(self.nbytes, max(SMALLEST, passed_bytes * self.trip_ns // trip_ns // 2))
        self.steady_ns = now_ns + trip_ns
