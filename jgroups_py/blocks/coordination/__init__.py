"""Coordination: locks, semaphores, leaders, counters, cells, barriers and queues, with fences, on blocks/replication.

`Coordination` is for a JChannel, `AsyncCoordination` for an AsyncChannel; the rounds of the channel run both. `Fence`
stands in front of what is protected. design/coordination.md states the guarantees, and why they hold.
"""
from __future__ import annotations

from jgroups_py.blocks.coordination.aio import AsyncCoordination
from jgroups_py.blocks.coordination.errors import (
    LockTimeoutError,
    LostError,
    MismatchError,
    UnavailableError,
    WaitTimeoutError,
)
from jgroups_py.blocks.coordination.fence import Fence, StaleFenceError
from jgroups_py.blocks.coordination.sync import Coordination, Grant
from jgroups_py.blocks.coordination.view_leader import ViewLeader

__all__ = ["AsyncCoordination", "Coordination", "Fence", "Grant", "LockTimeoutError", "LostError", "MismatchError",
           "StaleFenceError", "UnavailableError", "ViewLeader", "WaitTimeoutError"]
