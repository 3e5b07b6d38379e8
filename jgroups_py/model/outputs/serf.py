"""User events of SERF, for the application."""
from __future__ import annotations

import attrs

from jgroups_py.model.outputs.base import Output


@attrs.frozen(eq=False)
class UserEvent(Output):
    """For the application: an event, its own too. ltime: the event's Lamport time, the same at all members."""

    name: str
    payload: bytes
    ltime: int
