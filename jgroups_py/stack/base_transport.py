"""What all transports share, whatever their frames: where members receive, when the last frame of each arrived.

A transport is the lowest layer. It implements its ports with two tables, which the subclass fills from what arrives.
"""
from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.events import Bound
from jgroups_py.model.ports import AddressBook, FrameRoom, LastFrames
from jgroups_py.stack.protocol import Protocol, on


class BaseTransport(Protocol, LastFrames, AddressBook, FrameRoom):
    """See the module."""

    def start(self) -> None:
        self.physical: PhysicalAddress | None = None
        self.book: dict[Address, PhysicalAddress] = {}       # member -> where it receives
        self.last_frames: dict[Address, int] = {}            # member -> when its last frame came, ns

    @abstractmethod
    def receive(self, frames: Iterable[tuple[bytes, PhysicalAddress | None]]) -> None:
        """Everything that was readable: (data, the sender's physical address if the socket reports it) of each frame.

        Handle each before taking the next one: the sockets may read that only then.
        """

    def last_frame_ns(self, member: Address) -> int | None:
        return self.last_frames.get(member)

    def physical_of(self, member: Address) -> PhysicalAddress | None:
        return self.physical if member == self.me else self.book.get(member)

    def my_physical(self) -> PhysicalAddress | None:
        return self.physical

    def has_multicast(self) -> bool:
        return False

    @on(Bound)
    def bound(self, event: Bound) -> None:
        self.physical = event.physical
