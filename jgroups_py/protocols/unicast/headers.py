"""The headers of UNICAST. A connection is one-way; its number is chosen by its sender and never used twice."""
from __future__ import annotations

from typing import Self

from jgroups_py import wire
from jgroups_py.model.batch import Header

PROTO = 9


@wire.header(proto=PROTO, kind=1)
class UnicastData(Header):
    """Messages `first`, `first`+1, ... of a connection; its sender keeps nothing below `base` any more.

    base takes no part in comparisons: consecutive batches join although an acknowledgement arrived between them.
    """

    connection: int = wire.field(wire.U32)
    first: int = wire.field(wire.U64)
    base: int = wire.field(wire.U64, eq=False)

    def shift(self, number: int) -> Self:
        return type(self)(self.connection, self.first + number, self.base)


@wire.header(proto=PROTO, kind=2)
class UnicastAck(Header):
    """Acknowledgement: everything below `next` of the receiver's connection was delivered here."""

    connection: int = wire.field(wire.U32)
    next: int = wire.field(wire.U64)


@wire.header(proto=PROTO, kind=3)
class UnicastNak(Header):
    """Negative acknowledgement: retransmit these messages of the receiver's connection."""

    connection: int = wire.field(wire.U32)
    ranges: tuple[tuple[int, int], ...] = wire.field(wire.RANGES)


@wire.header(proto=PROTO, kind=4)
class UnicastBase(Header):
    """Answer to UnicastNak for messages below `base`: acknowledged, so no longer kept; the receiver continues there."""

    connection: int = wire.field(wire.U32)
    base: int = wire.field(wire.U64)
