"""Placement: the members of each partition, equal everywhere; section 3 of the reference, acceptance cases 9 to 11."""
from __future__ import annotations

import math
import sys
from collections import Counter
from itertools import combinations, pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest

from jgroups_py.blocks.placement import Candidate, Placement, draws, vectors

ROOT = Path(__file__).parents[3]
MANY = 100_000
NAMES = [f"p{number}" for number in range(MANY)]


def placement(*weights: float, zones: int = 0) -> Placement:
    return Placement([Candidate(f"m{number}", weight, f"z{number % zones}" if zones else "")
                      for number, weight in enumerate(weights)])


def words() -> list[int]:
    """Hashes of all sizes, the extremes too."""
    rng = Random(1)
    some = [rng.getrandbits(64) >> rng.randrange(64) for _ in range(20_000)]
    return [0, 1, draws.MASK, 1 << 63, (1 << 63) - 1, *some, *(draws.MASK - word for word in some)]


# --- the draws --------------------------------------------------------------------------------------------------------

def test_draws_agree_bit_for_bit() -> None:
    """One by one and vectorised."""
    every = words()
    assert np.array_equal(vectors.exponentials(np.array(every, np.uint64)), [draws.exponential(word) for word in every])
    member = draws.hash_member("m", b"")
    assert vectors.pairs(np.array(every, np.uint64), member).tolist() == [draws.pair(word, member) for word in every]


def test_draws_are_logarithms() -> None:
    for word in words():
        u = (2 * (word >> draws.DRAW_SHIFT) + 1) / 2 ** 53
        wanted = -math.log(u) if u < 0.5 else -math.log1p(u - 1)
        assert draws.exponential(word) == pytest.approx(wanted, rel=1e-13)


def test_draws_stay_what_they_are() -> None:
    """Another version of this code must place as this one does."""
    member = draws.hash_member("member", b"key")
    word = draws.pair(draws.hash_partition("partition", b"key"), member)
    assert (f"{word:016x}", draws.exponential(word).hex()) == GOLDEN_DRAW
    assert placement(1, 1, 2, 4).place("orders/7", 4).ids == GOLDEN_RANKING


GOLDEN_DRAW = ("8d30e19a01de710f", "0x1.30ac438a7ba54p-1")
GOLDEN_RANKING = ("m3", "m1", "m2", "m0")


def chi_square(counts: np.ndarray, expected: float) -> float:
    """How many standard deviations the statistic is above what it should be."""
    statistic = float(((counts - expected) ** 2 / expected).sum())
    freedom = counts.size - 1
    return (statistic - freedom) / math.sqrt(2 * freedom)


@pytest.fixture(scope="module")
def hashed() -> np.ndarray:
    """The pairs of partitions and members whose names differ as little as names do: a row a member."""
    every = np.array([draws.hash_partition(name, b"") for name in NAMES], np.uint64)
    return np.array([vectors.pairs(every, draws.hash_member(f"m{number}", b"")) for number in range(12)])


def test_pairs_are_uniform_in_every_byte(hashed: np.ndarray) -> None:
    for shift in range(0, 64, 8):
        bins = np.bincount(((hashed >> np.uint64(shift)) & np.uint64(255)).astype(int).ravel(), minlength=256)
        assert abs(chi_square(bins, hashed.size / 256)) < 5


def test_members_are_independent_of_each_other(hashed: np.ndarray) -> None:
    """Two members' draws for one partition fill a 16 x 16 table evenly, by the upper bits that draws use."""
    upper = (hashed >> np.uint64(60)).astype(int)
    for one, other in combinations(range(len(upper)), 2):
        assert abs(chi_square(np.bincount(upper[one] * 16 + upper[other], minlength=256), MANY / 256)) < 5


def test_partitions_are_independent_of_each_other(hashed: np.ndarray) -> None:
    """So are the draws of neighbouring partitions at one member."""
    upper = (hashed >> np.uint64(60)).astype(int)
    for row in upper:
        assert abs(chi_square(np.bincount(row[:-1] * 16 + row[1:], minlength=256), (MANY - 1) / 256)) < 5


def test_squares_of_pairs_are_independent(hashed: np.ndarray) -> None:
    """Two members and two partitions: what a single xor of their hashes would get wrong (its four words sum to 0)."""
    four = hashed[::2, ::2] ^ hashed[1::2, ::2] ^ hashed[::2, 1::2] ^ hashed[1::2, 1::2]
    bins = np.bincount((four >> np.uint64(56)).astype(int).ravel(), minlength=256)
    assert abs(chi_square(bins, four.size / 256)) < 5


def test_a_flipped_bit_flips_half_of_the_bits() -> None:
    """Of the partition's hash, and of either of the member's words (strict avalanche, 0.5 on average, none far off)."""
    rng = Random(2)
    flips = np.zeros((3, 64, 64))
    rounds = 1000
    for _ in range(rounds):
        parts = [rng.getrandbits(64) for _ in range(3)]
        whole = draws.pair(parts[0], (parts[1], parts[2]))
        for which in range(2):                               # the last word is mixed once only, see below
            for bit in range(0, 64, 7):
                changed = [part ^ (1 << bit if at == which else 0) for at, part in enumerate(parts)]
                difference = whole ^ draws.pair(changed[0], (changed[1], changed[2]))
                flips[which, bit] += [(difference >> out) & 1 for out in range(64)]
    shares = flips[:2, ::7] / rounds
    assert abs(shares.mean() - 0.5) < 0.005
    assert shares.min() > 0.4
    assert shares.max() < 0.6


# --- placing ----------------------------------------------------------------------------------------------------------

