"""NAKACK counts the multicasts of applications: a large one once, and none of what protocols send."""
from __future__ import annotations

from jgroups_py.model.batch import Batch
from jgroups_py.protocols.frag.headers import Fragment
from jgroups_py.protocols.gms.protocol import Gms
from jgroups_py.protocols.nakack import Nakack
from jgroups_py.protocols.relay.headers import Disseminate, Sync
from jgroups_py.testing.bench import address
from tests.unit.protocols.gms_group import in_view

A, B = address("A"), address("B")


def test_messages_count_and_control_messages_pieces_and_repetitions_do_not() -> None:
    members = in_view("AB")
    members.multicast("A", b"1", b"2")
    for batch in (
        Batch(A, None, (), (Sync({}, (), {}, 0),)),
        Batch(A, None, (b"p0", b"p1"), (Fragment(1, 0, 3, 6, 0),)),
        Batch(A, None, (b"x", b"y"), (Disseminate("SFO", B, 1, 1, 0),)),
    ):
        members["A"].down(batch)
    members.run(100)
    counts = {name: members[name].stack.find(Nakack).multicasts() for name in "AB"}
    assert counts["A"] == counts["B"] == {A: 2, B: 0}
    members["A"].down(Batch(A, None, (b"p2",), (Fragment(1, 2, 3, 6, 0),)))
    members.run(100)
    assert members["B"].stack.find(Nakack).multicasts() == {A: 3, B: 0}
    assert isinstance(members["A"].stack.find(Gms), Gms)


def test_a_batch_that_is_cut_counts_in_the_piece_that_ends_the_message() -> None:
    batch = Batch(A, None, (b"a", b"b", b"c"), (Fragment(1, 0, 3, 3, 0),))
    assert [batch.messages, batch.cut(0, 2).messages, batch.cut(2, 3).messages] == [1, 0, 1]
