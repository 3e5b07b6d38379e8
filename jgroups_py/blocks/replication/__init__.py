"""Replicas: partitions of data on the members of a group, each with a leader, a log and k copies in memory.

`Replicas` is for a JChannel, `AsyncReplicas` for an AsyncChannel; the rounds of the channel run both (driver.py).
design/replicas.md states the guarantees, and why they hold.
"""
from __future__ import annotations

from jgroups_py.blocks.replication.aio import AsyncReplicas
from jgroups_py.blocks.replication.client import ReplicaClient
from jgroups_py.blocks.replication.host import StoreExistsError
from jgroups_py.blocks.replication.machine import Machine
from jgroups_py.blocks.replication.options import Options
from jgroups_py.blocks.replication.outputs import Health
from jgroups_py.blocks.replication.routing import PartitionUnavailableError, partition_of
from jgroups_py.blocks.replication.store import Replicas

__all__ = ["AsyncReplicas", "Health", "Machine", "Options", "PartitionUnavailableError", "ReplicaClient", "Replicas",
           "StoreExistsError", "partition_of"]
