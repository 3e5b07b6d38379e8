"""The interleavings that broke an earlier draft of the rules, by their letters; see design/protocols/relay.md.

Each test arranges one interleaving exactly, over an ideal group and bridge. The same rules run under random faults
over the whole stack in tests/sim.
"""
from __future__ import annotations

import pytest
from sites import Member, Sites

from jgroups_py.address import ProxyUUID
from jgroups_py.batch import NO_RELIABILITY, OOB, Batch
from jgroups_py.outputs import MessagesLost, SiteStatusChanged, Unreachable
from jgroups_py.protocols.relay.headers import Disseminate, Letter, LetterSeen, Seen
from jgroups_py.units import millis, seconds


@pytest.fixture
def world() -> Sites:
    return Sites(NYC="ABC", SFO="DEFG").build()


def numbered(start: int, stop: int) -> list[str]:
    return [f"c{i}" for i in range(start, stop)]


def told(member: Member, kind: type) -> list[object]:
    return [output for output in member.told if isinstance(output, kind)]


def statuses(member: Member) -> list[str]:
    return [output.status for output in told(member, SiteStatusChanged)]     # type: ignore[attr-defined]


def cut_off(world: Sites, name: str) -> None:
    """The member's bridge is closed and stays so."""
    world[name].relay.bridge_wanted = False
    world.leave_bridge(world[name], "cut off")


# --- A: epochs and fencing ------------------------------------------------------------------------------------------

def test_a1_a_site_that_starts_cold_is_not_refused_for_ever(world: Sites) -> None:
    nyc = world.sites["NYC"]
    for _ in range(56):
        nyc.install(["A", "B", "C"])
    world.run()
    nyc.restart()
    world.run(seconds(2))
    world["C"].say(*numbered(0, 5))
    world.run(seconds(2))
    assert world["F"].texts("c") == numbered(0, 5)
    assert world["F"].relay.global_view is not None
    assert world["C"].me in world["F"].relay.global_view, "the global view shows the dead"


def test_a2_the_surviving_half_does_not_stay_fenced_after_the_winning_half_died(world: Sites) -> None:
    nyc = world.sites["NYC"]
    nyc.install(["B", "C"])
    nyc.install(["A"])                                     # A's half has the higher epoch
    world.run()
    nyc.crash("A")
    world["C"].say(*numbered(0, 5))
    world.run(seconds(2))
    assert world["F"].texts("c") == numbered(0, 5)


def test_a3_equal_counters_in_both_halves_do_not_make_two_accepted_relays(world: Sites) -> None:
    nyc = world.sites["NYC"]
    nyc.install(["A"], counter=7)
    nyc.counter = 6
    nyc.install(["B", "C"], counter=7)
    world.run()
    peers = [world["D"].relay.sending.obeyed("NYC", nyc.view_of[name].id, world[name].bridge) for name in "AB"]
    assert sum(peer is not None for peer in peers) == 1


def test_a4_a_fresh_singleton_does_not_fence_the_real_site(world: Sites) -> None:
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
    world["E"].say("e0")
    world.run()
    assert world["C"].texts("e") == ["e0"]
    assert newcomer.alive


def test_a5_both_halves_of_a_split_site_receive_and_acknowledge(world: Sites) -> None:
    sfo = world.sites["SFO"]
    sfo.install(["D", "E"])
    sfo.install(["F", "G"])
    world.run()
    world["C"].say(*numbered(0, 5))
    world.run(seconds(1))
    for name in "DEFG":
        assert world[name].texts("c") == numbered(0, 5)


# --- B: seen vectors, acknowledgement, trim -------------------------------------------------------------------------

