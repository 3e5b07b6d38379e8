"""Golden bytes of NAKACK's headers."""
from jgroups_py.model.address import Address
from jgroups_py.protocols.nakack.headers import (
    LastSeqno,
    MulticastData,
    NoLongerKept,
    Retransmission,
    RetransmitRequest,
)

B = Address(b"B" * 16)
VIEW = (7).to_bytes(8, "big") + b"A" * 16
CASES = [
    (MulticastData(VIEW, 5), "0008 01 00000020 0000000000000007" + "41" * 16 + "0000000000000005"),
    (RetransmitRequest(VIEW, B, ((2, 4), (9, 10))), "0008 02 0000004c 0000000000000007" + "41" * 16 + "42" * 16
     + "00000002 0000000000000002 0000000000000004 0000000000000009 000000000000000a"),
    (Retransmission(VIEW, B, 300), "0008 03 00000030 0000000000000007" + "41" * 16 + "42" * 16 + "000000000000012c"),
    (LastSeqno(VIEW, 12), "0008 04 00000020 0000000000000007" + "41" * 16 + "000000000000000c"),
    (NoLongerKept(VIEW, B, 2, 9), "0008 05 00000038 0000000000000007" + "41" * 16 + "42" * 16
     + "0000000000000002 0000000000000009"),
]
