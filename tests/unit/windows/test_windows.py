"""Windows against their dumb twins: the same operations on plain sets and dicts must give the same answers."""
from __future__ import annotations

from random import Random
from typing import Self

import attrs
import pytest

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch, Header
from jgroups_py.windows.numbered_batches import NumberedBatches
from jgroups_py.windows.ranges import Ranges
from jgroups_py.windows.receive import ReceiveWindow
from jgroups_py.windows.send import SendWindow

A = Address(b"A" * 16, "A")
SPAN = 40


@attrs.frozen
class Number(Header):
    """Header of a test's messages: the number of the first one."""

    first: int

    def shift(self, number: int) -> Self:
        return attrs.evolve(self, first=self.first + number)


def batch_of(first: int, stop: int) -> Batch:
    """Messages whose payloads and header are their numbers."""
    return Batch(A, None, tuple(b"%d" % n for n in range(first, stop)), (Number(first),))


def numbers(batch: Batch) -> list[int]:
    """The numbers in a run made by `batch_of`; its header must agree with its payloads."""
    found = [int(payload) for payload in batch.payloads]
    assert batch.headers[0].first == found[0]                 # type: ignore[attr-defined]
    return found


def as_ranges(present: dict[int, None]) -> list[tuple[int, int]]:
    """The twin's set as ranges, found by looking at each number."""
    found: list[tuple[int, int]] = []
    for number in sorted(present):
        if found and found[-1][1] == number:
            found[-1] = (found[-1][0], number + 1)
        else:
            found.append((number, number + 1))
    return found


def some_range(rng: Random) -> tuple[int, int]:
    first = rng.randrange(1, SPAN)
    return first, first + rng.randrange(1, 9)


@pytest.mark.parametrize("seed", range(60))
def test_ranges_agree_with_a_set_of_numbers(seed: int) -> None:
    rng = Random(seed)
    ranges, twin = Ranges(), dict[int, None]()
    for _ in range(40):
        first, stop = some_range(rng)
        if rng.random() < 0.6:
            ranges.add(first, stop)
            twin.update(dict.fromkeys(range(first, stop)))
        else:
            ranges.subtract(first, stop)
            twin = {n: None for n in twin if not first <= n < stop}
        assert list(ranges) == as_ranges(twin)
        assert ranges.total == len(twin)
        low, high = some_range(rng)
        assert ranges.overlap(low, high) == as_ranges({n: None for n in twin if low <= n < high})
        assert ranges.holes(low, high) == as_ranges({n: None for n in range(low, high) if n not in twin})
        assert ranges.covers(low, high) == all(n in twin for n in range(low, high))
        assert (low in ranges) == (low in twin)


@pytest.mark.parametrize("seed", range(60))
def test_runs_agree_with_a_dict_of_messages(seed: int) -> None:
    rng = Random(seed)
    batches, twin = NumberedBatches(), dict[int, None]()
    for _ in range(30):
        first, stop = some_range(rng)
        action = rng.random()
        if action < 0.7:
            new = [n for n in range(first, stop) if n not in twin]
            assert batches.add(first, batch_of(first, stop)) == len(new)
            twin.update(dict.fromkeys(new))
        elif action < 0.85:
            batches.split(first)
        else:
            below = rng.randrange(1, first + 1)
            batches.forget(below)
            twin = {n: None for n in twin if n >= below}
        low, high = some_range(rng)
        pieces = list(batches.between(low, high))
        assert [n for _, piece in pieces for n in numbers(piece)] == [n for n in sorted(twin) if low <= n < high]
        assert all(number == numbers(piece)[0] for number, piece in pieces)
        assert batches.holes(low, high) == as_ranges({n: None for n in range(low, high) if n not in twin})
        assert batches.stop == max(twin, default=-1) + 1


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("seed", range(60))
def test_a_receive_window_delivers_each_message_once_and_in_order(seed: int, keep: bool) -> None:
    rng = Random(seed)
    window, came, delivered = ReceiveWindow(keep=keep), dict[int, None](), list[int]()
    known = 1
    for _ in range(60):
        first, stop = some_range(rng)
        new = [n for n in range(first, stop) if n not in came]
        assert window.add(first, batch_of(first, stop)) == len(new)
        came.update(dict.fromkeys(new))
        known = max(known, stop)
        if rng.random() < 0.2:
            window.announce(first)
            known = max(known, first)
        below = rng.randrange(1, SPAN) if rng.random() < 0.3 else None
        for batch in window.take(below):
            delivered += numbers(batch)
        assert below is None or window.next <= max(below, len(delivered) + 1)
        assert delivered == list(range(1, window.next))
        assert window.stop == known
        assert window.holes() == as_ranges({n: None for n in range(window.next, known) if n not in came})
        assert window.complete == (window.next == known)
        if keep and rng.random() < 0.3:
            window.forget(rng.randrange(1, window.next + 1))
        kept = [n for _, piece in window.between(1, SPAN + 9) for n in numbers(piece)]
        assert kept == [n for n in sorted(came) if n >= window.low]
    for batch in window.take():
        delivered += numbers(batch)
    assert delivered == list(range(1, window.next))
    assert window.next not in came


@pytest.mark.parametrize("seed", range(20))
def test_a_send_window_numbers_and_forgets(seed: int) -> None:
    rng = Random(seed)
    window, low = SendWindow(), 1
    for _ in range(30):
        first = window.next
        stop = first + rng.randrange(1, 6)
        assert window.add(batch_of(first, stop)) == first
        assert window.next == stop
        if rng.random() < 0.4:
            below = rng.randrange(1, stop + 1)
            assert window.forget(below) == (below > low)
            low = max(low, below)
        assert window.low == low
        assert bool(window) == (low < stop)
        kept = [n for _, piece in window.between(1, stop) for n in numbers(piece)]
        assert kept == list(range(low, stop))


def test_a_control_message_takes_one_number() -> None:
    control = Batch(A, None, (), (Number(0),))
    sent, received = SendWindow(), ReceiveWindow()
    assert sent.add(control) == 1
    assert sent.next == 2
    assert received.add(1, control) == 1
    assert received.take() == [control]
    assert received.next == 2


def test_a_batch_that_overlaps_others_is_cut_and_its_headers_are_shifted() -> None:
    window = ReceiveWindow()
    window.add(4, batch_of(4, 6))
    assert window.add(1, batch_of(1, 9)) == 6
    assert [numbers(piece) for piece in window.take()] == [[1, 2, 3], [4, 5], [6, 7, 8]]


def test_what_was_announced_but_never_came_is_a_hole() -> None:
    window = ReceiveWindow()
    window.add(1, batch_of(1, 3))
    window.take()
    window.announce(7)
    assert window.holes() == [(3, 7)]
    assert window.holes(stop=5) == [(3, 5)]
    assert not window.complete


def test_a_batch_goes_straight_only_if_it_is_the_next_one_and_nothing_else_is_known_of() -> None:
    window = ReceiveWindow(keep=True)
    assert window.take_in_order(1, batch_of(1, 4))
    assert not window.take_in_order(3, batch_of(3, 5)), "in part a duplicate"
    assert not window.take_in_order(5, batch_of(5, 6)), "there is a hole before it"
    window.announce(6)
    assert not window.take_in_order(4, batch_of(4, 5)), "more is known to be missing behind it"
    assert window.add(4, batch_of(4, 6)) == 2
    assert [numbers(taken) for taken in window.take()] == [[4, 5]]
    assert [(first, numbers(kept)) for first, kept in window.between(2, 6)] == [(2, [2, 3]), (4, [4, 5])]
