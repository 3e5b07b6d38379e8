"""The header that carries what an application gave to its messages."""
from __future__ import annotations

from jgroups_py.model.header import Header
from jgroups_py.wire.codec import BYTES, U16, mapping
from jgroups_py.wire.declaring import field, header


@header(proto=1, kind=0)
class AppHeaders(Header):
    """The headers that an application gave to a message: id (200 or more) -> bytes."""

    items: dict[int, bytes] = field(mapping(U16, BYTES))
