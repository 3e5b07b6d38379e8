"""NAKACK: how long answers take is counted from the request that asked for just that message."""
from __future__ import annotations

from jgroups_py.model.units import millis
from jgroups_py.protocols.nakack import NakackConfig
from jgroups_py.protocols.nakack.nak_schedule import NakPacing, NakSchedule
from jgroups_py.testing.bench import multicast


class Clock(NakPacing):
    """Records how long answers took."""

    __slots__ = ("took",)

    def __init__(self) -> None:
        super().__init__(NakackConfig())
        self.took: list[int] = []

    def answered(self, after_ns: int) -> None:
        self.took.append(after_ns)


def test_the_time_of_an_answer_counts_from_the_request_of_its_first_message() -> None:
    pacing = Clock()
    schedule = NakSchedule(pacing)
    assert schedule.due([(1, 5)], millis(10)) == [(1, 5)]
    assert schedule.due([(1, 5), (5, 9)], millis(30)) == [(5, 9)]
    batch = multicast("B", b"x")
    for first in (1, 4, 5, 8):
        schedule.answered(first, batch, millis(40))
    assert pacing.took == [millis(30), millis(30), millis(10), millis(10)]
    schedule.answered(9, batch, millis(40))
    assert len(pacing.took) == 4, "nobody had asked for it"
