"""Golden bytes of the header of blocks.anti_entropy."""
from jgroups_py.wire.block_headers import Reconcile

CASES = [(Reconcile(7), "0028 05 00000002 0007")]
