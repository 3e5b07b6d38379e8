"""Profiles cache and cache-split: caches at all members of all sites (blocks/cache), over a source outside of them.

In `cache` whole sites are away, until they are OFFLINE, and return; in `cache-split` a site splits, both halves relay,
and they merge. The application of the members is in jgroups_py/testing/simulation/caches.py.
"""
from __future__ import annotations

from jgroups_py.simulator.profiles.limits import LimitsProfile
from jgroups_py.simulator.profiles.split_brain import SplitBrainProfile


class CacheProfile(LimitsProfile):
    """Sites that are away for long; their messages are held, or lost and reported."""

    name = "cache"
    bursts = False
    application = True
    reaches = ("sites OFFLINE", "values read", "loads overtaken", "values too old", "all forgotten", "receipts")


class CacheSplitProfile(SplitBrainProfile):
    """Sites that split and merge."""

    name = "cache-split"
    bursts = False
    application = True
    reaches = ("values read", "loads overtaken", "all forgotten", "receipts")
