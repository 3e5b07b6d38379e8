"""Names of hosts: requests to resolve them, and the answers."""
from __future__ import annotations

import attrs

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.events.base import Event


@attrs.frozen
class ResolveName(Event):
    """Down, from a layer that is configured with names of hosts: resolve `name`; NameResolved follows.

    parameter: its purpose, for the resolvers; again: the address found before does not answer any more; version: the
    IP version to look for first, 4 or 6.
    """

    name: str
    port: int
    parameter: str = "endpoint"
    again: bool = False
    version: int = 4


@attrs.frozen
class NameResolved(Event):
    """Up: `name` with `port` is at `place`, and at `others` too; None: no resolver can resolve it now."""

    name: str
    port: int
    place: PhysicalAddress | None
    others: tuple[PhysicalAddress, ...] = ()

    @property
    def places(self) -> tuple[PhysicalAddress, ...]:
        """All of them."""
        return () if self.place is None else (self.place, *self.others)
