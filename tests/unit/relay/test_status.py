"""Status, limits and losses of other sites (rules 14 and 18), over an ideal group and bridge."""
from __future__ import annotations

import pytest

from jgroups_py.model.errors import ConfigError
from jgroups_py.model.outputs import StateAdvised
from jgroups_py.model.units import millis, seconds
from jgroups_py.protocols.relay.config import RelayConfig
from tests.unit.relay.sites import Site, Sites, cut_off, lost, numbered, reported, statuses


@pytest.fixture
def world() -> Sites:
    return Sites(NYC="ABC", SFO="DEF").build()


def return_to_bridge(world: Sites, name: str) -> None:
    world[name].relay.bridge_link.open()
    world[name].drain()


# --- UP and DOWN ----------------------------------------------------------------------------------------------------

def test_a_bridge_that_is_often_lost_for_a_moment_makes_no_site_down(world: Sites) -> None:
    for _ in range(4):
        cut_off(world, "D")
        world.run(seconds(6), millis(100))
        return_to_bridge(world, "D")
        world.run(seconds(1), millis(100))
    assert statuses(world["C"]) == ["UP"], "the time of earlier absences was counted too"


def test_traffic_does_not_keep_a_site_without_relay_up(world: Sites) -> None:
    cut_off(world, "D")
    for _ in range(110):
        world["C"].multicast("c")
        world.run(millis(100), millis(100))
    assert statuses(world["C"]) == ["UP", "DOWN"]


def test_a_site_that_is_silent_stays_up_while_its_relay_is_on_the_bridge(world: Sites) -> None:
    world.run(seconds(60), millis(500))
    assert statuses(world["C"]) == ["UP"]


def test_a_coordinator_without_a_bridge_decides_too() -> None:
    world = Sites(NYC="ABC", SFO="DE").build(hold_bytes="1M", split_grace_ns="1s", hold_age_ns="1m")
    world.without_bridge = "AB"
    world.leave_bridge(world["A"], "its link is broken")
    for number in range(12):
        world["C"].multicast(str(number).ljust(50_000))
        world.run(seconds(1), millis(100))
    assert statuses(world["C"]) == ["UP", "DOWN"]
    world.sites["NYC"].crash("A")                         # B never saw the bridge
    for number in range(12):
        world["C"].multicast(str(number).ljust(50_000))
        world.run(seconds(1), millis(100))
    assert statuses(world["C"]) == ["UP", "DOWN", "OFFLINE"]
    assert world["C"].relay.hold.nbytes < 1 << 20


def test_a_site_whose_relay_comes_and_goes_all_the_time_is_held_for_as_long_as_a_grace_and_not_for_ever(
    world: Sites,
) -> None:
    held = []
    for second in range(90):
        if second % 5 == 0:
            cut_off(world, "D")
        elif second % 5 == 1:
            return_to_bridge(world, "D")
        world["C"].multicast(str(second))
        world.run(seconds(1), millis(100))
        held.append(world["A"].relay.hold.messages)
    assert len(world["F"].got) == 90
    grace_s = RelayConfig(site="x", bridge_props="x").split_grace_ns // seconds(1)
    assert grace_s <= max(held[-30:]) <= grace_s * 4 // 3, "a later grace lengthens an earlier one"
    assert world["C"].relay.hold.messages == held[-1]


# --- the limits -----------------------------------------------------------------------------------------------------

def test_only_the_site_furthest_behind_goes_offline_when_the_hold_is_full() -> None:
    world = Sites(NYC="AB", SFO="DE", LON="XY").build(hold_bytes="1M", split_grace_ns="1s", hold_age_ns="1m")
    lon = world["X"].bridge
    world.lose = lambda src, batch: batch.dest == lon
    for _ in range(40):
        world["B"].multicast("b" * 30_000)
        world.run(millis(50))
    assert statuses(world["B"]) == ["UP", "UP", "OFFLINE"]
    assert world["A"].relay.table.sites["LON"].status > world["A"].relay.table.sites["SFO"].status
    assert len(world["E"].got) == 40, "a site that keeps up went OFFLINE for the one that does not"


