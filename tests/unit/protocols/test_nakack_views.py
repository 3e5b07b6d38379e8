"""NAKACK between views: numbers per view, strangers, and the flush that GMS drives."""
from __future__ import annotations

from jgroups_py.model.batch import NO_RELIABILITY
from jgroups_py.model.events import ExcludedHint, Filled, FlushTo, Freeze, Frozen
from jgroups_py.protocols.nakack import Nakack
from jgroups_py.protocols.nakack.headers import LastSeqno, MulticastData, Retransmission, RetransmitRequest
from jgroups_py.testing.bench import Bench, address, change, multicast, view_of
from tests.unit.protocols.nakack_bench import V1, V2, data, group, lose, member

# --- views ----------------------------------------------------------------------------------------------------------

def test_numbers_begin_anew_in_each_view() -> None:
    a = member()
    a.down(multicast("A", b"1"))
    a.down(change(V2, V1))
    a.sent()
    a.down(multicast("A", b"2"))
    assert [(header.view, header.first) for header, _ in a.sent_with(MulticastData)] == [(V2.id.raw, 1)]


def test_a_batch_of_a_later_view_waits_for_that_view() -> None:
    a = member()
    a.up(data("D", 1, b"too early", view=view_of("A", "B", "C", "D", counter=2)))
    assert a.payloads() == []
    a.down(change(view_of("A", "B", "C", "D", counter=2), V1))
    assert a.payloads("D") == [b"too early"]


def test_few_batches_of_later_views_are_kept_the_latest() -> None:
    a = member(early_batches=2)
    for number in (1, 2, 3):
        a.up(data("B", number, b"%d" % number, view=V2))
    a.down(change(V2, V1))
    assert a.stats()["early_dropped"] == 1
    a.up(multicast("B", b"1", headers=(MulticastData(V2.id.raw, 1),)))
    assert a.payloads("B") == [b"1", b"2", b"3"]


def test_few_bytes_of_later_views_are_kept() -> None:
    a = member(early_bytes=1000)
    for number in range(1, 4):
        a.up(data("B", number, b"x" * 400, view=V2))
    a.up(data("C", 1, b"x" * 1001, view=V2))
    assert a.stats()["early_dropped"] == 4


def test_batches_of_earlier_views_are_dropped_and_counted() -> None:
    a = member()
    a.down(change(V2, V1))
    a.up(data("B", 1, b"old", view=V1))
    assert a.payloads() == []
    assert a.stats()["old_view_dropped"] == 1


def test_a_non_member_is_reported_to_gms_at_most_once_a_second() -> None:
    a = member()
    for _ in range(5):
        a.up(data("X", 1, b"?"))
        a.up(data("Y", 1, b"?"))
        a.advance(300)
    assert a.passed_up(ExcludedHint) == [ExcludedHint(address(name)) for name in "XYXY"]
    assert a.stats()["non_member_dropped"] == 10
    assert a.payloads() == []


def test_a_non_member_in_a_later_view_is_not_reported_as_excluded() -> None:
    a = member()
    a.up(data("X", 1, b"?", view=V2))
    a.up(multicast("X", headers=(LastSeqno(V2.id.raw, 4),)))
    assert a.passed_up(ExcludedHint) == []


def test_unreliable_multicasts_of_non_members_are_dropped_unless_they_are_control_messages() -> None:
    a = member()
    a.up(multicast("X", b"app", flags=NO_RELIABILITY))
    a.up(multicast("X", flags=NO_RELIABILITY))
    a.up(multicast("B", b"app", flags=NO_RELIABILITY))
    assert [(batch.src, batch.payloads) for batch in a.delivered] == [(address("X"), ()), (address("B"), (b"app",))]


# --- the flush ------------------------------------------------------------------------------------------------------

def test_frozen_means_no_numbering_and_no_delivery() -> None:
    a = member()
    a.up(data("B", 1, b"1", b"2"))
    a.down(Freeze())
    assert a.passed_up(Frozen) == [Frozen({address("A"): 1, address("B"): 3, address("C"): 1})]
    a.down(multicast("A", b"waits"))
    a.up(data("B", 3, b"3"))
    assert a.payloads() == [b"1", b"2"]
    assert a.stack.pending_bytes() == 5
    a.down(change(V2, V1))
    assert a.payloads() == [b"1", b"2", b"waits"]


