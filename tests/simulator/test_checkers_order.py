"""The checkers of one order (O1 to O8) find planted violations, and nothing in clean histories."""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from jgroups_py.model.batch import NO_RELAY, NO_TOTAL_ORDER
from jgroups_py.model.units import seconds
from jgroups_py.simulator import history as h
from jgroups_py.simulator.checkers import CHECKERS, Facts, check, order
from tests.simulator.history_writer import HistoryWriter, broken


def uncertain(writer: HistoryWriter, name: str, number: int = 1) -> None:
    writer.history.add(h.Uncertain(writer.tick(), writer.addresses[name], number))


def begun(writer: HistoryWriter) -> None:
    """A and B are in a view; A sent a1 and a2, B sent b1."""
    writer.group(1, "ABC")
    writer.send("A", "a1", "a2")
    writer.send("B", "b1")


# --- clean histories --------------------------------------------------------------------------------------------------

def test_one_order_with_a_rest_breaks_nothing() -> None:
    writer = HistoryWriter()
    begun(writer)
    for name in "AB":
        writer.deliver("A", "a1", at=name, place=1)
        writer.deliver("B", "b1", at=name, place=2)
        uncertain(writer, name)
        writer.deliver("A", "a2", at=name, place=3)
    writer.crash("C")
    writer.group(2, "AB")
    assert check(writer.history) == []
    assert list(order.safe(Facts(writer.history))) == []


def test_a_message_without_an_order_may_come_anywhere() -> None:
    writer = HistoryWriter()
    writer.group(1, "AB")
    writer.send("A", "a1")
    writer.send("A", "free", flags=NO_TOTAL_ORDER)
    writer.deliver("A", "a1", at="A", place=1)
    writer.deliver("A", "free", at="AB", flags=NO_TOTAL_ORDER)
    writer.deliver("A", "a1", at="B", place=1)
    writer.group(2, "AB")
    assert check(writer.history) == []


def test_what_relay_numbers_may_be_overtaken_by_what_it_does_not() -> None:
    writer = HistoryWriter(X="AB")
    writer.group(1, "AB")
    writer.send("B", "numbered", flags=NO_TOTAL_ORDER)
    writer.send("B", "free", flags=NO_TOTAL_ORDER | NO_RELAY)
    writer.deliver("B", "free", at="AB", flags=NO_TOTAL_ORDER | NO_RELAY)
    writer.deliver("B", "numbered", at="AB", flags=NO_TOTAL_ORDER, place=1)
    assert check(writer.history, ["F", "O1", "O3"]) == []


def test_what_relay_numbers_stays_in_order_whatever_its_flags() -> None:
    writer = HistoryWriter(X="AB")
    writer.group(1, "AB")
    writer.send("B", "first", flags=NO_TOTAL_ORDER)
    writer.send("B", "second")
    writer.deliver("B", "second", at="AB", place=1)
    writer.deliver("B", "first", at="AB", flags=NO_TOTAL_ORDER, place=2)
    assert {found.guarantee for found in check(writer.history, ["F", "O1", "O3"])} == {"F", "O3"}


def test_members_that_part_may_have_the_rest_in_another_order() -> None:
    writer = HistoryWriter()
    begun(writer)
    for name, sequence in (("A", "a1 a2 b1"), ("B", "b1 a1 a2")):
        uncertain(writer, name, 3)
        for place, payload in enumerate(sequence.split(), 1):
            writer.deliver(payload[0].upper(), payload, at=name, place=place)
    writer.install(writer.view(2, "A"), "A")
    writer.install(writer.view(2, "B"), "B")
    assert check(writer.history) == []


def test_a_stack_without_an_order_is_not_judged() -> None:
    writer = HistoryWriter()
    begun(writer)
    writer.deliver("A", "a1", "a2", at="AC")
    writer.deliver("B", "b1", at="ABC")
    writer.deliver("A", "a1", "a2", at="B")
    writer.group(2, "ABC")
    assert check(writer.history) == []
    assert [found.guarantee for found in order.differences(Facts(writer.history))] == ["O1"]


