"""A list of hosts by address or name: where they are now, and which names to look for again. Pure.

A name is looked for when it is first needed, once a second while nobody knows it, and likewise while nobody has
answered from where it was for `reresolve_ns`, so that a host which comes back elsewhere is found.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import attrs

from jgroups_py.address import PhysicalAddress
from jgroups_py.naming import NameResolved, ResolveName
from jgroups_py.resolver import is_address
from jgroups_py.units import seconds

RETRY_NS = seconds(1)                      # a name that is unknown, or silent, is looked for no more often than this


@attrs.define
class Named:
    """A host that was given by name. places: where it was found, at found_ns; asked_ns: when it was looked for last."""

    places: tuple[PhysicalAddress, ...] = ()
    found_ns: int = 0
    asked_ns: int | None = None


def itself(place: PhysicalAddress) -> tuple[PhysicalAddress, ...]:
    """A host is in one place."""
    return (place,)


class Hosts:
    """The hosts of a list.

    listed: (address or name, port); spread: the places that one of them stands for (TCPPING's port_range); iterating
    gives the places that are known, each once; `place in hosts` says whether it is one of them.
    """

    def __init__(
        self, listed: Iterable[PhysicalAddress], reresolve_ns: int,
        spread: Callable[[PhysicalAddress], tuple[PhysicalAddress, ...]] = itself,
    ) -> None:
        self._spread = spread
        self._reresolve_ns = reresolve_ns
        self._named: dict[PhysicalAddress, Named] = {}
        self._places: dict[PhysicalAddress, None] = {}
        self._answered_ns: dict[PhysicalAddress, int] = {}   # place -> when somebody there last spoke
        for host in listed:
            if is_address(host[0]):
                self._places.update(dict.fromkeys(spread(host)))
            else:
                self._named[host] = Named()

    def __iter__(self) -> Iterator[PhysicalAddress]:
        return iter(tuple(self._places))

    def __contains__(self, place: PhysicalAddress) -> bool:
        return place in self._places

    def due(self, now_ns: int) -> list[ResolveName]:
        """Which names to look for now."""
        wanted = []
        for (name, port), named in self._named.items():
            if named.asked_ns is None or self._is_due(named, named.asked_ns, now_ns):
                wanted.append(ResolveName(name, port, again=named.asked_ns is not None))
                named.asked_ns = now_ns
        return wanted

    def _is_due(self, named: Named, asked_ns: int, now_ns: int) -> bool:
        if now_ns - asked_ns < RETRY_NS:
            return False
        heard_ns = max((self._answered_ns.get(place, named.found_ns) for place in named.places), default=0)
        return not named.places or 0 < self._reresolve_ns <= now_ns - heard_ns

    def answered(self, place: PhysicalAddress, now_ns: int) -> None:
        """Somebody at `place` spoke."""
        if place in self._places:
            self._answered_ns[place] = now_ns

    def resolved(self, event: NameResolved, now_ns: int) -> tuple[PhysicalAddress, ...]:
        """A name was found, or not; the places that were not known before."""
        named = self._named.get((event.name, event.port))
        if named is None or event.place is None:
            return ()
        places = self._spread(event.place)
        if places == named.places:
            return ()
        for place in named.places:
            self._places.pop(place, None)
            self._answered_ns.pop(place, None)
        named.places, named.found_ns = places, now_ns
        self._places.update(dict.fromkeys(places))
        return places
