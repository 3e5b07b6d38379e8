"""Golden bytes of the headers of blocks/rpc."""
from jgroups_py.wire.block_headers import Answer, Ask, Failure, OneWayRequest

CASES = [
    (Ask(7, 258), "0028 01 0000000a 0007 0000000000000102"),
    (OneWayRequest(7), "0028 02 00000002 0007"),
    (Answer(7, 258), "0028 03 0000000a 0007 0000000000000102"),
    (Failure(7, 258), "0028 04 0000000a 0007 0000000000000102"),
]
