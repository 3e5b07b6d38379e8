"""Names by gossip: who is called what, where, and when it last said so itself. Pure; time comes in as an argument.

Each participant tells its neighbours its own name and place (`introduce`) and passes on what it knows of others, with
how long ago those spoke for themselves (`pass_on`). Of two places for one name and port the one that was confirmed
later wins, and what nobody confirmed for `timeout_ns` is forgotten, everywhere at about the same time, because ages
travel along: gossip keeps nobody alive. Source: Aeron's driver name resolver. Deviation: there whatever arrives last
wins, so that old gossip undoes a move.
"""
from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address

import attrs

from jgroups_py.address import PhysicalAddress
from jgroups_py.protocols.names.res import Entry, encode_frames
from jgroups_py.units import NS_PER_MS, seconds

MAX_NAMES = 4096
MAX_NEIGHBOURS = 1024


@attrs.frozen
class Known:
    """Where somebody is, and when it last said so itself (as far as ages tell)."""

    host: str
    confirmed_ns: int


class Gossip:
    """What one participant knows.

    name: its own; place: its own, told to others (a wildcard host: they take where its frames come from).
    cache: (name, port) -> where; neighbours: place -> when it, or somebody about it, last spoke.
    """

    def __init__(self, name: str, place: PhysicalAddress, timeout_ns: int = seconds(10)) -> None:
        self.name = name
        self.place = place
        self.timeout_ns = timeout_ns
        self.cache: dict[tuple[str, int], Known] = {}
        self.neighbours: dict[PhysicalAddress, int] = {}

    # --- what is told -------------------------------------------------------------------------------------------------

    def introduce(self, bootstrap: Iterable[PhysicalAddress]) -> list[tuple[bytes, PhysicalAddress]]:
        """Our own name, to all neighbours and to those of `bootstrap` that are none yet: (frame, to)."""
        host, port = self.place
        [frame] = encode_frames([Entry(self.name, host, port, 0, True)])
        places = dict.fromkeys([*self.neighbours, *bootstrap])
        return [(frame, place) for place in places if place != self.place]

    def pass_on(self, now_ns: int) -> list[tuple[bytes, PhysicalAddress]]:
        """All that we know, to all neighbours."""
        entries = [Entry(name, known.host, port, (now_ns - known.confirmed_ns) // NS_PER_MS)
                   for (name, port), known in self.cache.items()]
        return [(frame, place) for frame in encode_frames(entries) for place in self.neighbours]

    # --- what is heard ------------------------------------------------------------------------------------------------

    def heard(self, entry: Entry, source: str | None, now_ns: int) -> str:
        """An entry of a frame that came from the host `source`; what came of it, for a counter ("": nothing new)."""
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
        self._meet((host, entry.port), confirmed_ns, entry.is_self)
        return self._learn((entry.name, entry.port), Known(host, confirmed_ns))

    def _meet(self, place: PhysicalAddress, confirmed_ns: int, is_self: bool) -> None:
        """Only its own word keeps a neighbour."""
        if place == self.place or (place not in self.neighbours and len(self.neighbours) >= MAX_NEIGHBOURS):
            return
        if is_self or place not in self.neighbours:
            self.neighbours[place] = max(confirmed_ns, self.neighbours.get(place, confirmed_ns))

    def _learn(self, key: tuple[str, int], news: Known) -> str:
        known = self.cache.get(key)
        if known is None:
            if len(self.cache) >= MAX_NAMES:
                return "names_too_many"
            self.cache[key] = news
            return "names_learnt"
        if news.confirmed_ns <= known.confirmed_ns:
            return "" if news.host == known.host else "older_gossip"
        self.cache[key] = news
        return "" if news.host == known.host else "names_moved"

    def forget(self, now_ns: int) -> int:
        """Drop what nobody confirmed in time; how many names."""
        oldest_ns = now_ns - self.timeout_ns
        self.neighbours = {place: at_ns for place, at_ns in self.neighbours.items() if at_ns > oldest_ns}
        old = [key for key, known in self.cache.items() if known.confirmed_ns <= oldest_ns]
        for key in old:
            del self.cache[key]
        return len(old)

    # --- questions ----------------------------------------------------------------------------------------------------

    def find(self, name: str, port: int) -> PhysicalAddress | None:
        """Where `name` is: at this port if somebody of that name is, else where one was confirmed last."""
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
