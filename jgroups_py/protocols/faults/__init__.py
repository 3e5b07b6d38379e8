"""Fault injection for tests and demonstrations: layers that lose, delay, duplicate, reorder or separate messages.

Place: above the transport, below NAKACK and UNICAST, which must repair what these layers do. Those that keep messages
back also provide the port LastFrames in place of the transport: failure detectors above must judge by the frames that
were let through, not by those that arrived.
"""
from jgroups_py.protocols.faults.delay import Delay, DelayConfig
from jgroups_py.protocols.faults.discard import Discard, DiscardConfig
from jgroups_py.protocols.faults.duplicate import Duplicate, DuplicateConfig
from jgroups_py.protocols.faults.partition import Partition, PartitionConfig
from jgroups_py.protocols.faults.shuffle import Shuffle, ShuffleConfig

__all__ = ["Delay", "DelayConfig", "Discard", "DiscardConfig", "Duplicate", "DuplicateConfig", "Partition",
           "PartitionConfig", "Shuffle", "ShuffleConfig"]
