"""At least 300 seeds of every profile hold all guarantees; `tox -e sim-long` runs 20,000 of each."""
from __future__ import annotations

import pytest

from jgroups_py.sim.profiles import PROFILES
from jgroups_py.sim.runner import run_seed

SEEDS = 300
CHUNK = 10


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_the_seeds_hold_all_guarantees(profile: str, first: int) -> None:
    outcomes = [run_seed(profile, seed) for seed in range(first, first + CHUNK)]
    failed = [f"{outcome.command}\n  " + "\n  ".join(outcome.violations[:3])
              for outcome in outcomes if outcome.violations]
    assert not failed, "\n".join(failed)
