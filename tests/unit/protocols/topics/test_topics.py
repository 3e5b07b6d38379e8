"""TOPICS: which members get which messages, in one group and across sites, while interests change and relays die."""
from __future__ import annotations

import pytest

from jgroups_py.model.address import Address
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.outputs import LOCAL
from jgroups_py.model.topics import EVERYTHING, NOTHING, interest_in, parse_topics, topic_name
from jgroups_py.model.units import millis, seconds
from jgroups_py.model.view import ViewId
from jgroups_py.protocols.topics.headers import InterestHeader
from jgroups_py.protocols.topics.register import Register
from jgroups_py.simulator.checkers import check
from jgroups_py.simulator.network import Weather
from jgroups_py.wire.topic_headers import from_bits, to_bits
from tests.unit.protocols.topics.sites import about, bridge_bytes, bridge_frames, relay_of, start, two_sites

M = Address(b"M" * 16, "m")
C = Address(b"C" * 16, "c")


# --- names and interests --------------------------------------------------------------------------------------------

@pytest.mark.parametrize("topic", [64, -1, "", "*", "x" * 201])
def test_an_impossible_topic_is_refused(topic: str | int) -> None:
    with pytest.raises(ValueError, match=r"topic|stands for all"):
        topic_name(topic)


def test_a_topic_is_a_name_or_a_number() -> None:
    with pytest.raises(TypeError, match="bytes"):
        topic_name(b"orders")                              # type: ignore[arg-type]
    with pytest.raises(TypeError, match="bool"):
        topic_name(True)


def test_a_stack_file_with_an_impossible_topic_is_refused() -> None:
    with pytest.raises(ConfigError, match="200 bytes"):
        parse_topics("orders, " + 300 * "x")


def test_numbered_topics_are_bits_and_all_bits_are_everything() -> None:
    assert to_bits(interest_in(0, 63, "orders")) == 1 | 1 << 63
    assert from_bits(1 | 1 << 63) == interest_in(0, 63)
    assert from_bits(to_bits(EVERYTHING)) == EVERYTHING


def test_an_interest_that_does_not_fit_a_frame_is_announced_as_everything() -> None:
    assert interest_in(*(f"topic {number}" for number in range(400))).announced != EVERYTHING
    assert interest_in(*(f"topic {number}" for number in range(401))).announced == EVERYTHING
    assert interest_in(*(f"{number:0200}" for number in range(41))).announced == EVERYTHING


# --- the coordinator's register -------------------------------------------------------------------------------------

def interest_header(counter: int, *topics: str) -> InterestHeader:
    return InterestHeader(ViewId(counter, C), 1, interest_in(*topics))


def test_a_member_without_a_header_counts_as_interested_in_everything() -> None:
    register = Register()
    register.view_changed([M, C], 3, begins=True)
    register.store(C, interest_header(3))
    assert register.union() == EVERYTHING
    register.store(M, interest_header(3, "orders"))
    assert register.union() == interest_in("orders")


def test_an_interest_from_before_a_partition_is_not_valid_after_the_merge() -> None:
    register = Register()
    register.view_changed([M, C], 3, begins=True)
    register.store(C, interest_header(3))
    register.store(M, interest_header(3))
    register.view_changed([C], 4, begins=False)
    register.store(M, interest_header(3))                              # it arrived late
    register.view_changed([M, C], 6, begins=False)
    assert register.union() == EVERYTHING


def test_an_interest_from_an_earlier_time_as_coordinator_is_not_valid() -> None:
    register = Register()
    register.view_changed([M, C], 3, begins=True)
    register.store(C, interest_header(3))
    register.store(M, interest_header(3))
    register.view_changed([M, C], 5, begins=True)          # in view 4 another member was coordinator
    assert register.union() == EVERYTHING


def test_an_interest_sent_in_a_view_that_is_installed_later_becomes_valid() -> None:
    register = Register()
    assert not register.store(M, interest_header(5, "orders"))
    register.store(C, interest_header(5))
    register.view_changed([M, C], 5, begins=True)
    assert register.union() == interest_in("orders")


# --- one group and two sites ----------------------------------------------------------------------------------------

def test_members_get_the_topics_of_their_interest_and_all_messages_without_a_topic() -> None:
    world = two_sites(A="*", B="orders", C="orders,7", D="")
    for topic in ("orders", "7", "prices", ""):
        world.post("A", count=2, topic=topic)
    world.run_for(seconds(1))
    got = {name: [about(world, name, topic) for topic in ("orders", "7", "prices")] for name in "ABCD"}
    assert got == {"A": [[0, 1], [2, 3], [4, 5]], "B": [[0, 1], [], []], "C": [[0, 1], [2, 3], []], "D": [[], [], []]}
    assert all(b"A#1>*/6" in world.delivered(name) for name in "ABCD")
    assert world.stats("C")["TOPICS"]["messages about orders"] == 2
    assert world.stats("C")["TOPICS"]["bytes about 7"] == len(b"A#1>*/2@7") * 2
    assert check(world.history) == []


