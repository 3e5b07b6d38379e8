"""Each checker finds the violation planted in a hand-made history, and nothing in a clean one."""
from __future__ import annotations

from collections.abc import Callable

import pytest

from jgroups_py.batch import NO_RELIABILITY, OOB
from jgroups_py.sim import history as h
from jgroups_py.sim.checkers import CHECKERS, check
from jgroups_py.view import View, ViewId
from tests.sim.tale import Tale, broken

# --- clean histories --------------------------------------------------------------------------------------------------

def test_an_ordinary_history_breaks_nothing() -> None:
    tale = Tale()
    tale.group(1, "ABC")
    tale.send("A", "a1", "a2")
    tale.deliver("A", "a1", "a2", at="ABC")
    tale.send("B", "b1", dest="C")
    tale.deliver("B", "b1", at="C", unicast=True)
    tale.crash("C")
    tale.group(2, "AB")
    tale.heal()
    tale.send("A", "a3")
    tale.deliver("A", "a3", at="AB")
    tale.end("AB")
    assert check(tale.history) == []


def test_a_split_and_merge_breaks_nothing() -> None:
    tale = Tale()
    tale.group(1, "ABCD")
    tale.send("A", "a1")
    tale.deliver("A", "a1", at="AB")
    left = tale.install(tale.view(2, "AB"), "AB")
    right = tale.install(tale.view(2, "CD"), "CD")
    tale.send("C", "c1")
    tale.deliver("C", "c1", at="CD")
    lacks_a, lacks_c = {"A": 1}, {"C": 1}
    tale.install(tale.view(3, "ABCD", (left, right)), "ABCD", A=lacks_c, B=lacks_c, C=lacks_a, D=lacks_a)
    assert check(tale.history) == []


def test_unreliable_messages_may_be_lost_and_come_twice_and_oob_ones_overtake() -> None:
    tale = Tale()
    tale.group(1, "AB")
    tale.send("A", "u1", flags=NO_RELIABILITY)
    tale.send("A", "u2", flags=NO_RELIABILITY)
    tale.deliver("A", "u2", "u2", at="B", flags=NO_RELIABILITY)
    tale.send("A", "a1")
    tale.send("A", "o1", flags=OOB)
    tale.deliver("A", "o1", at="AB", flags=OOB)
    tale.deliver("A", "a1", at="AB")
    tale.group(2, "AB")
    assert check(tale.history) == []


def test_what_is_sent_to_a_member_that_was_gone_for_a_while_may_be_lost() -> None:
    tale = Tale()
    tale.group(1, "ABC")
    tale.send("A", "a1", dest="B")
    tale.send("A", "a2")
    left, right = tale.install(tale.view(2, "AC"), "AC"), tale.install(tale.view(2, "B"), "B")
    tale.deliver("A", "a2", at="AC")
    tale.install(tale.view(3, "ABC", (left, right)), "ABC", B={"A": 1})
    tale.heal()
    tale.end("ABC")
    assert check(tale.history) == []


def forgotten(kept: int, numbers: int) -> Tale:
    """B misses a2 and a3, told that nobody keeps so many `numbers` of A's. kept: messages that it gets."""
    tale = Tale(NYC="ABC")
    tale.group(1, "ABC")
    tale.send("A", "a1", "a2", "a3", "a4")
    tale.deliver("A", "a1", "a2", "a3", "a4", at="AC")
    tale.deliver("A", "a1", at="B")
    tale.history.add(h.Lost(tale.tick(), tale.who["B"], "", tale.who["A"], 2, 2 + numbers))
    tale.deliver("A", *("a2", "a3")[:kept], "a4", at="B")
    return tale


def test_what_nobody_keeps_any_more_is_no_hole_and_no_difference() -> None:
    tale = forgotten(0, 2)
    tale.history.add(h.Lost(tale.tick(), tale.who["B"], "NYC", tale.who["A"], 2, 4))       # RELAY's word for the same
    left, right = tale.install(tale.view(2, "AB"), "AB"), tale.install(tale.view(2, "C"), "C")
    tale.install(tale.view(3, "ABC", (left, right)), "ABC")
    tale.heal()
    tale.end("ABC")
    assert check(tale.history) == []