def shares(found: Placement, k: int = 1) -> dict[str, float]:
    counts = Counter(found.assign(NAMES, k).ravel().tolist())
    return {found.candidates[at].id: count / MANY for at, count in counts.items()}


def test_accept_3_9_shares_follow_the_weights() -> None:
    assert shares(placement(1, 1, 2, 4)) == pytest.approx({"m0": .125, "m1": .125, "m2": .25, "m3": .5}, abs=.006)


def test_accept_3_10_only_what_has_to_move_moves() -> None:
    weights = {f"m{number}": 1.0 + number % 3 for number in range(8)}
    before = sets(weights)
    without = sets({member: weight for member, weight in weights.items() if member != "m3"})
    assert_moved(before, without, lost="m3")
    assert sets(weights) == before                           # it is back: the same map
    heavier = sets({**weights, "m5": 4.0})
    assert_moved(heavier, before, lost="m5")                 # seen backwards: partitions leave m5 only
    assert sum("m5" in held for held in heavier) > 1.1 * sum("m5" in held for held in before)


def sets(weights: dict[str, float], zones: int = 0) -> list[frozenset[str]]:
    found = Placement([Candidate(member, weight, f"z{int(member[1:]) % zones}" if zones else "")
                       for member, weight in weights.items()])
    return [frozenset(found.candidates[at].id for at in row)
            for row in found.assign(NAMES[:20_000], 3, spread=bool(zones)).tolist()]


def assert_moved(before: list[frozenset[str]], after: list[frozenset[str]], lost: str) -> None:
    """From `before` to `after`, only replicas at `lost` went elsewhere."""
    moved = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert moved
    assert all(old - new == {lost} and len(new - old) == 1 for old, new in moved)


@pytest.mark.parametrize("zones", [2, 3, 5])
def test_with_zones_too_only_what_has_to_move_moves(zones: int) -> None:
    weights = {f"m{number}": 1.0 + number % 3 for number in range(9)}
    before = sets(weights, zones)
    without = sets({member: weight for member, weight in weights.items() if member != "m3"}, zones)
    assert_moved(before, without, lost="m3")


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("k", [1, 3, 7])
def test_one_by_one_and_at_once_are_the_same(k: int, spread: bool) -> None:
    found = placement(1, 0.3, 2, 4, 1, 7, zones=2)
    table = found.assign(NAMES[:3000], k, spread=spread).tolist()
    for name, row in zip(NAMES, table, strict=False):
        placed = found.place(name, k, spread=spread)
        assert [found.candidates[at] for at in row if at >= 0] == list(placed.candidates)
        assert row.count(-1) == k - len(placed.candidates)


def test_ties_go_to_the_lower_id_in_both_forms() -> None:
    found = placement(1, 1, 1)
    found._members = [found._members[0]] * 3                 # three members with one hash
    assert found.place("x", 3).ids == ("m0", "m1", "m2")
    assert found.assign(["x"], 3).tolist() == [[0, 1, 2]]


def test_more_replicas_than_members_is_reported() -> None:
    placed = placement(1, 1).place("x", 3)
    assert sorted(placed.ids) == ["m0", "m1"]
    assert placed.under_replicated
    assert not placement(1, 1, 1).place("x", 3).under_replicated


def test_replicas_are_spread_over_zones() -> None:
    found = placement(1, 1, 100, 1, 1, 100, zones=3)
    for name in NAMES[:500]:
        assert len({candidate.zone for candidate in found.place(name, 3, spread=True).candidates}) == 3
        zones = Counter(candidate.zone for candidate in found.place(name, 5, spread=True).candidates)
        assert max(zones.values()) == 2


def test_a_weight_of_nothing_gets_nothing() -> None:
    assert set(placement(0, 1, 1).place("x", 3).ids) == {"m1", "m2"}


def test_a_key_makes_another_placement() -> None:
    members = [Candidate(f"m{number}") for number in range(5)]
    one, other = Placement(members, "one").assign(NAMES), Placement(members, "other").assign(NAMES)
    assert (one == other).mean() == pytest.approx(0.2, abs=0.01)


def test_scaling_all_weights_changes_nothing() -> None:
    assert np.array_equal(placement(1, 2, 3).assign(NAMES[:5000], 3), placement(4, 8, 12).assign(NAMES[:5000], 3))


def test_an_empty_placement_places_nowhere() -> None:
    assert placement().place("x", 2).ids == ()
    assert placement().assign(["x", "y"], 2).tolist() == [[-1, -1]] * 2


@pytest.mark.parametrize(("make", "says"), [
    (lambda: Candidate(""), "needs an id"),
    (lambda: Candidate("a", -1), "weight -1"),
    (lambda: Candidate("a", math.nan), "weight nan"),
    (lambda: Candidate("a", math.inf), "weight inf"),
    (lambda: Placement([Candidate("a"), Candidate("a")]), "'a' occurs twice"),
    (lambda: Placement([], key="k" * 65), "64 are allowed"),
    (lambda: placement(1).place("x", 0), "1 or more"),
    (lambda: placement(1).assign(["x"], 0), "1 or more"),
])
def test_bad_input_is_refused(make: object, says: str) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match=says):
        make()


def test_without_numpy_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jgroups_py.blocks.placement.vectors", None)
    with pytest.raises(ImportError, match=r"jgroups_py\[placement\]"):
        placement(1).assign(["x"])


def test_members_that_leave_one_after_the_other_move_their_own_partitions_only() -> None:
    weights = {f"m{number}": 1.0 + number for number in range(6)}
    maps = [sets(dict(list(weights.items())[:count])) for count in range(6, 3, -1)]
    for (before, after), lost in zip(pairwise(maps), ("m5", "m4"), strict=True):
        assert_moved(before, after, lost)