def test_the_time_from_the_first_freeze_to_the_view_is_counted() -> None:
    a = member()
    a.down(Freeze())
    a.advance(30)
    a.down(Freeze())
    a.advance(40)
    a.down(change(V2, V1))
    stats = a.stats()
    assert (stats["frozen_within_100"], stats["frozen_us"]) == (1, 70_000)


def test_a_second_freeze_reports_what_arrived_since_the_first() -> None:
    a = member()
    a.down(Freeze())
    a.up(data("B", 1, b"1"))
    a.up(data("B", 3, b"3"))
    a.down(Freeze())
    first, second = a.passed_up(Frozen)
    assert (first.digest[address("B")], second.digest[address("B")]) == (1, 2)
    assert a.payloads() == []


def test_fill_delivers_exactly_up_to_the_cut() -> None:
    a = member()
    a.down(Freeze())
    a.up(data("B", 1, b"1", b"2", b"3"))
    cut = {address("A"): 1, address("B"): 3, address("C"): 1}
    a.down(FlushTo(cut, {}))
    assert a.payloads("B") == [b"1", b"2"]
    assert a.passed_up(Filled) == [Filled(cut)]
    a.down(FlushTo(cut, {}))
    assert a.passed_up(Filled) == [Filled(cut)]


def test_what_is_missing_below_the_cut_is_fetched_from_its_holder() -> None:
    g = group("ABCD")
    g.delays_of = lose(MulticastData, dest="B")
    g["D"].down(multicast("D", b"1", b"2"))
    g.settle()
    g.crash("D")
    cut = {address("A"): 1, address("B"): 1, address("C"): 1, address("D"): 3}
    for name in "ABC":
        g[name].down(Freeze())
    for name in "ABC":
        g[name].down(FlushTo(cut, {address("D"): address("C")}))
    g.settle()
    assert g["B"].payloads("D") == [b"1", b"2"]
    assert [g[name].passed_up(Filled) for name in "ABC"] == [[Filled(cut)]] * 3


def test_the_flush_survives_the_crash_of_the_holder() -> None:
    g = group("ABCD")
    g.delays_of = lose(MulticastData, dest="B")
    g["D"].down(multicast("D", b"1", b"2"))
    g.settle()
    g.crash("D")
    g.crash("C")
    cut = {address("D"): 3}
    g["B"].down(Freeze())
    g["B"].down(FlushTo(cut, {address("D"): address("C")}))
    g.run(100)
    assert g["B"].passed_up(Filled) == []
    g["B"].down(Freeze())                       # a new ballot, without C
    g["B"].down(FlushTo(cut, {address("D"): address("A")}))
    g.settle()
    assert g["B"].passed_up(Filled) == [Filled(cut)]
    assert g["B"].payloads("D") == [b"1", b"2"]


def test_a_new_freeze_while_filling_stops_the_filling() -> None:
    a = member()
    a.down(Freeze())
    a.down(FlushTo({address("B"): 3}, {}))
    a.down(Freeze())
    a.up(data("B", 1, b"1", b"2"))
    assert a.payloads() == []
    assert a.passed_up(Filled) == []
    assert a.passed_up(Frozen)[-1].digest[address("B")] == 1
    a.down(FlushTo({address("B"): 2}, {}))
    assert a.payloads("B") == [b"1"]
    assert a.passed_up(Filled) == [Filled({address("B"): 2})]


def test_frozen_members_still_answer_requests() -> None:
    a = member()
    a.down(multicast("A", b"1"))
    a.down(Freeze())
    a.sent()
    a.up(multicast("B", headers=(RetransmitRequest(V1.id.raw, a.me, ((1, 2),)),)).replaced(dest=a.me))
    assert len(a.sent_with(Retransmission)) == 1


def test_a_joiner_without_a_view_freezes_and_fills_at_once() -> None:
    a = Bench(Nakack())
    a.down(Freeze())
    a.down(FlushTo({}, {}))
    assert a.passed_up(Frozen) == [Frozen({})]
    assert a.passed_up(Filled) == [Filled({})]


def test_a_freeze_right_behind_a_view_holds_what_waited_for_the_view() -> None:
    nakack = Nakack()
    a = Bench(nakack)
    a.down(multicast("A", b"waits"))
    for event in (change(V1), Freeze()):
        nakack.later(lambda event=event: a.stack.send_down(event))    # type: ignore[misc]
    a.stack.run()
    assert a.payloads() == []
    assert a.passed_up(Frozen)[0].digest[a.me] == 1
    a.down(change(V2, V1))
    assert a.payloads() == [b"waits"]
