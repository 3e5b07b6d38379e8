"""Golden bytes of UNICAST's headers."""
from jgroups_py.protocols.unicast.headers import UnicastAck, UnicastBase, UnicastData, UnicastNak

CASES = [
    (UnicastData(3, 10, 7), "0009 01 00000014 00000003 000000000000000a 0000000000000007"),
    (UnicastAck(3, 258), "0009 02 0000000c 00000003 0000000000000102"),
    (UnicastNak(3, ((2, 4), (9, 10))), "0009 03 00000028 00000003 00000002 0000000000000002 0000000000000004"
     "0000000000000009 000000000000000a"),
    (UnicastBase(3, 7), "0009 04 0000000c 00000003 0000000000000007"),
]
