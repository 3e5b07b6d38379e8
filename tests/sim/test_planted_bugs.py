"""The simulator finds planted bugs: each safeguard, once removed, breaks a guarantee within `LIMIT` seeds."""
from __future__ import annotations

import pytest

from tests.sim.planted_bugs import SAFEGUARDS, Safeguard

LIMIT = 150


@pytest.mark.slow
@pytest.mark.parametrize("safeguard", SAFEGUARDS, ids=lambda safeguard: safeguard.name.replace(" ", "-"))
def test_without_the_safeguard_a_guarantee_breaks(safeguard: Safeguard) -> None:
    assert safeguard.first_found(range(LIMIT)) is not None
