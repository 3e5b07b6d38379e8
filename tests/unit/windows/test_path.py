"""A window that follows bandwidth times delay: on a model of a path, with a bottleneck and a queue before it."""
from __future__ import annotations

from collections import deque

import pytest

from jgroups_py.model.units import millis, seconds
from jgroups_py.windows.path import GAIN, PERIOD_NS, PathWindow

LEAST, MOST = 4 << 20, 64 << 20
PIECE = 64 << 10


class ModelPath:
    """A sender that always has something to send, over a path of this bandwidth (bytes/s) and round trip (ns).

    late_ns: by how much an answer is late, by the time when it was sent.
    """

    def __init__(self, bandwidth: float, trip_ns: int, least: int = LEAST, most: int = MOST) -> None:
        self.window = PathWindow(least, most)
        self.bandwidth, self.trip_ns = bandwidth, trip_ns
        self.now_ns = self.free_ns = 0           # free_ns: when the bottleneck has sent all that it has
        self.sent: deque[tuple[int, int, int]] = deque()             # (when it is acknowledged, when sent, acked then)
        self.acked = 0
        self.peak = 0

    def run(self, until_ns: int, rate: float = 0.0) -> float:
        """Send until then, at `rate` bytes/s at most if that is not 0; returns the bytes/s that were acknowledged."""
        began_ns, before, due = self.now_ns, self.acked, 0
        while self.now_ns < until_ns:
            flying = len(self.sent) * PIECE
            self.peak = max(self.peak, flying)
            wanted = not rate or due * PIECE <= rate * (self.now_ns - began_ns) / 1e9
            if flying + PIECE <= self.window.nbytes and wanted:
                due += 1
                self.free_ns = max(self.free_ns, self.now_ns) + int(PIECE / self.bandwidth * 1e9)
                self.sent.append((self.free_ns + self.trip_ns, self.now_ns, self.acked))
                continue
            next_due_ns = began_ns + int(due * PIECE / rate * 1e9) + 1 if rate else until_ns
            if self.sent and (self.sent[0][0] <= next_due_ns or flying + PIECE > self.window.nbytes):
                at_ns, sent_ns, acked = self.sent.popleft()
                self.now_ns = max(self.now_ns, at_ns)
                self.acked += PIECE
                self.window.acknowledged(self.now_ns, sent_ns, self.acked - acked)
            else:
                self.now_ns = next_due_ns
        return (self.acked - before) / (self.now_ns - began_ns) * 1e9


@pytest.mark.parametrize(("bandwidth", "trip_ms"), [(124e6, 80), (124e6, 200), (12.5e6, 600), (300e6, 150)])
def test_a_long_path_is_filled_and_not_much_more_than_its_product_is_under_way(bandwidth: float, trip_ms: int) -> None:
    path = ModelPath(bandwidth, millis(trip_ms))
    path.run(seconds(4))
    assert path.run(seconds(60)) > 0.95 * bandwidth
    product = bandwidth * trip_ms / 1e3
    assert path.peak <= max(LEAST, 1.15 * GAIN * product) + 2 * PIECE
    assert path.window.nbytes <= MOST


def test_a_constant_window_would_not_fill_it() -> None:
    assert ModelPath(124e6, millis(200), most=LEAST).run(seconds(10)) < 0.2 * 124e6


def test_it_is_never_larger_than_most() -> None:
    path = ModelPath(1e9, millis(200), most=8 << 20)
    path.run(seconds(20))
    assert path.peak == path.window.nbytes == 8 << 20


def test_in_a_local_network_it_stays_at_least() -> None:
    path = ModelPath(124e6, millis(1))
    path.run(seconds(30))
    assert path.peak == LEAST


def test_a_receiver_that_falls_behind_is_sent_no_more_than_least_soon() -> None:
    path = ModelPath(124e6, millis(200))
    path.run(seconds(9))
    assert path.window.nbytes > 5 * LEAST
    path.bandwidth = 2e6
    path.run(seconds(100))
    assert path.window.nbytes <= 1.5 * LEAST, "but for a period's first round trip, measured with the queue"


def test_a_path_that_becomes_longer_or_shorter_is_measured_anew() -> None:
    path = ModelPath(124e6, millis(40))
    path.run(seconds(15))
    path.trip_ns = millis(200)
    path.run(seconds(15) + 3 * PERIOD_NS)
    assert path.run(path.now_ns + seconds(10)) > 0.9 * 124e6
    path.trip_ns = millis(40)
    path.run(path.now_ns + 4 * PERIOD_NS)
    assert path.window.nbytes < 1.3 * GAIN * 124e6 * 0.04
    assert path.run(path.now_ns + seconds(10)) > 0.9 * 124e6


def test_one_late_answer_makes_it_smaller_by_a_quarter_at_most() -> None:
    window = PathWindow(LEAST, MOST)
    now_ns = 0
    for _ in range(10):
        now_ns += millis(100)
        window.acknowledged(now_ns, now_ns - millis(100), window.nbytes)
    assert window.nbytes == MOST
    window.acknowledged(now_ns + millis(900), now_ns, 0)
    assert window.nbytes >= 0.75 * MOST
    window.acknowledged(now_ns + millis(901), now_ns + 1, 0)
    assert window.nbytes >= 0.75 * MOST, "a second answer of the same round trip says nothing new"


def test_a_sender_with_little_to_send_keeps_a_window_for_that() -> None:
    path = ModelPath(124e6, millis(200))
    path.run(seconds(60), rate=10e6)
    assert path.window.nbytes == LEAST, "2 MB are under way"
    path.run(seconds(120), rate=50e6)
    assert 10e6 < path.window.nbytes < 30e6
    assert path.peak < 20e6, "twice what is under way, after each pause that measures"