def test_it_excuses_no_more_than_it_has_numbers_and_no_number_of_relay() -> None:
    tale = forgotten(0, 1)
    tale.group(2, "ABC")
    assert {"F", "S5", "S9"} <= set(broken(tale)), "of two, one was told; and RELAY did not say which"
    far = Tale(NYC="AB", SFO="D")
    far.group(1, "AB")
    far.install(far.view(1, "D"), "D")
    far.sees("D", NYC="AB", SFO="D")
    far.send("A", "a1", "a2", "a3")
    far.deliver("A", "a1", "a2", "a3", at="AB")
    far.deliver(far.proxy("A", "A"), "a1", at="D")
    far.history.add(h.Lost(far.tick(), far.who["D"], "", far.who["A"], 2, 3))
    far.deliver(far.proxy("A", "A"), "a3", at="D")
    assert "R4" in broken(far), "NAKACK's number 2 is not RELAY's"


def test_a_forged_loss_of_very_many_numbers_is_judged_without_counting_them() -> None:
    tale = Tale(NYC="AB")
    tale.group(1, "AB")
    for _ in range(2):
        tale.history.add(h.Lost(tale.tick(), tale.who["B"], "NYC", tale.who["A"], 1, 1 << 61))
    assert broken(tale) == ["S9"]
    assert "told twice that it lost number 1 of A" in str(check(tale.history)[0])


# --- planted violations -----------------------------------------------------------------------------------------------

def not_in_its_view(tale: Tale) -> None:
    tale.install(tale.view(1, "AB"), "ABC")


def view_goes_back(tale: Tale) -> None:
    tale.group(5, "AB")
    tale.group(4, "AB")


def delivery_before_the_first_view(tale: Tale) -> None:
    tale.group(1, "A")
    tale.send("A", "a1")
    tale.deliver("A", "a1", at="B")


def send_before_the_first_view(tale: Tale) -> None:
    tale.send("A", "a1")


def same_id_other_order(tale: Tale) -> None:
    tale.install(View(ViewId(1, tale.who["A"]), (tale.who["A"], tale.who["B"])), "A")
    tale.install(View(ViewId(1, tale.who["A"]), (tale.who["B"], tale.who["A"])), "B")


def message_from_nowhere(tale: Tale) -> None:
    tale.group(1, "AB")
    tale.deliver("A", "ghost", at="B")


def delivered_before_it_was_sent(tale: Tale) -> None:
    tale.group(1, "A")
    tale.deliver("A", "early", at="A")
    tale.send("A", "early")


def wrong_sender(tale: Tale) -> None:
    tale.group(1, "AB")
    tale.send("A", "a1")
    tale.deliver("B", "a1", at="AB")


def unicast_to_somebody_else(tale: Tale) -> None:
    tale.group(1, "ABC")
    tale.send("A", "a1", dest="B")
    tale.deliver("A", "a1", at="C", unicast=True)


def delivered_twice(tale: Tale) -> None:
    tale.group(1, "A")
    tale.send("A", "a1")
    tale.deliver("A", "a1", at="AA")


def delivered_in_two_views(tale: Tale) -> None:
    tale.group(1, "AB")
    tale.send("A", "a1")
    tale.deliver("A", "a1", at="A")
    tale.group(2, "AB")
    tale.deliver("A", "a1", at="B")


def survivor_lacks_a_message(tale: Tale) -> None:
    tale.group(1, "ABC")
    tale.send("C", "c1")
    tale.deliver("C", "c1", at="A")
    tale.crash("C")
    tale.group(2, "AB")


def survivor_came_another_way(tale: Tale) -> None:
    tale.group(1, "AB")
    alone = tale.install(tale.view(2, "B"), "B")
    other = tale.view(1, "AB")
    tale.install(tale.view(3, "AB", (other, alone)), "AB")


