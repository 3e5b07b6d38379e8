"""The checkers of owners can fail, and what they found once is found no more."""
from __future__ import annotations

import pytest

from jgroups_py.testing.simulation import owners

BEYOND = 0.06                              # three times what the rates of clocks may differ by


@pytest.mark.long
@pytest.mark.slow
def test_clocks_beyond_the_bound_break_a1_and_nothing_that_does_not_lean_on_them() -> None:
    violations = owners.run(21, drift=BEYOND).violations
    assert violations
    assert all(text.startswith("A1 ") for text in map(str, violations))
    assert owners.run(21).violations == ()


@pytest.mark.long
@pytest.mark.slow
def test_without_a_fence_updates_are_lost() -> None:
    violations = owners.run(0, fenced=False).violations
    assert violations
    assert all(text.startswith("A2 ") for text in map(str, violations))
    assert owners.run(0).violations == ()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [127, 176, 100069, 100165, 100166])
def test_a_seed_that_found_a_bug_finds_it_no_more(seed: int) -> None:
    assert owners.run(seed).violations == ()