def test_empty_messages_fill_the_hold_too() -> None:
    world = Sites(NYC="AB", SFO="DE").build(hold_bytes="1M", split_grace_ns="1s", hold_age_ns="9m")
    world.lose = lambda src, batch: True
    for _ in range(20):
        world["B"].multicast(*[""] * 1000)
        world.run(millis(50))
    assert statuses(world["B"]) == ["UP", "OFFLINE"]


def test_what_is_given_up_is_reported_by_range_at_both_sites() -> None:
    world = Sites(NYC="AB", SFO="DE").build(hold_bytes="1M", split_grace_ns="1s", hold_age_ns="1m")
    world["B"].multicast("b1", "b2")
    world.run(seconds(1))
    world.lose = lambda src, batch: True
    for _ in range(40):
        world["B"].multicast("b" * 30_000)
        world.run(millis(50))
    assert statuses(world["B"]) == ["UP", "OFFLINE"]
    first_told = lost(world["B"])
    world.lose = lambda src, batch: False
    cut_off(world, "D")
    world.run(seconds(1))
    return_to_bridge(world, "D")
    world.run(seconds(1))
    world["B"].multicast("b43")
    world.run(seconds(1))
    assert [(dest, first) for dest, first, _ in first_told] == [("SFO", 3)]
    assert lost(world["B"]) == lost(world["A"]) == [*first_told, ("SFO", first_told[0][2], 43)]
    assert lost(world["D"]) == lost(world["E"]) == [(None, 3, 43)]
    assert world["E"].texts("b") == ["b1", "b2", "b43"]
    assert statuses(world["B"]) == ["UP", "OFFLINE", "UP"]


def test_a_site_that_does_not_acknowledge_for_hold_age_goes_offline_however_little_is_held() -> None:
    world = Sites(NYC="ABC", SFO="DE").build(hold_age_ns="1m")
    world["C"].multicast("c1")
    world.run(seconds(1))
    cut_off(world, "D")
    world["C"].multicast("c2")
    world.run(seconds(55), millis(500))
    assert statuses(world["C"]) == ["UP", "DOWN"]
    world.run(seconds(8), millis(500))
    assert statuses(world["C"]) == ["UP", "DOWN", "OFFLINE"]
    assert lost(world["C"]) == [("SFO", 2, 3)]
    assert [world[name].relay.hold.messages for name in "ABC"] == [0, 0, 0]


def test_age_travels_with_the_hold_and_does_not_begin_anew_with_a_new_relay() -> None:
    world = Sites(NYC="ABC", SFO="DE").build(hold_age_ns="1m")
    cut_off(world, "D")
    world["C"].multicast("c1")
    world.run(seconds(40), millis(500))
    world.sites["NYC"].crash("A")
    world.run(seconds(25), millis(500))
    assert statuses(world["C"])[-1] == "OFFLINE"


def test_while_offline_nothing_is_held_and_the_losses_are_reported_at_the_end() -> None:
    world = Sites(NYC="ABC", SFO="DE").build()
    world["A"].order("offline", "SFO")
    world.run(seconds(1))
    for number in range(20):
        world["C"].multicast(str(number))
        world.run(millis(200))
    assert world["C"].relay.hold.messages == 0
    assert lost(world["C"]) == []
    book = world["C"].relay.reports.ledger()["SFO"][world["C"].me]
    assert (book.numbered, book.lost) == (20, 20)
    world["A"].order("online", "SFO")
    world.run(seconds(1))
    assert lost(world["C"]) == [("SFO", 1, 21)]


