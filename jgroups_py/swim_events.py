"""What travels between SWIM and what stands above it, the application or SERF: membership without views.

Events as in events.py.
"""
from __future__ import annotations

from collections.abc import Mapping

import attrs

from jgroups_py.address import Address, PhysicalAddress
from jgroups_py.events import Event


@attrs.frozen
class JoinPlaces(Event):
    """Down, from the application: members of the group may receive at these places; ask them to take us in."""

    places: tuple[PhysicalAddress, ...]


@attrs.frozen
class SetTags(Event):
    """Down, from the application: our metadata from now on."""

    tags: Mapping[str, str]
    weight: float = 1.0


@attrs.frozen
class UserGossip(Event):
    """Down, from a layer above SWIM: spread `payload` as news are spread."""

    payload: bytes


@attrs.frozen
class UserHeard(Event):
    """Up, from SWIM: a payload of UserGossip arrived from `src`, who need not be its author; it may come often."""

    payload: bytes
    src: Address


@attrs.frozen
class UserStateHeard(Event):
    """Up, from SWIM: what the other side's UserState said in an exchange of all that is known; join: it is new."""

    state: bytes
    join: bool
