"""NAKACK: what it keeps is bounded, what nobody asked for is dropped, what nobody keeps any more is told as lost."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest

from jgroups_py.model.events import Filled, FlushTo, Freeze, Frozen, MessagesKnown, MessagesStable
from jgroups_py.model.outputs import MessagesLost
from jgroups_py.model.units import seconds
from jgroups_py.protocols.flow import FlowConfig, FlowControl, FlowControlConfig, Mfc
from jgroups_py.protocols.nakack import Nakack
from jgroups_py.protocols.nakack.headers import (
    LastSeqno,
    MulticastData,
    NoLongerKept,
    Retransmission,
    RetransmitRequest,
)
from jgroups_py.stack.protocol import Protocol
from jgroups_py.testing.bench import Bench, Group, InFlight, address, multicast, unicast
from jgroups_py.windows.receive import BATCH_BYTES
from tests.unit.protocols.nakack_bench import V1, V2, data, group, lose, member

A, B, C, D = map(address, "ABCD")
VIEW = V1.id.raw


def losses(bench: Bench) -> list[tuple[str, int, int]]:
    """(origin, first, stop) of all that was told lost, ever."""
    found = [output for output in bench.outputs if isinstance(output, MessagesLost)]
    assert all(loss.site == "" and loss.dest_site is None for loss in found)
    return [(str(loss.origin), loss.first, loss.stop) for loss in found]


# --- bytes ahead ------------------------------------------------------------------------------------------------------

def test_messages_ahead_of_the_next_one_are_kept_up_to_a_limit() -> None:
    a = member(max_ahead_bytes="1M")
    for number in range(3000):
        a.up(data("B", 3 + 2 * number, bytes(60_000)))
    assert a.stats()["kept_bytes"] <= 1 << 20
    assert a.stats()["ahead_dropped"] == 3000 - 17
    a.up(data("B", 1, b"wanted"))
    assert a.payloads("B") == [b"wanted"], "the next one always has room"


def test_while_frozen_what_cannot_be_delivered_is_kept_up_to_the_limit_too() -> None:
    a = member(max_ahead_bytes="64K")
    a.down(Freeze())
    for number in range(1, 100):
        a.up(data("B", number, bytes(10_000)))
    assert a.stats()["kept_bytes"] <= 80_000
    a.down(FlushTo({A: 1, B: 3, C: 1}, {}))
    assert len(a.payloads("B")) == 2


@pytest.mark.parametrize("nbytes", [60_000, 0])
def test_all_senders_together_have_one_bound_for_messages_ahead(nbytes: int) -> None:
    """Runs of headers only take room, too."""
    a = member(max_ahead_bytes="1M")
    layer = a.stack.find(Nakack)
    assert isinstance(layer, Nakack)
    for number in range(3000):
        for name in "BC":
            a.up(data(name, 3 + 2 * number, *[bytes(nbytes)] * bool(nbytes)))
    weights = [window.ahead_weight for window in layer.receive_windows.values()]
    assert sum(weights) <= 1 << 20
    assert max(weights) - min(weights) <= nbytes + BATCH_BYTES, "none takes the other's part"


def test_the_furthest_messages_of_the_sender_with_most_bytes_make_room_for_others() -> None:
    a = member(max_ahead_bytes="1M")
    for number in range(3000):
        a.up(data("B", 3 + 2 * number, bytes(60_000)))
    dropped = a.stats()["ahead_dropped"]
    a.up(data("C", 2, b"second"))
    a.up(data("C", 1, b"first"))
    assert a.payloads("C") == [b"first", b"second"]
    a.up(data("B", 1, b"1"))
    a.up(data("B", 2, b"2"))
    assert len(a.payloads("B")) == 3, "the nearest of B's were kept"
    assert a.stats()["ahead_dropped"] == dropped, "there was as much room as C needed"
    for number in range(8):
        a.up(data("C", 4 + 2 * number, bytes(60_000)))
    assert a.stats()["ahead_dropped"] == dropped + 7, "of B's"
    a.up(data("C", 3, b"3"))
    assert len(a.payloads("C")) == 4


def test_messages_in_the_digest_of_a_flush_are_not_dropped_for_others() -> None:
    a = member(max_ahead_bytes="64K")
    a.down(Freeze())
    for number in range(1, 7):
        a.up(data("B", number, bytes(10_000)))
    a.down(Freeze())
    reach = a.passed_up(Frozen)[-1].digest[B]
    assert reach == 7
    for number in range(1, 50):
        a.up(data("C", 2 * number, bytes(10_000)))
        a.up(data("B", 6 + 2 * number, bytes(10_000)))
    a.down(Freeze())
    assert a.passed_up(Frozen)[-1].digest[B] == reach


@pytest.mark.parametrize("seed", range(10))
def test_all_is_delivered_in_order_although_little_fits_ahead_of_a_hole(seed: int) -> None:
    rng = Random(seed)
    members = group(max_ahead_bytes="64K")
    members.delays_of = lambda _: [rng.random() * 3 for _ in range(rng.random() > 0.2)]
    sent = [b"%d" % number + bytes(9000) for number in range(100)]
    for payload in sent:
        members["A"].down(multicast("A", payload))
        members.run(1)
    members.run(20_000)
    assert members["B"].payloads("A") == members["C"].payloads("A") == sent
    assert members["B"].stats()["ahead_dropped"] > 0, "the limit played its part"


def test_bytes_ahead_are_counted_again_after_a_hole_was_closed() -> None:
    a = member(max_ahead_bytes="64K")
    for at in range(1, 60, 3):
        a.up(data("B", at + 1, bytes(30_000), bytes(30_000)))
        a.up(data("B", at, b"x", bytes(30_000)))              # overlaps in part
    assert len(a.payloads("B")) == 60
    assert "ahead_dropped" not in a.stats()


# --- resent -----------------------------------------------------------------------------------------------------------

def resent(first: int, *payloads: bytes, by: str = "C", view: bytes = VIEW) -> object:
    """A run of B's messages as another member resends it to A."""
    return unicast(by, "A", *payloads, headers=(Retransmission(view, B, first),))


