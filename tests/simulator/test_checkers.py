"""Each checker finds the violation planted in a hand-made history, and nothing in a clean one."""
from __future__ import annotations

from collections.abc import Callable

import pytest

from jgroups_py.model.batch import NO_RELIABILITY, OOB
from jgroups_py.model.view import View, ViewId
from jgroups_py.simulator import history as h
from jgroups_py.simulator.checkers import CHECKERS, check
from tests.simulator.history_writer import HistoryWriter, broken

# --- clean histories --------------------------------------------------------------------------------------------------

def test_an_ordinary_history_breaks_nothing() -> None:
    writer = HistoryWriter()
    writer.group(1, "ABC")
    writer.send("A", "a1", "a2")
    writer.deliver("A", "a1", "a2", at="ABC")
    writer.send("B", "b1", dest="C")
    writer.deliver("B", "b1", at="C", unicast=True)
    writer.crash("C")
    writer.group(2, "AB")
    writer.heal()
    writer.send("A", "a3")
    writer.deliver("A", "a3", at="AB")
    writer.end("AB")
    assert check(writer.history) == []


def test_a_split_and_merge_breaks_nothing() -> None:
    writer = HistoryWriter()
    writer.group(1, "ABCD")
    writer.send("A", "a1")
    writer.deliver("A", "a1", at="AB")
    left = writer.install(writer.view(2, "AB"), "AB")
    right = writer.install(writer.view(2, "CD"), "CD")
    writer.send("C", "c1")
    writer.deliver("C", "c1", at="CD")
    lacks_a, lacks_c = {"A": 1}, {"C": 1}
    writer.install(writer.view(3, "ABCD", (left, right)), "ABCD", A=lacks_c, B=lacks_c, C=lacks_a, D=lacks_a)
    assert check(writer.history) == []


def test_who_has_crashed_or_left_may_be_called_gone() -> None:
    writer = HistoryWriter()
    writer.group(1, "ABC")
    writer.crash("B")
    writer.gone("A", "B")
    writer.leave("C")
    writer.gone("A", "C")
    assert check(writer.history) == []


def test_unreliable_messages_may_be_lost_and_come_twice_and_oob_ones_overtake() -> None:
    writer = HistoryWriter()
    writer.group(1, "AB")
    writer.send("A", "u1", flags=NO_RELIABILITY)
    writer.send("A", "u2", flags=NO_RELIABILITY)
    writer.deliver("A", "u2", "u2", at="B", flags=NO_RELIABILITY)
    writer.send("A", "a1")
    writer.send("A", "o1", flags=OOB)
    writer.deliver("A", "o1", at="AB", flags=OOB)
    writer.deliver("A", "a1", at="AB")
    writer.group(2, "AB")
    assert check(writer.history) == []


def test_what_is_sent_to_a_member_that_was_gone_for_a_while_may_be_lost() -> None:
    writer = HistoryWriter()
    writer.group(1, "ABC")
    writer.send("A", "a1", dest="B")
    writer.send("A", "a2")
    left, right = writer.install(writer.view(2, "AC"), "AC"), writer.install(writer.view(2, "B"), "B")
    writer.deliver("A", "a2", at="AC")
    writer.install(writer.view(3, "ABC", (left, right)), "ABC", B={"A": 1})
    writer.heal()
    writer.end("ABC")
    assert check(writer.history) == []


def forgotten(kept: int, numbers: int) -> HistoryWriter:
    """B misses a2 and a3; it is reported that no member keeps so many `numbers` of A's. kept: messages that it gets."""
    writer = HistoryWriter(NYC="ABC")
    writer.group(1, "ABC")
    writer.send("A", "a1", "a2", "a3", "a4")
    writer.deliver("A", "a1", "a2", "a3", "a4", at="AC")
    writer.deliver("A", "a1", at="B")
    writer.history.add(h.Lost(writer.tick(), writer.addresses["B"], "", writer.addresses["A"], 2, 2 + numbers))
    writer.deliver("A", *("a2", "a3")[:kept], "a4", at="B")
    return writer


def test_what_no_member_keeps_any_more_is_no_hole_and_no_difference() -> None:
    writer = forgotten(0, 2)
    # RELAY's entry for the same loss.
    writer.history.add(h.Lost(writer.tick(), writer.addresses["B"], "NYC", writer.addresses["A"], 2, 4))
    left, right = writer.install(writer.view(2, "AB"), "AB"), writer.install(writer.view(2, "C"), "C")
    writer.install(writer.view(3, "ABC", (left, right)), "ABC")
    writer.heal()
    writer.end("ABC")
    assert check(writer.history) == []


