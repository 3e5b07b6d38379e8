"""The checkers of coordination can fail, and what they found once is found no more."""
from __future__ import annotations

import pytest

from jgroups_py.testing.simulation import coordination

BEYOND = 0.06                              # three times what the rates of clocks may differ by


@pytest.mark.slow
def test_clocks_beyond_the_bound_break_l3_and_nothing_that_does_not_lean_on_them() -> None:
    violations = coordination.run(41, drift=BEYOND).violations
    assert violations
    assert all(text.startswith("L3 ") for text in map(str, violations))
    assert coordination.run(41).violations == ()


@pytest.mark.slow
def test_without_a_fence_updates_are_lost() -> None:
    violations = coordination.run(14, fenced=False).violations
    assert violations
    assert all(text.startswith("L2 ") for text in map(str, violations))
    assert coordination.run(14).violations == ()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [153])
def test_a_seed_that_found_a_bug_finds_it_no_more(seed: int) -> None:
    assert coordination.run(seed).violations == ()
