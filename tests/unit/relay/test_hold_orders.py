"""`drain --hold`: an operator has nothing sent to a site, and all held for it."""
from __future__ import annotations

import pytest

from jgroups_py.model.units import millis, seconds
from jgroups_py.protocols.relay.headers import Forward
from jgroups_py.protocols.relay.sites.admin import SUPERSEDED
from tests.unit.relay.journal_disk import Disk, Holder
from tests.unit.relay.sites import Sites, answers, cut_off, lost, numbered, statuses


@pytest.fixture
def world() -> Sites:
    return Sites(NYC="ABC", SFO="DEF").build()


def hold(world: Sites, name: str = "B") -> None:
    """An operator at `name` has what is for SFO held."""
    world[name].order("hold", "SFO", timeout_ns=seconds(5))
    world.run(seconds(1))
    assert answers(world[name])[-1] == ""


def online(world: Sites, name: str = "A") -> None:
    world[name].order("online", "SFO")
    world.run(seconds(1))
    assert answers(world[name])[-1] == ""


def test_what_is_sent_during_the_maintenance_arrives_after_it_once_and_in_order(world: Sites) -> None:
    world["C"].multicast(*numbered(0, 10))
    hold(world)
    assert world["F"].texts("c") == numbered(0, 10), "the order waits for what was held when it came"
    world["C"].multicast(*numbered(10, 20))
    world.run(seconds(30), millis(50))
    assert world["F"].texts("c") == numbered(0, 10)
    assert world["C"].relay.hold.messages == 10
    online(world)
    world["C"].multicast("c20")
    world.run(seconds(1))
    for name in "DEF":
        assert world[name].texts("c") == numbered(0, 21)
    assert statuses(world["C"]) == ["UP"]
    assert lost(world["C"]) == lost(world["F"]) == []
    assert world["A"].relay.hold.messages == 0


def test_nothing_is_lost_although_all_members_of_the_site_are_replaced_meanwhile(world: Sites) -> None:
    hold(world)
    world["C"].multicast(*numbered(0, 10))
    world.sites["SFO"].restart()
    world.run(seconds(3))
    assert world["F"].texts("c") == []
    online(world)
    assert world["F"].texts("c") == numbered(0, 10)
    assert lost(world["C"]) == []


def test_a_new_relay_holds_on(world: Sites) -> None:
    hold(world)
    world["C"].multicast(*numbered(0, 5))
    world.run(millis(500))
    world.sites["NYC"].crash("A")
    world.run(seconds(2))
    assert world["F"].texts("c") == []
    assert world["B"].relay.site_report()["sites"]["SFO"]["on_hold"]
    online(world, "C")
    assert world["F"].texts("c") == numbered(0, 5)


def test_a_site_without_a_relay_is_not_waited_for(world: Sites) -> None:
    cut_off(world, "D")
    world["C"].multicast(*numbered(0, 5))
    world.run(millis(100))
    hold(world)
    world["D"].relay.bridge_link.open()
    world["D"].drain()
    world.run(seconds(3))
    assert world["F"].texts("c") == []
    online(world)
    assert world["F"].texts("c") == numbered(0, 5)


def test_a_site_that_does_not_take_all_in_time_stays_as_it_was(world: Sites) -> None:
    world.lose = lambda src, batch: isinstance(batch.headers[-1], Forward)
    world["C"].multicast(*numbered(0, 5))
    world.run(millis(100))
    world["B"].order("hold", "SFO", timeout_ns=seconds(2))
    world.run(seconds(3))
    assert answers(world["B"]) == ["SFO has not acknowledged 5 messages in time; it stays as it was"]
    world.lose = lambda src, batch: False
    world.run(seconds(2))
    world["C"].multicast("c5")
    world.run(seconds(1))
    assert world["F"].texts("c") == numbered(0, 6)


def test_the_time_of_the_maintenance_does_not_count_for_hold_age() -> None:
    world = Sites(NYC="ABC", SFO="DEF").build(hold_age_ns="30s")
    hold(world)
    world["C"].multicast(*numbered(0, 5))
    world.run(seconds(100), millis(100))
    assert statuses(world["C"]) == ["UP"]
    world.lose = lambda src, batch: isinstance(batch.headers[-1], Forward)
    online(world)
    world.run(seconds(20), millis(100))
    assert statuses(world["C"]) == ["UP"], "it had only 20 s for what was held"
    world.run(seconds(12), millis(100))
    assert statuses(world["C"])[:2] == ["UP", "OFFLINE"]
    assert lost(world["C"]) == [("SFO", 1, 6)]


