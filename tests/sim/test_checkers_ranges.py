"""S9 by numbers: what a member was told that it lost of its own site, be it a few messages or any numbers at all."""
from __future__ import annotations

import pytest

from jgroups_py.sim import history as h
from jgroups_py.sim.checkers import check
from tests.sim.tale import Tale


def told(*ranges: tuple[int, int]) -> Tale:
    """B, which delivered the first and the last of four messages of A, was told of these losses before."""
    tale = Tale(NYC="AB", SFO="D")
    tale.group(1, "AB")
    tale.send("A", "a1", "a2", "a3", "a4")
    tale.deliver("A", "a1", at="B")
    for first, stop in ranges:
        tale.history.add(h.Lost(tale.tick(), tale.who["B"], "NYC", tale.who["A"], first, stop))
    tale.deliver("A", "a4", at="B")
    return tale


@pytest.mark.parametrize(("ranges", "wrong"), [
    (((2, 4),), []),
    (((2, 3), (3, 4)), []),
    (((2, 3),), ["never got number 3"]),
    (((2, 4), (3, 4)), ["told twice that it lost number 3"]),
    (((2, 5),), ["lost number 4", "and delivered it"]),
    (((5, 1 << 40), (2, 4)), []),
    (((5, 1 << 40), (1 << 39, 1 << 41), (2, 4)), [f"told twice that it lost number {1 << 39}"]),
])
def test_losses_are_judged_by_ranges_of_any_size(ranges: tuple[tuple[int, int], ...], wrong: list[str]) -> None:
    found = [violation.text for violation in check(told(*ranges).history, ["S9"])]
    assert len(found) == bool(wrong)
    assert all(words in found[0] for words in wrong)
