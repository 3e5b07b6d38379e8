"""NAKACK while a view stands: order, recovery, the last message, the stable ones. The rest: test_nakack_views."""
from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random

import attrs
import pytest

from jgroups_py.model.batch import NO_RELIABILITY
from jgroups_py.model.events import ExcludedHint, MessagesKnown, MessagesStable
from jgroups_py.protocols.nakack import Nakack
from jgroups_py.protocols.nakack.headers import LastSeqno, MulticastData, Retransmission, RetransmitRequest
from jgroups_py.testing.bench import Bench, InFlight, address, change, multicast
from tests.unit.protocols.nakack_bench import V1, V2, data, group, lose, member


def test_own_multicasts_loop_back_and_are_numbered_from_one() -> None:
    a = member()
    a.down(multicast("A", b"1", b"2"))
    a.down(multicast("A", b"3"))
    assert a.payloads("A") == [b"1", b"2", b"3"]
    assert [header.first for header, _ in a.sent_with(MulticastData)] == [1, 3]


def test_what_is_sent_before_the_first_view_waits_for_it() -> None:
    a = Bench(Nakack())
    a.down(multicast("A", b"early"))
    assert a.payloads() == []
    assert a.stack.pending_bytes() == 5
    a.down(change(V1))
    assert a.payloads() == [b"early"]
    assert a.stack.pending_bytes() == 0


def test_unreliable_multicasts_with_payloads_loop_back_without_a_number() -> None:
    a = member()
    a.down(multicast("A", b"x", flags=NO_RELIABILITY))
    a.down(multicast("A", flags=NO_RELIABILITY))
    assert a.payloads() == [b"x"]
    assert [batch.headers for batch in a.sent()] == [(), ()]


def test_nothing_is_sent_unreliably_before_the_first_view() -> None:
    a = Bench(Nakack())
    a.down(multicast("A", b"x", flags=NO_RELIABILITY))
    assert (a.sent(), a.delivered) == ([], [])
    assert a.stats()["sent_before_view_dropped"] == 1


def test_batches_out_of_order_are_delivered_in_order_and_once() -> None:
    a = member()
    a.up(data("B", 3, b"3", b"4"))
    a.up(data("B", 2, b"2", b"3"))
    assert a.payloads() == []
    a.up(data("B", 1, b"1"))
    a.up(data("B", 1, b"1", b"2", b"3", b"4"))
    assert a.payloads("B") == [b"1", b"2", b"3", b"4"]
    assert a.stats()["duplicates_dropped"] == 4


def test_a_hole_is_requested_only_if_it_lasts() -> None:
    a = member()
    a.up(data("B", 2, b"2"))
    a.advance(4)
    assert a.sent_with(RetransmitRequest) == []
    a.up(data("B", 5, b"5"))
    a.advance(1)
    [(missing, batch)] = a.sent_with(RetransmitRequest)
    assert (missing.ranges, batch.dest) == (((1, 2),), address("B"))
    a.advance(5)
    [(missing, _)] = a.sent_with(RetransmitRequest)
    assert missing.ranges == ((3, 5),)


def test_an_unanswered_request_is_repeated_ever_more_slowly_and_then_sent_to_others_too() -> None:
    a = member()
    a.up(data("B", 2, b"2"))
    asked = []
    for _ in range(4000):
        a.advance(1)
        asked += [(a.now_ns, batch.dest) for _, batch in a.sent_with(RetransmitRequest)]
    gaps = [after - before for (before, _), (after, _) in pairwise(asked)]
    assert 5 <= len(asked) <= 12
    assert min(gaps) >= 20_000_000
    assert {dest for _, dest in asked} == {address("B"), address("C")}


def test_long_holes_are_requested_in_chunks() -> None:
    a = member(max_xmit_req=10)
    a.up(data("B", 101, b"x"))
    a.advance(5)
    [(missing, _)] = a.sent_with(RetransmitRequest)
    assert missing.ranges == ((1, 11),)
    again = multicast("B", *[b"y"] * 10, headers=(Retransmission(V1.id.raw, address("B"), 1),))
    a.up(again.replaced(dest=address("A")))
    [(missing, _)] = a.sent_with(RetransmitRequest)
    assert missing.ranges == ((11, 21),)


def test_a_request_with_many_ranges_is_cut_into_frames() -> None:
    a = member()
    a.transport.frame_bytes = 1024
    for first in range(2, 400, 2):
        a.up(data("B", first, b"x"))
    a.advance(10)
    requests = [missing.ranges for missing, _ in a.sent_with(RetransmitRequest)]
    assert [len(ranges) for ranges in requests] == [1, 48, 48, 48, 48, 6]
    assert [r for ranges in requests for r in ranges] == [(n, n + 1) for n in range(1, 399, 2)]


def test_numbers_far_beyond_what_can_have_been_sent_are_dropped() -> None:
    a = member()
    a.up(data("B", 1 << 40, b"x"))
    a.up(multicast("C", b"x", headers=(Retransmission(V1.id.raw, address("B"), (1 << 64) - 1),)).replaced(dest=a.me))
    a.up(multicast("B", headers=(LastSeqno(V1.id.raw, (1 << 64) - 1),)))
    a.down(MessagesKnown({address("B"): 1 << 60}))
    a.advance(1000)
    assert a.sent_with(RetransmitRequest) == []
    assert a.stats()["implausible_dropped"] == 1
    assert a.stats()["unannounced_resent_dropped"] == 1


