"""Which news are believed, told on, refuted."""
from __future__ import annotations

import pytest

from jgroups_py import wire
from jgroups_py.address import Address
from jgroups_py.batch import Batch
from jgroups_py.members import BY_DATAGRAM, BY_HELPERS
from jgroups_py.protocols.swim import SwimConfig
from jgroups_py.protocols.swim.headers import (
    ALIVE,
    DEAD,
    LEFT,
    SUSPECT,
    Ack,
    Alive,
    Dead,
    Nack,
    NodeState,
    Ping,
    PushPull,
    Suspected,
    UserMessage,
)
from jgroups_py.protocols.swim.metadata import pack_tags
from jgroups_py.protocols.swim.rumours import FIRST_INCARNATIONS, INCARNATIONS_PER_S, ceiling
from jgroups_py.swim_events import UserGossip, UserHeard
from jgroups_py.units import seconds
from tests.unit.harness import address
from tests.unit.protocols.swim.bench import SwimBench, alive, place

QUIET = SwimConfig(probe_interval_ns=seconds(3600), probe_timeout_ns=seconds(1), link_pings=False)
"""So seldom a probe that none disturbs what is tested."""


def gossiped(bench: SwimBench) -> list[object]:
    """What A tells others within a second."""
    bench.advance(1000)
    return [header for _, headers in bench.frames() for header in headers]


def test_a_node_that_says_that_it_lives_joins_and_is_told_on() -> None:
    bench = SwimBench("C", QUIET)
    bench.hear(alive("B", meta=pack_tags({"role": "db"}, 2)))
    assert bench.news() == [("joined", "B")]
    assert (bench.known("B").tags, bench.known("B").weight, bench.known("B").place) == ({"role": "db"}, 2.0, place("B"))
    assert alive("B", meta=pack_tags({"role": "db"}, 2)) in gossiped(bench)


def test_news_that_are_not_newer_are_neither_believed_nor_told_on() -> None:
    bench = SwimBench("BC", QUIET)
    gossiped(bench)
    bench.hear(alive("B", 5))
    gossiped(bench)
    for old in (alive("B", 5, meta=b"x"), alive("B", 4), Suspected(4, "B", "C", 0), Dead(4, "B", "C")):
        bench.hear(old)
        assert old not in gossiped(bench)
    assert bench.news() == []
    assert (bench.known("B").state, bench.known("B").incarnation, bench.known("B").tags) == ("alive", 5, {})


@pytest.mark.parametrize("incarnation", [1, 2])
def test_a_suspicion_of_the_same_or_a_higher_incarnation_is_believed_with_its_evidence(incarnation: int) -> None:
    bench = SwimBench("BCD", QUIET)
    bench.hear(Suspected(incarnation, "B", "C", BY_DATAGRAM | BY_HELPERS), src="D")
    (said,) = bench.changes()
    assert (said.change, said.member.name, said.member.incarnation) == ("suspected", "B", incarnation)
    assert [str(accusation) for accusation in said.accusations] == ["C: no answer by datagram, helpers"]


def test_a_suspect_that_says_that_it_lives_is_acquitted_only_by_a_higher_incarnation() -> None:
    bench = SwimBench("BCD", QUIET)
    bench.hear(Suspected(1, "B", "C", 0))
    bench.hear(alive("B", 1))
    assert bench.known("B").state == "suspect"
    bench.hear(alive("B", 2))
    assert bench.news() == [("suspected", "B"), ("refuted", "B")]
    bench.advance(24 * 3600 * 1000)
    assert bench.stats().get("failed", 0) == 0


def test_a_suspect_fails_when_its_time_is_over_and_sooner_if_others_confirm() -> None:
    for accusers, after_s in (("C", 24), ("CDE", 4)):
        bench = SwimBench("BCDE")
        bench.swim.cancel_timer("probe")                   # A's own probes would confirm it
        for accuser in accusers:
            bench.hear(Suspected(1, "B", accuser, 0), src=accuser)
        bench.advance(1000 * after_s - 1)
        assert bench.known("B").state == "suspect"
        bench.advance(1)
        assert bench.known("B").state == "failed"
        evidence = next(said.accusations for said in bench.changes() if said.change == "failed")
        assert [accusation.by for accusation in evidence][:len(accusers)] == list(accusers)


def test_hearsay_begins_a_case_but_confirms_none() -> None:
    bench = SwimBench("BCDE", QUIET)
    bench.hear(Suspected(1, "B", "", 0))
    bench.hear(Suspected(1, "B", "", 0), src="C")
    assert bench.news() == [("suspected", "B")]
    assert bench.stats().get("confirmations", 0) == 0


