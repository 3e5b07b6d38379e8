"""Golden bytes of the headers of PING, TCPPING and FILE_PING."""
from jgroups_py.model.address import Address
from jgroups_py.model.view import ViewId
from jgroups_py.protocols.discovery.base import DiscoveryRequest, DiscoveryResponse

A16, B16 = "41" * 16, "42" * 16
A, B = Address(b"A" * 16, "A"), Address(b"B" * 16, "B")
ID = ViewId(7, A)
PLACE = ("10.0.0.1", 7800)
CASES = [
    (DiscoveryRequest(A, PLACE, None, None, None, False),
     "0003 01 00000023" + A16 + "000141000831302e302e302e311e7800000000"),
    (DiscoveryRequest(A, PLACE, ID, B, PLACE, True),
     "0003 01 0000005a" + A16 + "000141000831302e302e302e311e78010000000000000007" + A16 + "01" + B16
     + "00014201000831302e302e302e311e7801"),
    (DiscoveryResponse(A, PLACE, None, None, None, {}),
     "0003 02 00000026" + A16 + "000141000831302e302e302e311e7800000000000000"),
    (DiscoveryResponse(A, PLACE, ID, A, PLACE, {B: PLACE}),
     "0003 02 0000007c" + A16 + "000141000831302e302e302e311e78010000000000000007" + A16 + "01" + A16
     + "00014101000831302e302e302e311e7800000001" + B16 + "000142000831302e302e302e311e78"),
]
