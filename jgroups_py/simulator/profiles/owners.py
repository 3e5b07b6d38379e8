"""Profile owners: partitions that belong to members (blocks/owners) on one group, under all faults of a group, with
clocks that run at different rates."""
from __future__ import annotations

from jgroups_py.simulator.profiles.coordination import CoordinationProfile


class OwnersProfile(CoordinationProfile):
    """Three to five members; their application is in jgroups_py/testing/simulation/owners.py."""

    name = "owners"
    slow_renewals = False
    reaches = ("partitions owned", "partitions given back", "partitions lost", "moves", "sets left",
               "sets joined again", "writes", "writes refused by a fence", "sessions ended", "owners read")