def test_the_time_of_a_maintenance_does_not_count_for_hold_age_at_the_next_relay() -> None:
    world = Sites(NYC="ABC", SFO="DEF").build(hold_age_ns="30s")
    hold(world)
    world["C"].multicast(*numbered(0, 5))
    world.run(seconds(100), millis(100))
    world.lose = lambda src, batch: isinstance(batch.headers[-1], Forward)
    online(world)
    world.sites["NYC"].crash("A")
    world.run(seconds(10), millis(100))
    assert statuses(world["C"]) == ["UP"]
    world.lose = lambda src, batch: False
    world.run(seconds(5))
    assert world["F"].texts("c") == numbered(0, 5)


def test_a_full_hold_ends_the_maintenance_and_the_losses_are_reported() -> None:
    world = Sites(NYC="ABC", SFO="DEF").build(hold_bytes="1M")
    hold(world)
    world["C"].multicast(*["c" + "x" * 100_000] * 12)
    world.run(seconds(1))
    assert statuses(world["C"])[-1] == "OFFLINE"
    assert lost(world["C"]) == [("SFO", 1, 13)]


def test_other_orders_take_its_place(world: Sites) -> None:
    hold(world)
    world["C"].multicast(*numbered(0, 5))
    world.settle()
    world["A"].order("drain", "SFO", timeout_ns=seconds(5))
    world.run(seconds(2))
    assert answers(world["A"]) == [""]
    assert world["F"].texts("c") == numbered(0, 5), "a plain drain sends what was held"
    assert statuses(world["C"])[-1] == "OFFLINE"
    assert not world["B"].relay.table.sites["SFO"].paused
    online(world)
    hold(world)
    world["C"].order("offline", "SFO")
    world.run(seconds(1))
    assert statuses(world["C"])[-1] == "OFFLINE"
    online(world)
    world["C"].multicast("c5")
    world.run(seconds(1))
    assert world["F"].texts("c")[-1] == "c5"


def test_a_drain_with_hold_replaces_one_without(world: Sites) -> None:
    world.lose = lambda src, batch: isinstance(batch.headers[-1], Forward)
    world["C"].multicast(*numbered(0, 5))
    world.run(millis(100))
    world["B"].order("drain", "SFO", timeout_ns=seconds(20))
    world.run(millis(100))
    world["C"].order("hold", "SFO", timeout_ns=seconds(20))
    world.run(millis(100))
    assert answers(world["B"]) == [SUPERSEDED]
    world.lose = lambda src, batch: False
    world.run(seconds(2))
    assert answers(world["C"]) == [""]
    assert statuses(world["C"]) == ["UP"]


@pytest.mark.parametrize(("half", "other"), [("A", "B"), ("B", "A")])
def test_after_a_split_the_row_of_the_half_that_got_the_order_counts(world: Sites, half: str, other: str) -> None:
    nyc = world.sites["NYC"]
    nyc.install(["A"])
    nyc.install(["B", "C"])
    world.run()
    hold(world, half)
    nyc.install([other, *[name for name in "ABC" if name != other]])
    world.run(seconds(2))
    world["C"].multicast("c0")
    world.run(seconds(1))
    assert world["F"].texts("c") == []
    assert all(world[name].relay.table.sites["SFO"].paused for name in "ABC")
    online(world, "C")
    assert world["F"].texts("c") == ["c0"]


def test_a_leaver_does_not_wait_for_a_site_that_is_paused_or_offline(world: Sites) -> None:
    hold(world)
    world["C"].multicast("c0")
    world.run(millis(100))
    member = world.leave("A")
    world.run(millis(200))
    assert member.ready_to_leave


def test_it_survives_the_crash_of_the_whole_site_on_disk() -> None:
    first = Holder(Disk()).found_group()
    first.relay.admin.pause(first.relay.table.sites["SFO"])
    first.wait(seconds(1))
    first.multicast(b"held")
    again = Holder(first.disk.copied(), incarnation="2").found_group()
    assert again.relay.table.sites["SFO"].paused
    assert list(again.held().values()) == [b"held"]
