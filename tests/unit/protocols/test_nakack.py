"""NAKACK: order, recovery, views, and the flush."""
from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random

import attrs
import pytest

from jgroups_py.batch import NO_RELIABILITY
from jgroups_py.events import ExcludedHint, Filled, FillTo, Freeze, Frozen, MessagesKnown, MessagesStable
from jgroups_py.protocols.nakack import Nakack, NakackConfig
from jgroups_py.protocols.nakack.headers import Data, Missing, Resent, SentSoFar
from tests.unit.harness import Bench, Flying, Group, address, change, multicast, view_of

V1 = view_of("A", "B", "C")
V2 = view_of("A", "B", "C", counter=2)


def member(name: str = "A", **properties: object) -> Bench:
    """A bench with NAKACK in view V1."""
    bench = Bench(Nakack(NakackConfig(**properties)), me=name)        # type: ignore[arg-type]
    bench.down(change(V1))
    return bench


def group(names: str = "ABC", seed: str = "0", **properties: object) -> Group:
    """Members with NAKACK, all in one view."""
    config = NakackConfig(**properties)                               # type: ignore[arg-type]
    made = Group(lambda name: [Nakack(config)], names, seed)
    made.install(view_of(*names))
    return made


def data(src: str, first: int, *payloads: bytes, view: object = V1) -> object:
    """A numbered run as it arrives."""
    return multicast(src, *payloads, headers=(Data(view.id.raw, first),))        # type: ignore[attr-defined]


def lose(header: type, *, dest: str | None = None, src: str | None = None, times: int = 10**9):
    """A fate that loses the next `times` batches with this lowest header (of `src`, to `dest`)."""
    left = [times]

    def fate(flying: Flying) -> Sequence[float]:
        wanted = flying.has(header) and dest in (None, flying.dest) and src in (None, flying.src)
        if wanted and left[0] > 0:
            left[0] -= 1
            return ()
        return (0.0,)
    return fate


# --- sending and receiving ------------------------------------------------------------------------------------------

def test_own_multicasts_loop_back_and_are_numbered_from_one() -> None:
    a = member()
    a.down(multicast("A", b"1", b"2"))
    a.down(multicast("A", b"3"))
    assert a.payloads("A") == [b"1", b"2", b"3"]
    assert [header.first for header, _ in a.said(Data)] == [1, 3]


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


def test_runs_out_of_order_are_delivered_in_order_and_once() -> None:
    a = member()
    a.up(data("B", 3, b"3", b"4"))
    a.up(data("B", 2, b"2", b"3"))
    assert a.payloads() == []
    a.up(data("B", 1, b"1"))
    a.up(data("B", 1, b"1", b"2", b"3", b"4"))
    assert a.payloads("B") == [b"1", b"2", b"3", b"4"]
    assert a.stats()["duplicates_dropped"] == 4


def test_a_gap_is_asked_for_only_if_it_lasts() -> None:
    a = member()
    a.up(data("B", 2, b"2"))
    a.advance(4)
    assert a.said(Missing) == []
    a.up(data("B", 5, b"5"))
    a.advance(1)
    [(missing, batch)] = a.said(Missing)
    assert (missing.ranges, batch.dest) == (((1, 2),), address("B"))
    a.advance(5)
    [(missing, _)] = a.said(Missing)
    assert missing.ranges == ((3, 5),)


def test_an_unanswered_request_is_repeated_ever_more_slowly_and_then_sent_to_others_too() -> None:
    a = member()
    a.up(data("B", 2, b"2"))
    asked = []
    for _ in range(4000):
        a.advance(1)
        asked += [(a.now_ns, batch.dest) for _, batch in a.said(Missing)]
    gaps = [after - before for (before, _), (after, _) in pairwise(asked)]
    assert 5 <= len(asked) <= 12
    assert min(gaps) >= 20_000_000
    assert {dest for _, dest in asked} == {address("B"), address("C")}


