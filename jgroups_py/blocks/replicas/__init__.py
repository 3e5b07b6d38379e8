"""Replicas: partitions of data on members of a group, each with a leader, a log and k copies in memory."""
from __future__ import annotations

from jgroups_py.blocks.replicas.host import Answer, Health, Host, Send, StoreExistsError
from jgroups_py.blocks.replicas.machine import Machine
from jgroups_py.blocks.replicas.options import Options

__all__ = ["Answer", "Health", "Host", "Machine", "Options", "Send", "StoreExistsError"]
