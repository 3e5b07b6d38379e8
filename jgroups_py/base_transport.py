"""What all transports share, whatever their frames: where members receive, when each was last heard.

A transport is the lowest layer. It answers the ports below from two tables that its subclass fills from what arrives.
"""
from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

from jgroups_py.address import Address, PhysicalAddress
from jgroups_py.events import Bound
from jgroups_py.ports import AddressBook, FrameRoom, Hearing
from jgroups_py.protocol import Protocol, on


class BaseTransport(Protocol, Hearing, AddressBook, FrameRoom):
    """See the module."""

    def start(self) -> None:
        self.physical: PhysicalAddress | None = None
        self.book: dict[Address, PhysicalAddress] = {}       # member -> where it receives
        self.heard: dict[Address, int] = {}                  # member -> when its last frame came, ns

    @abstractmethod
    def receive(self, frames: Iterable[tuple[bytes, PhysicalAddress | None]]) -> None:
        """Everything that was readable: (data, the sender's physical address if the socket knows) of each frame.

        Each is taken up before the next one is asked for: the sockets may read it only then.
        """

    def heard_ns(self, member: Address) -> int | None:
        return self.heard.get(member)

    def physical_of(self, member: Address) -> PhysicalAddress | None:
        return self.physical if member == self.me else self.book.get(member)

    def my_physical(self) -> PhysicalAddress | None:
        return self.physical

    def has_multicast(self) -> bool:
        return False

    @on(Bound)
    def bound(self, event: Bound) -> None:
        self.physical = event.physical
