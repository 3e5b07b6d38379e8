"""Read-only questions that one layer answers for another (law 5). A port emits nothing and changes nothing.

A protocol lists what it needs as `needs = {"attribute": Port}`; when the stack is built the attribute is bound to
the nearest layer that implements the port, below first, then above.
"""
from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from jgroups_py.address import Address, PhysicalAddress
from jgroups_py.events import Digest
from jgroups_py.members import Member
from jgroups_py.view import View


class DigestSource(ABC):
    """Knows how far multicasts were delivered."""

    @abstractmethod
    def digest(self) -> Digest:
        """Member of the view -> next number wanted from it."""

    @abstractmethod
    def digest_view(self) -> bytes:
        """ViewId.raw of the view in which the numbers of the digest count; empty before the first view."""


class MulticastCounts(ABC):
    """Knows how many multicasts of applications were delivered."""

    @abstractmethod
    def multicasts(self) -> dict[Address, int]:
        """Member of the view -> how many reliable multicasts of its application were passed up in this view.

        The same at all members that end the view together. A large message counts once, with its last piece; what
        protocols multicast does not count.
        """


class Hearing(ABC):
    """Knows when a member was last heard, by any frame."""

    @abstractmethod
    def heard_ns(self, member: Address) -> int | None:
        """When the last frame of `member` arrived; None: never."""


class AddressBook(ABC):
    """Knows where members receive."""

    @abstractmethod
    def physical_of(self, member: Address) -> PhysicalAddress | None:
        """Where `member` receives, None if unknown."""

    @abstractmethod
    def my_physical(self) -> PhysicalAddress | None:
        """Where we receive; None before the sockets are bound."""

    @abstractmethod
    def has_multicast(self) -> bool:
        """Whether a frame to nobody in particular reaches members we do not know yet (IP multicast)."""


class Membership(ABC):
    """Knows the group's current view."""

    @abstractmethod
    def current_view(self) -> View | None:
        """The installed view, None before the first and after the last."""


class SiteReporter(ABC):
    """Knows how it stands with other sites."""

    @abstractmethod
    def site_report(self) -> dict[str, Any]:
        """What an operator wants to know of the other sites, as what JSON can say."""


class FrameRoom(ABC):
    """Knows how large a frame may be."""

    @abstractmethod
    def max_frame_bytes(self) -> int:
        """The largest frame, headers included."""


class MemberTable(ABC):
    """Knows members as SWIM does: each by its name, with state and tags."""

    @abstractmethod
    def known_members(self) -> tuple[Member, ...]:
        """Ourselves first, then all others in order of their names; failed and left ones until they are forgotten."""


class Streams(ABC):
    """A transport that also talks over connections: it takes the event StreamTo."""

    @abstractmethod
    def has_streams(self) -> bool:
        """Whether connections can be opened now."""


class UserState(ABC):
    """A layer above SWIM that takes part in exchanges of all that is known (Serf: clocks, recent events)."""

    @abstractmethod
    def user_state(self, join: bool) -> bytes:
        """What to tell the other side."""