def test_long_gaps_are_asked_for_in_chunks() -> None:
    a = member(max_xmit_req=10)
    a.up(data("B", 101, b"x"))
    a.advance(5)
    [(missing, _)] = a.said(Missing)
    assert missing.ranges == ((1, 11),)
    a.up(multicast("B", *[b"y"] * 10, headers=(Resent(V1.id.raw, address("B"), 1),)).replaced(dest=address("A")))
    [(missing, _)] = a.said(Missing)
    assert missing.ranges == ((11, 21),)


def test_a_request_with_many_ranges_is_cut_into_frames() -> None:
    a = member()
    a.floor.frame_bytes = 1024
    for first in range(2, 400, 2):
        a.up(data("B", first, b"x"))
    a.advance(10)
    requests = [missing.ranges for missing, _ in a.said(Missing)]
    assert [len(ranges) for ranges in requests] == [1, 48, 48, 48, 48, 6]
    assert [r for ranges in requests for r in ranges] == [(n, n + 1) for n in range(1, 399, 2)]


def test_numbers_far_beyond_what_can_have_been_sent_are_dropped() -> None:
    a = member()
    a.up(data("B", 1 << 40, b"x"))
    a.up(multicast("C", b"x", headers=(Resent(V1.id.raw, address("B"), (1 << 64) - 1),)).replaced(dest=a.me))
    a.up(multicast("B", headers=(SentSoFar(V1.id.raw, (1 << 64) - 1),)))
    a.down(MessagesKnown({address("B"): 1 << 60}))
    a.advance(1000)
    assert a.said(Missing) == []
    assert a.stats()["implausible_dropped"] == 2


def test_any_holder_resends_and_runs_stay_packed() -> None:
    c = member("C")
    for first in range(1, 101):
        c.up(data("B", first, b"%d" % first))
    c.up(multicast("A", headers=(Missing(V1.id.raw, address("B"), ((10, 50), (60, 61))),)).replaced(dest=c.me))
    resent = c.said(Resent)
    assert [(header.first, len(batch), batch.dest) for header, batch in resent] == [
        (10, 40, address("A")), (60, 1, address("A"))]
    assert resent[0][1].payloads[0] == b"10"


def test_long_answers_are_sent_in_bursts() -> None:
    c = member("C", resend_bytes="4K")
    c.up(data("B", 1, *[b"x" * 1000] * 20))
    c.up(multicast("A", headers=(Missing(V1.id.raw, address("B"), ((1, 21),)),)).replaced(dest=c.me))
    bursts = [sum(len(batch) for _, batch in c.said(Resent))]
    for _ in range(10):
        c.advance(2)
        bursts.append(sum(len(batch) for _, batch in c.said(Resent)))
    assert bursts == [5, 5, 5, 5, 0, 0, 0, 0, 0, 0, 0]


def test_requests_of_another_view_or_of_strangers_are_refused() -> None:
    a = member()
    a.down(multicast("A", b"1"))
    a.sent()
    a.up(multicast("B", headers=(Missing(V2.id.raw, a.me, ((1, 2),)),)).replaced(dest=a.me))
    a.up(multicast("X", headers=(Missing(V1.id.raw, a.me, ((1, 2),)),)).replaced(dest=a.me))
    assert a.sent() == []
    assert a.stats()["requests_refused"] == 2
    assert a.told(ExcludedHint) == [ExcludedHint(address("X"))]


def test_a_lost_last_message_is_found_by_the_announcement() -> None:
    g = group()
    g.fate = lose(Data, dest="B", times=1)
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
    assert 5 <= len(a.said(SentSoFar)) <= 9
    a.down(MessagesStable({a.me: 2}))
    a.advance(100_000)
    assert a.said(SentSoFar) == []
    assert a.stack.next_deadline_ns is None


def test_what_others_are_known_to_have_is_asked_for() -> None:
    a = member()
    a.down(MessagesKnown({address("B"): 3, address("X"): 9, a.me: 7}))
    a.advance(5)
    [(missing, batch)] = a.said(Missing)
    assert (missing.sender, missing.ranges, batch.dest) == (address("B"), ((1, 3),), address("B"))


