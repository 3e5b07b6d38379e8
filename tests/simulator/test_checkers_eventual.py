"""W1 to W4 find what is planted in hand-made histories of SWIM alone, and nothing in a clean one."""
from __future__ import annotations

from collections.abc import Callable

import pytest

from jgroups_py.model.address import Address
from jgroups_py.model.swim_member import FAILED, JOINED, MEMBER_LEFT, REFUTED, SUSPECTED, Member
from jgroups_py.simulator import history as h
from jgroups_py.simulator.checkers import CHECKERS, check
from tests.simulator.history_writer import HistoryWriter

STATES = {JOINED: "alive", SUSPECTED: "suspect", REFUTED: "alive", FAILED: "failed", MEMBER_LEFT: "left"}


def membership_change(writer: HistoryWriter, at: str, change: str, names: str, incarnation: int = 1) -> None:
    """All of `at` report this change of all of `names`, but for themselves."""
    for observer in at:
        for name in names:
            if name != observer:
                subject = Member(name, writer.addresses[name], None, STATES[change], incarnation, {}, 1.0)
                writer.history.add(h.MembershipChange(writer.tick(), writer.addresses[observer], change, subject, ()))


def met() -> HistoryWriter:
    """A, B, C and D list each other as alive."""
    writer = HistoryWriter()
    membership_change(writer, "ABCD", JOINED, "ABCD")
    return writer


def ended(writer: HistoryWriter, live: str) -> list[str]:
    writer.heal()
    writer.end(live)
    return [found.guarantee for found in check(writer.history)]


def test_a_suspicion_a_failure_and_a_departure_break_nothing() -> None:
    writer = met()
    membership_change(writer, "AB", SUSPECTED, "C")
    membership_change(writer, "AB", REFUTED, "C", 2)
    writer.crash("D")
    membership_change(writer, "ABC", FAILED, "D")
    writer.leaving("C")
    membership_change(writer, "AB", MEMBER_LEFT, "C", 2)
    writer.leave("C")
    assert ended(writer, "AB") == []


def test_a_start_that_was_replaced_is_not_missed() -> None:
    writer = met()
    writer.crash("D")
    again = writer.addresses["D"] = Address(b"another start...", "D")
    writer.history.started(writer.tick(), again, "D#2", "")
    membership_change(writer, "ABC", JOINED, "D", 2)
    membership_change(writer, "D", JOINED, "ABC")
    assert ended(writer, "ABCD") == []


def a_crash_that_nobody_told_c(writer: HistoryWriter) -> None:
    writer.crash("D")
    membership_change(writer, "AB", FAILED, "D")


def a_living_member_held_for_failed(writer: HistoryWriter) -> None:
    membership_change(writer, "A", FAILED, "B")
    writer.crash("D")
    membership_change(writer, "ABC", FAILED, "D")


def an_incarnation_that_goes_back(writer: HistoryWriter) -> None:
    membership_change(writer, "A", REFUTED, "B", 3)
    membership_change(writer, "A", REFUTED, "B", 2)
    writer.crash("D")
    membership_change(writer, "ABC", FAILED, "D")


def a_failure_after_a_departure(writer: HistoryWriter) -> None:
    membership_change(writer, "ABC", MEMBER_LEFT, "D")
    writer.leave("D")
    membership_change(writer, "A", FAILED, "D")


PLANTED: list[tuple[str, Callable[[HistoryWriter], None]]] = [
    ("W1", a_crash_that_nobody_told_c), ("W2", a_living_member_held_for_failed),
    ("W3", an_incarnation_that_goes_back), ("W4", a_failure_after_a_departure),
]


@pytest.mark.parametrize(("guarantee", "plant"), PLANTED, ids=lambda x: getattr(x, "__name__", x))
def test_a_checker_finds_what_is_planted(guarantee: str, plant: Callable[[HistoryWriter], None]) -> None:
    writer = met()
    plant(writer)
    assert ended(writer, "ABC") == [guarantee]


def test_every_checker_of_swim_has_a_planted_violation() -> None:
    assert [name for name, _ in PLANTED] == sorted(name for name in CHECKERS if name.startswith("W"))