def test_a_slow_site_that_went_offline_elsewhere_returns_later_and_is_advised_to_request_a_state() -> None:
    world = Sites(NYC="AB", SFO="DE").build(hold_bytes="1M", split_grace_ns="1s", hold_age_ns="1m")
    world.lose = lambda src, batch: bool(batch.payloads)
    for _ in range(40):
        world["B"].multicast("b" * 30_000)
        world.run(millis(50))
    world.lose = lambda src, batch: False
    assert statuses(world["B"]) == ["UP", "OFFLINE"]
    world.run(seconds(3))
    assert statuses(world["B"]) == ["UP", "OFFLINE"], "it returned at once and would fill the hold again"
    world.run(seconds(10))
    assert statuses(world["B"]) == ["UP", "OFFLINE", "UP"]
    assert [advised.site for advised in reported(world["D"], StateAdvised)] == ["NYC"]
    assert not reported(world["A"], StateAdvised)
    world["B"].multicast("after")
    world.run(seconds(1))
    assert world["E"].texts("after") == ["after"]


def test_senders_wait_for_room_where_the_stack_says_so_and_nothing_is_lost() -> None:
    world = Sites(NYC="AB", SFO="DE").build(hold_bytes="1M", on_full="block", split_grace_ns="1s", hold_age_ns="1m")
    world.lose = lambda src, batch: True
    for number in range(100):
        world["B"].multicast(f"b{number} ".ljust(30_000))
        world.run(millis(50))
    assert statuses(world["B"]) == ["UP"]
    assert world["A"].relay.hold.nbytes < 2 << 20
    assert world["B"].stack.pending_bytes() > 1 << 20
    world.lose = lambda src, batch: False
    world.run(seconds(5))
    assert [text.split()[0] for text in world["E"].texts("b")] == [f"b{number}" for number in range(100)]
    assert world["B"].stack.pending_bytes() == 0
    assert not lost(world["B"])


def test_blocked_senders_go_on_when_hold_age_gives_the_site_up() -> None:
    world = Sites(NYC="AB", SFO="DE").build(hold_bytes="1M", on_full="block", split_grace_ns="1s", hold_age_ns="20s")
    world.lose = lambda src, batch: True
    for number in range(60):
        world["B"].multicast(str(number).ljust(30_000))
        world.run(millis(50))
    assert world["B"].stack.pending_bytes() > 0
    world.run(seconds(25), millis(500))
    assert world["B"].stack.pending_bytes() == 0
    assert statuses(world["B"])[-1] == "OFFLINE"


def test_limits_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ConfigError, match="twice hold_age"):
        RelayConfig(site="NYC", bridge_props="b.xml", hold_age_ns="1h", forget_after_ns="1h")
    with pytest.raises(ConfigError, match="split_grace"):
        RelayConfig(site="NYC", bridge_props="b.xml", hold_age_ns="1s")


# --- coming and going -----------------------------------------------------------------------------------------------

def test_half_a_site_that_leaves_does_not_take_the_other_half_offline(world: Sites) -> None:
    sfo = world.sites["SFO"]
    sfo.install(["D", "E"])
    sfo.install(["F"])
    world.run(seconds(1))
    world.leave("F")
    world.run(seconds(1))
    assert "OFFLINE" not in statuses(world["C"])


def test_no_losses_from_before_its_join_are_reported_to_a_joiner(world: Sites) -> None:
    world["A"].order("offline", "SFO")
    world["C"].multicast(*numbered(0, 5))
    world.run(seconds(1))
    world["A"].order("online", "SFO")
    world.run(seconds(1))
    assert lost(world["C"]) == [("SFO", 1, 6)]
    newcomer = world.sites["NYC"].add("G")
    world.run(seconds(1))
    assert lost(newcomer) == []


def test_the_last_messages_of_a_crashed_origin_that_no_member_holds_are_lost_at_both_sites() -> None:
    world = Sites(NYC="ABCD", SFO="EF").build(lost_after_ns="5s")
    for name in "AB":
        cut_off(world, name)
    world["C"].multicast("c1", "c2")
    world.run(seconds(1))
    world.sites["NYC"].install(["D"])                     # the others died at once: more than backups
    world.run(seconds(30))
    assert lost(world["D"]) == [("SFO", 1, 3)]
    assert lost(world["E"]) == [(None, 1, 3)]


