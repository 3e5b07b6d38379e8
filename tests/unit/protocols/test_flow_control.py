"""FLOW on its own: requests, receivers that count, headers. The strategies: test_flow_strategies.py."""
from __future__ import annotations

from collections.abc import Hashable

from jgroups_py.model.batch import NO_FC
from jgroups_py.model.events import AppBusy, Disconnect
from jgroups_py.model.outputs import CountedAsReceiver, GroupConnected, SkipMulticasts
from jgroups_py.protocols.flow import FlowControl, FlowControlConfig
from jgroups_py.protocols.flow.headers import (
    CountedAsReceiverHeader,
    FlowMark,
    ReceiverLeaving,
    ReceiverTag,
    StatusHeader,
    StatusRequest,
)
from jgroups_py.protocols.flow.strategies import Max
from jgroups_py.testing.bench import Bench, Group, change, multicast, unicast, view_of

W = 100_000
KB = bytes(1000)
V1 = view_of("A", "B", "C")


def bench(fc: str = "min", me: str = "A", **more: object) -> Bench:
    made = Bench(FlowControl(FlowControlConfig(fc=fc, window_bytes=W, **more)), me=me)
    made.up(change(V1))
    return made


def status(src: str, consumed: int, received: int | None = None, tag: int | None = None) -> object:
    return unicast(src, "A", headers=(StatusHeader(consumed, consumed if received is None else received, W, tag),))


def sent_bytes(made: Bench) -> int:
    return sum(batch.nbytes for batch in made.sent())


def flood(made: Bench, times: int) -> None:
    for _ in range(times):
        made.down(multicast("A", *[KB] * 10))


def test_an_idle_group_sends_nothing() -> None:
    group = Group(lambda name: [FlowControl(FlowControlConfig(window_bytes=W))], "ABC")
    group.install(V1)
    flood(group["A"], 5)
    group.run(1000)
    before = [member.stats().get("statuses_sent", 0) for member in group.members.values()]
    group.run(60_000)
    assert [member.stats().get("statuses_sent", 0) for member in group.members.values()] == before
    assert group["A"].stats()["marks_sent"] <= 3


def test_the_last_messages_are_acknowledged_too() -> None:
    a = bench()
    flood(a, 1)
    assert a.sent_with(FlowMark) == []
    a.advance(200)
    assert [mark.position for mark, _ in a.sent_with(FlowMark)] == [10_000]


def test_a_receiver_that_does_not_answer_gets_requests_and_after_the_timeout_no_longer_counts() -> None:
    a = bench("min,t:1s")
    flood(a, 20)
    a.advance(400)
    a.up(status("B", W))
    assert {batch.dest.name for _, batch in a.sent_with(StatusRequest) if batch.dest} == {"B", "C"}
    a.advance(500)
    a.up(status("B", W))
    assert sent_bytes(a) == 0
    a.advance(100)
    said = [(batch.headers[-1], batch.dest and batch.dest.name) for batch in a.transport.batches if batch.headers]
    assert (CountedAsReceiverHeader(False), "C") in said
    assert sent_bytes(a) == 100_000


def test_a_receiver_that_is_slow_but_answers_is_waited_for() -> None:
    a = bench("min,t:1s")
    flood(a, 20)
    for _ in range(100):
        a.advance(100)
        a.up(status("B", 0, W))
        a.up(status("C", W))
    assert a.stack.pending_bytes() == 100_000
    assert "receivers_silent" not in a.stats()


def test_a_silent_receiver_far_behind_is_not_counted_before_it_has_caught_up() -> None:
    a = bench("min,t:1s,rrwm:1")
    flood(a, 20)
    a.up(status("B", W))
    for _ in range(10):
        a.advance(100)
        a.up(status("B", 2 * W))
    flood(a, 20)
    a.sent()
    a.up(status("C", 20_000))
    assert a.sent_with(CountedAsReceiverHeader) == []
    a.up(status("C", 2 * W))
    assert [counted.in_group for counted, _ in a.sent_with(CountedAsReceiverHeader)] == [True]


def test_answers_of_non_members_and_stale_ones_change_nothing() -> None:
    a = bench()
    flood(a, 20)
    for answer in (status("Z", W), status("B", 2 * W), status("B", W, 0)):
        a.up(answer)                                          # type: ignore[arg-type]
    a.up(status("B", 50_000))
    a.up(status("B", 40_000))
    a.up(status("C", 50_000))
    assert a.stack.pending_bytes() == 50_000
    assert a.stats()["non_member_statuses"] == 1
    assert a.stats()["stale_statuses"] == 3


def test_a_member_that_is_about_to_leave_holds_up_no_sender() -> None:
    a = bench()
    flood(a, 20)
    a.up(status("B", W))
    a.sent()
    a.up(multicast("C", headers=(ReceiverLeaving(),), flags=NO_FC))
    assert sent_bytes(a) == 100_000
    c = bench(me="C")
    c.down(Disconnect())
    assert len(c.sent_with(ReceiverLeaving)) == 1


