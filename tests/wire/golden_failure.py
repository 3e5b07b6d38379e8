"""Golden bytes of the headers of FD_SOCK, FD_ALL and VERIFY_SUSPECT."""
from jgroups_py.model.address import Address
from jgroups_py.protocols.fd_all.protocol import Heartbeat
from jgroups_py.protocols.fd_sock.protocol import (
    ListenerAddress,
    ListenerLookup,
    ListenerLookupReply,
    ListenerRequest,
    SuspicionHeader,
)
from jgroups_py.protocols.verify_suspect.protocol import AreYouAlive, IAmAlive

A16, B16 = "41" * 16, "42" * 16
A, B = Address(b"A" * 16, "A"), Address(b"B" * 16, "B")
PLACE = ("10.0.0.1", 7800)
CASES = [
    (ListenerRequest(),
     "0005 01 00000000"),
    (ListenerAddress(PLACE),
     "0005 02 0000000c" + "000831302e302e302e311e78"),
    (SuspicionHeader((A, B), True),
     "0005 03 00000025" + "00000002" + A16 + B16 + "01"),
    (SuspicionHeader((), False),
     "0005 03 00000005" + "0000000000"),
    (ListenerLookup(A),
     "0005 04 00000010" + A16),
    (ListenerLookupReply(B, PLACE),
     "0005 05 0000001c" + B16 + "000831302e302e302e311e78"),
    (Heartbeat(),
     "0006 01 00000000"),
    (AreYouAlive(),
     "0007 01 00000000"),
    (IAmAlive(),
     "0007 02 00000000"),
]
