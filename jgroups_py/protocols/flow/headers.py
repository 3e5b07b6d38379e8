"""The headers of MFC (12), UFC (13) and FLOW (24)."""
from __future__ import annotations

from jgroups_py import wire
from jgroups_py.model.batch import Header


@wire.header(proto=12, kind=1)
class MulticastMark(Header):
    """In the stream of multicasts: the sender had multicast `position` payload bytes before."""

    position: int = wire.field(wire.U64)


@wire.header(proto=12, kind=2)
class MulticastGrant(Header):
    """Answer to a mark: the source has passed up all multicasts of the destination below `position`."""

    position: int = wire.field(wire.U64)


@wire.header(proto=12, kind=3)
class MulticastCreditRequest(Header):
    """The sender is blocked, and no grant for its mark at `position` has arrived: requests the grant again."""

    position: int = wire.field(wire.U64)


@wire.header(proto=13, kind=1)
class UnicastMark(Header):
    """In the stream of unicasts to one receiver: the sender had sent it `position` payload bytes before."""

    position: int = wire.field(wire.U64)


@wire.header(proto=13, kind=2)
class UnicastGrant(Header):
    """Answer to a mark: the source has passed up all unicasts of the destination to it below `position`."""

    position: int = wire.field(wire.U64)


@wire.header(proto=13, kind=3)
class UnicastCreditRequest(Header):
    """The sender is blocked, and no grant for its mark at `position` has arrived: requests the grant again."""

    position: int = wire.field(wire.U64)


FLOW_ID = 24


@wire.header(proto=FLOW_ID, kind=1)
class FlowMark(Header):
    """In the stream of multicasts: the sender had multicast `position` payload bytes before."""

    position: int = wire.field(wire.U64)


@wire.header(proto=FLOW_ID, kind=2)
class StatusHeader(Header):
    """Answer to a mark: the source's stack has passed up all multicasts of the destination below `received`.

    Its application has consumed those below `consumed`, and can take `window` bytes more.
    """

    consumed: int = wire.field(wire.U64)
    received: int = wire.field(wire.U64)
    window: int = wire.field(wire.U64)
    tag: int | None = wire.field(wire.optional(wire.BITS64))


@wire.header(proto=FLOW_ID, kind=3)
class StatusRequest(Header):
    """The mark at `position` has not been answered: requests a StatusHeader, whatever it contains."""

    position: int = wire.field(wire.U64)


@wire.header(proto=FLOW_ID, kind=4)
class ReceiverTag(Header):
    """To a sender that is new in the view: the source is one of its receivers from now on, with this tag and window."""

    window: int = wire.field(wire.U64)
    tag: int | None = wire.field(wire.optional(wire.BITS64))


@wire.header(proto=FLOW_ID, kind=5)
class ReceiverLeaving(Header):
    """To all: the source is about to leave; no sender needs to wait for its answers."""


@wire.header(proto=FLOW_ID, kind=6)
class CountedAsReceiverHeader(Header):
    """Whether the source waits for the destination: no longer after a timeout, again once it has caught up."""

    in_group: bool = wire.field(wire.BOOL)
