"""Golden bytes of the application's headers."""
from jgroups_py.wire import AppHeaders

CASES = [
    (AppHeaders({}), "0001 00 00000004 00000000"),
    (AppHeaders({200: b"ab", 65535: b""}), "0001 00 00000012 00000002" "00c8 00000002 6162" "ffff 00000000"),
]
