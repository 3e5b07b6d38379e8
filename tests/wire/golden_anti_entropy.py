"""Golden bytes of the header of blocks.anti_entropy."""
from jgroups_py.blockheaders import Reconcile

CASES = [(Reconcile(7), "0028 05 00000002 0007")]
