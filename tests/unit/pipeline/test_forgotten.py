"""What no member of the group retained (NAKACK): declared lost as far as the row goes, and no further."""
from __future__ import annotations

from typing import Any

import pytest

from jgroups_py.pipeline.audit.judge import is_clean, totals
from tests.unit.pipeline.test_skipped import A, B, audited, recorder, sender


def receiver(*steps: int | None, stream: str = "all") -> Any:
    """B's rows: numbers that it delivers; None: two of A's numbers that no member retained."""
    add = recorder(B)
    for step in steps:
        if step is None:
            add("forgotten", A, None, {"first": 3, "stop": 5}, count=2, stream=None)
        else:
            add("delivered", A, step, stream=stream)
    return add("stop")


@pytest.mark.parametrize("cut", [1, 3, 1000])
@pytest.mark.parametrize("stream", ["all", "local"])
def test_a_hole_that_no_member_retained_is_a_declared_loss_and_no_fault(cut: int, stream: str) -> None:
    by_receiver, found, pairs = audited(sender(stream=stream), receiver(1, 2, None, 5, 6, stream=stream), cut=cut)
    assert found == [("declared_lost", B, 3, 5)]
    assert (by_receiver[B]["declared_lost"], by_receiver[B]["lost"]) == (2, 0)
    assert is_clean(totals(pairs))


def test_at_the_end_of_the_traffic_too() -> None:
    assert audited(sender(), receiver(1, 2, 3, 4, None))[1] == [("declared_lost", B, 5, 7)]


def test_no_more_is_covered_than_the_row_has_numbers() -> None:
    _, found, pairs = audited(sender(), receiver(1, None, 5, 6))
    assert found == [("declared_lost", B, 2, 4), ("lost", B, 4, 5)]
    assert not is_clean(totals(pairs))


def test_nothing_is_covered_that_was_missing_before() -> None:
    assert audited(sender(), receiver(1, 4, None, 6))[1] == [("declared_lost", B, 5, 6), ("lost", B, 2, 4)]


def test_of_another_origin_nothing_is_covered() -> None:
    add = recorder(B)
    for number in (1, 2):
        add("delivered", A, number)
    add("forgotten", "cc", None, {"first": 3, "stop": 5}, count=2, stream=None)
    for number in (5, 6):
        add("delivered", A, number)
    assert audited(sender(), add("stop"))[1] == [("lost", B, 3, 5)]
