"""Golden bytes of ARCHIVE's header."""
from jgroups_py.wire.archive_header import Archived

CASES = [
    (Archived(258), "0013 01 00000008 0000000000000102"),
]
