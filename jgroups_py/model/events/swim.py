"""Between SWIM and the layers above it, the application or SERF: membership without views."""
from __future__ import annotations

from collections.abc import Mapping

import attrs

from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.events.base import Event


@attrs.frozen
class JoinPlaces(Event):
    """Down, from the application: members of the group may receive at these places; join through them."""

    places: tuple[PhysicalAddress, ...]


@attrs.frozen
class SetTags(Event):
    """Down, from the application: this member's metadata from now on."""

    tags: Mapping[str, str]
    weight: float = 1.0


@attrs.frozen
class UserGossip(Event):
    """Down, from a layer above SWIM: spread `payload` as changes of members are spread."""

    payload: bytes


@attrs.frozen
class UserHeard(Event):
    """Up, from SWIM: a payload of UserGossip arrived from `src`, which need not be its author; it may arrive several
    times."""

    payload: bytes
    src: Address


@attrs.frozen
class UserStateHeard(Event):
    """Up, from SWIM: the state that the peer's UserState added to a full exchange; join: the peer is joining."""

    state: bytes
    join: bool
