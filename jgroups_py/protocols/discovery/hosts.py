"""A list of hosts by address or name: their current addresses, and which names to resolve again. Pure.

A name may have several addresses, as the one of a service in DNS. It is resolved when it is first needed, then once a
second while it is unknown, and likewise while no frame has come from any of its addresses for `reresolve_ns`, so that a
host that restarts at another address is found; and every `refresh_ns`, so that one that was added is.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import attrs

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.events import NameResolved, ResolveName
from jgroups_py.model.name_resolution import is_address
from jgroups_py.model.units import seconds

RETRY_NS = seconds(1)                      # between two attempts to resolve a name that is unknown or silent


@attrs.define
class Named:
    """A host given by name. places: its addresses, resolved at found_ns; asked_ns: when they were last asked for."""

    places: tuple[PhysicalAddress, ...] = ()
    found_ns: int = 0
    asked_ns: int | None = None


def single(place: PhysicalAddress) -> tuple[PhysicalAddress, ...]:
    """The default `spread`: an entry has one physical address."""
    return (place,)


class Hosts:
    """The hosts of a list.

    listed: (address or name, port); spread: gives the physical addresses of one of them (TCPPING's port_range);
    reresolve_ns, refresh_ns: see above; 0: never for that reason.
    Iterating gives the known physical addresses, each once; `place in hosts` is whether `place` is one of them.
    """

    def __init__(
        self, listed: Iterable[PhysicalAddress], reresolve_ns: int,
        spread: Callable[[PhysicalAddress], tuple[PhysicalAddress, ...]] = single, refresh_ns: int = 0,
    ) -> None:
        self._spread = spread
        self._reresolve_ns = reresolve_ns
        self._refresh_ns = refresh_ns
        self._named: dict[PhysicalAddress, Named] = {}
        self._places: dict[PhysicalAddress, None] = {}
        self._answered_ns: dict[PhysicalAddress, int] = {}   # place -> when a frame last came from it
        for host in listed:
            if is_address(host[0]):
                self._places.update(dict.fromkeys(spread(host)))
            else:
                self._named[host] = Named()

    def __iter__(self) -> Iterator[PhysicalAddress]:
        return iter(tuple(self._places))

    def __contains__(self, place: PhysicalAddress) -> bool:
        return place in self._places

    def due(self, now_ns: int, version: int = 4) -> list[ResolveName]:
        """The names to resolve now, to addresses of that IP version if they have any."""
        wanted = []
        for (name, port), named in self._named.items():
            if named.asked_ns is None or self._is_due(named, named.asked_ns, now_ns):
                wanted.append(ResolveName(name, port, again=named.asked_ns is not None, version=version))
                named.asked_ns = now_ns
        return wanted

    def _is_due(self, named: Named, asked_ns: int, now_ns: int) -> bool:
        if now_ns - asked_ns < RETRY_NS:
            return False
        if 0 < self._refresh_ns <= now_ns - asked_ns:
            return True
        # An address without a frame counts from when it was resolved, which gives a new one time to answer.
        answered_ns = max((self._answered_ns.get(place, named.found_ns) for place in named.places), default=0)
        return not named.places or 0 < self._reresolve_ns <= now_ns - answered_ns

    def unknown(self) -> tuple[str, ...]:
        """The names for which no address has been found."""
        return tuple(dict.fromkeys(name for (name, _), named in self._named.items() if not named.places))

    def answered(self, place: PhysicalAddress, now_ns: int) -> None:
        """Record that a frame came from `place`."""
        if place in self._places:
            self._answered_ns[place] = now_ns

    def resolved(self, event: NameResolved, now_ns: int) -> tuple[PhysicalAddress, ...]:
        """Store the addresses of a name; returns those that it did not have before."""
        named = self._named.get((event.name, event.port))
        if named is None or event.place is None:
            return ()
        places = dict.fromkeys(place for each in event.places for place in self._spread(each))
        before = dict.fromkeys(named.places)
        added = tuple(place for place in places if place not in before)
        if len(places) == len(before) and not added:
            return ()
        for place in before:
            if place not in places:
                self._places.pop(place, None)
                self._answered_ns.pop(place, None)
        named.places, named.found_ns = tuple(places), now_ns
        self._places.update(dict.fromkeys(places))
        return added
