"""S9 by numbers: the losses reported to a member from its own site, from a few messages to any numbers."""
from __future__ import annotations

import pytest

from jgroups_py.simulator import history as h
from jgroups_py.simulator.checkers import check
from tests.simulator.history_writer import HistoryWriter


def history_with_losses(*ranges: tuple[int, int]) -> HistoryWriter:
    """B, which delivered the first and the last of four messages of A, got a report of these losses before."""
    writer = HistoryWriter(NYC="AB", SFO="D")
    writer.group(1, "AB")
    writer.send("A", "a1", "a2", "a3", "a4")
    writer.deliver("A", "a1", at="B")
    for first, stop in ranges:
        writer.history.add(h.Lost(writer.tick(), writer.addresses["B"], "NYC", writer.addresses["A"], first, stop))
    writer.deliver("A", "a4", at="B")
    return writer


@pytest.mark.parametrize(("ranges", "wrong"), [
    (((2, 4),), []),
    (((2, 3), (3, 4)), []),
    (((2, 3),), ["never delivered number 3"]),
    (((2, 4), (3, 4)), ["number 3 of A was declared lost twice"]),
    (((2, 5),), ["delivered number 4", "declared lost"]),
    (((5, 1 << 40), (2, 4)), []),
    (((5, 1 << 40), (1 << 39, 1 << 41), (2, 4)), [f"number {1 << 39} of A was declared lost twice"]),
])
def test_losses_are_judged_by_ranges_of_any_size(ranges: tuple[tuple[int, int], ...], wrong: list[str]) -> None:
    found = [violation.text for violation in check(history_with_losses(*ranges).history, ["S9"])]
    assert len(found) == bool(wrong)
    assert all(text in found[0] for text in wrong)
