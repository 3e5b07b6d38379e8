"""From sockets to the layers of a stack."""
from __future__ import annotations

import attrs

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.events.base import Event


@attrs.frozen
class Bound(Event):
    """Up: the transport receives at `physical`."""

    physical: PhysicalAddress


@attrs.frozen
class Listening(Event):
    """Up: FD_SOCK's listener accepts links at `physical`."""

    physical: PhysicalAddress


@attrs.frozen
class LinkUp(Event):
    """Up: the link that was opened as `link` is established; the other end identified itself as `peer` (16 bytes)."""

    link: int
    peer: bytes


@attrs.frozen
class LinkDown(Event):
    """Up: the link broke or could not be opened.

    refused: the host answered that no process listens there; graceful: the other end sent a goodbye before closing.
    """

    link: int
    refused: bool
    graceful: bool = False
