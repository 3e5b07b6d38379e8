"""RELAY by itself, over an ideal group and bridge: the rules of relay.md one by one."""
from __future__ import annotations

import pytest

from jgroups_py.model.address import Address, ProxyUUID
from jgroups_py.model.batch import NO_RELAY, Batch
from jgroups_py.model.events import BridgeDelivered
from jgroups_py.model.outputs import MessagesLost, SiteStatusChanged, Unreachable
from jgroups_py.model.units import millis, seconds
from jgroups_py.protocols.relay.headers import Forward, NeedHeader, SeenHeader
from tests.unit.relay.sites import Sites


@pytest.fixture
def world() -> Sites:
    return Sites(NYC="ABC", SFO="DEF").build()


def numbered(start: int, stop: int) -> list[str]:
    return [f"c{i}" for i in range(start, stop)]


def test_a_multicast_reaches_every_member_of_both_sites_once_with_its_origin(world: Sites) -> None:
    world["C"].multicast("hello", "again")
    world.run()
    for name in "ABC":
        assert world[name].got == [("C", b"hello"), ("C", b"again")]
    for name in "DEF":
        assert world[name].got == [("C@NYC", b"hello"), ("C@NYC", b"again")]


def test_a_message_flagged_no_relay_stays_in_its_site(world: Sites) -> None:
    member = world["C"]
    member.stack.inject(Batch(member.me, None, (b"local",), (), NO_RELAY), world.now_ns)
    member.drain()
    world.run()
    assert world["A"].got == [("C", b"local")]
    assert world["D"].got == []


def test_the_global_view_unites_both_sites_and_survives_a_relay_failover(world: Sites) -> None:
    both = {"NYC": ["A", "B", "C"], "SFO": ["D", "E", "F"]}
    assert world["C"].global_names == both
    assert world["F"].global_names == both
    world.sites["NYC"].crash("A")
    world.run()
    views = [output for output in world["F"].reported if hasattr(output, "view")]
    assert world["F"].global_names == {"NYC": ["B", "C"], "SFO": ["D", "E", "F"]}
    assert all("NYC" in output.view.sites for output in views[1:]), "the failover made the site vanish for a moment"


def test_nothing_is_lost_or_duplicated_when_the_sending_relay_crashes_with_messages_on_the_bridge(world: Sites) -> None:
    world["C"].multicast(*numbered(0, 50))
    world.sites["NYC"].flush()
    world["C"].multicast(*numbered(50, 100))
    world.on_bridge.clear()                       # what the relay had sent dies with it
    world.sites["NYC"].crash("A")
    world["C"].multicast(*numbered(100, 150))
    world.run()
    for name in "DEF":
        assert world[name].texts("c") == numbered(0, 150)


def test_nothing_is_lost_or_duplicated_when_the_receiving_relay_crashes(world: Sites) -> None:
    world["C"].multicast(*numbered(0, 100))
    world.run(millis(10))
    world["C"].multicast(*numbered(100, 200))
    world.sites["NYC"].flush()
    world.sites["SFO"].crash("D")
    world["C"].multicast(*numbered(200, 250))
    world.run(seconds(2))
    for name in "EF":
        assert world[name].texts("c") == numbered(0, 250)


def test_both_relays_may_crash_at_once(world: Sites) -> None:
    world["C"].multicast(*numbered(0, 100))
    world.run(millis(5))
    world["C"].multicast(*numbered(100, 200))
    world.sites["NYC"].crash("A")
    world.sites["SFO"].crash("D")
    world["C"].multicast(*numbered(200, 300))
    world.run(seconds(2))
    for name in "EF":
        assert world[name].texts("c") == numbered(0, 300)


def test_what_a_crashed_origin_had_multicast_still_reaches_the_other_site(world: Sites) -> None:
    world["C"].multicast(*numbered(0, 10))
    world.sites["NYC"].flush()
    world.on_bridge.clear()
    world.sites["NYC"].crash("C")
    world.sites["NYC"].crash("A")
    world.run(seconds(2))
    for name in "DEF":
        assert world[name].texts("c") == numbered(0, 10)


