"""SWIM without views: joining, exchanges of all that is known, leaving; refusing to be more than it is."""
from __future__ import annotations

import pytest

from jgroups_py.address import Address
from jgroups_py.config.load import load
from jgroups_py.errors import ConfigError
from jgroups_py.events import Connect, Disconnect, FindMembers, Found, Left, MembersFound, SendTo
from jgroups_py.members import Member
from jgroups_py.protocols.swim import Swim, SwimConfig
from jgroups_py.protocols.swim.exchange import stretched
from jgroups_py.protocols.swim.headers import (
    ALIVE,
    DEAD,
    LEFT,
    SUSPECT,
    Ack,
    Alive,
    Dead,
    NodeState,
    Ping,
    PushPull,
)
from jgroups_py.protocols.swim.metadata import pack_tags
from jgroups_py.swim_events import JoinPlaces, SetTags
from jgroups_py.units import seconds
from tests.unit.harness import Bench, address
from tests.unit.protocols.swim.bench import HOST, SwimBench, alive, place

HOSTS = (("10.0.0.2", 7946), ("10.0.0.3", 7946))


def push_pull(*states: tuple[Alive, int], answer: bool = False, number: int = 1) -> PushPull:
    return PushPull(number, answer, False, tuple(NodeState(said, state) for said, state in states), b"")


# --- joining ----------------------------------------------------------------------------------------------------------

def test_a_member_that_knows_nobody_asks_discovery_and_its_initial_hosts_ever_more_seldom() -> None:
    bench = SwimBench("", SwimConfig(initial_hosts=HOSTS))
    asked = []
    for second in range(20):
        bench.advance(1 if not second else 1000)
        if bench.passed_down(FindMembers):
            joins = [said for _, said in bench.all_said(PushPull)]
            assert [said.join for said in joins] == [True, True]
            assert [state.alive.node for state in joins[0].states] == ["A"]
            asked.append(second)
    assert asked == [0, 1, 3, 7, 15]


def test_who_is_found_by_discovery_is_asked_to_take_us_in() -> None:
    bench = SwimBench("")
    b = address("B")
    bench.up(MembersFound((Found(b, place("B"), None, False),)))
    assert [(to, said.join) for to, said in bench.all_said(PushPull)] == [(HOST["B"], True)]


def test_a_member_that_knows_somebody_asks_no_more() -> None:
    bench = SwimBench("B", SwimConfig(initial_hosts=HOSTS))
    bench.passed_down(FindMembers)
    bench.advance(10_000)
    assert bench.passed_down(FindMembers) == []


def test_the_application_may_name_places_to_join_at() -> None:
    bench = SwimBench("B")
    bench.down(JoinPlaces((("10.7.7.7", 1),)))
    assert [to for to, said in bench.all_said(PushPull) if said.join] == ["10.7.7.7"]


def test_a_seed_where_nobody_is_known_to_be_is_tried_now_and_then() -> None:
    config = SwimConfig(initial_hosts=HOSTS, reconnect_interval_ns=seconds(10), link_pings=False)
    bench = SwimBench("B", config)                         # B is at the first of them
    bench.swim.cancel_timer("probe")
    bench.advance(10_001)
    assert "10.0.0.3" in [to for to, said in bench.all_said(PushPull) if said.join]


# --- exchanges --------------------------------------------------------------------------------------------------------

def test_an_exchange_teaches_both_sides_and_is_answered_once() -> None:
    bench = SwimBench("C")
    for _ in range(2):                                     # the network may double it
        bench.hear(push_pull((alive("B"), ALIVE), (alive("D"), ALIVE)))
    assert [name for _, name in bench.news()] == ["B", "D"]
    ((to, answer),) = bench.all_said(PushPull)
    assert (to, answer.answer, answer.exchange) == (HOST["B"], True, 1)
    assert [(state.alive.node, state.state) for state in answer.states] == [
        ("A", ALIVE), ("C", ALIVE), ("B", ALIVE), ("D", ALIVE)]


def test_an_answer_is_not_answered() -> None:
    bench = SwimBench("B")
    bench.hear(push_pull((alive("D"), ALIVE), answer=True))
    assert bench.all_said(PushPull) == []


def test_who_failed_elsewhere_may_refute_before_it_fails_here_and_who_left_is_believed_to_have() -> None:
    bench = SwimBench("BCDE")
    bench.hear(push_pull((alive("C"), DEAD), (alive("D"), SUSPECT), (alive("E"), LEFT), answer=True))
    assert bench.news() == [("suspected", "C"), ("suspected", "D"), ("left", "E")]


def test_a_suspect_that_was_not_known_is_known_then_and_a_failed_one_is_not() -> None:
    bench = SwimBench("B")
    bench.hear(push_pull((alive("C"), SUSPECT), (alive("D"), DEAD), answer=True))
    assert bench.news() == [("joined", "C"), ("suspected", "C")]


