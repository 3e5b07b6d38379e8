"""The simulator finds planted bugs: each safeguard, once removed, breaks a guarantee within `LIMIT` seeds."""
from __future__ import annotations

import pytest

from jgroups_py.sim.runner import run_seed
from tests.sim.planted import SAFEGUARDS, Safeguard

LIMIT = 150


@pytest.mark.slow
@pytest.mark.parametrize("safeguard", SAFEGUARDS, ids=lambda safeguard: safeguard.name.replace(" ", "-"))
def test_without_the_safeguard_a_guarantee_breaks(safeguard: Safeguard, monkeypatch: pytest.MonkeyPatch) -> None:
    original = safeguard.owner.__dict__[safeguard.method]
    safeguard.without.__dict__.update(original.__dict__)             # the marks that tie it to headers and events
    monkeypatch.setattr(safeguard.owner, safeguard.method, safeguard.without)
    outcomes = (run_seed(safeguard.profile, seed) for seed in range(LIMIT))
    assert any(safeguard.breaks in outcome.guarantees for outcome in outcomes)
