"""The first seeds of every profile hold all guarantees, and get into the states the profile is for.

`tox -e sim-30k` and `tox -e sim-100k` run more.
"""
from __future__ import annotations

from collections import Counter

import pytest

from jgroups_py.simulator.profiles import PROFILES
from jgroups_py.simulator.runner import run_seeds
from tests.simulator.marathon import SHARES

SEEDS = {"group": 200, "relay": 120, "relay-crash": 40, "relay-storm": 44, "split-brain": 60, "limits": 60,
         "scale": 16, "site-crash": 40, "operators": 40, "flow": 15, "interleavings": 15, "swim": 8,
         "swim-group": 12, "topics": 12, "replicas": 8, "late": 40, "clocks": 40, "wan": 30, "standby": 30, "large": 25,
         "split-brain-topics": 12, "storm-topics": 12, "scale-topics": 8, "hostile": 24, "states": 40,
         "site-states": 20, "order": 40, "order-sites": 20, "dict": 30, "mqtt": 20, "mqtt-sites": 12, "sealed": 18,
         "sealed-disks": 12, "auth": 12, "certificates": 30, "upgrade": 40, "view-keys": 12, "attacker-site": 16,
         "receipts": 30, "cache": 16, "cache-split": 10, "services": 10, "coordination": 25, "owners": 25,
         "services-sites": 8,
         "attacker": 12, "attacker-insider": 12, "attacker-exmember": 10, "tokens": 12, "versions": 30}
"""As many as fit into `./test`: some two minutes of two cores."""


@pytest.mark.slow
@pytest.mark.parametrize("profile", SEEDS)
def test_the_seeds_hold_all_guarantees_and_get_where_they_should(profile: str) -> None:
    outcomes = list(run_seeds(profile, range(SEEDS[profile])))
    failed = [f"{outcome.command}\n  " + "\n  ".join(outcome.violations[:3])
              for outcome in outcomes if outcome.violations]
    assert not failed, "\n".join(failed)
    reached: Counter[str] = sum((Counter(outcome.reached) for outcome in outcomes), Counter())
    missed = [state for state in PROFILES[profile].reaches if not reached[state]]
    assert not missed, f"{SEEDS[profile]} seeds of {profile} never got into: {', '.join(missed)}"


def test_every_profile_has_its_share() -> None:
    assert set(SEEDS) == set(SHARES) == set(PROFILES)
