"""Safeguards of caches (blocks/cache), shown by profiles cache and cache-split."""
from __future__ import annotations

from typing import Any

from jgroups_py.blocks.cache.cache import Cache, CacheHub
from jgroups_py.blocks.cache.core import CacheCore, CacheEntry, CacheLoad
from jgroups_py.model.outputs import MessagesLost, Output, SiteStatusChanged, ViewInstalled
from jgroups_py.model.units import seconds
from jgroups_py.model.view import View
from jgroups_py.testing.simulation import caches
from tests.simulator.planted_bugs.safeguard import Patch, Safeguard

PROFILE, SPLIT = caches.PROFILES

heard = CacheHub._heard


def keeps_loads(self: CacheCore, keys: Any) -> None:
    """What is being loaded is kept afterwards."""
    for key in keys:
        self._remove(key)


def ages_from_its_end(self: CacheCore, load: CacheLoad, value: bytes | None) -> None:
    """The age of a value is doubled."""
    self.loads.pop(load.key, None)
    if value is not None and not load.stale:
        self._keep(load.key, CacheEntry(value, load.began_ns + self.ttl_ns + seconds(4)))


def hears_no_loss(self: CacheHub, output: Output) -> None:
    """Each of the two covers for the other in most cases: what is lost is lost for a site that was OFFLINE."""
    if not isinstance(output, MessagesLost | SiteStatusChanged):
        heard(self, output)


def hears_no_merge(self: CacheHub, output: Output) -> None:
    if isinstance(output, ViewInstalled):
        output = ViewInstalled(View(output.view.id, output.view.members))
    heard(self, output)


def keeps_everything(self: CacheCore, key: bytes, entry: CacheEntry) -> None:
    self._remove(key)
    self.entries[key] = entry
    self.nbytes += len(key) + len(entry.value) + 256


def takes_no_notice(self: Cache[Any, Any], payloads: Any) -> None:
    """Only the sender forgets."""


def repeats_nothing(self: CacheHub) -> None:
    """A member with a notice that meets a site says nothing."""


def guard(name: str, left: str, owner: Any, method: str, without: Any, profile: str, breaks: str) -> Safeguard:
    """A safeguard of one function."""
    return Safeguard(name, "cache", left, (Patch(owner, method, without),), profile, breaks)


CACHE_SAFEGUARDS = (
    guard("notices are carried out", "only the sender forgets", Cache, "receive", takes_no_notice, PROFILE, "N1"),
    guard("a notice overtakes a load", "its value is kept", CacheCore, "forget", keeps_loads, PROFILE, "N1"),
    guard("the age counts from the load on", "4 s more", CacheCore, "loaded", ages_from_its_end, PROFILE, "N2"),
    guard("losses, sites back from OFFLINE clear it", "no effect", CacheHub, "_heard", hears_no_loss, PROFILE, "N3"),
    guard("merges clear a cache", "nothing happens", CacheHub, "_heard", hears_no_merge, SPLIT, "N3"),
    guard("who has a notice and meets a site has all forget", "it says nothing", CacheHub, "_repeat", repeats_nothing,
          SPLIT, "N3"),
    guard("room is bounded", "all values are kept", CacheCore, "_keep", keeps_everything, PROFILE, "N4"),
)
