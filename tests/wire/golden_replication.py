"""Bytes of the header of partitions."""
from jgroups_py.wire.block_headers import PartitionMessage

CASES = [(PartitionMessage(0x7265), "0028 0a 00000002 7265")]
