"""The header of FRAG."""
from __future__ import annotations

from typing import Self

from jgroups_py import wire
from jgroups_py.model.batch import Header

ABANDONED = 1 << 15
"""A bit of `flags` that is no flag of messages."""


@wire.header(proto=14, kind=1)
class Fragment(Header):
    """Fragments `index`, `index`+1, ... of `total` of the sender's large message `number`.

    nbytes: size of the whole message; flags: the flags with which it was sent, and ABANDONED if the message was begun
    again, under another number, before these fragments had been numbered below.
    """

    number: int = wire.field(wire.U32)
    index: int = wire.field(wire.U32)
    total: int = wire.field(wire.U32)
    nbytes: int = wire.field(wire.U32)
    flags: int = wire.field(wire.U16)

    def shift(self, number: int) -> Self:
        return type(self)(self.number, self.index + number, self.total, self.nbytes, self.flags)

    def messages(self, number: int) -> int:
        """A message counts with its last fragment, that of the attempt that is delivered."""
        return int(self.index + number == self.total and not self.flags & ABANDONED)

    def abandoned(self) -> Self:
        """The same of an attempt that no member will deliver."""
        return type(self)(self.number, self.index, self.total, self.nbytes, self.flags | ABANDONED)
