"""Read-only questions that one layer answers for another (law 5). A port emits nothing and changes nothing.

A protocol lists what it needs as `needs = {"attribute": Port}`; when the stack is built the attribute is bound to
the nearest layer that implements the port, below first, then above.
"""
from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final

import attrs

from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.batch import Batch
from jgroups_py.model.digest import Digest
from jgroups_py.model.swim_member import Member
from jgroups_py.model.topics import Interest
from jgroups_py.model.version import MemberRelease
from jgroups_py.model.view import View


class DigestSource(ABC):
    """How far multicasts were delivered."""

    @abstractmethod
    def digest(self) -> Digest:
        """Member of the view -> the next number in order from it."""

    @abstractmethod
    def digest_view(self) -> bytes:
        """ViewId.raw of the view in which the numbers of the digest count; empty before the first view."""


class MulticastCounts(ABC):
    """How many multicasts of applications were delivered."""

    @abstractmethod
    def multicasts(self) -> dict[Address, int]:
        """Member of the view -> how many reliable multicasts of its application were passed up in this view.

        The same at all members that end the view together. A large message counts once, with its last piece; what
        protocols multicast does not count.
        """


class LargeMulticasts(ABC):
    """A layer that sends a large multicast in pieces, and may begin it again in a new view."""

    @abstractmethod
    def with_attempt(self, batch: Batch, view: bytes, joined: bool) -> Batch:
        """A multicast of this member, now that it gets its number: pieces of an attempt that was given up meanwhile are
        marked, so that the last of them does not count as a message; anything else is returned as it is.

        view: ViewId.raw of the view in which it is numbered, which may not have reached the layer yet; joined: whether
        members joined with that view.
        """


class MulticastNumbers(ABC):
    """A layer that numbers multicasts per sender, and takes one that is overtaken for lost."""

    @abstractmethod
    def numbers(self, flags: int) -> bool:
        """Whether it numbers multicasts with these flags."""


class MulticastOrder(ABC):
    """A layer that gives the multicasts of all senders one order."""

    @abstractmethod
    def is_ordered(self, flags: int) -> bool:
        """Whether multicasts with these flags have a place in it; the others may come before or after them."""


class NamesAsked(ABC):
    """Discovery by names that are resolved."""

    @abstractmethod
    def unknown_names(self) -> tuple[str, ...]:
        """The names for which no address has been found."""


class LastFrames(ABC):
    """When the last frame of each member arrived."""

    @abstractmethod
    def last_frame_ns(self, member: Address) -> int | None:
        """When the last frame of `member` arrived; None: never."""


class AddressBook(ABC):
    """At which physical addresses members receive."""

    @abstractmethod
    def physical_of(self, member: Address) -> PhysicalAddress | None:
        """Where `member` receives, None if unknown."""

    @abstractmethod
    def my_physical(self) -> PhysicalAddress | None:
        """Where this member receives; None before the sockets are bound."""

    @abstractmethod
    def has_multicast(self) -> bool:
        """Whether a frame without a destination reaches members that are not known yet (IP multicast)."""


class ViewSource(ABC):
    """The group's current view."""

    @abstractmethod
    def current_view(self) -> View | None:
        """The installed view, None before the first and after the last."""


class SuspicionTable(ABC):
    """Which members are suspected of having failed."""

    @abstractmethod
    def suspected_members(self) -> tuple[Address, ...]:
        """Members of the view under suspicion: verified at this moment, or about to be excluded."""


class ReleaseTable(ABC):
    """Which releases members run."""

    @abstractmethod
    def member_releases(self) -> dict[Address, MemberRelease]:
        """This member and those of the view that told their release -> it."""


class SiteReporter(ABC):
    """The own site, and the state of the links to other sites."""

    @abstractmethod
    def own_site(self) -> str:
        """The name of this member's site."""

    @abstractmethod
    def site_report(self) -> dict[str, Any]:
        """The report on other sites for operators, made of types that JSON has."""