def test_what_was_sent_while_no_other_site_was_known_is_owed_to_none() -> None:
    world = Sites(NYC="ABC", SFO="DE").build()
    nyc = world.sites["NYC"]
    alone = nyc.add("G")
    nyc.install(["A", "B", "C"])
    alone.relay.table.sites.clear()                       # a singleton that has never heard of SFO
    nyc.install(["G"])
    cut_off(world, "G")
    alone.multicast("g1", "g2")
    world.run(seconds(1))
    assert alone.relay.hold.messages == 0
    nyc.install(["A", "B", "C", "G"])
    alone.multicast("g3")
    world.run(seconds(2))
    assert world["E"].texts("g") == ["g3"], "the site waits for a message that no member retains"
    assert not lost(alone)


def test_a_loss_at_one_site_costs_a_third_site_nothing() -> None:
    world = Sites(NYC="ABC", SFO="DE", LON="XY").build()
    world["A"].order("offline", "LON")
    world["C"].multicast(*numbered(0, 5))
    world.run(seconds(1))
    assert world["E"].texts("c") == numbered(0, 5)
    assert world["Y"].texts("c") == []
    ledger = {name: books[world["C"].me] for name, books in world["C"].relay.reports.ledger().items()}
    assert (ledger["SFO"].acknowledged, ledger["SFO"].lost) == (5, 0)
    assert (ledger["LON"].acknowledged, ledger["LON"].lost) == (0, 5)


def test_a_site_added_while_another_is_offline_starts_at_the_current_numbers() -> None:
    world = Sites(NYC="ABC", SFO="DE").build()
    world["A"].order("offline", "SFO")
    world["C"].multicast(*numbered(0, 5))
    world.run(seconds(1))
    world.sites["LON"] = Site(world, "LON", "XY", {})
    world.run(seconds(1))
    world["C"].multicast("c5")
    world.run(seconds(1))
    assert world["Y"].texts("c") == ["c5"]
    assert world["C"].relay.reports.ledger()["LON"][world["C"].me].lost == 0


@pytest.mark.parametrize(("limit", "before_s", "size"), [
    ({"split_grace_ns": "30s"}, 28, 0),
    ({"hold_age_ns": "30s"}, 8, 0),                       # b1 is 20 s old when the grace begins
    ({"hold_bytes": "1M"}, 18, 50_000),
], ids=["time", "hold_age", "hold_bytes"])
def test_what_a_site_lacks_and_no_member_holds_is_reported_lost_when_a_grace_ends(
    limit: dict[str, str], before_s: int, size: int,
) -> None:
    world = Sites(NYC="AC", SFO="DE").build(**{"split_grace_ns": "30s", **limit})
    world.without_bridge = "E"
    world.sites["SFO"].install(["D"])
    world.sites["SFO"].install(["E"])
    world["C"].multicast("c1", "c2", "c3")
    world.run(millis(100))
    world.sites["NYC"].add("B")                           # which holds nothing of what was before it
    world["B"].multicast("b1")
    world.run(seconds(20), millis(100))
    world.sites["NYC"].crash("C")
    world.sites["NYC"].crash("A")                         # B begins a grace of its own
    world.sites["SFO"].install(["D", "E"])

    def go_on(duration_s: int) -> None:
        for _ in range(duration_s):
            world["B"].multicast("b" * size)
            world.run(seconds(1), millis(100))

    go_on(before_s)
    assert lost(world["E"]) == [], "a loss was reported while another half of NYC may still hold the message"
    go_on(5)
    assert lost(world["E"]) == [(None, 1, 4)], "E waits for ever for messages that no member holds"
    assert (world["D"].texts("c"), lost(world["D"]), statuses(world["B"])) == (["c1", "c2", "c3"], [], ["UP"])
