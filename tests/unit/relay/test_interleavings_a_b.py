"""The interleavings that broke an earlier draft of the rules, by their letters, A and B; see design/protocols/relay.md.

Each test arranges one interleaving exactly, over an ideal group and bridge. The same rules run under random faults
over the whole stack in tests/simulator.
"""
from __future__ import annotations

import pytest

from jgroups_py.model.batch import Batch
from jgroups_py.model.outputs import MessagesLost
from jgroups_py.model.units import millis, seconds
from jgroups_py.model.view import ViewId
from jgroups_py.protocols.relay.headers import Disseminate, RefusedHeader, SeenHeader, ViewHeader
from tests.unit.relay.sites import Member, Sites, cut_off, numbered, reported


@pytest.fixture
def world() -> Sites:
    return Sites(NYC="ABC", SFO="DEFG").build()


# --- A: epochs and fencing ------------------------------------------------------------------------------------------

def test_a1_a_site_that_starts_cold_is_not_refused_for_ever(world: Sites) -> None:
    nyc = world.sites["NYC"]
    for _ in range(56):
        nyc.install(["A", "B", "C"])
    world.run()
    nyc.restart()
    world.run(seconds(2))
    world["C"].multicast(*numbered(0, 5))
    world.run(seconds(2))
    assert world["F"].texts("c") == numbered(0, 5)
    assert world["F"].relay.site_news.global_view is not None
    assert world["C"].me in world["F"].relay.site_news.global_view, "the global view shows crashed members"


def test_a2_the_surviving_half_does_not_stay_fenced_after_the_accepted_half_crashed(world: Sites) -> None:
    nyc = world.sites["NYC"]
    nyc.install(["B", "C"])
    nyc.install(["A"])                                     # A's half has the higher epoch
    world.run()
    nyc.crash("A")
    world["C"].multicast(*numbered(0, 5))
    world.run(seconds(2))
    assert world["F"].texts("c") == numbered(0, 5)


def test_a3_equal_counters_in_both_halves_do_not_make_two_accepted_relays(world: Sites) -> None:
    nyc = world.sites["NYC"]
    nyc.install(["A"], counter=7)
    nyc.counter = 6
    nyc.install(["B", "C"], counter=7)
    world.run()
    introducer = world["D"].relay.introducer
    claims = {name: ViewHeader("NYC", nyc.view_of[name].id, ()) for name in "AB"}
    peers = [introducer.accepted_sender("NYC", claim.epoch, claim, Batch(world[name].bridge, None, ()))
             for name, claim in claims.items()]
    assert sum(peer is not None for peer in peers) == 1


def test_a4_a_new_singleton_does_not_fence_the_relay_of_the_running_site(world: Sites) -> None:
    sfo = world.sites["SFO"]
    for _ in range(5):
        sfo.install(["D", "E", "F", "G"])
    newcomer = sfo.members["H"] = Member(sfo, "H")
    high = sfo.counter
    sfo.counter = 0
    sfo.install(["H"])                                     # did not find its group
    sfo.counter = high
    world.run(seconds(1))
    assert sfo.raises == 0, "the singleton raised its view although the real relay is on the bridge"
    world["E"].multicast("e0")
    world.run()
    assert world["C"].texts("e") == ["e0"]
    assert newcomer.running


def test_a5_both_halves_of_a_split_site_receive_and_acknowledge(world: Sites) -> None:
    sfo = world.sites["SFO"]
    sfo.install(["D", "E"])
    sfo.install(["F", "G"])
    world.run()
    world["C"].multicast(*numbered(0, 5))
    world.run(seconds(1))
    for name in "DEFG":
        assert world[name].texts("c") == numbered(0, 5)


# --- B: seen vectors, acknowledgement, trim -------------------------------------------------------------------------

def test_b2_losses_of_a_member_that_was_cut_off_are_reported_and_nothing_stalls() -> None:
    world = Sites(NYC="AB", SFO="DEF").build(split_grace_ns="1s", forget_after_ns="1h")
    sfo = world.sites["SFO"]
    sfo.install(["D", "E"])
    sfo.install(["F"])
    cut_off(world, "F")
    world["B"].multicast("b0", "b1", "b2")
    world.run(seconds(3))                                  # the grace is over: everything is trimmed
    assert world["B"].relay.hold.messages == 0
    sfo.install(["D", "E", "F"])
    world.run(millis(100))
    losses = reported(world["F"], MessagesLost)
    assert [(loss.first, loss.stop) for loss in losses] == [(1, 4)], "the losses were not reported to F"
    world["B"].multicast("b3", "b4")
    world.run(seconds(2))
    assert world["D"].texts("b") == ["b0", "b1", "b2", "b3", "b4"]
    assert world["F"].texts("b") == ["b3", "b4"], "a member that was cut off stalls"
    assert not reported(world["D"], MessagesLost)