def test_a_forward_lost_on_the_bridge_is_requested_and_retransmitted(world: Sites) -> None:
    lost = iter([True, False, True])
    world.lose = lambda src, batch: isinstance(batch.headers[-1], Forward) and next(lost, False)
    for number in range(10):
        world["C"].multicast(f"c{number}")
        world.run(millis(20))
    world.run(seconds(2))
    assert world["F"].texts("c") == numbered(0, 10)


def test_lost_acknowledgements_are_repeated_and_the_hold_empties(world: Sites) -> None:
    world.lose = lambda src, batch: isinstance(batch.headers[-1], SeenHeader)
    world["C"].multicast(*numbered(0, 10))
    world.run(seconds(1))
    assert world["A"].relay.hold.messages == 10
    world.lose = lambda src, batch: False
    world.run(seconds(2))
    assert [world[name].relay.hold.messages for name in "ABC"] == [0, 0, 0]
    assert world["F"].texts("c") == numbered(0, 10)


def test_nothing_is_acknowledged_before_the_backup_has_it(world: Sites) -> None:
    world["E"].group.hand_over = lambda batch: None       # the backup of SFO never confirms
    world["C"].multicast(*numbered(0, 10))
    world.run(seconds(1))
    assert world["D"].texts("c") == numbered(0, 10)
    assert world["A"].relay.hold.messages == 10, "acknowledged although only the relay is known to have it"


def test_a_joiner_adopts_the_groups_vector_and_delivers_nothing_twice(world: Sites) -> None:
    world["C"].multicast(*numbered(0, 10))
    world.run()
    newcomer = world.sites["SFO"].add("G")
    world["C"].multicast(*numbered(10, 20))
    world.run()
    assert newcomer.texts("c") == numbered(10, 20)
    assert world["F"].texts("c") == numbered(0, 20)


def test_disseminated_messages_that_a_view_change_lost_are_repeated_after_sync(world: Sites) -> None:
    world["C"].multicast(*numbered(0, 10))
    world.sites["NYC"].flush()
    while world.on_bridge:                                     # the relay of SFO has multicast, nobody has it yet
        src, batch = world.on_bridge.popleft()
        world.bridge[batch.dest].notify(BridgeDelivered(batch.replaced(src=src)))
    world.sites["SFO"].sent.clear()
    world.sites["SFO"].install(["D", "E", "F"])
    world.run()
    for name in "DEF":
        assert world[name].texts("c") == numbered(0, 10)


def test_a_unicast_reply_reaches_the_origin_only_and_once(world: Sites) -> None:
    world["C"].multicast("question")
    world.run()
    src = world["F"].relay.delivery.proxies[world["C"].me]
    assert isinstance(src, ProxyUUID)
    world["F"].unicast(src, "answer")
    world.run()
    assert world["C"].unicasts == [("F@SFO", b"answer")]
    assert [world[name].unicasts for name in "ABDEF"] == [[]] * 5


def test_unicasts_arrive_once_and_in_order_across_relay_crashes_on_both_sides(world: Sites) -> None:
    for number in range(20):
        world["F"].unicast(world["C"].me, f"u{number}")
        if number == 5:
            world.on_bridge.clear()
            world.sites["NYC"].crash("A")
        if number == 12:
            world.on_bridge.clear()
            world.sites["SFO"].crash("D")
        world.run(millis(10))
    world.run(seconds(3))
    assert [payload for _, payload in world["C"].unicasts] == [f"u{number}".encode() for number in range(20)]
    assert not [output for output in world["F"].reported if isinstance(output, Unreachable)]


def test_a_unicast_to_a_member_that_is_gone_is_reported_unreachable_and_later_ones_do_not_wait(world: Sites) -> None:
    gone = world["C"].me
    world.sites["NYC"].crash("C")
    world["F"].unicast(gone, "late")
    world.run(seconds(1))
    world["F"].unicast(gone, "later")
    world.run(seconds(1))
    output = [output for output in world["F"].reported if isinstance(output, Unreachable)]
    assert [t.dest for t in output] == [gone, gone]
    assert world["F"].relay.unicast_router.unicasts_waiting == 0