def test_all_that_is_known_travels_in_pages_of_one_packet() -> None:
    bench = SwimBench("")
    for number in range(200):
        bench.hear(alive(f"node-{number}", at=("10.1.0.1", 7946), member=Address(number.to_bytes(16, "big"))))
    bench.frames()
    bench.hear(push_pull((alive("B"), ALIVE)))
    found = [said for _, said in bench.all_said(PushPull)]
    assert len(found) > 5
    assert len({state.alive.node for said in found for state in said.states}) == 202


def test_exchanges_are_stretched_in_large_groups_as_memberlist_does() -> None:
    assert [stretched(30, nodes) for nodes in (1, 32, 33, 64, 65, 128, 129)] == [30, 30, 60, 60, 90, 90, 120]


def test_a_failed_member_is_tried_again_and_forgotten_in_the_end() -> None:
    config = SwimConfig(reconnect_interval_ns=seconds(10), forget_ns=seconds(60), push_pull_interval_ns=seconds(5))
    bench = SwimBench("BC", config)
    bench.swim.cancel_timer("probe")
    bench.hear(Dead(1, "B", "C"))
    bench.advance(10_001)
    assert HOST["B"] in [to for to, _ in bench.all_said(PushPull)]
    bench.advance(60_000)
    assert [member.name for member in bench.swim.known_members()] == ["A", "C"]


# --- metadata ---------------------------------------------------------------------------------------------------------

def test_tags_are_told_to_all_and_change_with_a_new_incarnation() -> None:
    bench = SwimBench("B", SwimConfig(tags="role=web,zone=a", weight=2))
    assert me(bench).tags == {"role": "web", "zone": "a"}
    before = bench.stats()["incarnation"]
    bench.down(SetTags({"role": "db"}, 0.5))
    bench.advance(300)
    said = next(said for _, said in bench.all_said(Alive) if said.node == "A")
    assert (said.meta, said.incarnation) == (pack_tags({"role": "db"}, 0.5), before + 1)
    assert (me(bench).tags, me(bench).weight) == ({"role": "db"}, 0.5)


def me(bench: SwimBench) -> Member:
    return bench.swim.known_members()[0]


def test_a_changed_tag_is_an_update() -> None:
    bench = SwimBench("B")
    bench.hear(alive("B", 2, meta=pack_tags({"role": "db"})))
    assert bench.news() == [("updated", "B")]


# --- leaving ----------------------------------------------------------------------------------------------------------

def test_a_leaving_member_says_so_until_enough_have_heard_and_answers_until_then() -> None:
    bench = SwimBench("BCD")
    bench.down(Disconnect())
    bench.hear(Ping(1, "A", "B", place("B")))
    assert bench.all_said(Ack) == [(HOST["B"], Ack(1, b""))]
    told = 0
    while not bench.told(Left):
        told += sum(said == Dead(said.incarnation, "A", "A") for _, said in bench.all_said(Dead))
        bench.advance(10)
        assert bench.now_ns < seconds(5)
    assert told >= 3                                       # and once with the answer
    bench.hear(Ping(2, "A", "B", place("B")))
    assert bench.all_said(Ack) == []
    assert bench.swim.known_members() == ()


def test_a_member_without_others_leaves_at_once() -> None:
    bench = SwimBench("")
    bench.down(Disconnect())
    assert len(bench.told(Left)) == 1


def test_a_member_that_is_to_leave_before_it_has_begun_is_out_at_once_and_does_not_begin() -> None:
    bench = Bench(Swim(SwimConfig()))
    bench.down(Disconnect())
    bench.down(Connect("demo"))
    bench.advance(5000)
    assert len(bench.told(Left)) == 1
    assert bench.sent() == bench.passed_down(SendTo) == []


def test_who_leaves_does_not_refute_that_it_is_dead() -> None:
    bench = SwimBench("BC")
    bench.down(Disconnect())
    before = bench.stats()["incarnation"]
    bench.hear(Dead(9, "A", "B"))
    assert bench.stats()["incarnation"] == before


# --- stacks -----------------------------------------------------------------------------------------------------------

def test_a_stack_of_a_transport_and_swim_needs_nothing_else_and_is_told_of_no_fault() -> None:
    assert load([("UDP", {"ip_mcast": "false"}), "SWIM"]).warnings == ()
    assert load(["UDP", "PING", "SWIM"]).warnings == ()


def test_swim_does_not_stand_beside_fd_sock_whose_links_it_would_take() -> None:
    text = ["UDP", "PING", "FD_SOCK", "SWIM", "NAKACK", "UNICAST", "STABLE", "GMS"]
    with pytest.raises(ConfigError, match="SWIM stands in place of FD_SOCK"):
        load(text)
