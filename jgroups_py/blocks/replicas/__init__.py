"""Replicas: partitions of data on the members of a group, each with a leader, a log and k copies in memory.

`Replicas` is for a JChannel; `Host`, `Routing` and `ReplicaClient` are what it is made of. design/replicas.md says what
is promised, and why it holds.
"""
from __future__ import annotations

from jgroups_py.blocks.replicas.client import PartitionUnavailableError, ReplicaClient
from jgroups_py.blocks.replicas.host import StoreExistsError
from jgroups_py.blocks.replicas.machine import Machine
from jgroups_py.blocks.replicas.options import Options
from jgroups_py.blocks.replicas.outputs import Health
from jgroups_py.blocks.replicas.routing import partition_of
from jgroups_py.blocks.replicas.store import Replicas

__all__ = ["Health", "Machine", "Options", "PartitionUnavailableError", "ReplicaClient", "Replicas", "StoreExistsError",
           "partition_of"]
