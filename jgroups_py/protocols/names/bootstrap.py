"""The neighbours that are told our name first: by address or name, found again when they moved. Pure."""
from __future__ import annotations

from collections.abc import Container, Iterable

import attrs

from jgroups_py.address import PhysicalAddress
from jgroups_py.errors import ConfigError
from jgroups_py.resolver import is_address, split_place


@attrs.define
class Bootstrap:
    """One of them. place: where it was found last; asked_ns: when its name was looked for last."""

    host: str
    port: int
    place: PhysicalAddress | None = None
    asked_ns: int | None = None


class Bootstraps:
    """All of them. problems: what is wrong with those entries that mean nobody; they do not harm the others."""

    def __init__(self, entries: Iterable[str], port: int, retry_ns: int) -> None:
        self.items: list[Bootstrap] = []
        self.problems: list[str] = []
        self._retry_ns = retry_ns
        for text in entries:
            try:
                host, number = split_place(text, port)
            except ConfigError as error:
                self.problems.append(str(error))
            else:
                self.items.append(Bootstrap(host, number, (host, number) if is_address(host) else None))

    def places(self) -> list[PhysicalAddress]:
        """Where those are that were found."""
        return [item.place for item in self.items if item.place is not None]

    def due(self, neighbours: Container[PhysicalAddress], now_ns: int) -> list[tuple[str, int, bool]]:
        """Names to look for now, (name, port, whether again): of those that are no neighbours, now and then."""
        found = []
        for item in self.items:
            rests = item.asked_ns is not None and now_ns - item.asked_ns < self._retry_ns
            if not (is_address(item.host) or rests or item.place in neighbours):
                found.append((item.host, item.port, item.asked_ns is not None))
                item.asked_ns = now_ns
        return found

    def resolved(self, name: str, port: int, place: PhysicalAddress) -> bool:
        """A name was found; whether that is news of one of ours."""
        moved = [item for item in self.items if (item.host, item.port) == (name, port) and item.place != place]
        for item in moved:
            item.place = place
        return bool(moved)

    def present(self, neighbours: Container[PhysicalAddress]) -> int:
        """How many are neighbours."""
        return sum(item.place in neighbours for item in self.items)
