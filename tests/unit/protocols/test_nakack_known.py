"""NAKACK: what there was no room for is known to exist and asked for; what waited for a hole is counted rightly."""
from __future__ import annotations

from jgroups_py.protocols.frag.headers import Fragment
from jgroups_py.protocols.nakack import Nakack
from jgroups_py.protocols.nakack.headers import MulticastData, RetransmitRequest
from jgroups_py.testing.bench import address, multicast
from tests.unit.protocols.nakack_bench import V1, data, member

B = address("B")


def test_a_batch_for_which_there_is_no_room_is_requested_like_a_lost_one() -> None:
    a = member(max_ahead_bytes="64K")
    a.up(data("B", 3, bytes(60_000)))
    a.up(data("B", 5, bytes(60_000)))
    assert a.stats()["ahead_dropped"] == 1
    a.advance(1000)
    asked = {tuple(found) for request, batch in a.sent_with(RetransmitRequest) for found in request.ranges
             if batch.dest == B}
    assert asked == {(1, 3), (4, 6)}


def test_fragments_that_waited_behind_a_hole_do_not_count_as_messages() -> None:
    a = member()
    pieces = multicast("B", b"p0", b"p1", headers=(Fragment(1, 0, 3, 6, 0), MulticastData(V1.id.raw, 2)))
    a.up(pieces)
    a.up(data("B", 1, b"whole"))
    assert a.payloads("B") == [b"whole", b"p0", b"p1"]
    assert a.stack.find(Nakack).multicasts()[B] == 1


def test_the_number_of_messages_sent_is_counted() -> None:
    a = member()
    assert a.stats()["sent"] == 0
    a.down(multicast("A", b"1", b"2"))
    assert a.stats()["sent"] == 2
