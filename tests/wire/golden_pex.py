"""Golden bytes of PEX's headers."""
from jgroups_py.model.address import Address
from jgroups_py.model.topics import EVERYTHING, interest_in
from jgroups_py.protocols.discovery.pex.headers import PeerBroadcast, PeerLeave, PeerPing, PeerPong

A = Address(b"A" * 16)
PLACE = ("10.0.0.1", 7960)

CASES = [
    (PeerPing(interest_in(1, 3), PLACE, A, True),
     "0003 03 0000002a 00 000000000000000a 00000000 0008 31302e302e302e31 1f18 41414141414141414141414141414141 01"),
    (PeerPong(EVERYTHING, PLACE, ((A, PLACE),), True, False),
     "0003 04 0000003b 01 0000000000000000 00000000 0008 31302e302e302e31 1f18 00000001"
     "41414141414141414141414141414141 0008 31302e302e302e31 1f18 01 00"),
    (PeerLeave(), "0003 05 00000000"),
    (PeerBroadcast(), "0003 06 00000000"),
]
