"""Golden bytes of SWIM's headers."""
from jgroups_py.model.address import Address
from jgroups_py.model.swim_member import BY_DATAGRAM, BY_HELPERS
from jgroups_py.protocols.swim.headers import (
    SUSPECT,
    Alive,
    Dead,
    Nack,
    NodeState,
    PingFor,
    PingHeader,
    ProbeAck,
    PushPull,
    SuspectedHeader,
    UserMessage,
)

B = Address(bytes(range(16)), "B")
ALIVE_B = Alive(3, "B", ("10.0.0.2", 7946), B, ("10.0.0.2", 8000), b"\xff\x80")
RAW = bytes(range(16)).hex()
PLACE_A, PLACE_B = "0008 31302e302e302e31 1f0a", "0008 31302e302e302e32 1f0a"

CASES = [
    (PingHeader(7, "B", "A", ("10.0.0.1", 7946)),
     "0011 01 00000017 0000000700014200014101" + PLACE_A),
    (PingFor(7, "B", ("10.0.0.2", 7946), B, True, "A", None),
     "0011 02 00000029 0000000700014201" + PLACE_B + RAW + "0100014100"),
    (ProbeAck(7, b"xy"),
     "0011 03 0000000a 00000007000000027879"),
    (Nack(7),
     "0011 04 00000004 00000007"),
    (SuspectedHeader(3, "B", "A", BY_DATAGRAM | BY_HELPERS),
     "0011 05 0000000b 0000000300014200014103"),
    (ALIVE_B,
     "0011 06 00000037 0000000300014201" + PLACE_B + RAW + "01000831302e302e302e321f4000000002ff80"),
    (Dead(3, "B", "A"),
     "0011 07 0000000a 00000003000142000141"),
    (PushPull(9, False, True, (NodeState(ALIVE_B, SUSPECT),), b"u"),
     "0011 08 00000047 000000090001000000010000000300014201" + PLACE_B + RAW
     + "01000831302e302e302e321f4000000002ff80010000000175"),
    (UserMessage(b"serf"),
     "0011 09 00000008 0000000473657266"),
]
