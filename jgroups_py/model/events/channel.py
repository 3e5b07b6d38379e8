"""From a channel to its stack."""
from __future__ import annotations

import attrs

from jgroups_py.model.events.base import Event
from jgroups_py.model.outputs.base import Output


@attrs.frozen
class Connect(Event):
    """Down: the sockets are there; find the group of this name and join it.

    expected: others of the group are known to run, so GMS does not begin one after a single search without an answer.
    """

    cluster: str
    expected: bool = False


@attrs.frozen
class Disconnect(Event):
    """Down: leave gracefully. GMS answers with Left, up."""


@attrs.frozen
class AppBusy(Event):
    """Down: the application has (on) more undelivered bytes than it should; grant no credits until off.

    why: which party is busy; grants wait while any is.
    """

    on: bool
    why: str = "application"


@attrs.frozen
class SetPartition(Event):
    """Down: PARTITION passes only messages within this member's group of logical names from now on; () heals."""

    groups: tuple[tuple[str, ...], ...]


@attrs.frozen
class OutputInOrder(Event):
    """Up: `output` is emitted when this reaches the top, in order with the deliveries around it."""

    output: Output