def test_b2_what_was_trimmed_while_a_member_was_cut_off_is_told_and_nothing_stalls() -> None:
    world = Sites(NYC="AB", SFO="DEF").build(split_grace_ns="1s", forget_after_ns="1h")
    sfo = world.sites["SFO"]
    sfo.install(["D", "E"])
    sfo.install(["F"])
    cut_off(world, "F")
    world["B"].say("b0", "b1", "b2")
    world.run(seconds(3))                                  # the grace is over: everything is trimmed
    assert world["B"].relay.hold.messages == 0
    sfo.install(["D", "E", "F"])
    world.run(millis(100))
    losses = told(world["F"], MessagesLost)
    assert [(loss.first, loss.stop) for loss in losses] == [(1, 4)], "F is not told what it misses"
    world["B"].say("b3", "b4")
    world.run(seconds(2))
    assert world["D"].texts("b") == ["b0", "b1", "b2", "b3", "b4"]
    assert world["F"].texts("b") == ["b3", "b4"], "a member that was cut off stalls"
    assert not told(world["D"], MessagesLost)


def test_b3_the_relay_of_a_half_that_leaves_the_bridge_just_before_the_merge_costs_nothing(world: Sites) -> None:
    sfo = world.sites["SFO"]
    sfo.install(["D", "E"])
    sfo.install(["F", "G"])
    world.run()
    world["C"].say(*numbered(0, 5))
    world.run(seconds(1))
    f = world["F"].bridge
    world.lose = lambda src, batch: batch.dest == f        # F's half falls behind
    world["C"].say(*numbered(5, 10))
    world.run(millis(100))
    cut_off(world, "F")
    world.run(seconds(2))
    world.lose = lambda src, batch: False
    sfo.install(["D", "E", "F", "G"])
    world.run(seconds(2))
    for name in "DEFG":
        assert world[name].texts("c") == numbered(0, 10)
        assert not told(world[name], MessagesLost)


def test_b4_what_a_new_relay_reports_as_seen_is_no_more_than_may_be_acknowledged(world: Sites) -> None:
    world["E"].group.down = lambda batch: None             # the backup of SFO confirms nothing
    world["E"].stack._wire_up()
    world["C"].say(*numbered(0, 5))
    world.run(millis(300))
    world.sites["NYC"].crash("A")                          # B takes over and asks
    world.run(millis(300))
    assert world["B"].relay.hold.messages == 5, "SEEN was taken for an acknowledgement"


def test_b5_relay_and_backup_of_the_receiver_die_after_acknowledging_and_nothing_stalls(world: Sites) -> None:
    world["C"].say(*numbered(0, 5))
    world.run(seconds(1))
    sfo = world.sites["SFO"]
    sfo.members["D"].alive = False
    world.leave_bridge(sfo.members["D"], "crashed")
    sfo.crash("E")
    sfo.install(["F", "G"])
    world["C"].say(*numbered(5, 10))
    world.run(seconds(2))
    assert world["F"].texts("c") == world["G"].texts("c") == numbered(0, 10)


def test_b6_a_receiving_site_that_restarts_as_a_whole_goes_on_from_base(world: Sites) -> None:
    world["C"].say(*numbered(0, 10))
    world.run(seconds(1))
    world.sites["SFO"].restart()
    world.run(seconds(1))
    world["C"].say(*numbered(10, 20))
    world.run(seconds(2))
    got = world["F"].texts("c")
    assert got[-10:] == numbered(10, 20)
    assert got == numbered(20 - len(got), 20), "what the new site gets has a hole"


def test_b7_a_joiner_takes_its_vector_from_sync_not_from_what_arrives_first(world: Sites) -> None:
    for at in range(0, 10, 2):
        world["C"].say(*numbered(at, at + 2))
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
    world["F"].hear(stray)
    assert world["F"].texts("c") == []


def test_b9_a_late_replay_after_the_origin_left_is_not_delivered_again(world: Sites) -> None:
    acks = {"lost": True}
    world.lose = lambda src, batch: acks["lost"] and isinstance(batch.headers[-1], Seen)
    world["C"].say(*numbered(0, 3))
    world.run(millis(200))
    world.sites["NYC"].crash("C")
    world.run(seconds(30))
    acks["lost"] = False
    world.sites["NYC"].crash("A")                          # B replays what was never acknowledged
    world.run(seconds(2))
    assert world["F"].texts("c") == numbered(0, 3)


