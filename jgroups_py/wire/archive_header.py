"""The header of recorded messages, and how the archive writes addresses and views.

In the vocabulary, not in protocols/archive/, because every member must be able to read the header, also one without
ARCHIVE: a frame with an unknown header cannot be decoded.
"""
from __future__ import annotations

from typing import Self

from jgroups_py import wire
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Header
from jgroups_py.model.view import ViewId

ARCHIVE_ID = 19


@wire.header(proto=ARCHIVE_ID, kind=1)
class Archived(Header):
    """The messages of the batch are numbers `first`, `first`+1, ... of their source in their stream."""

    first: int = wire.field(wire.U64)

    def shift(self, number: int) -> Self:
        return type(self)(self.first + number)


def view_text(view_id: ViewId) -> str:
    """A view's id, such that texts sort by counter.

    >>> view_text(ViewId(10, Address(bytes(16))))
    '000000000000000a|00000000000000000000000000000000'
    """
    return f"{view_id.counter:016x}|{view_id.coordinator.raw.hex()}"


def address_text(address: Address) -> str:
    """An incarnation, in 32 hex digits."""
    return address.raw.hex()
