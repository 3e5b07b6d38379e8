"""What the application asks of SERF: user events (a name and some bytes, delivered once to each member, in no fixed
order), and that a member that failed counts as left."""
from __future__ import annotations

import attrs

from jgroups_py.model.events.base import Event


@attrs.frozen
class SendUserEvent(Event):
    """Down, from the application: spread an event. coalesce: of several with one name the newest is enough."""

    name: str
    payload: bytes
    coalesce: bool = False


@attrs.frozen
class ForceLeave(Event):
    """Down, from the application: the member of this name, which failed, will not be back; it counts as left."""

    name: str
