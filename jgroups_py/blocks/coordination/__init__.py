"""Coordination: locks, semaphores, leaders, counters, cells, barriers and queues, with fences, on blocks/replication.

`AsyncCoordination` is for an AsyncChannel; the rounds of the channel run it (driver.py). `Fence` stands in front of
what is protected. design/coordination.md states the guarantees, and why they hold.
"""
from __future__ import annotations

from jgroups_py.blocks.coordination.aio import AsyncCoordination
from jgroups_py.blocks.coordination.core import (
    LockTimeoutError,
    LostError,
    MismatchError,
    UnavailableError,
    WaitTimeoutError,
)
from jgroups_py.blocks.coordination.fence import Fence, StaleFenceError

__all__ = ["AsyncCoordination", "Fence", "LockTimeoutError", "LostError", "MismatchError", "StaleFenceError",
           "UnavailableError", "WaitTimeoutError"]
