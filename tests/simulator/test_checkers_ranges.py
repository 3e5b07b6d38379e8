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


@pytest.mark.parametrize(("ranges", "wrong"), [
    (((2, 4),), []),
    (((2, 4), (3, 4)), ["number 3 of A at NYC was declared lost twice to D"]),
    (((2, 5),), ["D delivered", "(number 4) of A, which was declared lost to it"]),
    (((1, 4),), ["D delivered", "(number 1) of A, which was declared lost to it"]),
    (((5, 1 << 40), (2, 4)), []),
])
def test_what_is_declared_lost_of_another_site_is_so_once_and_does_not_come(
    ranges: tuple[tuple[int, int], ...], wrong: list[str],
) -> None:
    writer = HistoryWriter(NYC="AB", SFO="D")
    writer.group(1, "AB")
    writer.group(1, "D")
    writer.send("A", "a1", "a2", "a3", "a4")
    writer.deliver(writer.proxy("A", "D"), "a1", at="D")
    for first, stop in ranges:
        writer.history.add(h.Lost(writer.tick(), writer.addresses["D"], "NYC", writer.addresses["A"], first, stop))
    writer.deliver(writer.proxy("A", "D"), "a4", at="D")
    found = [violation.text for violation in check(writer.history, ["R3"])]
    assert len(found) == bool(wrong)
    assert all(text in found[0] for text in wrong)


@pytest.mark.parametrize(("was_alone", "first", "wrong"), [(True, 2, True), (False, 2, False), (True, 3, False)])
def test_a_joiner_is_told_of_no_losses_from_before_it_joined(was_alone: bool, first: int, wrong: bool) -> None:
    writer = HistoryWriter(NYC="ABC", SFO="D")
    writer.group(1, "A")
    apart = writer.group(1, "B") if was_alone else writer.group(1, "BC")
    writer.send("A", "a1", "a2")
    writer.deliver("A", "a1", "a2", at="A")
    writer.install(writer.view(2, "AB", (writer.view(1, "A"), apart)), "AB")
    writer.send("A", "a3", "a4")
    writer.deliver("A", "a3", "a4", at="A")
    writer.history.add(h.Lost(writer.tick(), writer.addresses["B"], "NYC", writer.addresses["A"], first, 4))
    found = [violation.text for violation in check(writer.history, ["S9"]) if "joined later" in violation.text]
    assert bool(found) == wrong
