"""The standby: the member next in line waits on the bridge, says nothing there, and takes over at once."""
from __future__ import annotations

import pytest

from jgroups_py.model.events import BridgeClosed, BridgeEnd, LeaveRequested
from jgroups_py.model.outputs import CloseBridge, OpenBridge, ToBridge
from jgroups_py.model.units import millis, seconds
from jgroups_py.protocols.relay.headers import HelloHeader
from jgroups_py.protocols.relay.outbound.bridge_link import REOPEN_NS
from tests.unit.relay.sites import Member, Sites, numbered


@pytest.fixture
def world() -> Sites:
    return Sites(NYC="ABC", SFO="DEF").build(standby=True)


def on_bridge(world: Sites) -> str:
    return "".join(sorted(member.name for member in world.bridge.values()))


def spoken(world: Sites, name: str) -> list[type]:
    """The headers of all that this member sends on the bridge from now on."""
    sent: list[type] = []
    member = world[name]
    drain = member.drain

    def drained() -> None:
        sent.extend(type(one.batch.headers[-1]) for one in member.stack.outputs if isinstance(one, ToBridge))
        drain()
    member.drain = drained                                    # type: ignore[method-assign]
    return sent


def orders(world: Sites, name: str) -> list[type]:
    """What this member asks of its bridge stack from now on: OpenBridge, CloseBridge."""
    asked: list[type] = []
    member = world[name]
    drain = member.drain

    def drained() -> None:
        asked.extend(type(one) for one in member.stack.outputs if isinstance(one, OpenBridge | CloseBridge))
        drain()
    member.drain = drained                                    # type: ignore[method-assign]
    return asked


def test_the_first_two_of_each_site_are_on_the_bridge_and_without_the_property_the_first_alone(world: Sites) -> None:
    assert on_bridge(world) == "ABDE"
    assert on_bridge(Sites(NYC="ABC", SFO="DEF").build()) == "AD"


def test_a_standby_says_nothing_and_what_arrives_there_is_dropped(world: Sites) -> None:
    sent = spoken(world, "B")
    world["C"].multicast(*numbered(0, 5))
    world["F"].multicast("f0")
    world.run(seconds(10))
    assert sent == [], "a member that is not the relay spoke on the bridge"
    assert world["B"].relay.bridge_link.view is None
    assert world["B"].stack.layers[-1].stats()["from_bridge_while_not_relay"] > 0, "relays greet every bridge member"
    assert world["D"].relay.peers.of("NYC") == [world["D"].relay.peers.get(world["A"].bridge)]
    assert world["A"].relay.hold.messages == 0, "TRIM waits for a standby"


def test_members_that_are_silent_on_the_bridge_are_greeted_seldom(world: Sites) -> None:
    hellos = spoken(world, "A")
    world.run(seconds(10))
    assert 8 <= hellos.count(HelloHeader) <= 12, "one in two seconds to each of the two standbys"


def test_a_standby_takes_over_in_one_exchange_without_joining_the_bridge(world: Sites) -> None:
    before = world["B"].bridge
    world.sites["NYC"].crash("A")
    world["C"].multicast("c0")
    world.run(millis(20))
    assert world["B"].bridge == before, "it joined the bridge anew"
    assert world["F"].texts("c") == ["c0"]
    assert world["B"].relay.stats()["standby_took_over"] == 1
    world.run(seconds(1))
    assert on_bridge(world) == "BCDE", "the member that is next in line now is not on the bridge"


def test_a_standby_that_is_not_on_the_bridge_yet_joins_it_as_relay(world: Sites) -> None:
    world.leave_bridge(world["B"], "failed")
    world.without_bridge = "B"
    world.sites["NYC"].crash("A")
    world.run(millis(100))
    world.without_bridge = ""
    world["B"].notify(BridgeClosed(BridgeEnd.FAILED, "its address was in use"))
    world["C"].multicast("c0")
    world.run(seconds(3))
    assert world["F"].texts("c") == ["c0"]
    assert world["B"].relay.stats().get("standby_took_over", 0) == 0


