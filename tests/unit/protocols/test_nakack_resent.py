"""NAKACK: a message that comes again counts only in the view that its number belongs to."""
from __future__ import annotations

from jgroups_py.protocols.nakack.headers import LastSeqno, Retransmission
from jgroups_py.testing.bench import address, change, multicast
from tests.unit.protocols.nakack_bench import V1, V2, member


def test_a_message_retransmitted_from_an_earlier_view_is_not_taken_for_one_of_this_view() -> None:
    a = member("A")
    a.down(change(V2, V1))
    header = Retransmission(V1.id.raw, address("B"), 1)
    late = multicast("B", b"of the view before", headers=(header,)).replaced(dest=a.me)
    a.up(late)
    assert a.payloads("B") == []
    assert a.stats()["stale_resent_dropped"] == 1
    a.up(multicast("B", headers=(LastSeqno(V2.id.raw, 2),)))
    a.up(multicast("B", b"of this view", headers=(Retransmission(V2.id.raw, address("B"), 1),)).replaced(dest=a.me))
    assert a.payloads("B") == [b"of this view"]
