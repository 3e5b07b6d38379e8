"""Byte streams between members (TCP): the outputs of one."""
from __future__ import annotations

import attrs

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.outputs.base import Output


@attrs.frozen(eq=False)
class OpenStream(Output):
    """Connect to `to`; bytes may be written at once. StreamClosed follows if that fails."""

    net: int
    stream: int
    to: PhysicalAddress


@attrs.frozen(eq=False)
class WriteStream(Output):
    """Send `data` on a stream; nothing happens if it is closed already."""

    net: int
    stream: int
    data: bytes


@attrs.frozen(eq=False)
class CloseStream(Output):
    """Close a stream; no StreamClosed follows. What was written before is sent, unless `at_once`."""

    net: int
    stream: int
    at_once: bool = False
