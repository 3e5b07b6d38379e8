"""The configured neighbours, to which a member's name is sent first: by address or name, which is re-resolved. Pure."""
from __future__ import annotations

from collections.abc import Container, Iterable

import attrs

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.name_resolution import is_address, split_place


@attrs.define
class Bootstrap:
    """One of them. place: its latest address; requested_ns: when its name was last given to the resolvers."""

    host: str
    port: int
    place: PhysicalAddress | None = None
    requested_ns: int | None = None


class Bootstraps:
    """All of them. problems: the errors of malformed entries, which leave the others usable."""

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
        """The addresses of those that are resolved."""
        return [item.place for item in self.items if item.place is not None]

    def due(self, neighbours: Container[PhysicalAddress], now_ns: int) -> list[tuple[str, int, bool]]:
        """Names to resolve now, (name, port, whether again): of those that are not neighbours, every `retry_ns`."""
        found = []
        for item in self.items:
            waits = item.requested_ns is not None and now_ns - item.requested_ns < self._retry_ns
            if not (is_address(item.host) or waits or item.place in neighbours):
                found.append((item.host, item.port, item.requested_ns is not None))
                item.requested_ns = now_ns
        return found

    def resolved(self, name: str, port: int, place: PhysicalAddress) -> bool:
        """Store the address of a name; True if that changes an entry."""
        moved = [item for item in self.items if (item.host, item.port) == (name, port) and item.place != place]
        for item in moved:
            item.place = place
        return bool(moved)

    def present(self, neighbours: Container[PhysicalAddress]) -> int:
        """How many of them are neighbours."""
        return sum(item.place in neighbours for item in self.items)