# --- planted ----------------------------------------------------------------------------------------------------------

def another_sequence(writer: HistoryWriter) -> None:
    begun(writer)
    for name, sequence in (("A", "a1 a2 b1"), ("B", "b1 a1 a2")):
        uncertain(writer, name, 3)
        for place, payload in enumerate(sequence.split(), 1):
            writer.deliver(payload[0].upper(), payload, at=name, place=place)
    writer.group(2, "AB")


def another_place(writer: HistoryWriter) -> None:
    begun(writer)
    writer.deliver("B", "b1", at="A", place=1)
    writer.deliver("B", "b1", at="B", place=2)
    writer.group(2, "AB")


def a_place_that_goes_back(writer: HistoryWriter) -> None:
    begun(writer)
    writer.deliver("B", "b1", at="A", place=2)
    writer.deliver("A", "a1", at="A", place=1)


def a_message_without_a_place(writer: HistoryWriter) -> None:
    begun(writer)
    writer.deliver("B", "b1", at="A", place=1)
    writer.deliver("A", "a1", at="A")


def no_prefix(writer: HistoryWriter) -> None:
    begun(writer)
    writer.deliver("B", "b1", at="A", place=1)
    writer.deliver("A", "a1", at="B", place=1)
    writer.crash("A")
    writer.install(writer.view(2, "BC"), "BC")


def out_of_the_senders_order(writer: HistoryWriter) -> None:
    begun(writer)
    writer.deliver("A", "a2", at="B", place=1)
    writer.deliver("A", "a1", at="B", place=2)


def answer_first_by_ticket(writer: HistoryWriter) -> None:
    writer.group(1, "ABC")
    writer.send("A", "question")
    writer.deliver("A", "question", at="B", place=1)
    writer.send("B", "answer")
    writer.deliver("B", "answer", at="C", place=1)
    writer.deliver("A", "question", at="C", place=2)


def answer_first_in_the_rest(writer: HistoryWriter) -> None:
    writer.group(1, "ABC")
    writer.send("A", "question")
    writer.deliver("A", "question", at="B", place=1)
    writer.send("B", "answer")
    uncertain(writer, "C", 2)
    writer.deliver("B", "answer", at="C", place=1)
    writer.deliver("A", "question", at="C", place=2)
    writer.install(writer.view(2, "AC"), "AC")


PLANTED = [
    ("O1", another_sequence), ("O1", another_place), ("O1", a_place_that_goes_back), ("O1", a_message_without_a_place),
    ("O2", no_prefix), ("O3", out_of_the_senders_order), ("O4", answer_first_by_ticket),
    ("O4", answer_first_in_the_rest),
]


@pytest.mark.parametrize(("guarantee", "plant"), PLANTED, ids=lambda x: getattr(x, "__name__", x))
def test_a_planted_violation_is_found(guarantee: str, plant: Callable[[HistoryWriter], None]) -> None:
    writer = HistoryWriter()
    plant(writer)
    assert guarantee in broken(writer)


def test_every_checker_of_the_order_has_a_planted_violation() -> None:
    assert sorted(dict.fromkeys(name for name, _ in PLANTED)) == [name for name in sorted(CHECKERS) if name[0] == "O"]


def test_an_answer_of_a_member_that_is_gone_to_one_that_is_gone_may_come_first_in_the_rest() -> None:
    writer = HistoryWriter()
    writer.group(1, "ABC")
    writer.send("A", "question")
    writer.deliver("A", "question", at="B", place=1)
    writer.send("B", "answer")
    uncertain(writer, "C", 2)
    writer.deliver("B", "answer", at="C", place=1)
    writer.deliver("A", "question", at="C", place=2)
    writer.crash("A")
    writer.crash("B")
    writer.group(2, "C")
    assert "O4" not in broken(writer)


