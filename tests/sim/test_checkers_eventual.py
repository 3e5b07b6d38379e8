"""W1 to W4 find what is planted in hand-made histories of SWIM alone, and nothing in a clean one."""
from __future__ import annotations

from collections.abc import Callable

import pytest

from jgroups_py.address import Address
from jgroups_py.members import FAILED, JOINED, MEMBER_LEFT, REFUTED, SUSPECTED, Member
from jgroups_py.sim import history as h
from jgroups_py.sim.checkers import CHECKERS, check
from tests.sim.tale import Tale

STATES = {JOINED: "alive", SUSPECTED: "suspect", REFUTED: "alive", FAILED: "failed", MEMBER_LEFT: "left"}


def hears(tale: Tale, at: str, change: str, names: str, incarnation: int = 1) -> None:
    """All of `at` hear this of all of `names`, not of themselves."""
    for who in at:
        for name in names:
            if name != who:
                member = Member(name, tale.who[name], None, STATES[change], incarnation, {}, 1.0)
                tale.history.add(h.MemberSaid(tale.tick(), tale.who[who], change, member, ()))


def met() -> Tale:
    """A, B, C and D know each other."""
    tale = Tale()
    hears(tale, "ABCD", JOINED, "ABCD")
    return tale


def ended(tale: Tale, live: str) -> list[str]:
    tale.heal()
    tale.end(live)
    return [found.guarantee for found in check(tale.history)]


def test_a_suspicion_a_failure_and_a_departure_break_nothing() -> None:
    tale = met()
    hears(tale, "AB", SUSPECTED, "C")
    hears(tale, "AB", REFUTED, "C", 2)
    tale.crash("D")
    hears(tale, "ABC", FAILED, "D")
    tale.wants_to_leave("C")
    hears(tale, "AB", MEMBER_LEFT, "C", 2)
    tale.leave("C")
    assert ended(tale, "AB") == []


def test_a_start_that_was_replaced_is_not_missed() -> None:
    tale = met()
    tale.crash("D")
    again = tale.who["D"] = Address(b"another start...", "D")
    tale.history.started(tale.tick(), again, "D#2", "")
    hears(tale, "ABC", JOINED, "D", 2)
    hears(tale, "D", JOINED, "ABC")
    assert ended(tale, "ABCD") == []


def a_crash_that_nobody_told_c(tale: Tale) -> None:
    tale.crash("D")
    hears(tale, "AB", FAILED, "D")


def a_living_member_held_for_failed(tale: Tale) -> None:
    hears(tale, "A", FAILED, "B")
    tale.crash("D")
    hears(tale, "ABC", FAILED, "D")


def an_incarnation_that_goes_back(tale: Tale) -> None:
    hears(tale, "A", REFUTED, "B", 3)
    hears(tale, "A", REFUTED, "B", 2)
    tale.crash("D")
    hears(tale, "ABC", FAILED, "D")


def a_failure_after_a_departure(tale: Tale) -> None:
    hears(tale, "ABC", MEMBER_LEFT, "D")
    tale.leave("D")
    hears(tale, "A", FAILED, "D")


PLANTED: list[tuple[str, Callable[[Tale], None]]] = [
    ("W1", a_crash_that_nobody_told_c), ("W2", a_living_member_held_for_failed),
    ("W3", an_incarnation_that_goes_back), ("W4", a_failure_after_a_departure),
]


@pytest.mark.parametrize(("guarantee", "plant"), PLANTED, ids=lambda x: getattr(x, "__name__", x))
def test_a_checker_finds_what_is_planted(guarantee: str, plant: Callable[[Tale], None]) -> None:
    tale = met()
    plant(tale)
    assert ended(tale, "ABC") == [guarantee]


def test_every_checker_of_swim_has_a_planted_violation() -> None:
    assert [name for name, _ in PLANTED] == sorted(name for name in CHECKERS if name.startswith("W"))
