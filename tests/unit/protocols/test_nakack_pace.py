"""NAKACK: how long answers take is counted from the request that asked for just that message."""
from __future__ import annotations

from jgroups_py.protocols.nakack import NakackConfig
from jgroups_py.protocols.nakack.gaps import Gaps, Pace
from jgroups_py.units import millis
from tests.unit.harness import multicast


class Clock(Pace):
    """Writes down what it is told."""

    __slots__ = ("took",)

    def __init__(self) -> None:
        super().__init__(NakackConfig())
        self.took: list[int] = []

    def answered(self, after_ns: int) -> None:
        self.took.append(after_ns)


def test_an_answer_is_timed_by_the_request_that_its_first_message_was_in() -> None:
    pace = Clock()
    gaps = Gaps(pace)
    assert gaps.due([(1, 5)], millis(10)) == [(1, 5)]
    assert gaps.due([(1, 5), (5, 9)], millis(30)) == [(5, 9)]
    run = multicast("B", b"x")
    for first in (1, 4, 5, 8):
        gaps.answered(first, run, millis(40))
    assert pace.took == [millis(30), millis(30), millis(10), millis(10)]
    gaps.answered(9, run, millis(40))
    assert len(pace.took) == 4, "nobody had asked for it"