def test_a_site_without_relay_goes_down_and_comes_back_with_everything_held_for_it(world: Sites) -> None:
    world["C"].multicast("before")
    world.run()
    world.lose = lambda src, batch: True
    world.leave_bridge(world["D"], "link broken")
    for n in range(5):
        world["C"].multicast(f"c{n}")
    world["D"].relay.bridge_link.wanted = False                      # its link stays broken for a while
    world.run(seconds(11))
    statuses = [output for output in world["C"].reported if isinstance(output, SiteStatusChanged)]
    assert [output.status for output in statuses] == ["UP", "DOWN"]
    world.lose = lambda src, batch: False
    world["D"].relay.bridge_link.open()
    world["D"].drain()
    world.run(seconds(3))
    assert world["F"].texts("c") == numbered(0, 5)
    assert [t.status for t in world["C"].reported if isinstance(t, SiteStatusChanged)] == ["UP", "DOWN", "UP"]


def test_when_a_relay_leaves_nothing_is_lost_or_duplicated_by_its_successor(world: Sites) -> None:
    world["C"].multicast(*numbered(0, 50))
    member = world.leave("A")
    world.run(millis(200))
    assert member.ready_to_leave
    world["C"].multicast(*numbered(50, 60))
    world.sites["NYC"].crash("A")
    world.run(seconds(1))
    for name in "DEF":
        assert world[name].texts("c") == numbered(0, 60)


def test_a_stale_relay_is_refused_and_its_messages_come_after_the_merge(world: Sites) -> None:
    nyc = world.sites["NYC"]
    nyc.install(["A", "C"])                       # NYC splits: A's half first, B's half has the higher epoch
    nyc.install(["B"])
    world.run()
    world["B"].multicast("b0")
    world["C"].multicast(*numbered(0, 5))
    world.run()
    assert world["F"].texts("b") == ["b0"]
    assert world["F"].texts("c") == [], "messages of a fenced relay were accepted"
    nyc.install(["B", "A", "C"])
    world.run(seconds(2))
    assert world["F"].texts("c") == numbered(0, 5)


def test_a_fenced_half_raises_its_view_when_the_accepted_relay_has_left(world: Sites) -> None:
    nyc = world.sites["NYC"]
    nyc.install(["A", "C"])
    nyc.install(["B"])
    world.run()
    world.sites["NYC"].crash("B")
    world["C"].multicast("c0")
    world.run(millis(500))
    assert nyc.raises == 1, "a higher view was not requested, or more than once"
    world.run(seconds(1))
    assert world["F"].texts("c") == ["c0"]


def test_halves_of_the_receiving_site_that_merge_with_different_vectors_both_end_complete(world: Sites) -> None:
    sfo = world.sites["SFO"]
    world["C"].multicast(*numbered(0, 5))
    world.run()
    sfo.install(["D", "E"])
    sfo.install(["F"])
    world.leave_bridge(world["F"], "cut off")
    world["F"].relay.bridge_link.wanted = False
    world["C"].multicast(*numbered(5, 10))
    world.run(seconds(2))
    assert world["F"].texts("c") == numbered(0, 5)
    sfo.install(["D", "E", "F"])
    world.run(seconds(2))
    for name in "DEF":
        assert world[name].texts("c") == numbered(0, 10)
    assert not [output for output in world["F"].reported if isinstance(output, MessagesLost)]


def test_a_new_backup_gets_what_the_relay_holds(world: Sites) -> None:
    world.lose = lambda src, batch: True
    world["C"].multicast(*numbered(0, 10))
    world.run(millis(50))
    world.sites["NYC"].crash("B")                  # C is the backup now; it is the origin, so let D.. see a third
    newcomer = world.sites["NYC"].add("G")
    world.sites["NYC"].crash("C")
    world.run(millis(50))
    assert newcomer.relay.hold.messages == 10, "the new second-in-line holds nothing"
    world.sites["NYC"].crash("A")
    world.lose = lambda src, batch: False
    world.run(seconds(3))
    assert world["F"].texts("c") == numbered(0, 10)


