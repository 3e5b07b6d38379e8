"""SWIM without views: joining, exchanges of the table, metadata, leaving, and the stacks that it may be in."""
from __future__ import annotations

import pytest

from jgroups_py.config.load import load
from jgroups_py.model.address import Address
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import (
    Connect,
    Disconnect,
    FindMembers,
    Found,
    JoinPlaces,
    Left,
    MembersFound,
    SendTo,
    SetTags,
)
from jgroups_py.model.swim_member import Member
from jgroups_py.model.units import seconds
from jgroups_py.protocols.swim import Swim, SwimConfig
from jgroups_py.protocols.swim.exchange import stretched
from jgroups_py.protocols.swim.headers import (
    ALIVE,
    DEAD,
    LEFT,
    SUSPECT,
    Alive,
    Dead,
    NodeState,
    PingHeader,
    ProbeAck,
    PushPull,
)
from jgroups_py.protocols.swim.metadata import pack_tags
from jgroups_py.testing.bench import Bench, address
from tests.unit.protocols.swim.bench import HOST, SwimBench, alive, place

HOSTS = (("10.0.0.2", 7946), ("10.0.0.3", 7946))


def push_pull(*states: tuple[Alive, int], answer: bool = False, number: int = 1) -> PushPull:
    return PushPull(number, answer, False, tuple(NodeState(alive, state) for alive, state in states), b"")


# --- joining ----------------------------------------------------------------------------------------------------------

def test_a_member_alone_asks_discovery_and_its_initial_hosts_with_growing_waits() -> None:
    bench = SwimBench("", SwimConfig(initial_hosts=HOSTS))
    asked = []
    for second in range(20):
        bench.advance(1 if not second else 1000)
        if bench.passed_down(FindMembers):
            joins = [header for _, header in bench.sent_headers(PushPull)]
            assert [header.join for header in joins] == [True, True]
            assert [state.alive.node for state in joins[0].states] == ["A"]
            asked.append(second)
    assert asked == [0, 1, 3, 7, 15]


def test_a_member_joins_with_the_members_that_discovery_found() -> None:
    bench = SwimBench("")
    b = address("B")
    bench.up(MembersFound((Found(b, place("B"), None, False),)))
    assert [(to, header.join) for to, header in bench.sent_headers(PushPull)] == [(HOST["B"], True)]


def test_a_member_that_has_found_another_one_stops_asking() -> None:
    bench = SwimBench("B", SwimConfig(initial_hosts=HOSTS))
    bench.passed_down(FindMembers)
    bench.advance(10_000)
    assert bench.passed_down(FindMembers) == []


def test_the_application_may_give_addresses_to_join_at() -> None:
    bench = SwimBench("B")
    bench.down(JoinPlaces((("10.7.7.7", 1),)))
    assert [to for to, header in bench.sent_headers(PushPull) if header.join] == ["10.7.7.7"]


def test_a_seed_where_no_member_is_known_is_tried_now_and_then() -> None:
    config = SwimConfig(initial_hosts=HOSTS, reconnect_interval_ns=seconds(10), link_pings=False)
    bench = SwimBench("B", config)                         # B is at the first of them
    bench.swim.cancel_timer("probe")
    bench.advance(10_001)
    assert "10.0.0.3" in [to for to, header in bench.sent_headers(PushPull) if header.join]


# --- exchanges --------------------------------------------------------------------------------------------------------

def test_an_exchange_updates_the_table_and_is_answered_once() -> None:
    bench = SwimBench("C")
    for _ in range(2):                                     # the network may double it
        bench.receive(push_pull((alive("B"), ALIVE), (alive("D"), ALIVE)))
    assert [name for _, name in bench.changed()] == ["B", "D"]
    ((to, answer),) = bench.sent_headers(PushPull)
    assert (to, answer.answer, answer.exchange) == (HOST["B"], True, 1)
    assert [(state.alive.node, state.state) for state in answer.states] == [
        ("A", ALIVE), ("C", ALIVE), ("B", ALIVE), ("D", ALIVE)]


def test_an_answer_is_not_answered() -> None:
    bench = SwimBench("B")
    bench.receive(push_pull((alive("D"), ALIVE), answer=True))
    assert bench.sent_headers(PushPull) == []


def test_a_node_that_failed_elsewhere_is_suspected_first_and_one_that_left_has_left_here_too() -> None:
    bench = SwimBench("BCDE")
    bench.receive(push_pull((alive("C"), DEAD), (alive("D"), SUSPECT), (alive("E"), LEFT), answer=True))
    assert bench.changed() == [("suspected", "C"), ("suspected", "D"), ("left", "E")]


def test_an_exchange_adds_unknown_suspects_to_the_table_but_not_unknown_failed_nodes() -> None:
    bench = SwimBench("B")
    bench.receive(push_pull((alive("C"), SUSPECT), (alive("D"), DEAD), answer=True))
    assert bench.changed() == [("joined", "C"), ("suspected", "C")]


