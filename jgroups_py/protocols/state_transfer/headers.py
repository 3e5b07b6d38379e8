"""What STATE_TRANSFER says on the wire. `attempt` is the requester's number for one try at one provider."""
from __future__ import annotations

from jgroups_py import wire
from jgroups_py.address import Address
from jgroups_py.batch import Header

VIEW_ID_BYTES = 24


@wire.header(proto=15, kind=1)
class Ask(Header):
    """To a provider: your state, please, once you have delivered what I have: `delivered` multicasts of each sender."""

    attempt: int = wire.field(wire.U32)
    view: bytes = wire.field(wire.fixed_bytes(VIEW_ID_BYTES))
    delivered: dict[Address, int] = wire.field(wire.DIGEST)


@wire.header(proto=15, kind=2)
class Cut(Header):
    """To the requester: the state that will come holds the first `delivered` multicasts of each sender in this view."""

    attempt: int = wire.field(wire.U32)
    delivered: dict[Address, int] = wire.field(wire.DIGEST)


@wire.header(proto=15, kind=3)
class More(Header):
    """To the provider: send the state up to byte `stop`."""

    attempt: int = wire.field(wire.U32)
    stop: int = wire.field(wire.U64)


@wire.header(proto=15, kind=4)
class Part(Header):
    """To the requester: the next bytes of the state; after the last one, an empty `error` says that it is complete."""

    attempt: int = wire.field(wire.U32)
    last: bool = wire.field(wire.BOOL)
    error: str = wire.field(wire.TEXT)


@wire.header(proto=15, kind=5)
class Refused(Header):
    """To the requester: not from me."""

    attempt: int = wire.field(wire.U32)
    reason: str = wire.field(wire.TEXT)


@wire.header(proto=15, kind=6)
class Enough(Header):
    """To the provider: I do not want it any more."""

    attempt: int = wire.field(wire.U32)
