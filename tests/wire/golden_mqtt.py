"""Golden bytes of the header of blocks.mqtt."""
from jgroups_py.wire.block_headers import Federate

CASES = [(Federate(7), "0028 06 00000002 0007")]
