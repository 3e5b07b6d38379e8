"""Golden bytes of STABLE's header."""
from jgroups_py.model.address import Address
from jgroups_py.protocols.stable.protocol import StabilityVote

VIEW = (7).to_bytes(8, "big") + b"A" * 16
CASES = [
    (StabilityVote(VIEW, {Address(b"A" * 16): 5, Address(b"B" * 16): 1}), "000a 01 0000004c 0000000000000007"
     + "41" * 16 + "00000002" + "41" * 16 + "0000000000000005" + "42" * 16 + "0000000000000001"),
]
