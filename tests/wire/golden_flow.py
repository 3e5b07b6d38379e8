"""Golden bytes of the headers of MFC, UFC and FLOW."""
from jgroups_py.protocols.flow.headers import (
    CountedAsReceiverHeader,
    FlowMark,
    MulticastCreditRequest,
    MulticastGrant,
    MulticastMark,
    ReceiverLeaving,
    ReceiverTag,
    StatusHeader,
    StatusRequest,
    UnicastCreditRequest,
    UnicastGrant,
    UnicastMark,
)

CASES = [
    (MulticastMark(258), "000c 01 00000008 0000000000000102"),
    (MulticastGrant(258), "000c 02 00000008 0000000000000102"),
    (MulticastCreditRequest(258), "000c 03 00000008 0000000000000102"),
    (UnicastMark(258), "000d 01 00000008 0000000000000102"),
    (UnicastGrant(258), "000d 02 00000008 0000000000000102"),
    (UnicastCreditRequest(258), "000d 03 00000008 0000000000000102"),
    (FlowMark(258), "0018 01 00000008 0000000000000102"),
    (StatusHeader(258, 259, 65536, None), "0018 02 00000019 0000000000000102 0000000000000103 0000000000010000 00"),
    (StatusHeader(0, 0, 65536, 1001),
     "0018 02 00000021 0000000000000000 0000000000000000 0000000000010000 01 00000000000003e9"),
    (StatusRequest(258), "0018 03 00000008 0000000000000102"),
    (ReceiverTag(65536, 1001), "0018 04 00000011 0000000000010000 01 00000000000003e9"),
    (ReceiverLeaving(), "0018 05 00000000"),
    (CountedAsReceiverHeader(True), "0018 06 00000001 01"),
]
