"""The cache of one member: pure. What it holds, what is being loaded, and what a notice makes it forget.

A value may be kept only if no notice about its key came since its load *began*: the loader may have read the source
before the write that the notice tells of. So a load that a notice overtakes is *stale*: who asked for it before gets
its value, but it is not kept, and who asks from then on begins a load of its own.

The age of a value counts from when its load began, as it may have been read then. While a member can miss notices
nothing is kept (`open` is False): before its first view, and after its connection has ended.
"""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

import attrs

from jgroups_py.model.counters import counter, declare, drop, table
from jgroups_py.system.drops import LoggedCounters

ENTRY_COST = 256                         # what an entry costs beside its key and value: objects, tables


@attrs.define(eq=False)
class CacheLoad:
    """A value that is being loaded. stale: it is not kept, and nobody joins it any more."""

    key: bytes
    began_ns: int
    stale: bool = False


@attrs.frozen(eq=False)
class CacheEntry:
    """A value that is kept until `expires_ns`."""

    value: bytes
    expires_ns: int


class CacheCore:
    """See the module. max_bytes: of keys, values and ENTRY_COST each; the least recently used are dropped first."""

    COUNTERS = declare(
        counter("hits", "Values that were found."),
        counter("loads", "Loads that were begun, as the value was not there."),
        counter("joined", "Callers that waited for a load which another one had begun."),
        counter("forgotten", "Values that notices removed."),
        counter("stale_loads", "Loads that a notice overtook: their values were not kept."),
        counter("expired", "Values that were older than the time to live."),
        counter("evicted", "Values that were dropped for lack of room."),
        counter("cleared", "Times that everything was forgotten: by a notice, a loss, or a merge."),
        drop("malformed", "Notices that could not be read."),
    )

    def __init__(self, max_bytes: int, ttl_ns: int) -> None:
        self.max_bytes = max_bytes
        self.ttl_ns = ttl_ns
        self.open = False                                    # notices arrive
        self.nbytes = 0
        self.entries: OrderedDict[bytes, CacheEntry] = OrderedDict()         # the least recently used first
        self.loads: dict[bytes, CacheLoad] = {}              # that may be joined
        self.counters = LoggedCounters(table(self.COUNTERS))

    def get(self, key: bytes, now_ns: int) -> bytes | None:
        """The value that is kept; None: there is none, or it is too old."""
        entry = self.entries.get(key)
        if entry is None:
            return None
        if now_ns >= entry.expires_ns:
            self._remove(key)
            self.counters.add("expired")
            return None
        self.entries.move_to_end(key)
        self.counters.add("hits")
        return entry.value

    # --- loads ------------------------------------------------------------------------------------------------------

    def begin(self, load: CacheLoad) -> CacheLoad:
        """Begin a load, or join one of its key that is under way: returns that which goes on."""
        found = self.loads.get(load.key)
        if found is not None:
            self.counters.add("joined")
            return found
        self.counters.add("loads")
        self.loads[load.key] = load
        load.stale = not self.open
        return load

    def loaded(self, load: CacheLoad, value: bytes | None) -> None:
        """A load has ended. value: None: there is none, or it failed; nothing is kept."""
        if self.loads.get(load.key) is load:
            del self.loads[load.key]
        if load.stale:
            self.counters.add("stale_loads")
        elif value is not None:
            self._keep(load.key, CacheEntry(value, load.began_ns + self.ttl_ns))

    def _keep(self, key: bytes, entry: CacheEntry) -> None:
        self._remove(key)
        cost = cost_of(key, entry)
        if cost > self.max_bytes:
            self.counters.add("evicted")
            return
        self.entries[key] = entry
        self.nbytes += cost
        while self.nbytes > self.max_bytes:
            self._remove(next(iter(self.entries)))
            self.counters.add("evicted")

    def _remove(self, key: bytes) -> bool:
        entry = self.entries.pop(key, None)
        if entry is not None:
            self.nbytes -= cost_of(key, entry)
        return entry is not None

    # --- notices ----------------------------------------------------------------------------------------------------

    def forget(self, keys: Iterable[bytes]) -> None:
        """A notice about keys, or an own one that is about to be sent."""
        for key in keys:
            self.counters.add("forgotten", self._remove(key))
            load = self.loads.pop(key, None)
            if load is not None:
                load.stale = True

    def clear(self) -> None:
        """A notice about everything, or notices may have been missed."""
        self.counters.add("cleared")
        self.entries.clear()
        self.nbytes = 0
        for load in self.loads.values():
            load.stale = True
        self.loads.clear()

    def connected(self) -> None:
        """From now on notices arrive. What is being loaded may have missed some."""
        if not self.open:
            self.clear()
            self.open = True

    def disconnected(self) -> None:
        """Notices do not arrive any more."""
        self.open = False
        self.clear()


def cost_of(key: bytes, entry: CacheEntry) -> int:
    """What an entry counts."""
    return len(key) + len(entry.value) + ENTRY_COST