def merge_hides_what_was_missed(tale: Tale) -> None:
    left, right = tale.group(1, "AB"), tale.group(1, "CD")
    tale.send("A", "a1", "a2")
    tale.deliver("A", "a1", "a2", at="AB")
    tale.install(tale.view(3, "ABCD", (left, right)), "ABCD", C={"A": 2}, D={"A": 1})


def merge_names_a_wrong_subgroup(tale: Tale) -> None:
    left, right = tale.group(1, "AB"), tale.group(1, "CD")
    tale.install(tale.view(2, "CD"), "CD")
    tale.install(tale.view(3, "ABCD", (left, right)), "ABCD")


def merge_that_is_no_merge_view(tale: Tale) -> None:
    tale.group(1, "AB")
    tale.group(1, "CD")
    tale.group(2, "ABCD")


def merge_names_a_group_that_is_not_in_it(tale: Tale) -> None:
    left, right = tale.group(1, "AB"), tale.group(1, "CD")
    tale.install(tale.view(3, "AB", (left, right)), "AB")


def out_of_order(tale: Tale) -> None:
    tale.group(1, "A")
    tale.send("A", "a1", "a2")
    tale.deliver("A", "a2", "a1", at="A")


def hole(tale: Tale) -> None:
    tale.group(1, "A")
    tale.send("A", "a1", "a2", "a3")
    tale.deliver("A", "a1", "a3", at="A")


def unicast_hole(tale: Tale) -> None:
    tale.group(1, "AB")
    tale.send("A", "a1", "a2", "a3", dest="B")
    tale.deliver("A", "a1", "a3", at="B", unicast=True)


def no_exact_view(tale: Tale) -> None:
    tale.group(1, "ABC")
    tale.crash("C")
    tale.heal()
    tale.end("AB")


def own_message_never_comes(tale: Tale) -> None:
    tale.group(1, "A")
    tale.send("A", "a1")
    tale.heal()
    tale.end("A")


def final_message_never_comes(tale: Tale) -> None:
    tale.group(1, "AB")
    tale.send("A", "a1")
    tale.deliver("A", "a1", at="A")
    tale.heal()
    tale.end("AB")


def final_unicast_never_comes(tale: Tale) -> None:
    tale.group(1, "AB")
    tale.send("A", "a1", dest="B")
    tale.heal()
    tale.end("AB")


def unicast_is_lost_between_two_that_were_never_apart(tale: Tale) -> None:
    tale.group(1, "ABC")
    tale.send("A", "a1", dest="B")
    tale.crash("C")
    tale.group(2, "AB")
    tale.heal()
    tale.end("AB")


def multicast_is_lost_between_two_that_were_never_apart(tale: Tale) -> None:
    tale.group(1, "ABC")
    tale.send("A", "a1")
    tale.crash("C")
    tale.group(2, "AB")
    tale.deliver("A", "a1", at="A")
    tale.heal()
    tale.end("AB")


def a_send_never_ends(tale: Tale) -> None:
    tale.group(1, "A")
    tale.heal()
    tale.end("A", pending=7)


def a_leave_never_ends(tale: Tale) -> None:
    tale.group(1, "AB")
    tale.wants_to_leave("B")
    tale.group(2, "A")
    tale.heal()
    tale.end("A")


PLANTED = [
    ("M1", not_in_its_view), ("M2", view_goes_back), ("M3", delivery_before_the_first_view),
    ("M3", send_before_the_first_view), ("M4", same_id_other_order), ("S1", message_from_nowhere),
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
def test_a_planted_violation_is_found(guarantee: str, plant: Callable[[Tale], None]) -> None:
    tale = Tale()
    plant(tale)
    assert guarantee in broken(tale)


def test_every_checker_of_a_group_has_a_planted_violation() -> None:
    planted = dict.fromkeys(guarantee for guarantee, _ in PLANTED)
    assert sorted(planted) == sorted(name for name in CHECKERS if name[0] not in "RTW")


def test_a_violation_says_who_and_what() -> None:
    tale = Tale()
    hole(tale)
    (found,) = check(tale.history)
    assert str(found) == ("F at 0.030000 s: A delivered a1 and then a3 in A|1, without 1 that A sent between "
                          "them")