def test_it_excuses_no_more_than_it_has_numbers_and_no_number_of_relay() -> None:
    writer = forgotten(0, 1)
    writer.group(2, "ABC")
    assert {"F", "S5", "S9"} <= set(broken(writer)), "of two, one was reported; and RELAY did not report which"
    far = HistoryWriter(NYC="AB", SFO="D")
    far.group(1, "AB")
    far.install(far.view(1, "D"), "D")
    far.global_view("D", NYC="AB", SFO="D")
    far.send("A", "a1", "a2", "a3")
    far.deliver("A", "a1", "a2", "a3", at="AB")
    far.deliver(far.proxy("A", "A"), "a1", at="D")
    far.history.add(h.Lost(far.tick(), far.addresses["D"], "", far.addresses["A"], 2, 3))
    far.deliver(far.proxy("A", "A"), "a3", at="D")
    assert "R4" in broken(far), "NAKACK's number 2 is not RELAY's"


def test_a_forged_loss_of_very_many_numbers_is_judged_without_counting_them() -> None:
    writer = HistoryWriter(NYC="AB")
    writer.group(1, "AB")
    for _ in range(2):
        writer.history.add(h.Lost(writer.tick(), writer.addresses["B"], "NYC", writer.addresses["A"], 1, 1 << 61))
    assert broken(writer) == ["S9"]
    assert "number 1 of A was declared lost twice" in str(check(writer.history)[0])


# --- planted violations -----------------------------------------------------------------------------------------------

def not_in_its_view(writer: HistoryWriter) -> None:
    writer.install(writer.view(1, "AB"), "ABC")


def view_goes_back(writer: HistoryWriter) -> None:
    writer.group(5, "AB")
    writer.group(4, "AB")


def delivery_before_the_first_view(writer: HistoryWriter) -> None:
    writer.group(1, "A")
    writer.send("A", "a1")
    writer.deliver("A", "a1", at="B")


def send_before_the_first_view(writer: HistoryWriter) -> None:
    writer.send("A", "a1")


def same_id_other_order(writer: HistoryWriter) -> None:
    writer.install(View(ViewId(1, writer.addresses["A"]), (writer.addresses["A"], writer.addresses["B"])), "A")
    writer.install(View(ViewId(1, writer.addresses["A"]), (writer.addresses["B"], writer.addresses["A"])), "B")


def message_from_nowhere(writer: HistoryWriter) -> None:
    writer.group(1, "AB")
    writer.deliver("A", "ghost", at="B")


def delivered_before_it_was_sent(writer: HistoryWriter) -> None:
    writer.group(1, "A")
    writer.deliver("A", "early", at="A")
    writer.send("A", "early")


def wrong_sender(writer: HistoryWriter) -> None:
    writer.group(1, "AB")
    writer.send("A", "a1")
    writer.deliver("B", "a1", at="AB")


def unicast_to_somebody_else(writer: HistoryWriter) -> None:
    writer.group(1, "ABC")
    writer.send("A", "a1", dest="B")
    writer.deliver("A", "a1", at="C", unicast=True)


def delivered_twice(writer: HistoryWriter) -> None:
    writer.group(1, "A")
    writer.send("A", "a1")
    writer.deliver("A", "a1", at="AA")


def delivered_in_two_views(writer: HistoryWriter) -> None:
    writer.group(1, "AB")
    writer.send("A", "a1")
    writer.deliver("A", "a1", at="A")
    writer.group(2, "AB")
    writer.deliver("A", "a1", at="B")


def survivor_lacks_a_message(writer: HistoryWriter) -> None:
    writer.group(1, "ABC")
    writer.send("C", "c1")
    writer.deliver("C", "c1", at="A")
    writer.crash("C")
    writer.group(2, "AB")


def survivor_came_another_way(writer: HistoryWriter) -> None:
    writer.group(1, "AB")
    alone = writer.install(writer.view(2, "B"), "B")
    other = writer.view(1, "AB")
    writer.install(writer.view(3, "AB", (other, alone)), "AB")


def merge_hides_what_was_missed(writer: HistoryWriter) -> None:
    left, right = writer.group(1, "AB"), writer.group(1, "CD")
    writer.send("A", "a1", "a2")
    writer.deliver("A", "a1", "a2", at="AB")
    writer.install(writer.view(3, "ABCD", (left, right)), "ABCD", C={"A": 2}, D={"A": 1})


def merge_names_a_wrong_subgroup(writer: HistoryWriter) -> None:
    left, right = writer.group(1, "AB"), writer.group(1, "CD")
    writer.install(writer.view(2, "CD"), "CD")
    writer.install(writer.view(3, "ABCD", (left, right)), "ABCD")


def merge_that_is_no_merge_view(writer: HistoryWriter) -> None:
    writer.group(1, "AB")
    writer.group(1, "CD")
    writer.group(2, "ABCD")


