"""Wire headers of STATE_TRANSFER. `attempt` is the requester's number for one request to one provider."""
from __future__ import annotations

from jgroups_py import wire
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Header

VIEW_ID_BYTES = 24


@wire.header(proto=15, kind=1)
class StateRequestHeader(Header):
    """To a provider: send the state as soon as `delivered`, the requester's multicasts per sender, are delivered;
    likewise `unordered`, those that have no place in the order of TOTAL."""

    attempt: int = wire.field(wire.U32)
    view: bytes = wire.field(wire.fixed_bytes(VIEW_ID_BYTES))
    delivered: dict[Address, int] = wire.field(wire.DIGEST)
    unordered: dict[Address, int] = wire.field(wire.DIGEST)


@wire.header(proto=15, kind=2)
class StateCutHeader(Header):
    """To the requester: the state holds the first `delivered` multicasts of each sender in this view, and the first
    `unordered` of those that have no place in the order of TOTAL."""

    attempt: int = wire.field(wire.U32)
    delivered: dict[Address, int] = wire.field(wire.DIGEST)
    unordered: dict[Address, int] = wire.field(wire.DIGEST)


@wire.header(proto=15, kind=3)
class StateWindowHeader(Header):
    """To the provider: it may send the state up to byte `stop`."""

    attempt: int = wire.field(wire.U32)
    stop: int = wire.field(wire.U64)


@wire.header(proto=15, kind=4)
class StatePartHeader(Header):
    """To the requester: the next bytes of the state. `last` ends it; it is complete if `error` is empty."""

    attempt: int = wire.field(wire.U32)
    last: bool = wire.field(wire.BOOL)
    error: str = wire.field(wire.TEXT)


@wire.header(proto=15, kind=5)
class StateRefusedHeader(Header):
    """To the requester: the sender does not provide a state for this attempt."""

    attempt: int = wire.field(wire.U32)
    reason: str = wire.field(wire.TEXT)


@wire.header(proto=15, kind=6)
class StateCancelHeader(Header):
    """To the provider: the attempt is over, and its state is no longer needed."""

    attempt: int = wire.field(wire.U32)