def test_a_member_with_a_tag_announces_it_to_new_members() -> None:
    b = bench("max", me="B", gtag="1001")
    tagged = [batch for header, batch in b.sent_with(ReceiverTag) if batch.dest and header.tag == 1001]
    assert {batch.dest.name for batch in tagged} == {"A", "C"}
    assert bench("max", me="B").sent_with(ReceiverTag) == []


def test_a_tag_that_arrives_before_its_view_counts_in_it() -> None:
    a = bench("tagged,g:7/1")
    a.up(unicast("D", "A", headers=(ReceiverTag(W, 7),)))
    assert a.stats()["connected"] == 0
    a.up(change(view_of("A", "B", "C", "D", counter=2), V1))
    assert a.stats()["connected"] == 1


def test_too_few_receivers_hold_back_everything_but_what_is_exempt() -> None:
    a = bench("tagged,g:7/2", when_disconnected="raise")
    [news] = [output for output in a.outputs if isinstance(output, GroupConnected)]
    assert (news.connected, news.receivers, news.wanted, news.raises) == (False, 0, 2, True)
    a.down(multicast("A", b""))
    a.down(multicast("A", b"exempt", flags=NO_FC))
    assert [batch.payloads for batch in a.sent()] == [(b"exempt",)]
    for member in "BC":
        a.up(unicast(member, "A", headers=(ReceiverTag(W, 7),)))
    assert [batch.payloads for batch in a.sent()] == [(b"",)]
    assert [output.connected for output in a.outputs if isinstance(output, GroupConnected)] == [False, True]


def test_a_member_alone_in_its_group_is_not_limited() -> None:
    a = Bench(FlowControl(FlowControlConfig(window_bytes=W)), me="A")
    a.up(change(view_of("A")))
    flood(a, 100)
    assert sent_bytes(a) == 1_000_000


def test_a_receiver_that_is_a_window_behind_begins_to_skip_and_ends_when_it_has_caught_up() -> None:
    b = bench(me="B")
    b.up(multicast("A", headers=(FlowMark(1000),)))
    b.down(AppBusy(True))
    for position in (50_000, 101_000, 101_001, 500_000):
        b.up(multicast("A", headers=(FlowMark(position),)))
    skips = [(output.sender.name, output.on) for output in b.outputs if isinstance(output, SkipMulticasts)]
    assert skips == [("A", True)]
    assert [(said.consumed, said.received) for said, _ in b.sent_with(StatusHeader)][-1] == (1000, 500_000)
    b.down(AppBusy(False))
    skips = [(output.sender.name, output.on) for output in b.outputs if isinstance(output, SkipMulticasts)]
    assert skips == [("A", True), ("A", False)]
    assert [(said.consumed, said.received) for said, _ in b.sent_with(StatusHeader)] == [(500_000, 500_000)]


def test_the_departure_of_a_sender_ends_the_gap_it_left() -> None:
    b = bench(me="B")
    b.up(multicast("A", headers=(FlowMark(1),)))
    b.down(AppBusy(True))
    b.up(multicast("A", headers=(FlowMark(1_000_000),)))
    b.up(change(view_of("B", "C", counter=2), V1))
    assert [output.on for output in b.outputs if isinstance(output, SkipMulticasts)] == [True, False]


def test_a_receiver_is_notified_whether_it_counts() -> None:
    b = bench(me="B")
    for in_group in (False, True):
        b.up(unicast("A", "B", headers=(CountedAsReceiverHeader(in_group),)))
    assert [output.in_group for output in b.outputs if isinstance(output, CountedAsReceiver)] == [False, True]


class Trickle(Max):
    """A strategy of one's own: a thousand bytes more with every answer."""

    def setup(self, receiver: Hashable, position: int) -> None:
        self.limit = 1000

    def status(self, receiver: Hashable, position: int, window: int, tag: int | None) -> None:
        self.limit = (self.limit or 0) + 1000


def test_a_strategy_from_outside_the_package_decides() -> None:
    a = bench(f"{__name__}:Trickle")
    flood(a, 1)
    assert sent_bytes(a) == 1000
    a.up(status("B", 0))
    assert sent_bytes(a) == 1000
    assert a.stack.pending_bytes() == 8000


def test_a_joiner_starts_at_the_present_position() -> None:
    a = bench("min,t:1s")
    flood(a, 9)
    a.up(status("B", 90_000))
    a.up(status("C", 90_000))
    a.up(change(view_of("A", "B", "C", "D", counter=2), V1))
    flood(a, 10)
    assert a.stack.pending_bytes() == 0
    flood(a, 1)
    assert a.stack.pending_bytes() == 10_000