def test_messages_that_no_member_announced_are_accepted_only_from_their_sender() -> None:
    a = member()
    a.up(data("B", 1, b"genuine-1"))
    a.up(resent(2, *[b"poison"] * 1000))                      # type: ignore[arg-type]
    assert a.stats()["unannounced_resent_dropped"] == 1000
    a.up(data("B", 2, b"genuine-2"))
    assert a.payloads("B") == [b"genuine-1", b"genuine-2"]


def test_messages_that_are_known_to_exist_are_accepted_from_any_member_of_the_view() -> None:
    a = member()
    a.up(multicast("B", headers=(LastSeqno(VIEW, 3),)))
    for wrong in (resent(1, b"x", by="D"), resent(1, b"x", view=V2.id.raw), resent(2, b"x", b"y")):
        a.up(wrong)                                           # type: ignore[arg-type]
        assert a.payloads("B") == []
    assert a.stats()["stale_resent_dropped"] == 2
    a.up(resent(1, b"1", b"2"))                               # type: ignore[arg-type]
    assert a.payloads("B") == [b"1", b"2"]


# --- gone -------------------------------------------------------------------------------------------------------------

def cheated(*forgetful: str, names: str = "ABC") -> Group:
    """A's messages 1 to 4 never reached C, and these members forgot them: somebody said that all members had them."""
    members = group(names)
    members.delays_of = lose(MulticastData, dest="C")
    members["A"].down(multicast("A", b"1", b"2", b"3", b"4"))
    members.settle()
    members.delays_of = lambda _: (0.1,)
    for name in forgetful:
        members[name].down(MessagesStable({A: 5}))
    members["A"].down(multicast("A", b"5"))
    return members


