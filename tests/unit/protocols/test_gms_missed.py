"""GMS: a MergeView says to each member how many multicasts of the other partitions it has not got."""
from __future__ import annotations

from collections.abc import Mapping

import pytest

from jgroups_py.model.address import Address
from jgroups_py.model.view import MergeView
from jgroups_py.protocols.gms.sent_counts import DEPARTED, after_view, missed_counts, united
from jgroups_py.testing.bench import address
from tests.unit.protocols.gms_group import Members, heal, in_view, split

A, B, C, D = map(address, "ABCD")


def missed(members: Members, name: str) -> dict[str, int]:
    """What the last view of a member says that it has not got."""
    view = members[name].views[-1]
    assert isinstance(view, MergeView)
    return {str(sender): number for sender, number in view.missed.items()}


def test_both_sides_of_a_partition_learn_what_the_other_multicast() -> None:
    members = in_view("ABCD")
    members.multicast("A", b"for all")
    members.run(100)
    split(members, "AB", "CD")
    members.multicast("A", b"1", b"2", b"3")
    members.multicast("D", b"4", b"5")
    members.run(100)
    heal(members, "A", "C")
    members.run(100)
    assert members.agree("ABCD")
    assert {name: missed(members, name) for name in "ABCD"} == {
        "A": {"D": 2}, "B": {"D": 2}, "C": {"A": 3}, "D": {"A": 3}}


def test_multicasts_that_a_member_sent_before_it_knew_of_its_exclusion_are_missed_by_the_others() -> None:
    members = in_view("ABC")
    members.sides = ["AB", "C"]
    members.multicast("C", b"lost", b"too")                    # in the view of all three, but nobody hears it
    members.suspect("C", by="AB")
    members.run(3000)
    members.sides = []
    members.multicast("C", b"am I still in?")                  # in the old view, too
    members.run(200)
    assert members.agree("ABC")
    assert missed(members, "A") == missed(members, "B") == {"C": 3}
    assert missed(members, "C") == {}


def test_messages_of_a_member_that_crashed_before_the_merge_are_reported_as_missed_too() -> None:
    members = in_view("ABCD")
    split(members, "AB", "CD")
    members.multicast("D", b"1", b"2")
    members.run(100)
    members.crash("D")
    members.suspect("D", by="C")
    members.run(100)
    heal(members, "A", "C")
    members.run(200)
    assert members.agree("ABC")
    assert missed(members, "A") == {"D": 2}
    assert missed(members, "C") == {}


def test_missed_messages_are_reported_once_and_not_to_members_that_joined() -> None:
    members = in_view("ABC")
    split(members, "AB", "C")
    members.multicast("A", b"1", b"2")
    members.run(100)
    heal(members, "A", "C")
    members.run(200)
    assert missed(members, "C") == {"A": 2}
    split(members, "AB", "C")
    members.multicast("B", b"3")
    members.run(100)
    heal(members, "A", "C")
    members.run(200)
    assert missed(members, "C") == {"B": 1}


@pytest.mark.parametrize(("agreed", "mine", "told"), [
    ({A: 5, B: 2}, {A: 5, B: 2}, {}),
    ({A: 5, B: 2}, {A: 3}, {A: 2, B: 2}),
    ({C: 9}, {}, {}),                                    # our own are never missed
    ({A: 1}, {A: 4}, {}),
])
def test_a_member_missed_the_difference_of_the_counts(
    agreed: Mapping[Address, int], mine: Mapping[Address, int], told: Mapping[Address, int],
) -> None:
    assert missed_counts(agreed, mine, C) == told


def test_counts_of_the_last_senders_that_left_are_kept() -> None:
    left = {Address(number.to_bytes(16, "big"), str(number)): number for number in range(1, DEPARTED + 3)}
    sums = after_view({**left, A: 7}, {A: 1, B: 2})
    assert sums == {**dict(list(left.items())[2:]), A: 8, B: 2}
    assert list(sums)[-2:] == [A, B]


def test_groups_that_merge_keep_the_higher_number_of_each_sender() -> None:
    assert united([{A: 5, B: 2}, {B: 3, D: 7}], (A, B, C)) == {D: 7, A: 5, B: 3, C: 0}


def test_sums_that_no_application_can_have_sent_never_exceed_what_the_codec_takes() -> None:
    highest = (1 << 62) - 1
    sums = after_view({A: highest, B: highest}, {A: highest})
    assert max(sums.values()) < 1 << 62
    assert max(united([sums, {A: highest}], [A]).values()) < 1 << 62
