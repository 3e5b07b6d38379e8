"""The interleavings that broke an earlier draft of the rules, by their letters, C to F; see design/protocols/relay.md.

Each test arranges one interleaving exactly, over an ideal group and bridge. The same rules run under random faults
over the whole stack in tests/sim.
"""
from __future__ import annotations

import pytest
from sites import Site, Sites, cut_off, numbered, statuses, told

from jgroups_py.address import ProxyUUID
from jgroups_py.batch import NO_RELIABILITY, OOB, Batch
from jgroups_py.outputs import MessagesLost, Unreachable
from jgroups_py.protocols.relay.headers import Disseminate, Letter, LetterSeen
from jgroups_py.units import millis, seconds


@pytest.fixture
def world() -> Sites:
    return Sites(NYC="ABC", SFO="DEFG").build()


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
