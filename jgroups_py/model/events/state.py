"""State transfer between the channel and STATE_TRANSFER."""
from __future__ import annotations

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.events.base import Event


@attrs.frozen
class GetState(Event):
    """Down, from the channel: fetch the state from `target` (None: the coordinator; this member itself: a no-op).

    timeout_ns: how long nothing at all may arrive before the transfer fails.
    """

    target: Address | None
    timeout_ns: int


@attrs.frozen
class StateChunk(Event):
    """Down, from the channel: the next bytes of the state requested by output ProvideState(request).

    last: nothing follows; error: how the application's get_state failed (last is then true).
    """

    request: int
    data: bytes
    last: bool = False
    error: str = ""


@attrs.frozen
class StateBusy(Event):
    """Down, from the channel: the application has (on) more of the state unread than it should; request no more."""

    on: bool
