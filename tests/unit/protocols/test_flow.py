"""MFC and UFC: credits, slow receivers, view changes."""
from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from jgroups_py.model.batch import NO_FC
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import AppBusy
from jgroups_py.protocols.flow import FlowConfig, Mfc, Ufc
from jgroups_py.protocols.flow.headers import (
    MulticastCreditRequest,
    MulticastGrant,
    MulticastMark,
    UnicastGrant,
    UnicastMark,
)
from jgroups_py.testing.bench import Bench, Group, InFlight, change, multicast, unicast, view_of

CREDITS = 100_000
KB = bytes(1000)
CONFIG = FlowConfig(max_credits_bytes=CREDITS)
V1 = view_of("A", "B", "C")


def group(layer: type[Mfc] | type[Ufc] = Mfc, names: str = "ABC") -> Group:
    made = Group(lambda name: [layer(CONFIG)], names)
    made.install(view_of(*names))
    return made


def sent_bytes(bench: Bench) -> int:
    return sum(batch.nbytes for batch in bench.sent())


def losing(header: type, times: int) -> Callable[[InFlight], Sequence[float]]:
    left = [times]

    def delays_of(in_flight: InFlight) -> Sequence[float]:
        if in_flight.has(header) and left[0]:
            left[0] -= 1
            return ()
        return (0.0,)
    return delays_of


def test_messages_that_exceed_the_credit_are_queued() -> None:
    a = Bench(Mfc(CONFIG), me="A")
    a.up(change(V1))
    a.down(multicast("A", *[KB] * 70))
    a.down(multicast("A", *[KB] * 70))
    assert sent_bytes(a) == CREDITS
    assert a.stack.pending_bytes() == 40_000
    a.down(multicast("A", b"behind the others"))
    assert sent_bytes(a) == 0


def test_everything_arrives_in_order_when_receivers_keep_up() -> None:
    all_three = group()
    payloads = [b"%06d" % n * 100 for n in range(2000)]
    for n in range(0, 2000, 50):
        all_three["A"].down(multicast("A", *payloads[n:n + 50]))
    all_three.settle()
    assert all_three["B"].payloads() == payloads
    assert all_three["A"].stack.pending_bytes() == 0


@pytest.mark.parametrize("layer", [Mfc, Ufc])
def test_a_busy_application_stops_its_senders_and_frees_them_again(layer: type[Mfc] | type[Ufc]) -> None:
    pair = group(layer, "AB")
    batch = multicast("A", *[KB] * 10) if layer is Mfc else unicast("A", "B", *[KB] * 10)
    pair["B"].down(AppBusy(True))
    for _ in range(100):
        pair["A"].down(batch)
    pair.run(3000)
    assert len(pair["B"].payloads()) == CREDITS // 1000
    assert pair["A"].stack.pending_bytes() == 900_000
    pair["B"].down(AppBusy(False))
    pair.settle()
    assert len(pair["B"].payloads()) == 1000


def test_grants_are_deferred_while_any_layer_reports_busy() -> None:
    b = Bench(Mfc(CONFIG), me="B")
    b.up(change(V1))
    b.down(AppBusy(True))
    b.down(AppBusy(True, "state"))
    b.up(multicast("A", headers=(MulticastMark(5000),)))
    b.down(AppBusy(False))
    assert b.sent_with(MulticastGrant) == []
    b.down(AppBusy(False, "state"))
    [(granted, batch)] = b.sent_with(MulticastGrant)
    assert (granted.position, batch.dest) == (5000, V1.members[0])


def test_the_slowest_member_counts_for_multicasts() -> None:
    a = Bench(Mfc(CONFIG), me="A")
    a.up(change(V1))
    a.down(multicast("A", *[KB] * 150))
    a.sent()
    a.up(unicast("B", "A", headers=(MulticastGrant(CREDITS),)))
    assert sent_bytes(a) == 0
    a.up(unicast("C", "A", headers=(MulticastGrant(20_000),)))
    assert sent_bytes(a) == 20_000


def test_a_slow_receiver_of_unicasts_does_not_stop_those_to_others() -> None:
    a = Bench(Ufc(CONFIG), me="A")
    a.up(change(V1))
    a.down(unicast("A", "B", *[KB] * 150))
    a.sent()
    a.down(unicast("A", "C", *[KB] * 50))
    assert sent_bytes(a) == 50_000
    assert a.stack.pending_bytes() == 50_000


@pytest.mark.parametrize("layer", [Mfc, Ufc])
def test_the_crash_of_a_slow_receiver_frees_a_blocked_sender(layer: type[Mfc] | type[Ufc]) -> None:
    a = Bench(layer(CONFIG), me="A")
    a.up(change(V1))
    a.down(multicast("A", *[KB] * 150) if layer is Mfc else unicast("A", "C", *[KB] * 150))
    if layer is Mfc:
        a.up(unicast("B", "A", headers=(MulticastGrant(CREDITS),)))
    assert a.stack.pending_bytes() == 50_000
    a.up(change(view_of("A", "B", counter=2), V1))
    assert a.stack.pending_bytes() == 0
    assert sent_bytes(a) == 150_000