def test_any_holder_retransmits_and_batches_stay_whole() -> None:
    c = member("C")
    for first in range(1, 101):
        c.up(data("B", first, b"%d" % first))
    request = RetransmitRequest(V1.id.raw, address("B"), ((10, 50), (60, 61)))
    c.up(multicast("A", headers=(request,)).replaced(dest=c.me))
    resent = c.sent_with(Retransmission)
    assert [(header.first, len(batch), batch.dest) for header, batch in resent] == [
        (10, 40, address("A")), (60, 1, address("A"))]
    assert resent[0][1].payloads[0] == b"10"


def test_answers_may_be_multicast_to_all_members_that_miss_the_same() -> None:
    g = group(use_mcast_xmit=True)
    lost = [2]

    def delays_of(in_flight: InFlight) -> Sequence[float]:
        if in_flight.has(MulticastData) and lost[0]:
            lost[0] -= 1
            return ()
        return (0.0,)
    g.delays_of = delays_of
    g["A"].down(multicast("A", b"1"))
    g["A"].down(multicast("A", b"2"))
    g.run(10)
    assert g["B"].payloads() == g["C"].payloads() == [b"1", b"2"]
    assert g["A"].stats()["retransmitted"] <= 2


def test_another_member_can_be_asked_first() -> None:
    a = member(xmit_from_random_member=True)
    a.up(data("B", 2, b"2"))
    a.advance(5)
    assert [batch.dest for _, batch in a.sent_with(RetransmitRequest)] == [address("C")]


def test_long_answers_are_sent_in_bursts() -> None:
    c = member("C", resend_bytes="4K")
    c.up(data("B", 1, *[b"x" * 1000] * 20))
    c.up(multicast("A", headers=(RetransmitRequest(V1.id.raw, address("B"), ((1, 21),)),)).replaced(dest=c.me))
    bursts = [sum(len(batch) for _, batch in c.sent_with(Retransmission))]
    for _ in range(10):
        c.advance(2)
        bursts.append(sum(len(batch) for _, batch in c.sent_with(Retransmission)))
    assert bursts == [5, 5, 5, 5, 0, 0, 0, 0, 0, 0, 0]


def test_requests_of_another_view_or_of_non_members_are_refused() -> None:
    a = member()
    a.down(multicast("A", b"1"))
    a.sent()
    a.up(multicast("B", headers=(RetransmitRequest(V2.id.raw, a.me, ((1, 2),)),)).replaced(dest=a.me))
    a.up(multicast("X", headers=(RetransmitRequest(V1.id.raw, a.me, ((1, 2),)),)).replaced(dest=a.me))
    assert a.sent() == []
    assert a.stats()["requests_refused"] == 2
    assert a.passed_up(ExcludedHint) == [ExcludedHint(address("X"))]


def test_a_lost_last_message_is_found_by_the_announcement() -> None:
    g = group()
    g.delays_of = lose(MulticastData, dest="B", times=1)
    g["A"].down(multicast("A", b"last"))
    g.run(99)
    assert g["B"].payloads() == []
    g.run(202)
    assert g["B"].payloads() == [b"last"]


def test_announcements_end_when_all_is_stable_and_slow_down_until_then() -> None:
    a = member()
    a.down(multicast("A", b"x"))
    a.sent()
    a.advance(20_000)
    assert 5 <= len(a.sent_with(LastSeqno)) <= 9
    a.down(MessagesStable({a.me: 2}))
    a.advance(100_000)
    assert a.sent_with(LastSeqno) == []
    assert a.stack.next_deadline_ns is None


def test_messages_that_others_are_known_to_have_are_requested() -> None:
    a = member()
    a.down(MessagesKnown({address("B"): 3, address("X"): 9, a.me: 7}))
    a.advance(5)
    [(missing, batch)] = a.sent_with(RetransmitRequest)
    assert (missing.sender, missing.ranges, batch.dest) == (address("B"), ((1, 3),), address("B"))


def test_stable_messages_are_forgotten() -> None:
    a = member()
    a.down(multicast("A", b"1", b"2", b"3"))
    a.up(data("B", 1, b"1", b"2"))
    a.down(MessagesStable({a.me: 3, address("B"): 3}))
    assert a.stats()["kept_bytes"] == 1


@pytest.mark.parametrize("seed", range(12))
def test_all_members_deliver_all_messages_in_order_whatever_the_wire_does(seed: int) -> None:
    rng = Random(seed)
    g = group("ABC", seed=str(seed))

    def delays_of(_: InFlight) -> Sequence[float]:
        return [rng.choice((0.2, 1, 3, 30)) for _ in range(rng.choice((0, 1, 1, 1, 2)))]
    g.delays_of = delays_of
    sent: dict[str, list[bytes]] = {name: [] for name in "ABC"}
    for number in range(60):
        name = rng.choice("ABC")
        payloads = [b"%s%d.%d" % (name.encode(), number, index) for index in range(rng.randrange(1, 5))]
        sent[name] += payloads
        g[name].down(multicast(name, *payloads))
        g.run(rng.choice((0, 0, 1, 5)))
    g.run(15_000)
    for bench in g.running:
        for name in "ABC":
            assert bench.payloads(name) == sent[name]


def test_headers_shift_with_their_batches() -> None:
    for header in (MulticastData(V1.id.raw, 5), Retransmission(V1.id.raw, address("B"), 5)):
        assert header.shift(3) == attrs.evolve(header, first=8)