def test_messages_that_no_member_keeps_are_reported_as_lost_and_the_stream_continues() -> None:
    members = cheated("A", "B")
    members.run(100)
    assert losses(members["C"]) == [("A", 1, 5)]
    assert members["C"].payloads("A") == [b"5"]
    assert members["C"].stats()["lost"] == 4
    members["A"].down(multicast("A", b"6"))
    members.run(10)
    assert members["C"].payloads("A") == [b"5", b"6"]
    assert not losses(members["A"]) + losses(members["B"])
    members.run(2000)
    assert losses(members["C"]) == [("A", 1, 5)]


def test_what_one_member_still_keeps_is_not_lost() -> None:
    members = cheated("A")
    members.run(200)
    assert members["C"].payloads("A") == [b"1", b"2", b"3", b"4", b"5"]
    assert losses(members["C"]) == []


def test_a_message_counts_as_lost_only_after_several_requests() -> None:
    members = group("ABCD")
    members.delays_of = lambda in_flight: () if in_flight.dest in "CD" and in_flight.has(MulticastData) else (0.1,)
    members["A"].down(multicast("A", b"1"))
    members.run(1)
    for name in "AB":
        members[name].down(MessagesStable({A: 2}))
    asked = []

    def delays_of(in_flight: InFlight) -> Sequence[float]:
        if in_flight.src == "C" and in_flight.has(RetransmitRequest):
            asked.append(in_flight.dest)
        return (0.1,)
    members.delays_of = delays_of
    members["A"].down(multicast("A", b"2"))
    members.run(5000)
    assert losses(members["C"]) == [("A", 1, 2)]
    assert losses(members["D"]) == [("A", 1, 2)]
    assert asked.count("D") == 3
    assert members["C"].payloads("A") == members["D"].payloads("A") == [b"2"]


def test_messages_between_two_lost_ranges_are_delivered_between_them() -> None:
    members = group("ABC")
    members.delays_of = lose(MulticastData, dest="C")
    members["A"].down(multicast("A", b"1", b"2", b"3", b"4", b"5"))
    members.settle()
    for name in "AB":
        members[name].down(MessagesStable({A: 6}))
    c = members["C"]
    members.delays_of = lambda _: ()
    c.up(multicast("A", b"3", headers=(MulticastData(members["A"].stack.layers[1].view, 3),)))       # type: ignore[attr-defined]
    members.delays_of = lambda _: (0.1,)
    members["A"].down(multicast("A", b"6"))
    members.run(100)
    assert losses(c) == [("A", 1, 3), ("A", 4, 6)]
    assert c.payloads("A") == [b"3", b"6"]


def test_a_flush_continues_without_messages_that_no_member_keeps() -> None:
    members = cheated("A", "B")
    for name in "ABC":
        members[name].down(Freeze())
        members[name].down(FlushTo({A: 6, B: 1, C: 1}, {A: A}))
    members.run(200)
    assert losses(members["C"]) == [("A", 1, 5)]
    assert members["C"].payloads("A") == [b"5"]
    assert len(members["C"].passed_up(Filled)) == 1


@pytest.mark.parametrize("answer", [
    unicast("D", "A", headers=(NoLongerKept(VIEW, B, 1, 3),)),                    # a stranger
    unicast("C", "A", headers=(NoLongerKept(V2.id.raw, B, 1, 3),)),               # of another view
    unicast("C", "A", headers=(NoLongerKept(VIEW, D, 1, 3),)),                    # about a stranger
    unicast("C", "A", headers=(NoLongerKept(VIEW, B, 2, 3),)),                    # not about what is missing
    unicast("C", "A", headers=(NoLongerKept(VIEW, C, 1, 3),)),                    # of whom nothing is missing
])
def test_reports_that_messages_are_gone_count_only_from_members_that_can_know(answer: object) -> None:
    a = member()
    a.up(data("B", 3, b"3"))
    a.advance(5)
    assert a.sent_with(RetransmitRequest)
    a.up(answer)                                                          # type: ignore[arg-type]
    assert a.stats()["stale_no_longer_kept_dropped"] == 1
    assert a.sent_with(RetransmitRequest) == []
    a.up(unicast("B", "A", headers=(NoLongerKept(VIEW, B, 1, 3),)))
    assert [batch.dest for _, batch in a.sent_with(RetransmitRequest)] == [C]            # a true one is an answer


