"""Planned stops: what the last member of a site leaves behind, here and at other sites."""
from __future__ import annotations

import attrs
import pytest

from jgroups_py.model.batch import Batch
from jgroups_py.model.units import millis, seconds
from jgroups_py.model.view import ViewId
from jgroups_py.protocols.relay.headers import Forward, HelloHeader
from jgroups_py.protocols.relay.sites.leaving import PlannedLeave
from tests.unit.relay.sites import Sites, cut_off, lost, numbered, statuses


@pytest.fixture
def world() -> Sites:
    return Sites(NYC="ABC", SFO="DEF").build()


def test_the_goodbye_of_the_last_member_makes_its_site_down_at_once_and_it_is_held_for() -> None:
    world = Sites(NYC="A", SFO="DE").build()
    world.leave("A")
    world.run(millis(100))
    assert statuses(world["E"]) == ["UP", "DOWN"]
    world["E"].multicast(*numbered(0, 5))
    world.run(seconds(60), millis(100))
    assert statuses(world["E"]) == ["UP", "DOWN"]
    world.sites["NYC"].restart()
    world.run(seconds(3))
    assert statuses(world["E"]) == ["UP", "DOWN", "UP"]
    assert world["A"].texts("c") == numbered(0, 5)
    assert lost(world["E"]) == lost(world["A"]) == []


def test_a_site_whose_last_member_leaves_for_good_is_offline_at_once_and_the_losses_are_reported() -> None:
    world = Sites(NYC="A", SFO="DE").build()
    world.leave("A", forget=True)
    world.run(millis(100))
    assert statuses(world["E"]) == ["UP", "OFFLINE"]
    world["E"].multicast("into the void")
    world.run(seconds(20), millis(100))
    assert world["E"].relay.hold.messages == 0
    world.sites["NYC"].restart()
    world.run(seconds(3))
    assert statuses(world["E"]) == ["UP", "OFFLINE", "UP"], "it may come back"
    assert lost(world["E"]) == [("NYC", 1, 2)]


def test_only_the_last_member_of_a_site_can_order_to_forget_it(world: Sites) -> None:
    world.leave("A", forget=True)
    world.run(millis(200))
    world.sites["NYC"].crash("A")
    world.run(seconds(15), millis(50))
    assert statuses(world["E"]) == ["UP"]


def test_a_hello_of_the_epoch_of_a_goodbye_does_not_bring_the_site_back() -> None:
    """It may be under way, or answer a HELLO of ours that met the relay while it left."""
    for forget, status in ((False, "DOWN"), (True, "OFFLINE")):
        world = Sites(NYC="A", SFO="DE").build()
        bridge, epoch = world["A"].bridge, world["A"].relay.group.view.id
        world["A"].relay.introducer.goodbye(last=True, forget=forget)
        world.settle()
        world.run(millis(10))
        assert statuses(world["D"])[-1] == status
        world.on_bridge.append((bridge, Batch(bridge, world["D"].bridge, (), (HelloHeader("NYC", epoch, {}, False),))))
        world.run(millis(50))
        assert statuses(world["D"])[-1] == status
        assert world["D"].relay.peers.of("NYC") == []
        higher = ViewId(epoch.counter + 1, epoch.coordinator)
        world.on_bridge.append((bridge, Batch(bridge, world["D"].bridge, (), (HelloHeader("NYC", higher, {}, False),))))
        world.run(millis(50))
        assert statuses(world["D"])[-1] == "UP"


def test_a_relay_that_has_sent_goodbye_sends_no_further_hello() -> None:
    world = Sites(NYC="A", SFO="DE").build()
    world["A"].relay.introducer.goodbye(last=True, forget=False)
    world.run(millis(10))
    world.sites["SFO"].crash("D")                     # so E is the relay, and says HELLO to A
    world.run(seconds(1))
    assert statuses(world["E"])[-1] == "DOWN"
    assert world["E"].relay.peers.of("NYC") == []


def test_the_last_member_of_a_site_waits_a_moment_for_sites_that_it_does_not_reach_yet() -> None:
    world = Sites(NYC="AB", SFO="DE").build()
    world["B"].relay.part(PlannedLeave).config = attrs.evolve(world["B"].relay.config, leave_timeout_ns=seconds(1.5))
    world.without_bridge = "B"
    world.sites["NYC"].crash("A")                     # B is the relay now, and is not on the bridge yet
    member = world.leave("B")
    world.run(millis(300))
    assert not member.ready_to_leave
    world.without_bridge = ""
    world.join_bridge(member)
    world.run(millis(300))
    assert member.ready_to_leave
    assert statuses(world["E"])[-1] == "DOWN", "GOODBYE did not make the site DOWN at once"


def test_what_the_last_member_without_a_journal_cannot_hand_over_is_declared_lost_by_range_at_both_sites() -> None:
    world = Sites(NYC="A", SFO="DE").build()
    world["A"].multicast(*numbered(0, 5))
    world.run()
    world.lose = lambda src, batch: any(isinstance(header, Forward) for header in batch.headers)
    world["A"].multicast(*numbered(5, 12))
    world.leave("A")
    world.run(seconds(1))
    assert lost(world["A"]) == [], "there is still time"
    world.run(seconds(1))
    assert lost(world["A"]) == [("SFO", 6, 13)]
    (warning,) = [note.text for note in world["A"].notes if note.level == "warning"]
    assert "7 messages that site SFO has not acknowledged are lost for it" in warning
    assert "A 6..12" in warning
    for name in "DE":
        assert lost(world[name]) == [(None, 6, 13)]
        assert world[name].texts("c") == numbered(0, 5)


def test_a_member_that_is_not_the_last_declares_nothing_lost(world: Sites) -> None:
    world.lose = lambda src, batch: any(isinstance(header, Forward) for header in batch.headers)
    world["C"].multicast(*numbered(0, 5))
    world.leave("A")
    world.run(seconds(2))
    assert world["A"].ready_to_leave
    assert lost(world["A"]) == []


def test_a_leave_for_good_that_a_site_cannot_be_told_is_logged() -> None:
    world = Sites(NYC="A", SFO="DE").build()
    cut_off(world, "A")
    world.leave("A", forget=True)
    world.run(seconds(2))
    assert any("SFO cannot be told" in note.text for note in world["A"].notes)
    assert world["A"].ready_to_leave
