"""Golden bytes of FRAG's header."""
from jgroups_py.protocols.frag.headers import Fragment

CASES = [
    (Fragment(3, 10, 1707, 0x0643_4000, 1), "000e 01 00000012 00000003 0000000a 000006ab 06434000 0001"),
]
