"""The two ends of a connection. Connections are one-way: what A sends B and what B sends A are two of them.

A connection has a number that its sender never uses twice and that only grows from one connection to the next, so
that a receiver can tell a new one from a late frame of an old one.
"""
from __future__ import annotations

from collections.abc import Iterator

from jgroups_py.batch import Batch
from jgroups_py.protocols.unicast.headers import Data
from jgroups_py.windows.receive import ReceiveWindow
from jgroups_py.windows.send import SendWindow

SMOOTHING = 8                   # a longer round trip weighs 1/8, as in RFC 6298, since some of it may be repair
LOWERING = 2                    # a shorter one weighs 1/2, as nothing makes an answer come too early
MOST_TRIES = 8                  # what was repeated so often tells how long the path was cut, not how long it is


class RoundTrip:
    """How long a peer's answers usually take, learnt by both ends that we have with it. usual_ns: 0: not known."""

    __slots__ = ("usual_ns",)

    def __init__(self) -> None:
        self.usual_ns = 0

    def took(self, sample_ns: int) -> None:
        """An answer came `sample_ns` after it was asked for first."""
        more_ns = sample_ns - self.usual_ns
        self.usual_ns += (more_ns if not self.usual_ns else more_ns // (LOWERING if more_ns < 0 else SMOOTHING))


class Watch:
    """Times one number at a time. number: 0: none; since_ns: when it was sent or asked for first."""

    __slots__ = ("number", "since_ns", "tries", "trip")

    def __init__(self, trip: RoundTrip) -> None:
        self.trip = trip
        self.number = self.since_ns = self.tries = 0

    def begin(self, number: int, now_ns: int) -> None:
        """Time this one."""
        self.number, self.since_ns, self.tries = number, now_ns, 0

    def again(self) -> None:
        """It may have been repeated."""
        self.tries += 1
        if self.tries >= MOST_TRIES:
            self.number = 0

    def end(self, now_ns: int) -> None:
        """The answer is here."""
        self.number = 0
        self.trip.took(now_ns - self.since_ns)


class Outgoing:
    """The sending end.

    armed: the resend timer is set; wait_ns: its next delay; tick_low: `window.low` when it was set; moved_ns: when an
    acknowledgement last brought news or sending began anew; used: something was sent since the last sweep;
    unheard_bytes: payload bytes sent to a peer outside the view since an acknowledgement last brought news;
    watch: times an acknowledgement.
    """

    __slots__ = ("armed", "connection", "moved_ns", "tick_low", "unheard_bytes", "used", "wait_ns", "watch", "window")

    def __init__(self, connection: int, wait_ns: int, trip: RoundTrip) -> None:
        self.connection = connection
        self.window = SendWindow()
        self.armed = False
        self.wait_ns = wait_ns
        self.tick_low = 0
        self.moved_ns = 0
        self.watch = Watch(trip)
        self.unheard_bytes = 0
        self.used = True

    def again(self, first: int, stop: int) -> Iterator[Batch]:
        """What is kept of `first` to `stop`, ready to be sent, with headers that say our present base."""
        low = self.window.low
        for number, run in self.window.between(first, stop):
            header = Data(self.connection, number, low)
            yield Batch(run.src, run.dest, run.payloads, (*run.headers[:-1], header), run.flags)


class Incoming:
    """The receiving end.

    unacked: messages delivered since the last acknowledgement; due_ns: when the timer for holes fires, 0 if it is not
    set; ask_stop: holes below it stood when the timer was set; asked_stop: holes below it were asked for in this
    round; again_ns: when the next round begins; wait_ns: how long a round is; asked_next: `window.next` when it
    began; asked, came: how many messages were asked for in this round, and how many came; quota: how many may be asked
    for in a round; used: something came since the last sweep; watch: times a missing message.
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
        """These numbers are asked for."""
        self.asked += sum(stop - first for first, stop in ranges)
        if self.watch.number < self.window.next:
            self.watch.begin(ranges[0][0], now_ns)

    def came_ahead(self, first: int, stop: int, fresh: int, now_ns: int) -> None:
        """So many new ones of `first` to `stop` came, of which some may have been asked for."""
        if first < self.asked_stop:
            self.came += fresh
        if fresh and first <= self.watch.number < stop:
            self.watch.end(now_ns)

    def straight(self, first: int, number: int) -> bool:
        """Note that a run is delivered which is next in order while nothing else is kept: the ordinary case."""
        window = self.window
        if first != window.next or first != window.stop:
            return False
        window.next = window.low = window.stop = first + number
        self.unacked += number
        self.used = True
        return True

    def pace(self, most: int) -> None:
        """A round is over: where most of what was asked for did not come in time, the network has more under way than
        it takes, and the same messages sent once more would only lengthen its queues."""
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