def test_stable_messages_are_forgotten() -> None:
    a = member()
    a.down(multicast("A", b"1", b"2", b"3"))
    a.up(data("B", 1, b"1", b"2"))
    a.down(MessagesStable({a.me: 3, address("B"): 3}))
    assert a.stats()["kept_bytes"] == 1


# --- views ----------------------------------------------------------------------------------------------------------

def test_numbers_begin_anew_in_each_view() -> None:
    a = member()
    a.down(multicast("A", b"1"))
    a.down(change(V2, V1))
    a.sent()
    a.down(multicast("A", b"2"))
    assert [(header.view, header.first) for header, _ in a.said(Data)] == [(V2.id.raw, 1)]


def test_a_run_of_a_later_view_waits_for_that_view() -> None:
    a = member()
    a.up(data("D", 1, b"too early", view=view_of("A", "B", "C", "D", counter=2)))
    assert a.payloads() == []
    a.down(change(view_of("A", "B", "C", "D", counter=2), V1))
    assert a.payloads("D") == [b"too early"]


def test_few_runs_of_later_views_are_kept_the_latest() -> None:
    a = member(early_runs=2)
    for number in (1, 2, 3):
        a.up(data("B", number, b"%d" % number, view=V2))
    a.down(change(V2, V1))
    assert a.stats()["early_dropped"] == 1
    a.up(multicast("B", b"1", headers=(Data(V2.id.raw, 1),)))
    assert a.payloads("B") == [b"1", b"2", b"3"]


def test_runs_of_earlier_views_are_dropped_and_counted() -> None:
    a = member()
    a.down(change(V2, V1))
    a.up(data("B", 1, b"old", view=V1))
    assert a.payloads() == []
    assert a.stats()["old_view_dropped"] == 1


def test_gms_hears_of_a_stranger_at_most_once_a_second() -> None:
    a = member()
    for _ in range(5):
        a.up(data("X", 1, b"?"))
        a.up(data("Y", 1, b"?"))
        a.advance(300)
    assert a.told(ExcludedHint) == [ExcludedHint(address(name)) for name in "XYXY"]
    assert a.stats()["non_member_dropped"] == 10
    assert a.payloads() == []


def test_a_stranger_in_a_later_view_is_no_reason_to_tell_it_that_it_was_excluded() -> None:
    a = member()
    a.up(data("X", 1, b"?", view=V2))
    a.up(multicast("X", headers=(SentSoFar(V2.id.raw, 4),)))
    assert a.told(ExcludedHint) == []


def test_unreliable_multicasts_of_strangers_are_dropped_unless_they_are_control_messages() -> None:
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
    assert a.told(Frozen) == [Frozen({address("A"): 1, address("B"): 3, address("C"): 1})]
    a.down(multicast("A", b"waits"))
    a.up(data("B", 3, b"3"))
    assert a.payloads() == [b"1", b"2"]
    assert a.stack.pending_bytes() == 5
    a.down(change(V2, V1))
    assert a.payloads() == [b"1", b"2", b"waits"]


def test_a_second_freeze_counts_what_came_in_meanwhile() -> None:
    a = member()
    a.down(Freeze())
    a.up(data("B", 1, b"1"))
    a.up(data("B", 3, b"3"))
    a.down(Freeze())
    first, second = a.told(Frozen)
    assert (first.digest[address("B")], second.digest[address("B")]) == (1, 2)
    assert a.payloads() == []


def test_fill_delivers_exactly_up_to_the_cut() -> None:
    a = member()
    a.down(Freeze())
    a.up(data("B", 1, b"1", b"2", b"3"))
    cut = {address("A"): 1, address("B"): 3, address("C"): 1}
    a.down(FillTo(cut, {}))
    assert a.payloads("B") == [b"1", b"2"]
    assert a.told(Filled) == [Filled(cut)]
    a.down(FillTo(cut, {}))
    assert a.told(Filled) == [Filled(cut)]


