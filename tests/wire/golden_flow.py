"""Golden bytes of the headers of MFC and UFC."""
from jgroups_py.protocols.flow.headers import (
    MulticastGranted,
    MulticastMark,
    MulticastWanted,
    UnicastGranted,
    UnicastMark,
    UnicastWanted,
)

CASES = [
    (MulticastMark(258), "000c 01 00000008 0000000000000102"),
    (MulticastGranted(258), "000c 02 00000008 0000000000000102"),
    (MulticastWanted(258), "000c 03 00000008 0000000000000102"),
    (UnicastMark(258), "000d 01 00000008 0000000000000102"),
    (UnicastGranted(258), "000d 02 00000008 0000000000000102"),
    (UnicastWanted(258), "000d 03 00000008 0000000000000102"),
]
