"""The replay window against a set of all counters that were accepted."""
from __future__ import annotations

from random import Random

from jgroups_py.windows.replay import SIZE, ReplayWindow


def test_a_counter_is_accepted_once_and_none_below_the_window():
    rng = Random(1)
    for _ in range(20):
        floor = rng.randrange(1000)
        window, taken, top = ReplayWindow(floor), set(), floor - 1
        at = floor
        for _ in range(2000):
            at += rng.choice((0, 1, 1, 1, 2, 50, rng.randrange(3 * SIZE)))
            number = max(0, at - rng.choice((0, 0, 0, 1, 5, rng.randrange(2 * SIZE))))
            wanted = number >= floor and number not in taken and number > top - SIZE
            assert window.accepts(number) == wanted
            assert window.accept(number) == wanted
            if wanted:
                taken.add(number)
                top = max(top, number)


def test_a_reopened_counter_is_accepted_once_more():
    window = ReplayWindow(100)
    window.reopen(98)
    window.reopen(100)
    assert [window.accept(number) for number in (97, 98, 98, 99, 100, 100)] == [False, True, False, False, True, False]


def test_its_size_is_bounded():
    window = ReplayWindow()
    for number in range(0, 1 << 40, 1 << 30):
        window.accept(number)
    assert window._bits.bit_length() <= SIZE
