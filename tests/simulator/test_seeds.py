"""The first seeds of every profile hold all guarantees, and get into the states the profile is for.

`tox -e sim-30k` and `tox -e sim-100k` run more.
"""
from __future__ import annotations

from collections import Counter

import pytest

from jgroups_py.simulator.profiles import PROFILES
from jgroups_py.simulator.runner import Outcome, run_seeds
from tests.simulator.marathon import SHARES

SEEDS = {"group": 80, "relay": 40, "relay-crash": 16, "relay-storm": 12, "split-brain": 24, "limits": 24,
         "scale": 8, "site-crash": 16, "operators": 16, "flow": 10, "interleavings": 10, "swim": 8,
         "swim-group": 12, "topics": 12, "replicas": 8, "late": 16, "clocks": 20, "wan": 14, "standby": 14, "large": 12,
         "split-brain-topics": 8, "storm-topics": 6, "scale-topics": 4, "hostile": 12, "states": 20,
         "site-states": 12, "order": 18, "order-sites": 10, "order-storm": 6, "order-split": 6, "order-topics": 8,
         "dict": 16, "mqtt": 20, "mqtt-expiry": 14, "mqtt-slow": 14,
         "mqtt-sites": 12, "sealed": 10,
         "sealed-disks": 8, "auth": 12, "certificates": 14, "upgrade": 20, "view-keys": 12, "attacker-site": 8,
         "receipts": 14, "cache": 10, "cache-split": 8, "services": 8, "coordination": 25, "owners": 12,
         "services-sites": 8,
         "attacker": 8, "attacker-insider": 8, "attacker-exmember": 8, "tokens": 8, "versions": 14}
"""As many as fit into `./test --long`: some five minutes of two cores."""
FEW = 1
"""Of each profile in `./test`."""


@pytest.mark.slow
@pytest.mark.parametrize("profile", SEEDS)
def test_the_very_first_seeds_hold_all_guarantees(profile: str) -> None:
    broken = [outcome for outcome in run_seeds(profile, range(FEW)) if outcome.violations]
    assert not broken, said(broken)


def said(broken: list[Outcome]) -> str:
    """What they broke, and how each is run again."""
    return "\n".join(f"{outcome.command}\n  " + "\n  ".join(outcome.violations[:3]) for outcome in broken)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("profile", SEEDS)
def test_the_seeds_hold_all_guarantees_and_get_where_they_should(profile: str) -> None:
    outcomes = list(run_seeds(profile, range(SEEDS[profile])))
    broken = [outcome for outcome in outcomes if outcome.violations]
    assert not broken, said(broken)
    reached: Counter[str] = sum((Counter(outcome.reached) for outcome in outcomes), Counter())
    missed = [state for state in PROFILES[profile].reaches if not reached[state]]
    assert not missed, f"{SEEDS[profile]} seeds of {profile} never got into: {', '.join(missed)}"


def test_every_profile_has_its_share() -> None:
    assert set(SEEDS) == set(SHARES) == set(PROFILES)