def test_three_sites_get_everything_once_and_nothing_echoes() -> None:
    world = Sites(NYC="AB", SFO="DE", LON="XY").build()
    for name in "BEY":
        world[name].multicast(f"{name.lower()}0", f"{name.lower()}1")
    world.run()
    for name in "ABDEXY":
        assert sorted(world[name].texts("")) == ["b0", "b1", "e0", "e1", "y0", "y1"]


def test_a_slow_third_site_does_not_hold_up_the_second() -> None:
    world = Sites(NYC="AB", SFO="DE", LON="XY").build(window_bytes="64K")
    lon = next(address for address, member in world.bridge.items() if member.name == "X")
    world.lose = lambda src, batch: batch.dest == lon
    for _ in range(20):
        world["B"].multicast("b" * 30_000)
        world.run(millis(50))
    assert len(world["E"].got) == 20
    assert world["Y"].got == []


def test_a_full_hold_gives_up_the_site_furthest_behind_and_memory_stays_bounded() -> None:
    world = Sites(NYC="AB", SFO="DE").build(hold_bytes="1M", window_bytes="64K", split_grace_ns="1s")
    world.lose = lambda src, batch: True
    for _ in range(100):
        world["B"].multicast("b" * 30_000)
        world.run(millis(50))
    assert world["A"].relay.hold.nbytes < 2 << 20
    assert "OFFLINE" in [t.status for t in world["B"].reported if isinstance(t, SiteStatusChanged)]


def test_unicasts_without_an_answer_are_retransmitted_with_backoff(world: Sites) -> None:
    world.lose = lambda src, batch: True
    world["F"].unicast(world["C"].me, "letter")
    world.run(seconds(20), millis(100))
    assert 5 <= world["F"].relay.stats()["unicasts_retransmitted"] <= 8, "a slow link fills with copies"
    world.lose = lambda src, batch: False
    world.run(seconds(5), millis(100))
    assert [payload for _, payload in world["C"].unicasts] == [b"letter"]


def test_unicasts_are_retransmitted_soon_when_traffic_comes_from_a_silent_site(world: Sites) -> None:
    world["A"].multicast("before")
    world.run(seconds(1), millis(100))
    world.lose = lambda src, batch: True
    world["F"].unicast(world["C"].me, "letter")
    world.run(seconds(20), millis(100))
    world.lose = lambda src, batch: False
    world["A"].multicast("after")
    world.run(seconds(1.5), millis(100))
    assert [payload for _, payload in world["C"].unicasts] == [b"letter"]


def test_a_hole_is_requested_once_however_much_arrives_behind_it(world: Sites) -> None:
    world["A"].multicast("first")
    world.run(seconds(1), millis(100))
    asked: list[NeedHeader] = []
    lost: list[Forward] = []

    def lose_one_forward(src: Address, batch: Batch) -> bool:
        header = batch.headers[-1]
        if isinstance(header, NeedHeader):
            asked.append(header)
        if isinstance(header, Forward) and not lost:
            lost.append(header)
            return True
        return False

    world.lose = lose_one_forward
    for number in range(200):
        world["ABC"[number % 3]].multicast(str(number))          # so that the runs do not join
    world.run(seconds(3), millis(100))
    assert len(world["F"].got) == 201
    assert len(asked) <= 2, "each answer is a whole window"


def test_nothing_stays_of_an_origin_that_is_gone_for_long() -> None:
    world = Sites(NYC="ABC", SFO="DEF").build(hold_age_ns="30s", forget_after_ns="60s")
    gone = world["C"].me
    world["C"].multicast("c0")
    world.run(seconds(1))
    relay = world["F"].relay
    assert gone in relay.delivery.proxies
    assert gone in relay.delivery.seen["NYC"]
    world.sites["NYC"].crash("C")
    world.run(seconds(130))                       # found gone at one stroke, forgotten at the next
    for kept in (relay.delivery.proxies, relay.delivery.seen["NYC"], relay.table.sites["NYC"].members):
        assert gone not in kept
