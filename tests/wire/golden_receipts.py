"""Golden bytes of the headers of receipts in one group (channel/receipts.py)."""
from jgroups_py.wire.block_headers import ReceiptAnswer, ReceiptPoll

CASES = [
    (ReceiptPoll(258, 2, 3), "0028 07 00000011 0000000000000102 02 0000000000000003"),
    (ReceiptAnswer(258, True), "0028 08 00000009 0000000000000102 01"),
]
