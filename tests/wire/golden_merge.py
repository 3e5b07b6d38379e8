"""Golden bytes of MERGE3's header."""
from jgroups_py.model.address import Address
from jgroups_py.model.view import ViewId
from jgroups_py.protocols.merge.protocol import Info

A16, B16 = "41" * 16, "42" * 16
A, B = Address(b"A" * 16, "A"), Address(b"B" * 16, "B")
PLACE = ("10.0.0.1", 7800)
CASES = [
    (Info(ViewId(7, B), PLACE),
     "0004 01 00000024" + "0000000000000007" + B16 + "000831302e302e302e311e78"),
]
