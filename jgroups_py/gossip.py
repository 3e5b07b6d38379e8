"""Best-effort broadcasts among peers without a group: what the application says to PEX, and asks it."""
from __future__ import annotations

from abc import ABC, abstractmethod

import attrs

from jgroups_py.address import Address, PhysicalAddress
from jgroups_py.batch import Header
from jgroups_py.events import Event
from jgroups_py.topics import Interest


@attrs.frozen
class Broadcast(Event):
    """Down, from the application: send the payload to the peers that want it, to this share of them; once, unasked.

    headers: the mark of its topic, or none.
    """

    payload: bytes
    headers: tuple[Header, ...] = ()
    ratio: float = 1.0


@attrs.frozen
class PeerInfo:
    """A peer that has answered us: where it receives and what it wants."""

    identity: Address
    place: PhysicalAddress
    interest: Interest


class Peers(ABC):
    """Port: knows whom it has heard from."""

    @abstractmethod
    def known_peers(self) -> tuple[PeerInfo, ...]:
        """All peers, in the order of their identities."""