def test_a_lost_grant_is_requested_again() -> None:
    pair = group(Mfc, "AB")
    pair.delays_of = losing(MulticastGrant, 5)
    for _ in range(30):
        pair["A"].down(multicast("A", *[KB] * 10))
    pair.run(2000)
    assert len(pair["B"].payloads()) == 300
    assert pair["A"].stats()["credit_requests_sent"] >= 1


def test_a_lost_request_is_repeated() -> None:
    pair = group(Mfc, "AB")
    losses = {MulticastGrant: losing(MulticastGrant, 6), MulticastCreditRequest: losing(MulticastCreditRequest, 2)}
    pair.delays_of = lambda in_flight: () if any(not delays_of(in_flight) for delays_of in losses.values()) else (0.0,)
    for _ in range(30):
        pair["A"].down(multicast("A", *[KB] * 10))
    pair.run(5000)
    assert len(pair["B"].payloads()) == 300


def test_a_joiner_starts_at_the_present_position() -> None:
    a = Bench(Mfc(CONFIG), me="A")
    two = view_of("A", "B")
    a.up(change(two))
    a.down(multicast("A", *[KB] * 90))
    a.up(unicast("B", "A", headers=(MulticastGrant(90_000),)))
    a.sent()
    a.up(change(view_of("A", "B", "C", counter=2), two))
    a.down(multicast("A", *[KB] * 150))
    assert sent_bytes(a) == CREDITS


def test_survivors_keep_what_they_granted_over_a_view_change() -> None:
    a = Bench(Mfc(CONFIG), me="A")
    a.up(change(V1))
    a.down(multicast("A", *[KB] * 90))
    a.sent()
    for counter in range(2, 20):
        a.up(change(view_of("A", "B", counter=counter), V1))
    a.down(multicast("A", *[KB] * 90))
    assert sent_bytes(a) == 10_000


def test_a_grant_from_before_a_members_return_is_stale() -> None:
    a = Bench(Mfc(CONFIG), me="A")
    a.up(change(V1))
    a.down(multicast("A", *[KB] * 50))
    alone, again = view_of("A", counter=2), view_of("A", "B", counter=3)
    a.up(change(alone, V1))
    a.up(change(again, alone))
    for position in (20_000, 60_000):
        a.up(unicast("B", "A", headers=(MulticastGrant(position),)))
    assert a.stats()["stale_grants"] == 2


def test_without_receivers_there_is_no_limit() -> None:
    a = Bench(Mfc(CONFIG), me="A")
    a.up(change(view_of("A")))
    a.down(multicast("A", *[KB] * 500))
    assert sent_bytes(a) == 500_000


def test_messages_to_non_members_and_to_this_member_itself_pass() -> None:
    a = Bench(Ufc(CONFIG), me="A")
    a.up(change(V1))
    a.down(unicast("A", "X", *[KB] * 500))
    a.down(unicast("A", "A", *[KB] * 500))
    assert sent_bytes(a) == 500_000
    assert len(a.payloads()) == 500


def test_no_fc_passes_a_blocked_sender() -> None:
    a = Bench(Mfc(CONFIG), me="A")
    a.up(change(V1))
    a.down(multicast("A", *[KB] * 150))
    a.sent()
    a.down(multicast("A", b"now", flags=NO_FC))
    assert [batch.payloads for batch in a.sent()] == [(b"now",)]


def test_a_message_larger_than_all_credit_passes_once_nothing_is_on_its_way() -> None:
    pair = group(Ufc, "AB")
    pair["A"].down(unicast("A", "B", KB, bytes(3 * CREDITS), KB, bytes(2 * CREDITS)))
    pair.settle()
    assert [len(payload) for payload in pair["B"].payloads()] == [1000, 3 * CREDITS, 1000, 2 * CREDITS]


def test_marks_and_grants_cost_a_few_messages_per_credit() -> None:
    pair = group(Ufc, "AB")
    for _ in range(1000):
        pair["A"].down(unicast("A", "B", *[KB] * 10))
        pair.settle()
    assert pair["A"].stats()["marks_sent"] <= 10_000_000 / (CREDITS * 0.25)
    assert pair["B"].stats()["grants_sent"] == pair["A"].stats()["marks_sent"]


def test_a_mark_that_arrives_before_its_view_is_answered() -> None:
    b = Bench(Ufc(CONFIG), me="B")
    b.up(unicast("J", "B", headers=(UnicastMark(700),)))
    [(granted, _)] = b.sent_with(UnicastGrant)
    assert granted.position == 700


@pytest.mark.parametrize(("max_credits", "threshold", "min_credits"), [("1M", 0, 0), ("1M", 1, 0), ("1M", 0.2, "2M")])
def test_credits_that_can_never_be_renewed_are_refused(max_credits: str, threshold: float, min_credits: str) -> None:
    with pytest.raises(ConfigError, match="min_credits"):
        FlowConfig(max_credits_bytes=max_credits, min_threshold_ratio=threshold, min_credits_bytes=min_credits)
