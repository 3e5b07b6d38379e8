"""Golden bytes of GMS' headers."""
from jgroups_py.model.address import Address
from jgroups_py.model.view import MergeView, View, ViewId
from jgroups_py.protocols.gms.headers import (
    AckHeader,
    Ballot,
    CoordinatorHint,
    CutHeader,
    FlushId,
    Installed,
    InstallHeader,
    JoinChallenge,
    JoinRefused,
    JoinRequest,
    LeaveRequest,
    MergeCancel,
    MergeProposal,
    MergeReady,
    MergeRequest,
    NackHeader,
    Prepare,
    RenewKey,
    RenewKeyAnswer,
    StaleView,
    StateHeader,
    ViewKey,
)

A16, B16 = "41" * 16, "42" * 16
A, B = Address(b"A" * 16, "A"), Address(b"B" * 16, "B")
ID = ViewId(7, A)
FLUSH = FlushId(ID, Ballot(2, B))
VIEW = View(ViewId(8, B), (B, A))
MERGED = MergeView(VIEW.id, VIEW.members, (View(ViewId(6, A), (A,)), View(ViewId(5, B), (B,))))
PLACE = ("10.0.0.1", 7800)
CASES = [
    (JoinRequest(A, PLACE, 5),
     "000b 01 00000027" + A16 + "000141000831302e302e302e311e780000000000000005"),
    (JoinRefused(),
     "000b 14 00000000"),
    (JoinChallenge(5),
     "000b 10 00000008" + "0000000000000005"),
    (CoordinatorHint(B, PLACE),
     "000b 02 00000020" + B16 + "00014201000831302e302e302e311e78"),
    (CoordinatorHint(B, None),
     "000b 02 00000014" + B16 + "00014200"),
    (LeaveRequest(ID),
     "000b 03 00000019" + "010000000000000007" + A16),
    (LeaveRequest(None),
     "000b 03 00000001" + "00"),
    (Prepare(FLUSH, (A, B), ()),
     "000b 04 00000058" + "0000000000000007" + A16 + "0000000000000002" + B16 + "00000002" + A16 + B16
     + "00000000"),
    (Prepare(FLUSH, (A,), (B,)),
     "000b 04 00000058" + "0000000000000007" + A16 + "0000000000000002" + B16 + "00000001" + A16 + "00000001"
     + B16),
    (StateHeader(FLUSH, 7, {A: 5, B: 1}),
     "000b 05 0000006c" + "0000000000000007" + A16 + "0000000000000002" + B16 + "000000000000000700000002" + A16
     + "0000000000000005" + B16 + "0000000000000001"),
    (CutHeader(FLUSH, (A, B), (), 8, {A: 5, B: 1}, {A: A, B: B}),
     "000b 06 000000d8" + "0000000000000007" + A16 + "0000000000000002" + B16 + "00000002" + A16 + B16
     + "00000000000000000000000800000002" + A16 + "0000000000000005" + B16 + "000000000000000100000002" + A16
     + A16 + B16 + B16),
    (AckHeader(FLUSH),
     "000b 07 00000030" + "0000000000000007" + A16 + "0000000000000002" + B16),
    (InstallHeader(VIEW, (FLUSH,), (), {A: PLACE}, {A: 1500, B: 0}),
     "000b 08 000000d5" + "0000000000000008" + B16 + "00000002" + B16 + "000142" + A16
     + "00014100000000000000010000000000000007" + A16 + "0000000000000002" + B16 + "0000000000000001" + A16
     + "000141000831302e302e302e311e7800000002" + A16 + "00000000000005dc" + B16 + "0000000000000000"),
    (InstallHeader(MERGED, (FLUSH,), (A,), {}, {}),
     "000b 08 000000f4" + "0000000000000008" + B16 + "00000002" + B16 + "000142" + A16
     + "000141000000020000000000000006" + A16 + "00000001" + A16 + "0001410000000000000005" + B16 + "00000001"
     + B16 + "000142000000010000000000000007" + A16 + "0000000000000002" + B16 + "00000001" + A16 + "0000000000000000"),
    (Installed(ID),
     "000b 09 00000018" + "0000000000000007" + A16),
    (NackHeader(FLUSH, Ballot(3, A)),
     "000b 0a 00000048" + "0000000000000007" + A16 + "0000000000000002" + B16 + "0000000000000003" + A16),
    (StaleView(ID, None, True),
     "000b 0b 0000001a" + "0000000000000007" + A16 + "0001"),
    (StaleView(ID, VIEW.id, False),
     "000b 0b 00000032" + "0000000000000007" + A16 + "010000000000000008" + B16 + "00"),
    (MergeRequest(1, ID),
     "000b 0c 00000020" + "00000000000000010000000000000007" + A16),
    (MergeReady(1, FLUSH, 8, VIEW, (B, A), (), {B: PLACE}, {B: 2}),
     "000b 0d 000000f3" + "00000000000000010000000000000007" + A16 + "0000000000000002" + B16
     + "00000000000000080000000000000008" + B16 + "00000002" + B16 + "000142" + A16 + "0001410000000000000002"
     + B16 + "000142" + A16 + "0001410000000000000001" + B16 + "000142000831302e302e302e311e7800000001" + B16
     + "0000000000000002"),
    (MergeCancel(1, None),
     "000b 0e 00000009" + "000000000000000100"),
    (MergeCancel(1, ID),
     "000b 0e 00000021" + "0000000000000001010000000000000007" + A16),
    (ViewKey(bytes(range(32))),
     "000b 11 00000020" + "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"),
    (RenewKey(7),
     "000b 12 00000008" + "0000000000000007"),
    (RenewKeyAnswer(7, "no"),
     "000b 13 0000000c" + "0000000000000007" + "00026e6f"),
    (MergeProposal(ID),
     "000b 0f 00000018" + "0000000000000007" + A16),
]
