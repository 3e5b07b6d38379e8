"""Fault injection for tests and demonstrations: layers that lose, delay, duplicate, reorder or separate messages.

Place: above the transport, below NAKACK and UNICAST, which must repair what these layers do. Those that keep messages
back also answer, in place of the transport, when a member was last heard (port LastFrames), so that failure detectors
above go by what was let through and not by what arrived.
"""
from jgroups_py.protocols.faults.delay import Delay, DelayConfig
from jgroups_py.protocols.faults.discard import Discard, DiscardConfig
from jgroups_py.protocols.faults.duplicate import Duplicate, DuplicateConfig
from jgroups_py.protocols.faults.partition import Partition, PartitionConfig
from jgroups_py.protocols.faults.shuffle import Shuffle, ShuffleConfig

__all__ = ["Delay", "DelayConfig", "Discard", "DiscardConfig", "Duplicate", "DuplicateConfig", "Partition",
           "PartitionConfig", "Shuffle", "ShuffleConfig"]
