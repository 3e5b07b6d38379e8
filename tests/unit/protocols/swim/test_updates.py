"""Which updates are applied, spread, refuted."""
from __future__ import annotations

import pytest

from jgroups_py import wire
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.events import UserGossip, UserHeard
from jgroups_py.model.swim_member import BY_DATAGRAM, BY_HELPERS
from jgroups_py.model.units import seconds
from jgroups_py.protocols.swim import SwimConfig
from jgroups_py.protocols.swim.headers import (
    ALIVE,
    DEAD,
    LEFT,
    SUSPECT,
    Alive,
    Dead,
    Nack,
    NodeState,
    PingHeader,
    ProbeAck,
    PushPull,
    SuspectedHeader,
    UserMessage,
)
from jgroups_py.protocols.swim.metadata import pack_tags
from jgroups_py.protocols.swim.updates import FIRST_INCARNATIONS, INCARNATIONS_PER_S, ceiling
from jgroups_py.testing.bench import address
from tests.unit.protocols.swim.bench import SwimBench, alive, place

QUIET = SwimConfig(probe_interval_ns=seconds(3600), probe_timeout_ns=seconds(1), link_pings=False)
"""With probes so rare that none interferes with a test."""


def gossiped(bench: SwimBench) -> list[object]:
    """The headers that A sends within a second."""
    bench.advance(1000)
    return [header for _, headers in bench.frames() for header in headers]


def test_a_node_joins_with_its_alive_which_is_spread() -> None:
    bench = SwimBench("C", QUIET)
    bench.receive(alive("B", meta=pack_tags({"role": "db"}, 2)))
    assert bench.changed() == [("joined", "B")]
    assert (bench.known("B").tags, bench.known("B").weight, bench.known("B").place) == ({"role": "db"}, 2.0, place("B"))
    assert alive("B", meta=pack_tags({"role": "db"}, 2)) in gossiped(bench)


def test_updates_that_are_not_newer_are_neither_applied_nor_spread() -> None:
    bench = SwimBench("BC", QUIET)
    gossiped(bench)
    bench.receive(alive("B", 5))
    gossiped(bench)
    for old in (alive("B", 5, meta=b"x"), alive("B", 4), SuspectedHeader(4, "B", "C", 0), Dead(4, "B", "C")):
        bench.receive(old)
        assert old not in gossiped(bench)
    assert bench.changed() == []
    assert (bench.known("B").state, bench.known("B").incarnation, bench.known("B").tags) == ("alive", 5, {})


@pytest.mark.parametrize("incarnation", [1, 2])
def test_a_suspicion_of_the_same_or_a_higher_incarnation_is_applied_with_its_evidence(incarnation: int) -> None:
    bench = SwimBench("BCD", QUIET)
    bench.receive(SuspectedHeader(incarnation, "B", "C", BY_DATAGRAM | BY_HELPERS), src="D")
    (changed,) = bench.changes()
    assert (changed.change, changed.member.name, changed.member.incarnation) == ("suspected", "B", incarnation)
    assert [str(accusation) for accusation in changed.accusations] == ["C: no answer by datagram, helpers"]


def test_only_an_alive_with_a_higher_incarnation_refutes_a_suspicion() -> None:
    bench = SwimBench("BCD", QUIET)
    bench.receive(SuspectedHeader(1, "B", "C", 0))
    bench.receive(alive("B", 1))
    assert bench.known("B").state == "suspect"
    bench.receive(alive("B", 2))
    assert bench.changed() == [("suspected", "B"), ("refuted", "B")]
    bench.advance(24 * 3600 * 1000)
    assert bench.stats().get("failed", 0) == 0


def test_a_suspect_fails_when_its_time_is_over_and_sooner_if_others_confirm() -> None:
    for accusers, after_s in (("C", 24), ("CDE", 4)):
        bench = SwimBench("BCDE")
        bench.swim.cancel_timer("probe")                   # A's own probes would confirm it
        for accuser in accusers:
            bench.receive(SuspectedHeader(1, "B", accuser, 0), src=accuser)
        bench.advance(1000 * after_s - 1)
        assert bench.known("B").state == "suspect"
        bench.advance(1)
        assert bench.known("B").state == "failed"
        evidence = next(output.accusations for output in bench.changes() if output.change == "failed")
        assert [accusation.by for accusation in evidence][:len(accusers)] == list(accusers)


def test_hearsay_begins_a_suspicion_but_confirms_none() -> None:
    bench = SwimBench("BCDE", QUIET)
    bench.receive(SuspectedHeader(1, "B", "", 0))
    bench.receive(SuspectedHeader(1, "B", "", 0), src="C")
    assert bench.changed() == [("suspected", "B")]
    assert bench.stats().get("confirmations", 0) == 0


