"""Golden bytes of ARCHIVE's header."""
from jgroups_py.recording import Archived

CASES = [
    (Archived(258), "0013 01 00000008 0000000000000102"),
]