def test_a_node_that_is_said_to_be_dead_fails_and_one_that_says_so_itself_has_left() -> None:
    bench = SwimBench("BCD", QUIET)
    bench.hear(Dead(1, "B", "C"), Dead(1, "D", "D"))
    assert bench.news() == [("left", "D"), ("failed", "B")]
    bench.hear(Dead(9, "B", "C"), Suspected(9, "D", "C", 0), Dead(9, "D", "C"))
    assert bench.news() == []


def test_a_failed_node_is_back_with_a_higher_incarnation() -> None:
    bench = SwimBench("BC", QUIET)
    bench.hear(Dead(1, "B", "C"))
    bench.hear(alive("B", 1))
    assert bench.known("B").state == "failed"
    bench.hear(alive("B", 2))
    assert bench.news() == [("failed", "B"), ("joined", "B")]


def test_news_of_unknown_nodes_other_than_that_they_live_mean_nothing() -> None:
    bench = SwimBench("B", QUIET)
    bench.hear(Suspected(1, "X", "B", 0), Dead(1, "Y", "B"))
    assert bench.news() == []
    assert len(bench.swim.known_members()) == 2

# --- about us ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("accusation", [Suspected(7, "A", "B", 0), Dead(7, "A", "B")])
def test_who_is_accused_says_that_it_lives_with_a_higher_incarnation_and_thinks_less_of_its_health(
    accusation: Suspected | Dead,
) -> None:
    bench = SwimBench("BC", QUIET)
    bench.hear(accusation)
    assert any(isinstance(news, Alive) and (news.node, news.incarnation) == ("A", 8) for news in gossiped(bench))
    assert bench.stats()["health"] == 1
    bench.hear(accusation)
    assert (bench.stats()["incarnation"], bench.stats()["health"]) == (8, 1)


def test_who_is_accused_with_an_incarnation_left_behind_says_again_what_it_is_now() -> None:
    bench = SwimBench("BC", QUIET)
    bench.hear(Suspected(7, "A", "B", 0))
    gossiped(bench)
    for _ in range(5):
        gossiped(bench)
    bench.hear(Suspected(3, "A", "C", 0))
    said = [news.incarnation for news in gossiped(bench) if isinstance(news, Alive) and news.node == "A"]
    assert sorted(dict.fromkeys(said)) == [8]


def test_the_refutation_comes_with_the_answer_to_the_ping_that_brings_the_accusation() -> None:
    bench = SwimBench("BC", QUIET)
    bench.hear(Ping(5, "A", "B", place("B")), Suspected(7, "A", "B", 0))
    to, headers = next(frame for frame in bench.frames() if isinstance(frame[1][-1], Ack))
    assert to == place("B")[0]
    assert any(isinstance(news, Alive) and news.incarnation == 8 for news in headers)


def test_an_earlier_start_under_our_name_is_outbid() -> None:
    bench = SwimBench("BC", QUIET)
    bench.hear(alive("A", 4, member=Address(b"an earlier start", "A")))
    assert bench.stats()["incarnation"] == 5
    assert any(isinstance(news, Alive) and (news.incarnation, news.member) == (5, bench.me) for news in gossiped(bench))



ABSURD = (1 << 31, (1 << 32) - 1, FIRST_INCARNATIONS + INCARNATIONS_PER_S + 2)


@pytest.mark.parametrize("incarnation", ABSURD)
def test_an_incarnation_that_nobody_can_have_reached_is_dropped(incarnation: int) -> None:
    """It could not be refuted any more."""
    bench = SwimBench("BC", QUIET)
    other = address("another start...")
    said = [Suspected(incarnation, "A", "B", 0), Dead(incarnation, "A", "B"), alive("A", incarnation, member=other),
            Suspected(incarnation, "B", "C", 0), Dead(incarnation, "B", "C"), Dead(incarnation, "B", "B"),
            alive("B", incarnation), alive("E", incarnation)]
    page = PushPull(1, True, False, tuple(NodeState(alive(name, incarnation), state)
                                          for name in "ABE" for state in (ALIVE, SUSPECT, DEAD, LEFT)), b"")
    for header in (*said, page):
        bench.hear(header, src="C")
    assert bench.news() == []
    assert bench.stats()["incarnation"] == 1
    assert (bench.known("B").state, bench.known("B").incarnation) == ("alive", 1)
    assert bench.stats()["absurd_incarnations_dropped"] >= len(said)
    assert not [news for news in gossiped(bench) if getattr(news, "incarnation", 0) >= incarnation]


@pytest.mark.parametrize("seconds", [0, 1, 24 * 3600])
def test_the_highest_incarnation_that_is_believed_can_be_outbid_and_that_is_believed_too(seconds: int) -> None:
    accused, witness = SwimBench("BC", QUIET), SwimBench("BC", QUIET)
    for bench in (accused, witness):
        bench.swim.cancel_timer("probe")
        bench.advance(1000 * seconds)
    highest = ceiling(1, 0, witness.swim.now_ns)
    witness.hear(Suspected(highest, "B", "C", 0))
    assert witness.news() == [("suspected", "B")]
    for bench in (accused, witness):
        bench.advance(100)
    accused.hear(Suspected(highest, "A", "C", 0))
    answers = [news.incarnation for news in gossiped(accused) if isinstance(news, Alive) and news.node == "A"]
    assert answers[-1] == highest + 1
    witness.hear(alive("B", answers[-1]))
    assert witness.news() == [("refuted", "B")]


