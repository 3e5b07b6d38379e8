"""Halves of a split site are told by number what the other half multicast (RELAY, S9)."""
from __future__ import annotations

import pytest

from jgroups_py.batch import Batch
from jgroups_py.outputs import MessagesLost
from jgroups_py.protocols.relay.divergence import Divergence
from jgroups_py.protocols.relay.headers import Ends
from jgroups_py.protocols.relay.receiving import RELIABLE
from jgroups_py.units import millis, seconds
from tests.unit.relay.sites import Member, Sites, told


def missed(member: Member) -> list[tuple[str, str, int, int]]:
    """(site, origin, first, stop) of what the member's application was told that it will not get."""
    return [(loss.site, loss.origin.name, loss.first, loss.stop) for loss in told(member, MessagesLost)
            if loss.dest_site is None]


def split_and_merged(order: str = "ABC") -> Sites:
    """C alone says c1 c2, A and B say b1 meanwhile; all had c0 before."""
    world = Sites(NYC="ABC", SFO="DE").build()
    world["C"].say("c0")
    world.run(millis(100))
    nyc = world.sites["NYC"]
    nyc.install(["A", "B"])
    nyc.install(["C"])
    world["C"].say("c1", "c2")
    world["B"].say("b1")
    world.run(seconds(1))
    nyc.install(list(order))
    return world


def test_each_half_is_told_the_numbers_that_the_other_half_delivered() -> None:
    world = split_and_merged()
    world.run(seconds(1))
    assert {name: missed(world[name]) for name in "ABC"} == {
        "A": [("NYC", "C", 2, 4)], "B": [("NYC", "C", 2, 4)], "C": [("NYC", "B", 1, 2)]}
    assert not missed(world["E"])


def test_a_later_multicast_of_the_origin_tells_the_same_and_it_is_told_once() -> None:
    world = split_and_merged()
    world["C"].say("c3")
    world.run(seconds(1))
    assert missed(world["A"]) == [("NYC", "C", 2, 4)]
    assert world["A"].texts("c") == ["c0", "c3"]


def test_the_relay_may_be_the_one_that_was_apart() -> None:
    world = split_and_merged("CAB")
    world.run(seconds(1))
    assert missed(world["C"]) == [("NYC", "B", 1, 2)]
    assert missed(world["A"]) == missed(world["B"]) == [("NYC", "C", 2, 4)]


def test_a_newcomer_is_told_nothing_of_what_was_sent_before_it_came() -> None:
    world = Sites(NYC="ABC", SFO="DE").build()
    world["A"].say("a0", "a1")
    world.run(millis(100))
    nyc = world.sites["NYC"]
    nyc.members["X"] = Member(nyc, "X")
    nyc.install(["A", "B", "C", "X"])                     # by an ordinary join
    nyc.members["Y"] = Member(nyc, "Y")
    nyc.install(["Y"])                                    # founds a group of its own first
    world.run(millis(100))
    nyc.install(["A", "B", "C", "X", "Y"])
    world["A"].say("a2")
    world.run(seconds(1))
    assert missed(world["X"]) == missed(world["Y"]) == []
    assert world["X"].texts("a") == world["Y"].texts("a") == ["a2"]


def test_who_joined_after_a_message_and_was_apart_later_is_told_only_of_what_came_then() -> None:
    world = Sites(NYC="AB", SFO="DE").build()
    world["A"].say("a0", "a1")
    world.run(millis(100))
    nyc = world.sites["NYC"]
    nyc.members["X"] = Member(nyc, "X")
    nyc.install(["A", "B", "X"])
    world.run(millis(100))
    nyc.install(["A", "B"])
    nyc.install(["X"])
    world["A"].say("a2")
    world.run(millis(100))
    nyc.install(["A", "B", "X"])
    world.run(seconds(1))
    assert missed(world["X"]) == [("NYC", "A", 3, 4)]


def test_a_relay_that_dies_before_it_said_so_leaves_it_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Divergence, "announce", lambda self: None)
        world = split_and_merged()
        world.run(seconds(1))
    assert not missed(world["B"]), "nothing was told yet"
    world.sites["NYC"].crash("A")
    world.run(seconds(1))
    assert missed(world["B"]) == [("NYC", "C", 2, 4)]
    assert missed(world["C"]) == [("NYC", "B", 1, 2)]


def test_ends_of_anybody_but_the_relay_are_not_believed() -> None:
    world = Sites(NYC="ABC", SFO="DE").build()
    world["C"].say("c0")
    world.run(millis(100))
    relay = world["B"].relay
    for src in (world["C"].me, world["D"].me):
        world["B"].hear(Batch(src, None, (), (Ends(relay.view.id, {world["C"].me: 9}),), RELIABLE))
    assert not missed(world["B"])
    assert relay.counters["ends_of_no_coordinator"] == 2
