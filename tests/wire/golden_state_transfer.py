"""Golden bytes of STATE_TRANSFER's headers."""
from jgroups_py.model.address import Address
from jgroups_py.protocols.state_transfer.headers import (
    StateCancelHeader,
    StateCutHeader,
    StatePartHeader,
    StateRefusedHeader,
    StateRequestHeader,
    StateWindowHeader,
)

B = Address(b"B" * 16)
VIEW = (7).to_bytes(8, "big") + b"A" * 16
DELIVERED = "00000001" + "42" * 16 + "0000000000000102"
CASES = [
    (StateRequestHeader(3, VIEW, {B: 258}, {}),
     "000f 01 0000003c 00000003 0000000000000007" + "41" * 16 + DELIVERED + "00000000"),
    (StateCutHeader(3, {}, {B: 258}), "000f 02 00000024 00000003 00000000" + DELIVERED),
    (StateWindowHeader(3, 65536), "000f 03 0000000c 00000003 0000000000010000"),
    (StatePartHeader(3, True, "no"), "000f 04 00000009 00000003 01 0002 6e6f"),
    (StateRefusedHeader(3, "no"), "000f 05 00000008 00000003 0002 6e6f"),
    (StateCancelHeader(3), "000f 06 00000004 00000003"),
]
