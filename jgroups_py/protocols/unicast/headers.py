"""What UNICAST says on the wire."""
from __future__ import annotations

from typing import Self

from jgroups_py import wire
from jgroups_py.batch import Header

PROTO = 9


@wire.header(proto=PROTO, kind=1)
class Data(Header):
    """Messages `first`, `first`+1, ... of a connection; its sender holds nothing below `base` any more.

    base takes no part in comparisons: runs that continue each other join although an acknowledgement came between.
    """

    connection: int = wire.field(wire.U32)
    first: int = wire.field(wire.U64)
    base: int = wire.field(wire.U64, eq=False)

    def shift(self, number: int) -> Self:
        return type(self)(self.connection, self.first + number, self.base)


@wire.header(proto=PROTO, kind=2)
class Ack(Header):
    """Everything below `next` of your connection was delivered here."""

    connection: int = wire.field(wire.U32)
    next: int = wire.field(wire.U64)


@wire.header(proto=PROTO, kind=3)
class Missing(Header):
    """Send these messages of your connection again."""

    connection: int = wire.field(wire.U32)
    ranges: tuple[tuple[int, int], ...] = wire.field(wire.RANGES)


@wire.header(proto=PROTO, kind=4)
class Base(Header):
    """You asked for messages below `base`, which you acknowledged: nobody holds them, do not wait for them."""

    connection: int = wire.field(wire.U32)
    base: int = wire.field(wire.U64)
