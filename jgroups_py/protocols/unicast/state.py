"""The two ends of a connection, and how long they wait. Pure.

Connections are one-way: what A sends B and what B sends A are two of them. A connection has a number that its sender
never uses twice and that only grows from one connection to the next, so that a receiver can distinguish a new
connection from a late frame of an old one.
"""
from __future__ import annotations

from collections.abc import Iterator

import attrs

from jgroups_py.model.batch import Batch
from jgroups_py.protocols.unicast.config import UnicastConfig
from jgroups_py.protocols.unicast.headers import UnicastData
from jgroups_py.windows.receive import ReceiveWindow
from jgroups_py.windows.send import SendWindow

SMOOTHING = 8                   # a longer round trip weighs 1/8, as in RFC 6298, since some of it may be repair
LOWERING = 2                    # a shorter one weighs 1/2, as nothing makes an answer come too early
MOST_TRIES = 8                  # after so many repetitions the time shows an outage, not a round trip
FIRST_WAIT_DIVISOR = 8          # the first wait is this fraction of xmit_interval, then it doubles up to it
MARGIN_PART = 4                 # a wait is a quarter longer than answers usually take
MOST_INTERVALS = 8              # no wait is longer than so many xmit_intervals, however slow the peer


class RoundTrip:
    """How long a peer's answers usually take, measured by both ends with that peer. usual_ns: 0 until the first sample.

    Unlike TCP (Karn's algorithm) samples of repeated messages count, from the first transmission: the estimate may be
    too long, never too short, and a wait that is too short would repeat what is under way.
    """

    __slots__ = ("usual_ns",)

    def __init__(self) -> None:
        self.usual_ns = 0

    def took(self, sample_ns: int) -> None:
        """An answer came `sample_ns` after the first request."""
        more_ns = sample_ns - self.usual_ns
        self.usual_ns += (more_ns if not self.usual_ns else more_ns // (LOWERING if more_ns < 0 else SMOOTHING))


@attrs.frozen
class WaitTimes:
    """How long to wait for an answer before a repetition, given the peer's usual round trip.

    first_ns: the shortest wait; interval_ns: the longest, unless the round trip is long; most_ns: the longest of all.
    """

    first_ns: int
    interval_ns: int
    most_ns: int

    @classmethod
    def of(cls, config: UnicastConfig) -> WaitTimes:
        """The first wait leaves room for a delayed acknowledgement, or each quiet message would be sent twice."""
        first_ns = max(config.xmit_interval_ns // FIRST_WAIT_DIVISOR, 2 * config.ack_delay_ns)
        interval_ns = max(config.xmit_interval_ns, first_ns)
        return cls(first_ns, interval_ns, MOST_INTERVALS * interval_ns)

    def least_ns(self, trip: RoundTrip) -> int:
        """The first wait. One shorter than the round trip would repeat what is under way, and congest a slow path."""
        return min(max(self.first_ns, trip.usual_ns + trip.usual_ns // MARGIN_PART), self.most_ns)

    def longest_ns(self, trip: RoundTrip) -> int:
        """The longest wait, reached by doubling (exponential backoff)."""
        return min(max(self.interval_ns, 2 * trip.usual_ns), self.most_ns)


class Watch:
    """Times one number at a time: from its first transmission or request to the answer.

    number: 0 while none is timed; since_ns: the first transmission; tries: how often it was repeated since.
    """

    __slots__ = ("number", "since_ns", "tries", "trip")

    def __init__(self, trip: RoundTrip) -> None:
        self.trip = trip
        self.number = self.since_ns = self.tries = 0

    def begin(self, number: int, now_ns: int) -> None:
        """Time `number` from now on."""
        self.number, self.since_ns, self.tries = number, now_ns, 0

    def again(self) -> None:
        """A repetition. After MOST_TRIES the time would show an outage, so it is no longer measured."""
        self.tries += 1
        if self.tries >= MOST_TRIES:
            self.number = 0

    def end(self, now_ns: int) -> None:
        """The answer arrived."""
        self.number = 0
        self.trip.took(now_ns - self.since_ns)


class Outgoing:
    """The sending end.

    armed: the resend timer is set; wait_ns: its next delay; tick_low: `window.low` when it was set; moved_ns: when
    acknowledgements last moved; used: something was sent since the last sweep of idle connections;
    unacknowledged_bytes: payload bytes sent to a peer outside the view since an acknowledgement last moved
    `window.low`; watch: times an acknowledgement.
    """

    __slots__ = ("armed", "connection", "moved_ns", "tick_low", "unacknowledged_bytes", "used", "wait_ns", "watch",
                 "window")

    def __init__(self, connection: int, wait_ns: int, trip: RoundTrip) -> None:
        self.connection = connection
        self.window = SendWindow()
        self.armed = False
        self.wait_ns = wait_ns
        self.tick_low = 0
        self.moved_ns = 0
        self.watch = Watch(trip)
        self.unacknowledged_bytes = 0
        self.used = True

    def again(self, first: int, stop: int) -> Iterator[Batch]:
        """What is kept of `first` to `stop`, to be sent again, with headers that carry the present base."""
        low = self.window.low
        for number, batch in self.window.between(first, stop):
            header = UnicastData(self.connection, number, low)
            yield Batch(batch.src, batch.dest, batch.payloads, (*batch.headers[:-1], header), batch.flags)


class Incoming:
    """The receiving end.

    unacked: messages delivered since the last acknowledgement; due_ns: when the timer for holes fires, 0 if it is not
    set; ask_stop: holes below it existed when the timer was set; asked_stop: holes below it were requested in this
    round; again_ns: when the next round begins; wait_ns: how long a round is; asked_next: `window.next` when it
    began; asked, came: how many messages were requested in this round, and how many arrived; quota: how many may be
    requested in a round; used: something arrived since the last sweep of idle connections; watch: times a missing
    message.
    """

    __slots__ = ("again_ns", "ask_stop", "asked", "asked_next", "asked_stop", "came", "connection", "due_ns", "quota",
                 "unacked", "used", "wait_ns", "watch", "window")

    def __init__(self, connection: int, first: int, trip: RoundTrip) -> None:
        self.connection = connection
        self.window = ReceiveWindow(first)
        self.unacked = 0
        self.due_ns = 0
        self.ask_stop = 0
        self.asked_stop = 0
        self.again_ns = 0
        self.wait_ns = 0
        self.asked_next = 0
        self.asked = self.came = 0
        self.quota = 0
        self.watch = Watch(trip)
        self.used = True

    def asks(self, ranges: tuple[tuple[int, int], ...], now_ns: int) -> None:
        """These numbers are requested now."""
        self.asked += sum(stop - first for first, stop in ranges)
        if self.watch.number < self.window.next:
            self.watch.begin(ranges[0][0], now_ns)

    def came_ahead(self, first: int, stop: int, fresh: int, now_ns: int) -> None:
        """`fresh` new messages of `first` to `stop` arrived, of which some may have been requested."""
        if first < self.asked_stop:
            self.came += fresh
        if fresh and first <= self.watch.number < stop:
            self.watch.end(now_ns)

    def take_in_order(self, first: int, number: int) -> bool:
        """Count a batch as delivered if it is next in order and nothing is kept: the usual case, without a table."""
        window = self.window
        if first != window.next or first != window.stop:
            return False
        window.next = window.low = window.stop = first + number
        self.unacked += number
        self.used = True
        return True

    def pace(self, most: int) -> None:
        """A round is over: halve the quota if most of what was requested did not arrive in time, else double it.

        Answers that are late wait in the network's queues; requesting as much again would lengthen these
        (multiplicative decrease, as in TCP's congestion control, RFC 5681).
        """
        if 2 * self.came < self.asked:
            self.quota = max(1, min(self.quota, self.asked) // 2)
        else:
            self.quota = min(2 * self.quota, most) or most
        self.asked = self.came = 0


def within(ranges: list[tuple[int, int]], most: int) -> tuple[tuple[int, int], ...]:
    """The first ranges, as many as hold `most` numbers together.

    >>> within([(1, 4), (6, 16), (20, 21)], 8)
    ((1, 4), (6, 11))
    """
    kept = []
    for first, stop in ranges:
        if most <= 0:
            break
        stop = min(stop, first + most)
        kept.append((first, stop))
        most -= stop - first
    return tuple(kept)