def test_remote_messages_in_another_sequence_break_o8() -> None:
    writer = HistoryWriter(NYC="AB", SFO="DE")
    writer.group(1, "AB")
    writer.group(1, "DE")
    for name in "ABDE":
        writer.global_view(name, NYC="AB", SFO="DE")
    writer.send("D", "d1")
    writer.send("A", "a1")
    proxy = writer.proxy("D", "A")
    writer.deliver(proxy, "d1", at="A", place=1)
    writer.deliver("A", "a1", at="A", place=2)
    writer.deliver("A", "a1", at="B", place=1)
    writer.deliver(proxy, "d1", at="B", place=2)
    writer.install(writer.view(2, "AB"), "AB")
    assert "O8" in broken(writer)


def test_a_safe_message_that_another_member_lacks_breaks_o6() -> None:
    writer = HistoryWriter()
    begun(writer)
    writer.deliver("B", "b1", at="A", place=1)
    writer.install(writer.view(2, "A"), "A")
    writer.install(writer.view(2, "BC"), "BC")
    assert [found.guarantee for found in order.safe(Facts(writer.history))] == ["O6"]


def test_a_message_that_waits_though_all_is_well_breaks_o7() -> None:
    writer = HistoryWriter()
    writer.group(1, "AB")
    writer.heal()
    writer.at_ns += seconds(1)
    writer.send("A", "a1", "a2")
    writer.deliver("A", "a1", at="A", place=1)
    assert list(order.prompt(Facts(writer.history))) == []
    writer.at_ns += seconds(2)
    writer.deliver("A", "a2", at="A", place=2)
    assert [found.guarantee for found in order.prompt(Facts(writer.history))] == ["O7"]


def overtaken(facts: Facts) -> bool:
    """O4, message by message: what `order.causal` finds with maxima of positions."""
    found = order.order_of(facts)
    for sequence in found.found.values():
        at = {payload: number for number, payload in enumerate(sequence.payloads)}
        for number, payload in enumerate(sequence.payloads):
            sender = facts.messages[payload].sender
            view, before = found.after[payload]
            if sender == sequence.member or view != sequence.view.id:
                continue
            for earlier in found.found[sender, view].payloads[:before]:
                counts = number < sequence.by_ticket or (sequence.ends is not None and (
                    sender in sequence.ends or facts.messages[earlier].sender in sequence.ends))
                if at.get(earlier, -1) > number and counts:
                    return True
    return False


def test_the_checker_of_causes_agrees_with_a_comparison_of_all_pairs() -> None:
    verdicts = Counter[bool]()
    for seed in range(300):
        rng, writer, sent = Random(seed), HistoryWriter(), 0
        writer.group(1, "ABC")
        queues: dict[str, list[tuple[str, str]]] = {"A": [], "B": [], "C": []}
        for _ in range(rng.randrange(8, 24)):
            name = rng.choice("ABC")
            if rng.random() < 0.4:
                sent += 1
                writer.send(name, f"{name}{sent}")
                for queue in queues.values():
                    queue.insert(max(0, len(queue) - rng.choice((0, 0, 1, 2))), (name, f"{name}{sent}"))
            elif queues[name]:
                src, payload = queues[name].pop(0)
                writer.deliver(src, payload, at=name, place=1)
        if rng.random() < 0.5:
            uncertain(writer, rng.choice("ABC"), 1)
        for name, queue in queues.items():
            for src, payload in queue[rng.randrange(3):]:
                writer.deliver(src, payload, at=name, place=1)
        for name in (gone := rng.choice(("", "A", "AB"))):
            writer.crash(name)
        writer.group(2, "".join(name for name in "ABC" if name not in gone))
        facts = Facts(writer.history)
        verdicts[overtaken(facts)] += 1
        assert bool(list(order.causal(facts))) == overtaken(facts), f"seed {seed}"
    assert min(verdicts[True], verdicts[False]) > 50, verdicts
