"""What concerns the one order of all multicasts (TOTAL)."""
from __future__ import annotations

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.events.base import Event


@attrs.frozen
class MessageDropped(Event):
    """Up, from FRAG: a multicast of `sender` that the other members deliver here was dropped, as there was no room."""

    sender: Address
