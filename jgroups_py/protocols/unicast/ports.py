"""What the parts of UNICAST see of each other; protocol.py connects them. Each table is written by its owner only."""
from __future__ import annotations

import typing
from collections.abc import Mapping

from jgroups_py.model.address import Address
from jgroups_py.protocols.unicast.state import Incoming, Outgoing, RoundTrip


class SendingPort(typing.Protocol):
    """The sending ends (protocol.py)."""

    @property
    def outgoing(self) -> Mapping[Address, Outgoing]: ...

    def close_outgoing(self, peer: Address) -> None:
        """Close the sending end, if there is one; unacknowledged messages are dropped and counted."""

    def close_idle_outgoing(self) -> None:
        """Close the sending ends that were idle since the last call."""


class ReceivingPort(typing.Protocol):
    """The receiving ends (receiver.py)."""

    @property
    def incoming(self) -> Mapping[Address, Incoming]: ...

    def close_incoming(self, peer: Address, *, unknown: bool) -> None:
        """Close the receiving end, if there is one; its numbers are kept. unknown: `peer` never was in the view."""

    def close_idle_incoming(self) -> None:
        """Close the receiving ends that were idle since the last call."""

    def release_share(self, peer: Address) -> None:
        """What is kept of `peer` no longer counts as kept of unknown peers."""


class PeersPort(typing.Protocol):
    """The processes at the other ends (peers.py).

    members: of the view, None before the first; non_members: peers outside the view; unknown: those of them that
    never were in it, oldest first.
    """

    @property
    def members(self) -> Mapping[Address, None] | None: ...
    @property
    def non_members(self) -> Mapping[Address, None]: ...
    @property
    def unknown(self) -> Mapping[Address, None]: ...

    def close_later(self, peer: Address) -> None:
        """A connection with `peer` is new: bound how long it is kept, if `peer` is not in the view."""

    def trip_of(self, peer: Address) -> RoundTrip:
        """How long its answers take, as far as that was measured."""
