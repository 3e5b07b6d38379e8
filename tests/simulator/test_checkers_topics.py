"""The checkers of TOPICS find planted violations, and nothing in clean histories."""
from __future__ import annotations

import pytest

from jgroups_py.model.topics import interest_in
from jgroups_py.simulator import history as h
from jgroups_py.simulator.checkers import CHECKERS
from tests.simulator.history_writer import HistoryWriter, broken


class TopicWriter(HistoryWriter):
    """A history of two sites, in one view each, whose members subscribe to topics."""

    def __init__(self) -> None:
        super().__init__(NYC="AB", SFO="DE")
        self.here, self.there = self.group(1, "AB"), self.group(1, "DE")
        for name in "ABDE":
            self.global_view(name, NYC="AB", SFO="DE")
            self.subscribe(name, "*" if name == "A" else "x")

    def subscribe(self, name: str, *topics: str) -> None:
        self.history.add(h.InterestDeclared(self.tick(), self.addresses[name], interest_in(*topics)))

    def ends(self) -> None:
        self.heal()
        self.end("ABDE")

    def from_a(self, *payloads: str, at: str) -> None:
        """Messages of A arrive at the other site."""
        self.deliver(self.proxy("A", "D"), *payloads, at=at)


@pytest.fixture
def writer() -> TopicWriter:
    return TopicWriter()


def test_a_member_without_a_subscription_may_lack_a_topics_messages(writer: TopicWriter) -> None:
    writer.send("A", "A>*/0@x", "A>*/1@y", "A>*/2@x")
    writer.deliver("A", "A>*/0@x", "A>*/1@y", "A>*/2@x", at="A")
    writer.deliver("A", "A>*/0@x", "A>*/2@x", at="B")
    writer.from_a("A>*/0@x", "A>*/2@x", at="DE")
    writer.install(writer.view(2, "AB"), "AB")
    writer.ends()
    assert broken(writer) == []


@pytest.mark.parametrize(("here", "there", "guarantees"), [
    (("A>*/0@x", "A>*/2@x"), ("A>*/2@x",), ["R3"]),
    (("A>*/2@x",), ("A>*/0@x", "A>*/2@x"), ["S5", "L"]),
])
def test_a_member_that_is_subscribed_all_the_time_may_not_lack_them(
    writer: TopicWriter, here: tuple[str, ...], there: tuple[str, ...], guarantees: list[str],
) -> None:
    writer.history.add(h.Remark(writer.at_ns + 3_000_000_000, "they are in the group for a while"))
    writer.at_ns += 3_000_000_000
    writer.send("A", "A>*/0@x", "A>*/1@y", "A>*/2@x")
    writer.deliver("A", "A>*/0@x", "A>*/1@y", "A>*/2@x", at="A")
    writer.deliver("A", *here, at="B")
    writer.from_a(*there, at="DE")
    if "S5" in guarantees:
        writer.install(writer.view(2, "AB"), "AB")
    writer.ends()
    assert set(guarantees) & set(broken(writer))


@pytest.mark.parametrize(("received", "forgotten"), [(2, False), (1, True)])
def test_a_ledger_may_forget_what_arrived_at_a_site_when_no_member_there_wanted_it(
    writer: TopicWriter, received: int, forgotten: bool,
) -> None:
    me = writer.addresses["A"]
    writer.send("A", "A>*/0@y", "A>*/1@y")
    writer.deliver("A", "A>*/0@y", "A>*/1@y", at="A")
    writer.history.add(h.OnDisk(writer.tick(), me, (b"A>*/0@y", b"A>*/1@y"), complete=True))
    writer.subscribe("D", "x", "y")                             # it does by the end, and is owed what comes from now on
    numbers = {me: ((1, received + 1),)}
    writer.history.add(h.LedgerReading(writer.tick(), me, "SFO", {me: 3}, {me: 3}, {}, numbers))
    writer.ends()
    assert broken(writer) == (["R11"] if forgotten else [])


def test_t1_a_topic_that_was_given_up_is_delivered(writer: TopicWriter) -> None:
    writer.send("A", "A>*/0@x")
    writer.deliver("A", "A>*/0@x", at="A")
    writer.subscribe("B", "y")
    writer.deliver("A", "A>*/0@x", at="B")
    assert broken(writer) == ["T1"]


@pytest.mark.parametrize("at", ["B", "D"])
def test_t2_a_hole_after_the_first_message_of_a_subscription(writer: TopicWriter, at: str) -> None:
    writer.send("A", "A>*/0@y", "A>*/1@y", "A>*/2@y")
    writer.deliver("A", "A>*/0@y", "A>*/1@y", "A>*/2@y", at="A")
    writer.subscribe(at, "x", "y")
    if at == "B":
        writer.deliver("A", "A>*/0@y", "A>*/2@y", at="B")
    else:
        writer.from_a("A>*/0@y", "A>*/2@y", at="D")
    assert broken(writer) == ["T2"]


def test_t2_holes_before_a_subscription_between_two_and_of_declared_losses_are_none(writer: TopicWriter) -> None:
    writer.send("A", *(f"A>*/{number}@y" for number in range(8)))
    writer.deliver("A", *(f"A>*/{number}@y" for number in range(8)), at="A")
    writer.subscribe("D", "y")
    writer.from_a("A>*/1@y", "A>*/2@y", at="D")
    writer.subscribe("D")
    writer.subscribe("D", "y")
    writer.from_a("A>*/4@y", at="D")
    writer.history.add(h.Lost(writer.tick(), writer.addresses["D"], "NYC", writer.addresses["A"], 6, 7))
    writer.from_a("A>*/6@y", at="D")
    assert broken(writer) == []


def test_t3_a_message_for_other_sites_is_delivered(writer: TopicWriter) -> None:
    writer.send("A", "A>*/0@x", "A>*/1@x", sites=("LON",))
    writer.deliver("A", "A>*/0@x", "A>*/1@x", at="AB")
    writer.from_a("A>*/1@x", at="DE")
    writer.ends()
    assert broken(writer) == ["T3"]


def test_t3_a_site_that_a_message_is_not_for_owes_nothing(writer: TopicWriter) -> None:
    writer.send("A", "A>*/0@x", sites=("LON",))
    writer.deliver("A", "A>*/0@x", at="AB")
    writer.ends()
    assert broken(writer) == []


def test_every_checker_of_topics_has_a_planted_violation() -> None:
    tests = " ".join(name for name in globals() if name.startswith("test_t"))
    assert [name for name in CHECKERS if name[0] == "T"] == ["T1", "T2", "T3"]
    assert all(f"test_{name.lower()}_" in tests for name in CHECKERS if name[0] == "T")