class FrameSealer(ABC):
    """ENCRYPT, as the transport below it uses it. Unlike other ports it changes something: it counts frames.

    copies_clear: whether `clear_copy` may have one now.
    """

    copies_clear: bool = False

    @abstractmethod
    def seal(
        self, text: list[bytes | bytearray], dest: Address | None, physical: PhysicalAddress | None,
    ) -> list[bytes | bytearray] | None:
        """The sealed frame of the buffers of `wire.encode_inner`, at most `overhead` longer; None: it is sent later, or
        dropped. dest: None: all; physical: where it goes."""

    @abstractmethod
    def clear_copy(
        self, text: list[bytes | bytearray], dest: Address | None,
    ) -> list[bytes | bytearray] | None:
        """The same in clear, for members that are not upgraded yet (accept_clear); None: it is not sent in clear."""

    @abstractmethod
    def overhead(self) -> int:
        """How many bytes a sealed frame has besides its text, at most."""

    @abstractmethod
    def open(self, data: bytes, physical: PhysicalAddress | None) -> tuple[bytes, int] | None:
        """The text of a frame, in the form of `wire.encode_inner`, and where it ends: what proves its sender may stand
        behind it. None: it was dropped, or is dealt with."""


WAITING: Final = "its identity is being checked"
"""What `Authenticator.refusal` answers as long as that is not decided."""


class Authenticator(ABC):
    """AUTH, as ENCRYPT below it uses it. transcript: what an exchange was about, as a digest."""

    @abstractmethod
    def credential(self) -> bytes:
        """What this member shows of itself."""

    @abstractmethod
    def prove(self, transcript: bytes) -> bytes:
        """The proof that the credential is this member's, for one exchange."""

    @abstractmethod
    def refusal(self, source: bytes, credential: bytes, proof: bytes, transcript: bytes) -> str:
        """Why a process is not believed; "": it is, and its identity is remembered under the address `source`. WAITING:
        it is to be challenged again when the event IdentityDecided says so."""


class Identities(ABC):
    """The members that may be in a view, for GMS and RELAY."""

    @abstractmethod
    def objection(self, member: Address) -> str:
        """Why `member` may not be in a view under its name; "": it may."""

    @abstractmethod
    def contradiction(self, member: Address) -> str:
        """Why the name of `member` is known to be another one; "": it is right, or not known here."""

    @abstractmethod
    def disbelieve(self, member: Address, why: str) -> None:
        """`member` has contradicted itself: believe nothing of it any more."""

    @abstractmethod
    def identity_of(self, member: Address) -> Any:
        """Whose address this is (sealing.identities.Identity); None: it has not been proven."""

    @abstractmethod
    def challenge_member(self, member: Address, physical: PhysicalAddress) -> None:
        """Have the process there prove who it is."""


class ViewKeys(ABC):
    """Keys of views, which GMS hands out with each view."""

    @abstractmethod
    def has_view_keys(self) -> bool:
        """Whether each view has a key of its own."""

    @abstractmethod
    def new_view_key(self) -> bytes:
        """32 random bytes."""


class KeyReporter(ABC):
    """Which keys the group uses."""

    @abstractmethod
    def key_report(self) -> dict[str, Any]:
        """The report on keys for operators, made of types that JSON has. No key is in it."""


class FrameRoom(ABC):
    """How large a frame may be."""

    @abstractmethod
    def max_frame_bytes(self) -> int:
        """The largest frame, headers included."""


class MemberTable(ABC):
    """The members as SWIM lists them: each by its name, with state and tags."""

    @abstractmethod
    def known_members(self) -> tuple[Member, ...]:
        """This member first, then all others in order of their names; failed and left ones until they are dropped."""


class Streams(ABC):
    """A transport that can also use connections: it handles the event StreamTo."""

    @abstractmethod
    def has_streams(self) -> bool:
        """Whether connections can be opened now."""


class UserState(ABC):
    """A layer above SWIM that adds its state to full exchanges (Serf: clocks, recent events)."""

    @abstractmethod
    def user_state(self, join: bool) -> bytes:
        """What is sent to the other side."""


@attrs.frozen
class PeerInfo:
    """A peer that has answered this member: where it receives, and the topics it subscribed to."""

    identity: Address
    place: PhysicalAddress
    interest: Interest


class Peers(ABC):
    """Port: the peers that have answered."""

    @abstractmethod
    def known_peers(self) -> tuple[PeerInfo, ...]:
        """All peers, in the order of their identities."""
