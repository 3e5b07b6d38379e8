"""Best-effort broadcasts among peers without a group (PEX)."""
from __future__ import annotations

import attrs

from jgroups_py.model.batch import Header
from jgroups_py.model.events.base import Event


@attrs.frozen
class Broadcast(Event):
    """Down, from the application: send the payload once to the peers that subscribe to its topic, to this share of
    them.

    headers: the mark of its topic, or none.
    """

    payload: bytes
    headers: tuple[Header, ...] = ()
    ratio: float = 1.0