def test_a_standby_whose_bridge_is_not_open_yet_is_relay_when_it_is(world: Sites) -> None:
    world.without_bridge = "B"
    world.leave_bridge(world["B"], "failed")
    world.run(seconds(2))
    assert world["B"].relay.bridge_link.waits
    asked = orders(world, "B")
    world.sites["NYC"].crash("A")
    world.run(millis(100))
    assert asked == [], "what opens already was asked for again"
    world.without_bridge = ""
    world.join_bridge(world["B"])
    world["C"].multicast("c0")
    world.run(seconds(1))
    assert world["F"].texts("c") == ["c0"]
    assert world["B"].relay.stats().get("standby_took_over", 0) == 0, "it had no bridge to take over with"


def test_a_standby_that_was_about_to_open_its_bridge_again_asks_for_it_once_as_relay(world: Sites) -> None:
    world.without_bridge = "B"
    asked = orders(world, "B")
    world.leave_bridge(world["B"], "failed")
    world.sites["NYC"].crash("A")
    world.run(seconds(5))
    assert asked == [OpenBridge]


def test_a_view_with_the_same_first_two_leaves_all_bridges_as_they_are(world: Sites) -> None:
    asked = [orders(world, name) for name in "ABC"]
    before = {name: world[name].bridge for name in "ABC"}
    world.sites["NYC"].install(["A", "B", "C"])
    world.run(seconds(1))
    assert asked == [[], [], []]
    assert {name: world[name].bridge for name in "ABC"} == before


def test_a_standby_whose_bridge_fails_opens_it_again_after_a_while(world: Sites) -> None:
    asked = orders(world, "B")
    world.leave_bridge(world["B"], "failed")
    world.run(REOPEN_NS // 2)
    assert on_bridge(world) == "ADE"
    world.run(REOPEN_NS)
    assert on_bridge(world) == "ABDE"
    assert asked == [OpenBridge]


def test_a_standby_whose_bridge_is_replaced_waits_for_the_next_one_and_forgets_what_it_saw(world: Sites) -> None:
    asked = orders(world, "B")
    world["B"].notify(BridgeClosed(BridgeEnd.REPLACED, "opened again"))
    world.run(2 * REOPEN_NS)
    assert world["B"].relay.bridge_link.waits
    world.sites["NYC"].install(["B", "A", "C"])
    world.run(millis(100))
    assert asked == []
    assert world["B"].relay.stats().get("standby_took_over", 0) == 0


def test_a_former_relay_that_is_next_in_line_waits_under_a_new_address(world: Sites) -> None:
    """Under the old one, other relays would wait for its acknowledgements for ever."""
    before = world["A"].bridge
    world.sites["NYC"].install(["B", "A", "C"])
    world.run(REOPEN_NS // 2)                                 # at once, once it has left
    assert on_bridge(world) == "ABDE"
    assert world["A"].bridge != before
    assert [peer.address for peer in world["D"].relay.peers.of("NYC")] == [world["B"].bridge]
    world["C"].multicast("c0")
    world.run(seconds(25))                                    # beyond split_grace
    assert world["F"].texts("c") == ["c0"]
    assert world["B"].relay.hold.messages == 0, "TRIM waits for the relay that was"


def test_a_member_that_is_not_next_in_line_any_more_leaves_the_bridge(world: Sites) -> None:
    world.sites["NYC"].install(["A", "C", "B"])
    world.run(seconds(1))
    assert on_bridge(world) == "ACDE"
    assert not world["B"].relay.bridge_link.waits


def leave(member: Member) -> None:
    member.notify(LeaveRequested())


def test_a_standby_that_leaves_leaves_the_bridge_first(world: Sites) -> None:
    leave(world["B"])
    world.run(millis(100))
    assert world["B"].ready_to_leave
    assert on_bridge(world) == "ADE"


def test_a_member_that_leaves_does_not_begin_to_wait_on_the_bridge(world: Sites) -> None:
    asked = orders(world, "C")
    leave(world["C"])
    world.sites["NYC"].crash("A")
    world.run(seconds(1))
    assert asked == []
    assert on_bridge(world) == "BDE"