def test_one_member_alone_cannot_make_another_lose_what_the_sender_keeps() -> None:
    members = group("ABC")
    members.delays_of = lose(MulticastData, dest="C", times=1)
    members["A"].down(multicast("A", b"1"))
    members["A"].down(multicast("A", b"2"))
    members.delays_of = lambda _: (1.0,)
    view = members["A"].stack.layers[1].view                              # type: ignore[attr-defined]
    for _ in range(20):
        members.run(1)
        members["C"].up(unicast("B", "C", headers=(NoLongerKept(view, A, 1, 2),)))
    members.run(100)
    assert members["C"].payloads("A") == [b"1", b"2"]
    assert losses(members["C"]) == []


def test_a_request_for_what_is_kept_in_part_is_answered_with_both() -> None:
    a = member()
    a.down(multicast("A", b"1", b"2", b"3"))
    a.down(MessagesStable({A: 2}))
    a.sent()
    a.up(unicast("C", "A", headers=(RetransmitRequest(VIEW, A, ((1, 4),)),)))
    told = a.sent()
    assert [batch.headers[-1] for batch in told] == [NoLongerKept(VIEW, A, 1, 2), Retransmission(VIEW, A, 2)]
    assert told[1].payloads == (b"2", b"3")
    assert all(batch.dest == C for batch in told)


def test_nothing_counts_as_lost_without_a_report_however_long_a_sender_is_silent() -> None:
    a = member()
    a.up(data("B", 3, b"3"))
    a.advance_to(seconds(60))
    assert losses(a) == []
    assert a.payloads("B") == []


def test_a_report_that_messages_are_gone_counts_only_as_an_answer() -> None:
    a = member()
    a.up(data("B", 3, b"3"))                                              # a hole, of which nobody was asked yet
    a.up(unicast("B", "A", headers=(NoLongerKept(VIEW, B, 1, 3),)))
    assert a.stats()["stale_no_longer_kept_dropped"] == 1


@pytest.mark.parametrize("new_view", [False, True])
@pytest.mark.parametrize("layer", [
    lambda: Mfc(FlowConfig(max_credits_bytes="64K", max_block_time_ns="100ms")),
    lambda: FlowControl(FlowControlConfig(strategy="min", rrwm="1", window_bytes="64K", receiver_timeout_ns="60s")),
], ids=["MFC", "FLOW"])
def test_credits_flow_again_although_the_mark_that_renews_them_is_lost(
    layer: Callable[[], Protocol], new_view: bool,
) -> None:
    """Also if the view changes before the sender asks for the answer."""
    members = Group(lambda _: [Nakack(), layer()], "ABC")
    members.install(V1)
    members.delays_of = lose(MulticastData, dest="C")
    members["A"].down(multicast("A", *[bytes(1000)] * 200))
    members.run(50)
    sent = members["A"].stack.layers[1].send_window.next             # type: ignore[attr-defined]
    for name in "AB":
        members[name].down(MessagesStable({A: sent}))
    members.delays_of = lambda _: (0.1,)
    members["C"].down(MessagesKnown({A: sent}))               # as STABLE's votes tell
    members.run(10 if new_view else 1000)
    assert losses(members["C"])
    if new_view:
        members.install(V2)
        members.run(1000)
    assert len(members["B"].payloads("A")) == 200
    assert members["A"].stats()["queued_bytes"] == 0
