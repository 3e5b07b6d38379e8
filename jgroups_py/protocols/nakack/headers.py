"""The headers of NAKACK. `view` is ViewId.raw: a number is meaningful only within its view, since each begins at 1."""
from __future__ import annotations

from jgroups_py import wire
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Header

VIEW_ID_BYTES = 24
_VIEW = wire.fixed_bytes(VIEW_ID_BYTES)


@wire.header(proto=8, kind=1)
class MulticastData(Header):
    """Multicasts of the frame's source; the first message has number `first`."""

    view: bytes = wire.field(_VIEW)
    first: int = wire.field(wire.U64)

    def shift(self, number: int) -> MulticastData:
        return MulticastData(self.view, self.first + number)


@wire.header(proto=8, kind=2)
class RetransmitRequest(Header):
    """Negative acknowledgement: retransmit these messages of `sender`."""

    view: bytes = wire.field(_VIEW)
    sender: Address = wire.field(wire.ADDRESS)
    ranges: tuple[tuple[int, int], ...] = wire.field(wire.RANGES)


@wire.header(proto=8, kind=3)
class Retransmission(Header):
    """Answer to RetransmitRequest: multicasts of `sender` from a member that keeps them; the first has number `first`.

    A header of its own, not MulticastData, since the frame's source is the member that answers.
    """

    view: bytes = wire.field(_VIEW)
    sender: Address = wire.field(wire.ADDRESS)
    first: int = wire.field(wire.U64)

    def shift(self, number: int) -> Retransmission:
        return Retransmission(self.view, self.sender, self.first + number)


@wire.header(proto=8, kind=4)
class LastSeqno(Header):
    """The frame's source has multicast all messages below `stop`, and none for some time."""

    view: bytes = wire.field(_VIEW)
    stop: int = wire.field(wire.U64)


@wire.header(proto=8, kind=5)
class NoLongerKept(Header):
    """Answer to RetransmitRequest: these messages of `sender` are stable, so they are not kept here any more."""

    view: bytes = wire.field(_VIEW)
    sender: Address = wire.field(wire.ADDRESS)
    first: int = wire.field(wire.U64)
    stop: int = wire.field(wire.U64)