def test_what_is_missing_below_the_cut_is_fetched_from_its_holder() -> None:
    g = group("ABCD")
    g.fate = lose(Data, dest="B")
    g["D"].down(multicast("D", b"1", b"2"))
    g.settle()
    g.crash("D")
    cut = {address("A"): 1, address("B"): 1, address("C"): 1, address("D"): 3}
    for name in "ABC":
        g[name].down(Freeze())
    for name in "ABC":
        g[name].down(FillTo(cut, {address("D"): address("C")}))
    g.settle()
    assert g["B"].payloads("D") == [b"1", b"2"]
    assert [g[name].told(Filled) for name in "ABC"] == [[Filled(cut)]] * 3


def test_the_flush_survives_a_holder_that_dies_in_between() -> None:
    g = group("ABCD")
    g.fate = lose(Data, dest="B")
    g["D"].down(multicast("D", b"1", b"2"))
    g.settle()
    g.crash("D")
    g.crash("C")
    cut = {address("D"): 3}
    g["B"].down(Freeze())
    g["B"].down(FillTo(cut, {address("D"): address("C")}))
    g.run(100)
    assert g["B"].told(Filled) == []
    g["B"].down(Freeze())                       # a new ballot, without C
    g["B"].down(FillTo(cut, {address("D"): address("A")}))
    g.settle()
    assert g["B"].told(Filled) == [Filled(cut)]
    assert g["B"].payloads("D") == [b"1", b"2"]


def test_a_new_freeze_while_filling_stops_the_filling() -> None:
    a = member()
    a.down(Freeze())
    a.down(FillTo({address("B"): 3}, {}))
    a.down(Freeze())
    a.up(data("B", 1, b"1", b"2"))
    assert a.payloads() == []
    assert a.told(Filled) == []
    assert a.told(Frozen)[-1].digest[address("B")] == 1
    a.down(FillTo({address("B"): 2}, {}))
    assert a.payloads("B") == [b"1"]
    assert a.told(Filled) == [Filled({address("B"): 2})]


def test_frozen_members_still_answer_requests() -> None:
    a = member()
    a.down(multicast("A", b"1"))
    a.down(Freeze())
    a.sent()
    a.up(multicast("B", headers=(Missing(V1.id.raw, a.me, ((1, 2),)),)).replaced(dest=a.me))
    assert len(a.said(Resent)) == 1


def test_a_joiner_without_a_view_freezes_and_fills_at_once() -> None:
    a = Bench(Nakack())
    a.down(Freeze())
    a.down(FillTo({}, {}))
    assert a.told(Frozen) == [Frozen({})]
    assert a.told(Filled) == [Filled({})]


def test_a_freeze_right_behind_a_view_holds_what_waited_for_the_view() -> None:
    nakack = Nakack()
    a = Bench(nakack)
    a.down(multicast("A", b"waits"))
    for event in (change(V1), Freeze()):
        nakack.later(lambda event=event: a.stack.send_down(event))    # type: ignore[misc]
    a.stack.run()
    assert a.payloads() == []
    assert a.told(Frozen)[0].digest[a.me] == 1
    a.down(change(V2, V1))
    assert a.payloads() == [b"waits"]


# --- chaos ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("seed", range(12))
def test_all_members_deliver_all_messages_in_order_whatever_the_wire_does(seed: int) -> None:
    rng = Random(seed)
    g = group("ABC", seed=str(seed))

    def fate(_: Flying) -> Sequence[float]:
        return [rng.choice((0.2, 1, 3, 30)) for _ in range(rng.choice((0, 1, 1, 1, 2)))]
    g.fate = fate
    sent: dict[str, list[bytes]] = {name: [] for name in "ABC"}
    for number in range(60):
        name = rng.choice("ABC")
        payloads = [b"%s%d.%d" % (name.encode(), number, index) for index in range(rng.randrange(1, 5))]
        sent[name] += payloads
        g[name].down(multicast(name, *payloads))
        g.run(rng.choice((0, 0, 1, 5)))
    g.run(15_000)
    for bench in g.alive:
        for name in "ABC":
            assert bench.payloads(name) == sent[name]


def test_headers_shift_with_their_runs() -> None:
    for header in (Data(V1.id.raw, 5), Resent(V1.id.raw, address("B"), 5)):
        assert header.shift(3) == attrs.evolve(header, first=8)
