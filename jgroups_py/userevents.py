"""User events: a name and some bytes, spread by SERF to all members, each of which hears them once, in no set order."""
from __future__ import annotations

import attrs

from jgroups_py.events import Event
from jgroups_py.outputs import Output


@attrs.frozen
class SendUserEvent(Event):
    """Down, from the application: spread an event. coalesce: of several with one name the newest is enough."""

    name: str
    payload: bytes
    coalesce: bool = False


@attrs.frozen(eq=False)
class UserEvent(Output):
    """For the application: an event, its own too. ltime: the event's Lamport time, the same at all members."""

    name: str
    payload: bytes
    ltime: int
