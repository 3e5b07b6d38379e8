"""Golden bytes of the fault layers' headers."""
from jgroups_py.protocols.faults.partition import From

CASES = [(From("A"), "001f 01 00000003 0001 41")]