def test_a_dead_update_by_another_node_means_failed_and_by_the_node_itself_left() -> None:
    bench = SwimBench("BCD", QUIET)
    bench.receive(Dead(1, "B", "C"), Dead(1, "D", "D"))
    assert bench.changed() == [("left", "D"), ("failed", "B")]
    bench.receive(Dead(9, "B", "C"), SuspectedHeader(9, "D", "C", 0), Dead(9, "D", "C"))
    assert bench.changed() == []


def test_a_failed_node_is_back_with_a_higher_incarnation() -> None:
    bench = SwimBench("BC", QUIET)
    bench.receive(Dead(1, "B", "C"))
    bench.receive(alive("B", 1))
    assert bench.known("B").state == "failed"
    bench.receive(alive("B", 2))
    assert bench.changed() == [("failed", "B"), ("joined", "B")]


def test_of_unknown_nodes_only_an_alive_has_an_effect() -> None:
    bench = SwimBench("B", QUIET)
    bench.receive(SuspectedHeader(1, "X", "B", 0), Dead(1, "Y", "B"))
    assert bench.changed() == []
    assert len(bench.swim.known_members()) == 2

# --- updates about this member ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("accusation", [SuspectedHeader(7, "A", "B", 0), Dead(7, "A", "B")])
def test_an_accused_member_refutes_with_a_higher_incarnation_and_lowers_its_health(
    accusation: SuspectedHeader | Dead,
) -> None:
    bench = SwimBench("BC", QUIET)
    bench.receive(accusation)
    assert any(isinstance(item, Alive) and (item.node, item.incarnation) == ("A", 8) for item in gossiped(bench))
    assert bench.stats()["health"] == 1
    bench.receive(accusation)
    assert (bench.stats()["incarnation"], bench.stats()["health"]) == (8, 1)


def test_an_accusation_with_an_earlier_incarnation_is_answered_with_the_current_alive() -> None:
    bench = SwimBench("BC", QUIET)
    bench.receive(SuspectedHeader(7, "A", "B", 0))
    gossiped(bench)
    for _ in range(5):
        gossiped(bench)
    bench.receive(SuspectedHeader(3, "A", "C", 0))
    sent = [item.incarnation for item in gossiped(bench) if isinstance(item, Alive) and item.node == "A"]
    assert sorted(dict.fromkeys(sent)) == [8]


def test_the_refutation_comes_with_the_answer_to_the_ping_that_brings_the_accusation() -> None:
    bench = SwimBench("BC", QUIET)
    bench.receive(PingHeader(5, "A", "B", place("B")), SuspectedHeader(7, "A", "B", 0))
    to, headers = next(frame for frame in bench.frames() if isinstance(frame[1][-1], ProbeAck))
    assert to == place("B")[0]
    assert any(isinstance(item, Alive) and item.incarnation == 8 for item in headers)


def test_an_earlier_start_under_the_name_of_a_member_is_overridden() -> None:
    bench = SwimBench("BC", QUIET)
    bench.receive(alive("A", 4, member=Address(b"an earlier start", "A")))
    assert bench.stats()["incarnation"] == 5
    assert any(isinstance(item, Alive) and (item.incarnation, item.member) == (5, bench.me) for item in gossiped(bench))



ABSURD = (1 << 31, (1 << 32) - 1, FIRST_INCARNATIONS + INCARNATIONS_PER_S + 2)


@pytest.mark.parametrize("incarnation", ABSURD)
def test_an_incarnation_that_no_node_can_have_reached_is_dropped(incarnation: int) -> None:
    """It could not be refuted any more."""
    bench = SwimBench("BC", QUIET)
    other = address("another start...")
    updates = [SuspectedHeader(incarnation, "A", "B", 0), Dead(incarnation, "A", "B"),
               alive("A", incarnation, member=other),
               SuspectedHeader(incarnation, "B", "C", 0), Dead(incarnation, "B", "C"), Dead(incarnation, "B", "B"),
               alive("B", incarnation), alive("E", incarnation)]
    page = PushPull(1, True, False, tuple(NodeState(alive(name, incarnation), state)
                                          for name in "ABE" for state in (ALIVE, SUSPECT, DEAD, LEFT)), b"")
    for header in (*updates, page):
        bench.receive(header, src="C")
    assert bench.changed() == []
    assert bench.stats()["incarnation"] == 1
    assert (bench.known("B").state, bench.known("B").incarnation) == ("alive", 1)
    assert bench.stats()["absurd_incarnations_dropped"] >= len(updates)
    assert not [item for item in gossiped(bench) if getattr(item, "incarnation", 0) >= incarnation]


@pytest.mark.parametrize("seconds", [0, 1, 24 * 3600])
def test_the_highest_accepted_incarnation_can_be_exceeded_and_the_refutation_is_accepted_too(seconds: int) -> None:
    accused, witness = SwimBench("BC", QUIET), SwimBench("BC", QUIET)
    for bench in (accused, witness):
        bench.swim.cancel_timer("probe")
        bench.advance(1000 * seconds)
    highest = ceiling(1, 0, witness.swim.now_ns)
    witness.receive(SuspectedHeader(highest, "B", "C", 0))
    assert witness.changed() == [("suspected", "B")]
    for bench in (accused, witness):
        bench.advance(100)
    accused.receive(SuspectedHeader(highest, "A", "C", 0))
    answers = [item.incarnation for item in gossiped(accused) if isinstance(item, Alive) and item.node == "A"]
    assert answers[-1] == highest + 1
    witness.receive(alive("B", answers[-1]))
    assert witness.changed() == [("refuted", "B")]


