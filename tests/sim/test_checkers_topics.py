"""The checkers of TOPICS find planted violations, and nothing in clean histories."""
from __future__ import annotations

import pytest

from jgroups_py.sim import history as h
from jgroups_py.sim.checkers import CHECKERS
from jgroups_py.topics import interest_in
from tests.sim.tale import Tale, broken


class Wanting(Tale):
    """A tale of two sites, in one view each, whose members want topics."""

    def __init__(self) -> None:
        super().__init__(NYC="AB", SFO="DE")
        self.here, self.there = self.group(1, "AB"), self.group(1, "DE")
        for name in "ABDE":
            self.sees(name, NYC="AB", SFO="DE")
            self.wants(name, "*" if name == "A" else "x")

    def wants(self, name: str, *topics: str) -> None:
        self.history.add(h.Interested(self.tick(), self.who[name], interest_in(*topics)))

    def ends(self) -> None:
        self.heal()
        self.end("ABDE")

    def from_a(self, *payloads: str, at: str) -> None:
        """Messages of A arrive at the other site."""
        self.deliver(self.proxy("A", "D"), *payloads, at=at)


@pytest.fixture
def tale() -> Wanting:
    return Wanting()


def test_who_does_not_want_a_topic_may_lack_its_messages(tale: Wanting) -> None:
    tale.send("A", "A>*/0@x", "A>*/1@y", "A>*/2@x")
    tale.deliver("A", "A>*/0@x", "A>*/1@y", "A>*/2@x", at="A")
    tale.deliver("A", "A>*/0@x", "A>*/2@x", at="B")
    tale.from_a("A>*/0@x", "A>*/2@x", at="DE")
    tale.install(tale.view(2, "AB"), "AB")
    tale.ends()
    assert broken(tale) == []


@pytest.mark.parametrize(("here", "there", "guarantees"), [
    (("A>*/0@x", "A>*/2@x"), ("A>*/2@x",), ["R3"]),
    (("A>*/2@x",), ("A>*/0@x", "A>*/2@x"), ["S5", "L"]),
])
def test_who_wants_a_topic_all_the_time_must_not(
    tale: Wanting, here: tuple[str, ...], there: tuple[str, ...], guarantees: list[str],
) -> None:
    tale.history.add(h.Remark(tale.at_ns + 3_000_000_000, "they are in the group for a while"))
    tale.at_ns += 3_000_000_000
    tale.send("A", "A>*/0@x", "A>*/1@y", "A>*/2@x")
    tale.deliver("A", "A>*/0@x", "A>*/1@y", "A>*/2@x", at="A")
    tale.deliver("A", *here, at="B")
    tale.from_a(*there, at="DE")
    if "S5" in guarantees:
        tale.install(tale.view(2, "AB"), "AB")
    tale.ends()
    assert set(guarantees) & set(broken(tale))


@pytest.mark.parametrize(("topic", "forgotten"), [("y", False), ("x", True)])
def test_a_ledger_may_forget_what_nobody_at_the_other_site_wants(tale: Wanting, topic: str, forgotten: bool) -> None:
    payload = f"A>*/0@{topic}"
    tale.send("A", payload)
    tale.deliver("A", payload, at="A" if topic == "y" else "AB")
    tale.history.add(h.OnDisk(tale.tick(), tale.who["A"], (payload.encode(),), complete=True))
    tale.history.add(h.Ledger(tale.tick(), tale.who["A"], "SFO", {tale.who["A"]: 2}, {tale.who["A"]: 2}, {}))
    tale.ends()
    assert ("R11" in broken(tale)) == forgotten


def test_t1_a_topic_that_was_given_up_is_delivered(tale: Wanting) -> None:
    tale.send("A", "A>*/0@x")
    tale.deliver("A", "A>*/0@x", at="A")
    tale.wants("B", "y")
    tale.deliver("A", "A>*/0@x", at="B")
    assert broken(tale) == ["T1"]


@pytest.mark.parametrize("at", ["B", "D"])
def test_t2_a_hole_after_the_first_message_of_a_subscription(tale: Wanting, at: str) -> None:
    tale.send("A", "A>*/0@y", "A>*/1@y", "A>*/2@y")
    tale.deliver("A", "A>*/0@y", "A>*/1@y", "A>*/2@y", at="A")
    tale.wants(at, "x", "y")
    if at == "B":
        tale.deliver("A", "A>*/0@y", "A>*/2@y", at="B")
    else:
        tale.from_a("A>*/0@y", "A>*/2@y", at="D")
    assert broken(tale) == ["T2"]


def test_t2_holes_before_a_subscription_between_two_and_of_declared_losses_are_none(tale: Wanting) -> None:
    tale.send("A", *(f"A>*/{number}@y" for number in range(8)))
    tale.deliver("A", *(f"A>*/{number}@y" for number in range(8)), at="A")
    tale.wants("D", "y")
    tale.from_a("A>*/1@y", "A>*/2@y", at="D")
    tale.wants("D")
    tale.wants("D", "y")
    tale.from_a("A>*/4@y", at="D")
    tale.history.add(h.Lost(tale.tick(), tale.who["D"], "NYC", tale.who["A"], 6, 7))
    tale.from_a("A>*/6@y", at="D")
    assert broken(tale) == []


def test_every_checker_of_topics_has_a_planted_violation() -> None:
    tests = " ".join(name for name in globals() if name.startswith("test_t"))
    assert [name for name in CHECKERS if name[0] == "T"] == ["T1", "T2"]
    assert all(f"test_{name.lower()}_" in tests for name in CHECKERS if name[0] == "T")