def test_the_table_is_sent_in_pages_of_one_packet() -> None:
    bench = SwimBench("")
    for number in range(200):
        bench.receive(alive(f"node-{number}", at=("10.1.0.1", 7946), member=Address(number.to_bytes(16, "big"))))
    bench.frames()
    bench.receive(push_pull((alive("B"), ALIVE)))
    found = [header for _, header in bench.sent_headers(PushPull)]
    assert len(found) > 5
    assert len({state.alive.node for header in found for state in header.states}) == 202


def test_exchanges_are_stretched_in_large_groups_as_memberlist_does() -> None:
    assert [stretched(30, nodes) for nodes in (1, 32, 33, 64, 65, 128, 129)] == [30, 30, 60, 60, 90, 90, 120]


def test_a_failed_member_is_tried_again_and_finally_forgotten() -> None:
    config = SwimConfig(reconnect_interval_ns=seconds(10), forget_ns=seconds(60), push_pull_interval_ns=seconds(5))
    bench = SwimBench("BC", config)
    bench.swim.cancel_timer("probe")
    bench.receive(Dead(1, "B", "C"))
    bench.advance(10_001)
    assert HOST["B"] in [to for to, _ in bench.sent_headers(PushPull)]
    bench.advance(60_000)
    assert [member.name for member in bench.swim.known_members()] == ["A", "C"]


# --- metadata ---------------------------------------------------------------------------------------------------------

def test_tags_are_spread_and_change_with_a_new_incarnation() -> None:
    bench = SwimBench("B", SwimConfig(tags="role=web,zone=a", weight=2))
    assert me(bench).tags == {"role": "web", "zone": "a"}
    before = bench.stats()["incarnation"]
    bench.down(SetTags({"role": "db"}, 0.5))
    bench.advance(300)
    sent = next(header for _, header in bench.sent_headers(Alive) if header.node == "A")
    assert (sent.meta, sent.incarnation) == (pack_tags({"role": "db"}, 0.5), before + 1)
    assert (me(bench).tags, me(bench).weight) == ({"role": "db"}, 0.5)


def me(bench: SwimBench) -> Member:
    return bench.swim.known_members()[0]


def test_a_changed_tag_is_an_update() -> None:
    bench = SwimBench("B")
    bench.receive(alive("B", 2, meta=pack_tags({"role": "db"})))
    assert bench.changed() == [("updated", "B")]


# --- leaving ----------------------------------------------------------------------------------------------------------

def test_a_leaving_member_spreads_its_dead_and_answers_pings_until_that_is_done() -> None:
    bench = SwimBench("BCD")
    bench.down(Disconnect())
    bench.receive(PingHeader(1, "A", "B", place("B")))
    assert bench.sent_headers(ProbeAck) == [(HOST["B"], ProbeAck(1, b""))]
    sent = 0
    while not bench.passed_up(Left):
        sent += sum(header == Dead(header.incarnation, "A", "A") for _, header in bench.sent_headers(Dead))
        bench.advance(10)
        assert bench.now_ns < seconds(5)
    assert sent >= 3                                       # and once with the answer
    bench.receive(PingHeader(2, "A", "B", place("B")))
    assert bench.sent_headers(ProbeAck) == []
    assert bench.swim.known_members() == ()


def test_a_member_without_others_leaves_at_once() -> None:
    bench = SwimBench("")
    bench.down(Disconnect())
    assert len(bench.passed_up(Left)) == 1


def test_a_disconnect_before_connect_ends_at_once_and_the_connect_is_ignored() -> None:
    bench = Bench(Swim(SwimConfig()))
    bench.down(Disconnect())
    bench.down(Connect("demo"))
    bench.advance(5000)
    assert len(bench.passed_up(Left)) == 1
    assert bench.sent() == bench.passed_down(SendTo) == []


def test_a_leaving_member_does_not_refute() -> None:
    bench = SwimBench("BC")
    bench.down(Disconnect())
    before = bench.stats()["incarnation"]
    bench.receive(Dead(9, "A", "B"))
    assert bench.stats()["incarnation"] == before


# --- stacks -----------------------------------------------------------------------------------------------------------

def test_a_stack_of_a_transport_and_swim_loads_without_warnings() -> None:
    assert load([("UDP", {"ip_mcast": "false"}), "SWIM"]).warnings == ()
    assert load(["UDP", "PING", "SWIM"]).warnings == ()


def test_swim_does_not_stand_beside_fd_sock_whose_links_it_would_take() -> None:
    text = ["UDP", "PING", "FD_SOCK", "SWIM", "NAKACK", "UNICAST", "STABLE", "GMS"]
    with pytest.raises(ConfigError, match="SWIM replaces FD_SOCK"):
        load(text)