@pytest.mark.parametrize(
    "oversized", [alive("D", meta=bytes(513)), alive("D" * 256, at=("10.1.0.1", 1), member=address("D"))])
def test_a_node_whose_alive_does_not_fit_a_packet_is_not_admitted(oversized: Alive) -> None:
    bench = SwimBench("BC", QUIET)
    bench.receive(oversized)
    assert bench.changed() == []
    assert bench.stats()["oversized_updates"] == 1

# --- several starts under a name --------------------------------------------------------------------------------------


NEW_B = Address(b"another start...", "B")
ELSEWHERE = ("10.9.9.9", 7946)


def test_another_start_is_admitted_once_the_previous_one_does_not_answer_at_its_address() -> None:
    bench = SwimBench("BC", QUIET)
    bench.receive(alive("B", 2, member=NEW_B, at=ELSEWHERE), src="C")
    assert bench.known("B").place == place("B")
    assert [to for to, ping in bench.sent_headers(PingHeader)] == [place("B")[0]]
    bench.advance(1001)
    assert (bench.known("B").address, bench.known("B").place, bench.known("B").state) == (NEW_B, ELSEWHERE, "alive")
    assert bench.changed() == [("failed", "B"), ("joined", "B")]


def test_another_start_is_refused_while_the_previous_one_answers_and_a_conflict_is_reported() -> None:
    bench = SwimBench("BC", QUIET)
    bench.receive(alive("B", 2, member=NEW_B, at=ELSEWHERE), src="C")
    ((_, ping),) = bench.sent_headers(PingHeader)
    bench.receive(ProbeAck(ping.number, b""), src="B")
    bench.advance(5000)
    assert bench.known("B").place == place("B")
    assert bench.changed() == [("conflict", "B")]
    bench.receive(alive("B", 2, member=NEW_B, at=ELSEWHERE), src="C")
    assert bench.sent_headers(PingHeader) == []                      # it was checked a moment ago


def test_another_start_that_answers_at_the_previous_address_is_admitted_at_once() -> None:
    bench = SwimBench("BC", QUIET)
    bench.receive(alive("B", 2, member=NEW_B), src="C")
    ((_, ping),) = bench.sent_headers(PingHeader)
    bench.up(Batch(NEW_B, bench.me, (), (ProbeAck(ping.number, b""),)))
    assert bench.known("B").address == NEW_B


def test_another_start_is_admitted_at_once_on_a_dead_update_about_the_previous_one() -> None:
    bench = SwimBench("BC", QUIET)
    bench.receive(alive("B", 2, member=NEW_B, at=ELSEWHERE), src="C")
    bench.receive(Dead(1, "B", "C"), src="C")
    assert bench.known("B").address == NEW_B


@pytest.mark.parametrize("end", [Dead(1, "B", "B"), Dead(1, "B", "C")])
def test_another_start_needs_no_check_when_the_previous_one_left_or_failed(end: Dead) -> None:
    bench = SwimBench("BC", QUIET)
    bench.receive(end, src="C")
    bench.receive(alive("B", 2, member=NEW_B, at=ELSEWHERE), src="C")
    assert (bench.known("B").address, bench.known("B").state) == (NEW_B, "alive")

# --- messages of layers above -----------------------------------------------------------------------------------------


def test_a_message_of_a_layer_above_is_spread_in_the_same_way_as_updates_and_passed_up() -> None:
    bench = SwimBench("BC", QUIET)
    bench.down(UserGossip(b"deploy"))
    assert UserMessage(b"deploy") in gossiped(bench)
    bench.receive(UserMessage(b"done"), src="C")
    assert [(event.payload, event.src.name) for event in bench.passed_up(UserHeard)] == [(b"done", "C")]


def test_no_frame_is_larger_than_a_packet_however_many_updates_are_queued() -> None:
    bench = SwimBench("BC", QUIET)
    for number in range(60):
        bench.down(UserGossip(b"%03d" % number + bytes(97)))
    bench.receive(PingHeader(1, "A", "B", place("B")))
    sizes = [wire.headers_nbytes(Batch(bench.me, bench.me, (), headers)) for _, headers in bench.frames()]
    assert max(sizes) <= 1400
    assert max(sizes) > 1200


def test_a_nack_for_nothing_and_a_late_ack_change_nothing() -> None:
    bench = SwimBench("B", QUIET)
    bench.receive(Nack(99), ProbeAck(98, b""))
    assert bench.stats()["late_acks"] == 1
    assert bench.changed() == []