def test_b10_holes_are_asked_for_in_a_bounded_way(world: Sites) -> None:
    lost = {"on": True}
    d = world["D"].bridge
    world.lose = lambda src, batch: lost["on"] and batch.dest == d and bool(batch.payloads)
    world["C"].say("c0")
    world.sites["NYC"].flush()
    world.settle()
    lost["on"] = False
    for number in range(1, 200):
        world["C"].say(f"c{number}")
    world.run(seconds(2))
    assert world["F"].texts("c") == numbered(0, 200)
    assert not world["D"].relay.receiving.in_flight.get(world["C"].me), "the relay buffers what is ahead"


# --- C: holders and hand-over ---------------------------------------------------------------------------------------

def test_c1_runs_known_only_to_one_half_are_offered_and_sent_after_the_merge(world: Sites) -> None:
    nyc = world.sites["NYC"]
    nyc.install(["A", "C"])
    nyc.install(["B"])                                     # B's half wins, A is fenced
    world.run()
    world["C"].say(*numbered(0, 5))
    world.run()
    nyc.crash("C")
    nyc.install(["B", "A"])
    world.run(seconds(2))
    assert world["F"].texts("c") == numbered(0, 5)


def test_c3_a_member_that_is_second_no_more_keeps_its_hold(world: Sites) -> None:
    world.lose = lambda src, batch: True
    world["C"].say(*numbered(0, 5))
    world.run(millis(50))
    world.sites["NYC"].install(["A", "C", "B"])
    assert world["B"].relay.hold.messages == 5


def test_c4_a_run_whose_only_holder_is_cut_off_is_awaited_not_declared_lost(world: Sites) -> None:
    nyc = world.sites["NYC"]
    nyc.install(["A", "C"])
    nyc.install(["B"])
    world.run()
    world["C"].say(*numbered(0, 5))
    world.run(seconds(10))
    nyc.install(["B", "A", "C"])
    world.run(seconds(2))
    assert world["F"].texts("c") == numbered(0, 5)
    assert not told(world["F"], MessagesLost)


def test_c6_the_site_table_outlives_the_relay(world: Sites) -> None:
    cut_off(world, "D")
    world.run(seconds(11))
    assert statuses(world["B"]) == ["UP", "DOWN"]
    world["C"].say(*numbered(0, 5))
    world.run(millis(100))
    world.sites["NYC"].crash("A")
    world.run(seconds(5))
    assert world["B"].relay.hold.messages == 5, "the new relay forgot that SFO exists"
    world["D"].relay.open_bridge()
    world["D"].drain()
    world.run(seconds(2))
    assert world["F"].texts("c") == numbered(0, 5)


def test_c7_a_site_never_heard_of_starts_at_the_current_numbers() -> None:
    world = Sites(NYC="ABC").build()
    world["C"].say(*numbered(0, 5))
    world.run()
    from sites import Site
    world.sites["SFO"] = Site(world, "SFO", "DE", {})
    world.run(seconds(1))
    world["C"].say(*numbered(5, 8))
    world.run(seconds(1))
    assert world["E"].texts("c") == numbered(5, 8)


# --- D: failover and leave ------------------------------------------------------------------------------------------

def test_d1_a_failover_does_not_wait_for_a_dead_third_site() -> None:
    world = Sites(NYC="ABC", SFO="DE", LON="XY").build()
    for name in "XY":
        world.sites["LON"].members[name].alive = False
    world.leave_bridge(world["X"], "crashed")
    world.sites["NYC"].crash("A")
    world["C"].say(*numbered(0, 5))
    world.run(millis(500))
    assert world["E"].texts("c") == numbered(0, 5)


def test_d2_what_is_sent_after_goodbye_is_forwarded_by_the_successor(world: Sites) -> None:
    world.leave("A")
    world.run(millis(50))
    world["C"].say(*numbered(0, 5))
    world.run(millis(50))
    world.sites["NYC"].crash("A")
    world.run(seconds(2))
    assert world["F"].texts("c") == numbered(0, 5)


