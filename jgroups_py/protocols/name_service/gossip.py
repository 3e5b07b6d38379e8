"""Names by gossip: names, their addresses, and when their owners last confirmed them. Pure; time is an argument.

Each participant sends its neighbours its own name and address (`announce`), and passes on its cache of other names with
the time since their owners confirmed them (`pass_on`). Of two addresses for one name and port the one confirmed later
wins. A name without a confirmation for `timeout_ns` is forgotten, at all participants at about the same time, because
the ages are sent along: passing a name on does not renew it. Source: Aeron's driver name resolver. Deviation: there the
latest frame wins, so that old gossip undoes a move.
"""
from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address

import attrs

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.counters import counter, declare, drop
from jgroups_py.model.units import NS_PER_MS, seconds
from jgroups_py.protocols.name_service.res import NameEntry, encode_frames

MAX_NAMES = 4096
MAX_NEIGHBOURS = 1024


@attrs.frozen
class KnownName:
    """The host of a name, and when its owner last confirmed it, computed from ages on the way."""

    host: str
    confirmed_ns: int


class NameGossip:
    """The state of one participant.

    name: its own; place: its own address, as announced (with a wildcard host receivers use the source of its frames).
    cache: (name, port) -> host and confirmation; neighbours: address -> its latest confirmation.
    """

    COUNTERS = declare(
        counter("names_added", "Names that entered the cache."),
        counter("names_moved", "Names that moved to another address."),
        drop("names_too_many", "Names not stored, since the cache is full."),
        drop("older_gossip", "Entries older than the cached one of the name."),
        drop("entries_too_old", "Entries whose last confirmation is too long ago."),
        drop("entries_without_address", "Entries without an address, where the sender's is not known either."),
    )

    def __init__(self, name: str, place: PhysicalAddress, timeout_ns: int = seconds(10)) -> None:
        self.name = name
        self.place = place
        self.timeout_ns = timeout_ns
        self.cache: dict[tuple[str, int], KnownName] = {}
        self.neighbours: dict[PhysicalAddress, int] = {}

    # --- sending ------------------------------------------------------------------------------------------------------

    def announce(self, bootstrap: Iterable[PhysicalAddress]) -> list[tuple[bytes, PhysicalAddress]]:
        """The own name, to all neighbours and to those of `bootstrap` that are not neighbours yet: (frame, to)."""
        host, port = self.place
        [frame] = encode_frames([NameEntry(self.name, host, port, 0, True)])
        places = dict.fromkeys([*self.neighbours, *bootstrap])
        return [(frame, place) for place in places if place != self.place]

    def pass_on(self, now_ns: int) -> list[tuple[bytes, PhysicalAddress]]:
        """The cache, to all neighbours: (frame, to)."""
        entries = [NameEntry(name, known.host, port, (now_ns - known.confirmed_ns) // NS_PER_MS)
                   for (name, port), known in self.cache.items()]
        return [(frame, place) for frame in encode_frames(entries) for place in self.neighbours]

    # --- receiving ----------------------------------------------------------------------------------------------------

    def take(self, entry: NameEntry, source: str | None, now_ns: int) -> str:
        """Take an entry of a frame from the host `source`; returns the counter of the outcome ("": nothing new)."""
        if entry.name == self.name and entry.port == self.place[1]:
            return ""
        host = entry.host
        if ip_address(host).is_unspecified:
            if source is None or not entry.is_self:
                return "entries_without_address"
            host = source
        confirmed_ns = now_ns if entry.is_self else now_ns - entry.age_ms * NS_PER_MS
        if now_ns - confirmed_ns >= self.timeout_ns:
            return "entries_too_old"
        self._confirm_neighbour((host, entry.port), confirmed_ns, entry.is_self)
        return self._store((entry.name, entry.port), KnownName(host, confirmed_ns))

    def _confirm_neighbour(self, place: PhysicalAddress, confirmed_ns: int, is_self: bool) -> None:
        """Add a neighbour, or renew it; only its own frames renew it, or gossip would keep dead neighbours for ever."""
        if place == self.place or (place not in self.neighbours and len(self.neighbours) >= MAX_NEIGHBOURS):
            return
        if is_self or place not in self.neighbours:
            self.neighbours[place] = max(confirmed_ns, self.neighbours.get(place, confirmed_ns))

    def _store(self, key: tuple[str, int], latest: KnownName) -> str:
        known = self.cache.get(key)
        if known is None:
            if len(self.cache) >= MAX_NAMES:
                return "names_too_many"
            self.cache[key] = latest
            return "names_added"
        if latest.confirmed_ns <= known.confirmed_ns:
            return "" if latest.host == known.host else "older_gossip"
        self.cache[key] = latest
        return "" if latest.host == known.host else "names_moved"

    def forget(self, now_ns: int) -> int:
        """Drop neighbours and names without a confirmation in time; returns the number of names."""
        oldest_ns = now_ns - self.timeout_ns
        self.neighbours = {place: at_ns for place, at_ns in self.neighbours.items() if at_ns > oldest_ns}
        old = [key for key, known in self.cache.items() if known.confirmed_ns <= oldest_ns]
        for key in old:
            del self.cache[key]
        return len(old)

    # --- lookup -------------------------------------------------------------------------------------------------------

    def find(self, name: str, port: int) -> PhysicalAddress | None:
        """The address of `name`: with this port if that is cached, else the one with the latest confirmation."""
        if name == self.name and port == self.place[1] and not ip_address(self.place[0]).is_unspecified:
            return self.place
        known = self.cache.get((name, port))
        if known is not None:
            return known.host, port
        found = [(known.confirmed_ns, known.host, at) for (other, at), known in self.cache.items() if other == name]
        if not found:
            return None
        _, host, at = max(found)
        return host, at
