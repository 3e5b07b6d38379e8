"""Golden bytes of the header with the releases of members."""
from jgroups_py.model.address import Address
from jgroups_py.model.version import MemberRelease
from jgroups_py.wire import Releases

A, B = Address(b"A" * 16, "A"), Address(b"B" * 16, "B")
CASES = [
    (Releases({}), "0002 80 00000004 00000000"),
    (Releases({A: MemberRelease((0, 2, 0), (0, 2)), B: MemberRelease((1, 12, 258), (1, 11))}),
     "0002 80 00000038 00000002" + "41" * 16 + "0000 0002 0000 0000 0002" + "42" * 16 + "0001 000c 0102 0001 000b"),
]
