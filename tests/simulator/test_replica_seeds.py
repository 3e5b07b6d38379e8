"""Seeds of partitions with replicas that once found a bug (design/track-record.md) find it no more."""
from __future__ import annotations

import pytest

from jgroups_py.testing.simulation import replicas
from tests.simulator.replica_storms import run_storm


@pytest.mark.slow
@pytest.mark.parametrize("seed", [115, 216, 304, 706, 2907, 3887, 18975, 19200])
def test_a_seed_that_found_a_bug_finds_it_no_more(seed: int) -> None:
    assert replicas.run(seed).violations == ()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [7, 54, 146, 606, 7941])
def test_a_storm_that_found_a_bug_finds_it_no_more(seed: int) -> None:
    assert run_storm(seed).guarantee == ""
