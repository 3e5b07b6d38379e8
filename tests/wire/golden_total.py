"""Golden bytes of TOTAL's headers."""
from jgroups_py.protocols.total.headers import NewViewWanted, Reached, Tickets

RAW = (7).to_bytes(8, "big") + b"A" * 16
VIEW = "0000000000000007" + "41" * 16
CASES = [
    (Tickets(RAW, 9, ((2, 5), (1, 66000))),
     "001b 01 00000030 " + VIEW + " 0000000000000009 00000002 0002 00000005 0001 000101d0"),
    (Reached(RAW, 258), "001b 02 00000020 " + VIEW + " 0000000000000102"),
    (NewViewWanted(RAW), "001b 03 00000018 " + VIEW),
]