@pytest.mark.parametrize(
    "said", [alive("D", meta=bytes(513)), alive("D" * 256, at=("10.1.0.1", 1), member=address("D"))])
def test_a_node_that_would_not_fit_a_packet_is_not_let_in(said: Alive) -> None:
    bench = SwimBench("BC", QUIET)
    bench.hear(said)
    assert bench.news() == []
    assert bench.stats()["oversized_news"] == 1

# --- several starts under a name --------------------------------------------------------------------------------------


NEW_B = Address(b"another start...", "B")
ELSEWHERE = ("10.9.9.9", 7946)


def test_another_start_is_let_in_once_the_old_one_does_not_answer_where_it_was() -> None:
    bench = SwimBench("BC", QUIET)
    bench.hear(alive("B", 2, member=NEW_B, at=ELSEWHERE), src="C")
    assert bench.known("B").place == place("B")
    assert [to for to, ping in bench.all_said(Ping)] == [place("B")[0]]
    bench.advance(1001)
    assert (bench.known("B").address, bench.known("B").place, bench.known("B").state) == (NEW_B, ELSEWHERE, "alive")
    assert bench.news() == [("failed", "B"), ("joined", "B")]


def test_another_start_is_kept_out_while_the_old_one_answers_and_the_application_hears_of_it() -> None:
    bench = SwimBench("BC", QUIET)
    bench.hear(alive("B", 2, member=NEW_B, at=ELSEWHERE), src="C")
    ((_, ping),) = bench.all_said(Ping)
    bench.hear(Ack(ping.number, b""), src="B")
    bench.advance(5000)
    assert bench.known("B").place == place("B")
    assert bench.news() == [("conflict", "B")]
    bench.hear(alive("B", 2, member=NEW_B, at=ELSEWHERE), src="C")
    assert bench.all_said(Ping) == []                      # it was looked into a moment ago


def test_another_start_that_answers_at_the_old_place_itself_is_let_in_at_once() -> None:
    bench = SwimBench("BC", QUIET)
    bench.hear(alive("B", 2, member=NEW_B), src="C")
    ((_, ping),) = bench.all_said(Ping)
    bench.up(Batch(NEW_B, bench.me, (), (Ack(ping.number, b""),)))
    assert bench.known("B").address == NEW_B


def test_another_start_is_let_in_at_once_when_somebody_says_that_the_old_one_is_dead() -> None:
    bench = SwimBench("BC", QUIET)
    bench.hear(alive("B", 2, member=NEW_B, at=ELSEWHERE), src="C")
    bench.hear(Dead(1, "B", "C"), src="C")
    assert bench.known("B").address == NEW_B


@pytest.mark.parametrize("end", [Dead(1, "B", "B"), Dead(1, "B", "C")])
def test_another_start_needs_no_look_when_the_old_one_left_or_failed(end: Dead) -> None:
    bench = SwimBench("BC", QUIET)
    bench.hear(end, src="C")
    bench.hear(alive("B", 2, member=NEW_B, at=ELSEWHERE), src="C")
    assert (bench.known("B").address, bench.known("B").state) == (NEW_B, "alive")

# --- what else travels ------------------------------------------------------------------------------------------------


def test_what_a_layer_above_spreads_travels_as_news_do_and_is_passed_up() -> None:
    bench = SwimBench("BC", QUIET)
    bench.down(UserGossip(b"deploy"))
    assert UserMessage(b"deploy") in gossiped(bench)
    bench.hear(UserMessage(b"done"), src="C")
    assert [(event.payload, event.src.name) for event in bench.told(UserHeard)] == [(b"done", "C")]


def test_no_frame_is_larger_than_a_packet_however_much_there_is_to_tell() -> None:
    bench = SwimBench("BC", QUIET)
    for number in range(60):
        bench.down(UserGossip(b"%03d" % number + bytes(97)))
    bench.hear(Ping(1, "A", "B", place("B")))
    sizes = [wire.headers_nbytes(Batch(bench.me, bench.me, (), headers)) for _, headers in bench.frames()]
    assert max(sizes) <= 1400
    assert max(sizes) > 1200


def test_a_nack_for_nothing_and_a_late_ack_change_nothing() -> None:
    bench = SwimBench("B", QUIET)
    bench.hear(Nack(99), Ack(98, b""))
    assert bench.stats()["late_acks"] == 1
    assert bench.news() == []