def test_topics_without_interested_members_cross_the_bridge_as_numbers() -> None:
    spent: dict[str, tuple[int, int]] = {}
    for wanted in ("prices", "orders"):
        world = two_sites(A="*", C=wanted)
        before = bridge_bytes(world, "NYC"), bridge_frames(world, "NYC")
        for _ in range(100):
            world.post("A", size=1000, topic="orders")
            world.run_for(millis(1))
        world.run_for(seconds(1))
        spent[wanted] = bridge_bytes(world, "NYC") - before[0], bridge_frames(world, "NYC") - before[1]
        assert len(about(world, "C", "orders")) == (100 if wanted == "orders" else 0)
        assert world.stats("A")["RELAY"]["held_messages"] == 0            # acknowledged, as if they had come
        assert world.stats("A")["RELAY"]["acknowledged_SFO"] == 100
        assert check(world.history) == []
    assert spent["orders"][0] > 100_000
    assert spent["prices"][0] < spent["orders"][0] / 20
    assert spent["prices"][1] < spent["orders"][1] / 5


def test_a_subscription_at_another_site_begins_without_a_hole() -> None:
    world = two_sites(A="*", C="prices", D="prices")
    for at in range(60):
        world.post("A", topic="orders")
        if at == 20:
            world.subscribe("D", "orders")
        world.run_for(millis(5))
    world.run_for(seconds(1))
    got = about(world, "D", "orders")
    assert got == list(range(got[0], 60))
    assert 5 <= got[0] <= 22                             # numbers that waited for others were refused
    assert check(world.history) == []


def test_in_its_own_group_a_member_gets_what_is_delivered_next() -> None:
    world = two_sites(A="*", B="", C="*")
    world.post("A", topic="orders")
    world.run_for(seconds(1))
    world.subscribe("B", "orders")
    world.post("A", topic="orders")
    world.run_for(seconds(1))
    world.unsubscribe("B", "orders")
    world.post("A", topic="orders")
    world.run_for(seconds(1))
    assert about(world, "B", "orders") == [1]


def test_numbers_under_way_when_a_member_subscribes_are_refused() -> None:
    world = two_sites(A="*", C="prices", D="prices")
    relay = relay_of(world, "SFO")
    world.post("A", count=5, topic="orders")
    world.run_for(millis(49.8))                          # numbers alone wait 50 ms for others
    world.subscribe(relay, "orders")
    world.run_for(seconds(1))
    assert about(world, relay, "orders") == [0, 1, 2, 3, 4]
    assert world.stats(relay)["RELAY"]["passed_by_refused"] >= 5
    assert check(world.history) == []


def test_after_a_merge_members_get_messages_of_which_their_half_had_numbers() -> None:
    world = two_sites(A="*", B="*", C="prices", D="orders")
    world.partition([["C"], ["D"]], [LOCAL])
    assert world.run_while(lambda: world.agreed("CD"), seconds(30))
    for _ in range(200):
        world.post("A", topic="orders")
        world.run_for(millis(20))
    world.heal()
    for _ in range(200):
        world.post("A", topic="orders")
        world.run_for(millis(20))
    assert world.run_while(lambda: not world.agreed("CD"), seconds(30))
    world.run_for(seconds(3))
    assert about(world, "D", "orders") == list(range(400))
    assert about(world, "C", "orders") == []
    assert check(world.history) == []


def test_subscriptions_survive_the_death_of_a_relay() -> None:
    world = two_sites(A="*", C="", D="")
    heir = next(name for name in "CD" if name != relay_of(world, "SFO"))
    world.subscribe(heir, "orders")
    world.run_for(millis(200))
    for at in range(300):
        world.post("A", topic="orders")
        world.run_for(millis(10))
        if at == 30:
            world.crash(relay_of(world, "SFO"))
    world.run_for(seconds(3))
    assert about(world, heir, "orders") == list(range(300))
    assert check(world.history) == []


def test_messages_that_come_for_other_members_do_not_begin_a_subscription() -> None:
    """The relay gets the end of E's interest long before it gets the beginning of D's."""
    world = two_sites(A="*", C="", D="", E="orders")
    relay = relay_of(world, "SFO")
    others = [name for name in "CDE" if name not in (relay, "E")]
    late = others[0]
    assert relay != "E"
    world.network.set_path_weather(late, relay, LOCAL, Weather(latency_ns=millis(300)))
    for at in range(400):
        world.post("A", topic="orders")
        world.run_for(millis(2))
        if at == 100:
            world.unsubscribe("E", "orders")
            world.subscribe(late, "orders")
    world.run_for(seconds(2))
    got = about(world, late, "orders")
    assert got == list(range(got[0], 400))
    assert world.stats(late)["TOPICS"]["filtered"] > 0
    assert check(world.history) == []


def test_a_topic_subscribed_before_connecting_counts_from_the_first_view() -> None:
    world = two_sites(A="*", C="prices")
    world.post("A", count=3, topic="orders")
    world.run_for(seconds(1))
    start(world, "D", "orders")
    assert world.run_while(lambda: not world.agreed("CD"), seconds(10))
    world.post("A", count=3, topic="orders")
    world.run_for(seconds(1))
    assert about(world, "D", "orders") == [3, 4, 5]


def test_an_interest_of_everything_but_some_topics_is_refused() -> None:
    assert EVERYTHING.without(interest_in("orders")) == EVERYTHING
    assert EVERYTHING.without(EVERYTHING) == NOTHING