def test_b2_what_a_merged_site_lacks_again_is_kept_after_the_grace_where_it_can_be_sent_only_later() -> None:
    """SFO obeys the relay of the other half of NYC, so what this half sends is refused there until they merge."""
    world = Sites(NYC="ABX", SFO="DEF").build(split_grace_ns="2s", hold_age_ns="20s", forget_after_ns="1h")
    sfo = world.sites["SFO"]
    sfo.install(["D", "E"])
    sfo.install(["F"])
    cut_off(world, "F")
    world["B"].multicast("b0", "b1", "b2")
    world.run(millis(500))
    assert world["D"].texts("b") == ["b0", "b1", "b2"]
    nyc = world["D"].relay.table.get("NYC")
    nyc.accepts(ViewId(nyc.epoch.counter + 9, world["X"].me))        # of the other half
    world.lose = lambda src, batch: isinstance(batch.headers[-1], RefusedHeader)     # so A's half raises no view
    sfo.install(["D", "E", "F"])
    world.run(seconds(6))                                  # the grace is over, and nothing was taken from A
    assert world["F"].texts("b") == []
    assert world["A"].relay.table.get("SFO").lacking == {world["B"].me: 1}
    assert world["B"].relay.hold.messages == 3, "trimmed, though SFO's HELLO showed that F lacks it"


def test_b3_the_relay_of_a_half_that_leaves_the_bridge_just_before_the_merge_costs_nothing(world: Sites) -> None:
    sfo = world.sites["SFO"]
    sfo.install(["D", "E"])
    sfo.install(["F", "G"])
    world.run()
    world["C"].multicast(*numbered(0, 5))
    world.run(seconds(1))
    f = world["F"].bridge
    world.lose = lambda src, batch: batch.dest == f        # F's half falls behind
    world["C"].multicast(*numbered(5, 10))
    world.run(millis(100))
    cut_off(world, "F")
    world.run(seconds(2))
    world.lose = lambda src, batch: False
    sfo.install(["D", "E", "F", "G"])
    world.run(seconds(2))
    for name in "DEFG":
        assert world[name].texts("c") == numbered(0, 10)
        assert not reported(world[name], MessagesLost)


def test_b4_what_a_new_relay_reports_as_seen_is_no_more_than_may_be_acknowledged(world: Sites) -> None:
    world["E"].group.hand_over = lambda batch: None             # the backup of SFO confirms nothing
    world["C"].multicast(*numbered(0, 5))
    world.run(millis(300))
    world.sites["NYC"].crash("A")                          # B takes over and asks
    world.run(millis(300))
    assert world["B"].relay.hold.messages == 5, "SEEN was taken for an acknowledgement"


def test_b5_relay_and_backup_of_the_receiver_crash_after_acknowledging_and_nothing_stalls(world: Sites) -> None:
    world["C"].multicast(*numbered(0, 5))
    world.run(seconds(1))
    sfo = world.sites["SFO"]
    sfo.members["D"].running = False
    world.leave_bridge(sfo.members["D"], "crashed")
    sfo.crash("E")
    sfo.install(["F", "G"])
    world["C"].multicast(*numbered(5, 10))
    world.run(seconds(2))
    assert world["F"].texts("c") == world["G"].texts("c") == numbered(0, 10)


def test_b6_a_receiving_site_that_restarts_as_a_whole_goes_on_from_base(world: Sites) -> None:
    world["C"].multicast(*numbered(0, 10))
    world.run(seconds(1))
    world.sites["SFO"].restart()
    world.run(seconds(1))
    world["C"].multicast(*numbered(10, 20))
    world.run(seconds(2))
    got = world["F"].texts("c")
    assert got[-10:] == numbered(10, 20)
    assert got == numbered(20 - len(got), 20), "what the new site gets has a hole"


def test_b7_a_joiner_takes_its_vector_from_sync_not_from_what_arrives_first(world: Sites) -> None:
    for at in range(0, 10, 2):
        world["C"].multicast(*numbered(at, at + 2))
        if at == 4:
            world.sites["NYC"].flush()
            world.sites["SFO"].add("H")
    world.run(seconds(1))
    got = world["H"].texts("c")
    assert got == numbered(10 - len(got), 10)
    for name in "DEFG":
        assert world[name].texts("c") == numbered(0, 10)


def test_b8_a_dissemination_of_the_old_relay_in_the_new_view_is_ignored(world: Sites) -> None:
    old = world["D"]
    world.sites["SFO"].install(["E", "D", "F", "G"])
    stray = Batch(old.me, None, (b"c0",), (Disseminate("NYC", world["C"].me, 1, 1, 0),))
    world["F"].receive(stray)
    assert world["F"].texts("c") == []


def test_b9_a_late_replay_after_the_origin_left_is_not_delivered_again(world: Sites) -> None:
    acks = {"lost": True}
    world.lose = lambda src, batch: acks["lost"] and isinstance(batch.headers[-1], SeenHeader)
    world["C"].multicast(*numbered(0, 3))
    world.run(millis(200))
    world.sites["NYC"].crash("C")
    world.run(seconds(30))
    acks["lost"] = False
    world.sites["NYC"].crash("A")                          # B replays what was never acknowledged
    world.run(seconds(2))
    assert world["F"].texts("c") == numbered(0, 3)


def test_b10_requests_for_holes_are_bounded(world: Sites) -> None:
    lost = {"on": True}
    d = world["D"].bridge
    world.lose = lambda src, batch: lost["on"] and batch.dest == d and bool(batch.payloads)
    world["C"].multicast("c0")
    world.sites["NYC"].flush()
    world.settle()
    lost["on"] = False
    for number in range(1, 200):
        world["C"].multicast(f"c{number}")
    world.run(seconds(2))
    assert world["F"].texts("c") == numbered(0, 200)
    assert not world["D"].relay.disseminator.in_flight.get(world["C"].me), "the relay buffers what is ahead"