def test_d2_a_leaving_relay_does_not_wait_for_ever_for_a_site_that_is_away(world: Sites) -> None:
    world.lose = lambda src, batch: True
    world["C"].say(*numbered(0, 5))
    member = world.leave("A")
    world.run(seconds(4))
    assert member.ready_to_leave


# --- E: unicasts and addresses --------------------------------------------------------------------------------------

def test_e1_after_unreachable_later_unicasts_arrive_and_late_copies_are_dropped(world: Sites) -> None:
    kept: list[tuple[object, Batch]] = []
    hold = {"on": True}

    def lose(src: object, batch: Batch) -> bool:
        if hold["on"] and isinstance(batch.headers[-1], Letter):
            kept.append((src, batch))
            return True
        return False

    world.lose = lose
    world["C"].write(world["F"].me, "first")
    world.run(seconds(32))                                 # unicast_timeout
    assert [t.dest for t in told(world["C"], Unreachable)] == [world["F"].me]      # type: ignore[attr-defined]
    hold["on"] = False
    world["C"].write(world["F"].me, "second")
    world.run(seconds(1))
    world.on_bridge.append(kept[0])                        # type: ignore[arg-type]
    world.run(seconds(1))
    assert [payload for _, payload in world["F"].unicasts] == [b"second"]


def test_e2_lost_acknowledgements_of_unicasts_double_nothing(world: Sites) -> None:
    lost = {"on": True}
    world.lose = lambda src, batch: lost["on"] and isinstance(batch.headers[-1], LetterSeen)
    world["C"].write(world["F"].me, "once")
    world.run(seconds(3))
    lost["on"] = False
    world.run(seconds(2))
    assert [payload for _, payload in world["F"].unicasts] == [b"once"]
    assert world["C"].relay.post.out.waiting == 0


def test_e3_routing_goes_by_address_not_by_class(world: Sites) -> None:
    world["C"].write(world["F"].me, "plain address of a remote member")
    world["C"].write(ProxyUUID(world["B"].me, None, "SFO"), "proxy of a local member")
    world.run()
    assert [payload for _, payload in world["F"].unicasts] == [b"plain address of a remote member"]
    assert [payload for _, payload in world["B"].unicasts] == [b"proxy of a local member"]


def test_e4_the_source_on_the_wire_is_the_relay(world: Sites) -> None:
    seen = []
    original = world["D"].group.down
    world["D"].group.down = lambda batch: (seen.append(batch), original(batch))
    world["D"].stack._wire_up()
    world["C"].say("c0")
    world.run()
    sources = [batch.src for batch in seen if batch.headers and isinstance(batch.headers[-1], Disseminate)]
    assert sources == [world["D"].me]
    assert not isinstance(sources[0], ProxyUUID)


def test_e5_a_member_that_reconnects_is_a_new_origin_and_its_numbers_are_not_dropped(world: Sites) -> None:
    world["C"].say(*numbered(0, 5))
    world.run()
    world.sites["NYC"].crash("C")
    again = world.sites["NYC"].add("C")
    again.say(*numbered(5, 8))
    world.run(seconds(1))
    assert world["F"].texts("c") == numbered(0, 8)


def test_e6_unreliable_multicasts_are_not_numbered_and_oob_ones_keep_their_order_across_sites(world: Sites) -> None:
    c = world["C"]
    for flags, text in ((NO_RELIABILITY, b"x"), (OOB, b"c0"), (0, b"c1"), (OOB, b"c2")):
        c.stack.inject(Batch(c.me, None, (text,), (), flags), world.now_ns)
        c.drain()
    world.run()
    assert world["F"].texts("") == ["c0", "c1", "c2"]


# --- F: views -------------------------------------------------------------------------------------------------------

def test_f1_the_view_of_a_site_that_returns_in_the_same_epoch_is_accepted(world: Sites) -> None:
    cut_off(world, "D")
    world.run(seconds(11))
    assert list(world["C"].global_names) == ["NYC"]
    world["D"].relay.open_bridge()
    world["D"].drain()
    world.run(seconds(1))
    assert world["C"].global_names["SFO"] == ["D", "E", "F", "G"]
