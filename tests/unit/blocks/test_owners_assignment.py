"""Assignments: each member has its share, and nothing moves that need not."""
from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from jgroups_py.blocks.coordination.assignment import Participant, assign
from jgroups_py.testing.simulation.balance import least_moves, unbalanced


def even(*sessions: int) -> dict[int, Participant]:
    return {session: Participant(1, f"m{session}") for session in sessions}


def moved(before: dict[int, int], after: dict[int, int], members: dict[int, Participant]) -> int:
    return sum(after[partition] != session for partition, session in before.items() if session in members)


def test_a_member_that_comes_takes_its_share_and_causes_no_other_move() -> None:
    before = assign("s", 64, even(1, 2, 3), {})
    after = assign("s", 64, even(1, 2, 3, 4), before)
    assert {after[partition] for partition in range(64) if after[partition] != before[partition]} == {4}
    assert Counter(after.values()) == {1: 16, 2: 16, 3: 16, 4: 16}


def test_what_a_member_had_that_goes_is_spread_and_nothing_else_moves() -> None:
    before = assign("s", 64, even(1, 2, 3, 4), {})
    after = assign("s", 64, even(1, 2, 4), before)
    assert all(before[partition] == 3 for partition in range(64) if after[partition] != before[partition])
    assert sorted(Counter(after.values()).values()) == [21, 21, 22]


def test_a_member_has_partitions_in_proportion_to_its_weight() -> None:
    members = {1: Participant(1, "a"), 2: Participant(3, "b")}
    assert Counter(assign("s", 64, members, {}).values()) == {1: 16, 2: 48}


def test_a_member_that_comes_back_under_its_label_has_most_of_what_it_had() -> None:
    """Others give up what they rank last, and that is what the placement drew for the member that was away."""
    before = assign("s", 64, even(1, 2, 3, 4), {})
    away = assign("s", 64, even(1, 2, 4), before)
    back = assign("s", 64, {**even(1, 2, 4), 9: Participant(1, "m3")}, away)
    again = sum(before[partition] == 3 for partition, session in back.items() if session == 9)
    assert again >= 12, f"{again} of 16"


def test_members_with_one_label_are_told_apart() -> None:
    members = {1: Participant(1, "a"), 2: Participant(1, "a"), 3: Participant(1, "a/2")}
    assert Counter(assign("s", 9, members, {}).values()) == {1: 3, 2: 3, 3: 3}


def test_without_members_nothing_is_assigned() -> None:
    assert assign("s", 4, {}, {0: 1}) == {}


def test_the_same_inputs_have_the_same_result_everywhere() -> None:
    assert [assign("orders", 8, even(1, 2, 3), {})[partition] for partition in range(8)] == [3, 3, 2, 2, 2, 1, 1, 1]


@pytest.mark.parametrize("seed", range(30))
def test_of_random_changes_each_is_balanced_with_the_least_moves(seed: int) -> None:
    rng = Random(seed)
    members: dict[int, Participant] = {}
    before: dict[int, int] = {}
    partitions, name = rng.choice((1, 7, 64)), f"s{seed}"
    for session in range(20):
        if members and rng.random() < 0.4:
            del members[rng.choice(list(members))]
        else:
            members[session] = Participant(rng.choice((1, 1, 2, 9)), f"m{session}")
        after = assign(name, partitions, members, before)
        assert unbalanced(partitions, members, after) == ""
        assert moved(before, after, members) == least_moves(partitions, members, before.values())
        before = after


def test_the_checkers_of_balance_and_moves_can_fail() -> None:
    members = even(1, 2)
    assert unbalanced(4, members, {0: 1, 1: 1, 2: 1, 3: 2})
    assert unbalanced(4, members, {0: 1, 1: 1, 2: 2})
    assert unbalanced(4, {}, {0: 1})
    assert least_moves(4, members, [1, 1, 1, 1]) == 2
    assert least_moves(5, members, [1, 1, 1, 2, 2]) == 0
    assert least_moves(5, even(1, 2, 3), [1, 1, 1, 2, 2]) == 1
