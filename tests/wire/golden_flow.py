"""Golden bytes of the headers of MFC, UFC and FLOW."""
from jgroups_py.protocols.flow.headers import (
    ClosingHeader,
    Counted,
    FlowMark,
    MulticastGranted,
    MulticastMark,
    MulticastWanted,
    ReceivingHeader,
    StatusHeader,
    StatusWanted,
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
    (FlowMark(258), "0018 01 00000008 0000000000000102"),
    (StatusHeader(258, 259, 65536, None), "0018 02 00000019 0000000000000102 0000000000000103 0000000000010000 00"),
    (StatusHeader(0, 0, 65536, 1001),
     "0018 02 00000021 0000000000000000 0000000000000000 0000000000010000 01 00000000000003e9"),
    (StatusWanted(258), "0018 03 00000008 0000000000000102"),
    (ReceivingHeader(65536, 1001), "0018 04 00000011 0000000000010000 01 00000000000003e9"),
    (ClosingHeader(), "0018 05 00000000"),
    (Counted(True), "0018 06 00000001 01"),
]
