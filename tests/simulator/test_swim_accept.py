"""Acceptance of SWIM, named after the cases of the reference; `tox -e swim` runs them in the size given there.

Each is a simulated group on a virtual network, with memberlist's values for local networks unless a case sets others.
"""
from __future__ import annotations

import statistics

import pytest

from jgroups_py.model.swim_member import REFUTED
from jgroups_py.model.units import NS_PER_S, seconds
from jgroups_py.protocols.swim import SwimConfig
from jgroups_py.simulator.checkers import check
from tests.simulator.swim_world import FULL, SwimWorld

pytestmark = pytest.mark.slow
LAN = SwimConfig()


def test_accept_3_2_four_members_report_a_killed_one_within_the_times_of_memberlist() -> None:
    for seed in range(20 if FULL else 3):
        world = SwimWorld(5, seed=seed)
        world.run_for(seconds(2))
        killed_ns = world.now_ns
        world.crash("m2")
        world.run_for(seconds(29))
        times = world.times_of("m2", "failed", since_ns=killed_ns)
        assert sorted(times) == ["m0", "m1", "m3", "m4"]
        assert all(4 <= took_s <= 12 for took_s in times.values()), (seed, times)
        assert all(entry.accusations for entry in world.failures())


def test_accept_3_3_a_member_that_stops_for_two_seconds_refutes_and_never_fails() -> None:
    world = SwimWorld(5)
    highest = world.incarnation("m1")
    for _ in range(50 if FULL else 10):
        world.pause("m1")
        world.run_for(seconds(2))
        world.resume("m1")
        world.run_for(seconds(10))
        assert highest <= world.incarnation("m1") <= highest + 1
        highest = world.incarnation("m1")
    assert world.failures() == []
    assert world.changes_seen(REFUTED), "some probe must have met a stopped member"


def test_accept_3_4_two_members_that_cannot_reach_each_other_are_vouched_for_by_others() -> None:
    world = SwimWorld(5, SwimConfig(link_pings=False))
    world.cut("m0", "m1")
    world.cut("m1", "m0")
    world.run_for(seconds(60))
    assert world.failures() == []
    assert sum(world.stats(name)["SWIM"].get("answered_by_helpers", 0) for name in ("m0", "m1")) > 5


def test_accept_3_4_a_member_without_datagrams_is_warned_of_but_does_not_fail_while_links_work() -> None:
    world = SwimWorld(5)
    deafen(world, "m1")
    world.run_for(seconds(60))
    assert world.failures() == []
    assert world.stats("m0")["SWIM"]["answered_by_link"] > 5
    assert any("answers on a connection, but no datagrams" in line for line in world.history.lines())


def test_accept_3_4_a_member_without_datagrams_fails_without_link_pings() -> None:
    world = SwimWorld(5, SwimConfig(link_pings=False))
    deaf_ns = world.now_ns
    deafen(world, "m1")
    world.run_for(seconds(40))
    assert sorted(world.times_of("m1", "failed", since_ns=deaf_ns)) == ["m0", "m2", "m3", "m4"]


def deafen(world: SwimWorld, name: str) -> None:
    """No datagram gets to a member, all of its own get out."""
    for other in world.members:
        if other != name:
            world.drop_datagrams(other, name)


def test_accept_3_5_lifeguard_keeps_members_that_stall_from_failing_healthy_ones() -> None:
    without, with_it = (false_failures(SwimConfig(lifeguard=on)) for on in (False, True))
    assert without >= 50
    assert with_it <= 0.02 * without, (with_it, without)


def test_a_process_that_is_stopped_reads_what_came_before_it_judges_and_fails_no_member() -> None:
    assert false_failures(SwimConfig(lifeguard=False), stopped=True) == 0


def false_failures(config: SwimConfig, *, stopped: bool = False) -> int:
    """How often healthy members count as failed while 4 of 16 stall for 5 s of every 6 s.

    A member that stalls handles nothing in time, so for the others and for itself all its messages are lost while its
    clock goes on. stopped: by SIGSTOP instead, when nothing is lost but time.
    """
    world = SwimWorld(16, config)
    stalling = world.members[12:]
    began_ns = world.now_ns
    for _ in range(50 if FULL else 7):
        for name in stalling:
            if stopped:
                world.pause(name)
            else:
                world.isolate(name)
        world.run_for(seconds(5))
        for name in stalling:
            world.resume(name)
        world.mend()
        world.run_for(seconds(1))
    return sum(entry.subject.name not in stalling for entry in world.failures(began_ns))


def test_accept_3_6_a_joiner_is_listed_by_almost_all_within_a_second_and_a_half() -> None:
    took = []
    for seed in range(20 if FULL else 2):
        world = SwimWorld(50, seed=seed)
        world.run_for(seconds(2))
        joined_ns = world.now_ns
        world.members.append("newcomer")
        world.begin("newcomer")
        world.run_for(seconds(6))
        times = sorted(world.join_times("newcomer", joined_ns).values())
        took.append(times[-1] if len(times) == 50 else float("inf"))    # 99 % of 50 are 50
    assert statistics.median(took) <= 1.5, took


def test_accept_3_7_the_load_of_a_member_does_not_depend_on_the_size_of_the_group() -> None:
    rates = {}
    for count in (10, 50):
        world = SwimWorld(count)
        world.run_for(seconds(10))
        before, began_ns = world.frame_count, world.now_ns
        world.run_for(seconds(300 if FULL else 40))
        rates[count] = (world.frame_count - before) / count / ((world.now_ns - began_ns) / NS_PER_S)
    assert rates[50] == pytest.approx(rates[10], rel=0.25), rates


def test_accept_3_8_ten_percent_loss_fails_no_member() -> None:
    world = SwimWorld(20, loss=0.1)
    world.run_for(seconds(600 if FULL else 90))
    assert world.failures() == []
    assert check(world.history) == []


def test_accept_3_13_a_member_that_starts_again_elsewhere_is_taken_in_within_a_detection_period() -> None:
    for seed in range(20 if FULL else 3):
        world = SwimWorld(8, seed=seed)
        world.run_for(seconds(5))
        world.crash("m5")
        world.move("m5", "10.8.0.1")
        began_ns = world.now_ns
        world.begin("m5")
        world.run_for(seconds(13))
        times = world.join_times("m5", began_ns)
        assert sorted(times) == [name for name in world.members if name != "m5"]
        assert max(times.values()) <= 12, (seed, times)
        assert statistics.median(times.values()) <= 1.5, (seed, times)
        seen = world.seen("m0", "m5")
        assert seen is not None
        assert (seen.state, seen.address, seen.place) == ("alive", world.address("m5"), ("10.8.0.1", 7946))
        assert world.settled()
