"""Golden bytes of EXAMPLE's headers."""
from jgroups_py.protocols.example import EchoReply, EchoRequest

CASES = [
    (EchoRequest(258), "001e 01 00000008 0000000000000102"),
    (EchoReply(1), "001e 02 00000008 0000000000000001"),
]
