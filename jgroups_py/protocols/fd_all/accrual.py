"""When a silence is longer than what is usual of a member: an accrual failure detector.

Heartbeats come at a fixed pace, but stalls, other work and the network spread them. How far is learned of each member:
mean and variance of the times between two of its heartbeats, newer ones weighing more. A silence is suspicious once
it is as improbable as PHI_SPREADS deviations above the mean, and not before a least time: so a member whose heartbeats
are often late is given longer by itself. A member that sends none at this pace (an older version) is never suspected.

Source: Hayashibara and others, "The phi accrual failure detector" (2004); phi 8 of its normal distribution is
PHI_SPREADS. Deviations: a threshold on time instead of a level that applications read; moments instead of a window.
"""
from __future__ import annotations

from math import sqrt

WEIGHT = 16                              # a new time between two heartbeats weighs 1/16
LEAST_SAMPLES = 8                        # before so many nothing is known of a member
PHI_SPREADS = 5.6                        # P(longer) is 10 ** -8


class ArrivalTimes:
    """The heartbeats of one member. last_ns: when the last one came; samples: times between two so far."""

    __slots__ = ("last_ns", "mean_ns", "samples", "variance")

    def __init__(self) -> None:
        self.last_ns = 0
        self.samples = 0
        self.mean_ns = 0.0
        self.variance = 0.0

    def arrived(self, now_ns: int) -> None:
        """A heartbeat came."""
        if self.last_ns:
            between_ns = now_ns - self.last_ns
            weight = min(WEIGHT, self.samples + 1)
            off_ns = between_ns - self.mean_ns
            self.mean_ns += off_ns / weight
            if self.samples:
                self.variance += (off_ns * off_ns - self.variance) / weight
            self.samples += 1
        self.last_ns = now_ns

    def pause(self) -> None:
        """This process did not run: the time up to the next heartbeat says nothing about the other member."""
        self.last_ns = 0

    def limit_ns(self, least_ns: int) -> int | None:
        """The silence that is suspicious, `least_ns` or more; None: too little is known."""
        if self.samples < LEAST_SAMPLES:
            return None
        return max(least_ns, int(self.mean_ns + PHI_SPREADS * sqrt(self.variance)))
