"""Golden bytes of the header of blocks.cache."""
from jgroups_py.wire.block_headers import CacheNotice

CASES = [(CacheNotice("d"), "0028 0f 00000003 0001 64")]