def merge_names_a_group_that_is_not_in_it(writer: HistoryWriter) -> None:
    left, right = writer.group(1, "AB"), writer.group(1, "CD")
    writer.install(writer.view(3, "AB", (left, right)), "AB")


def out_of_order(writer: HistoryWriter) -> None:
    writer.group(1, "A")
    writer.send("A", "a1", "a2")
    writer.deliver("A", "a2", "a1", at="A")


def hole(writer: HistoryWriter) -> None:
    writer.group(1, "A")
    writer.send("A", "a1", "a2", "a3")
    writer.deliver("A", "a1", "a3", at="A")


def unicast_hole(writer: HistoryWriter) -> None:
    writer.group(1, "AB")
    writer.send("A", "a1", "a2", "a3", dest="B")
    writer.deliver("A", "a1", "a3", at="B", unicast=True)


def no_exact_view(writer: HistoryWriter) -> None:
    writer.group(1, "ABC")
    writer.crash("C")
    writer.heal()
    writer.end("AB")


def own_message_never_comes(writer: HistoryWriter) -> None:
    writer.group(1, "A")
    writer.send("A", "a1")
    writer.heal()
    writer.end("A")


def final_message_never_comes(writer: HistoryWriter) -> None:
    writer.group(1, "AB")
    writer.send("A", "a1")
    writer.deliver("A", "a1", at="A")
    writer.heal()
    writer.end("AB")


def final_unicast_never_comes(writer: HistoryWriter) -> None:
    writer.group(1, "AB")
    writer.send("A", "a1", dest="B")
    writer.heal()
    writer.end("AB")


def unicast_is_lost_between_two_that_were_never_apart(writer: HistoryWriter) -> None:
    writer.group(1, "ABC")
    writer.send("A", "a1", dest="B")
    writer.crash("C")
    writer.group(2, "AB")
    writer.heal()
    writer.end("AB")


def multicast_is_lost_between_two_that_were_never_apart(writer: HistoryWriter) -> None:
    writer.group(1, "ABC")
    writer.send("A", "a1")
    writer.crash("C")
    writer.group(2, "AB")
    writer.deliver("A", "a1", at="A")
    writer.heal()
    writer.end("AB")


def a_send_never_ends(writer: HistoryWriter) -> None:
    writer.group(1, "A")
    writer.heal()
    writer.end("A", pending=7)


def a_leave_never_ends(writer: HistoryWriter) -> None:
    writer.group(1, "AB")
    writer.leaving("B")
    writer.group(2, "A")
    writer.heal()
    writer.end("A")


def called_gone_while_it_runs(writer: HistoryWriter) -> None:
    writer.group(1, "AB")
    writer.gone("A", "B")
    writer.crash("B")


PLANTED = [
    ("M1", not_in_its_view), ("M2", view_goes_back), ("M3", delivery_before_the_first_view),
    ("M3", send_before_the_first_view), ("M4", same_id_other_order),
    ("M5", called_gone_while_it_runs), ("S1", message_from_nowhere),
    ("S1", delivered_before_it_was_sent), ("S1", wrong_sender), ("S1", unicast_to_somebody_else),
    ("S2", delivered_twice), ("S4", delivered_in_two_views), ("S5", survivor_lacks_a_message),
    ("S7", survivor_came_another_way), ("S8", merge_names_a_wrong_subgroup), ("S8", merge_that_is_no_merge_view),
    ("S8", merge_names_a_group_that_is_not_in_it), ("S9", merge_hides_what_was_missed), ("F", out_of_order),
    ("F", hole), ("F", unicast_hole),
    ("L", no_exact_view), ("L", own_message_never_comes), ("L", final_message_never_comes),
    ("L", final_unicast_never_comes), ("L", unicast_is_lost_between_two_that_were_never_apart),
    ("L", multicast_is_lost_between_two_that_were_never_apart), ("L", a_send_never_ends), ("L", a_leave_never_ends),
]


@pytest.mark.parametrize(("guarantee", "plant"), PLANTED, ids=lambda x: getattr(x, "__name__", x))
def test_a_planted_violation_is_found(guarantee: str, plant: Callable[[HistoryWriter], None]) -> None:
    writer = HistoryWriter()
    plant(writer)
    assert guarantee in broken(writer)


def test_every_checker_of_a_group_has_a_planted_violation() -> None:
    planted = dict.fromkeys(guarantee for guarantee, _ in PLANTED)
    assert sorted(planted) == sorted(name for name in CHECKERS if name[0] not in "ORTW")


def test_a_violation_names_the_member_and_the_message() -> None:
    writer = HistoryWriter()
    hole(writer)
    (found,) = check(writer.history)
    assert str(found) == ("F at 0.030000 s: A delivered a1 and then a3 in A|1, without 1 that A sent between "
                          "them")
