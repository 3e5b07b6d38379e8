"""Golden bytes of the header of blocks.dicts."""
from jgroups_py.wire.block_headers import DictCopy

CASES = [(DictCopy("d"), "0028 09 00000003 0001 64")]
