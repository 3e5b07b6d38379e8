"""Seeds of receipts in one group that once found a bug (design/track-record.md) find it no more."""
from __future__ import annotations

import pytest

from jgroups_py.testing.simulation import receipts


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 5, 9, 26])
def test_a_seed_that_found_a_bug_finds_it_no_more(seed: int) -> None:
    outcome = receipts.run(seed)
    assert outcome.violations == ()
    assert outcome.reached["receipts"] > 0
