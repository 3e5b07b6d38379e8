"""Layers that misbehave on purpose, for tests and demonstrations: lose, delay, double, reorder, separate.

They stand above the transport and below the layers that must cope: NAKACK and UNICAST for what they carry. Those that
keep messages back also answer, in place of the transport, when a member was last heard, so that failure detectors
above see what got through and not what arrived.
"""
from jgroups_py.protocols.faults.delay import Delay, DelayConfig
from jgroups_py.protocols.faults.discard import Discard, DiscardConfig
from jgroups_py.protocols.faults.duplicate import Duplicate, DuplicateConfig
from jgroups_py.protocols.faults.partition import Partition, PartitionConfig
from jgroups_py.protocols.faults.shuffle import Shuffle, ShuffleConfig

__all__ = ["Delay", "DelayConfig", "Discard", "DiscardConfig", "Duplicate", "DuplicateConfig", "Partition",
           "PartitionConfig", "Shuffle", "ShuffleConfig"]
