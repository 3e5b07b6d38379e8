"""Golden bytes of ENCRYPT's header; those of sealed frames are in tests/unit/protocols/test_encrypt.py."""
from jgroups_py.protocols.encrypt.headers import KeysHeld

CASES = [
    (KeysHeld((b"12345678",)), "001a 01 0000000c 00000001 3132333435363738"),
    (KeysHeld(()), "001a 01 00000004 00000000"),
]
