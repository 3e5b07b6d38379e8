"""The interleavings that broke an earlier draft of the rules, by their letters, C to F; see design/protocols/relay.md.

Each test arranges one interleaving exactly, over an ideal group and bridge. The same rules run under random faults
over the whole stack in tests/simulator.
"""
from __future__ import annotations

import attrs
import pytest

from jgroups_py.model.address import ProxyUUID
from jgroups_py.model.batch import NO_RELIABILITY, OOB, Batch
from jgroups_py.model.outputs import MessagesLost, StateAdvised, Unreachable
from jgroups_py.model.units import millis, seconds
from jgroups_py.protocols.relay.headers import Disseminate, Numbered, SiteUnicast, SiteUnicastSeen
from jgroups_py.protocols.relay.sites.table import Book
from tests.unit.relay.sites import Site, Sites, cut_off, lost, numbered, reported, statuses


@pytest.fixture
def world() -> Sites:
    return Sites(NYC="ABC", SFO="DEFG").build()


# --- C: holders and hand-over ---------------------------------------------------------------------------------------

def test_c1_batches_held_by_one_half_only_are_sent_after_the_merge(world: Sites) -> None:
    nyc = world.sites["NYC"]
    nyc.install(["A", "C"])
    nyc.install(["B"])                                     # B's half wins, A is fenced
    world.run()
    world["C"].multicast(*numbered(0, 5))
    world.run()
    nyc.crash("C")
    nyc.install(["B", "A"])
    world.run(seconds(2))
    assert world["F"].texts("c") == numbered(0, 5)


def test_c3_a_member_that_is_second_no_more_keeps_its_hold(world: Sites) -> None:
    world.lose = lambda src, batch: True
    world["C"].multicast(*numbered(0, 5))
    world.run(millis(50))
    world.sites["NYC"].install(["A", "C", "B"])
    assert world["B"].relay.hold.messages == 5


def test_c4_a_batch_whose_only_holder_is_cut_off_is_awaited_not_declared_lost(world: Sites) -> None:
    nyc = world.sites["NYC"]
    nyc.install(["A", "C"])
    nyc.install(["B"])
    world.run()
    world["C"].multicast(*numbered(0, 5))
    world.run(seconds(10))
    nyc.install(["B", "A", "C"])
    world.run(seconds(2))
    assert world["F"].texts("c") == numbered(0, 5)
    assert not reported(world["F"], MessagesLost)


def test_c4_what_no_member_holds_is_lost_when_its_origin_is_gone_for_good_and_stays_lost() -> None:
    world = Sites(NYC="ABC", SFO="DE").build(lost_after_ns="5s", split_grace_ns="1s")
    nyc = world.sites["NYC"]
    world["C"].multicast("c0")
    world.run(seconds(2))
    nyc.install(["A", "B"])
    nyc.install(["C"])
    cut_off(world, "C")
    world["C"].multicast("c1", "c2")
    world.run(millis(50))
    for name in "AB":                                      # c3 got to A and B, c1 and c2 did not
        world[name].relay.numbering.numbered(Numbered(4), Batch(world["C"].me, None, (b"c3",)))
    world.run(seconds(3), millis(50))
    assert world["E"].texts("c") == ["c0"]
    assert lost(world["B"]) == [(None, 2, 4)]             # told as its own lack, at once
    world.run(seconds(5), millis(50))
    assert lost(world["B"]) == [(None, 2, 4), ("SFO", 2, 4)]
    assert lost(world["E"]) == [(None, 2, 4)]
    nyc.install(["A", "B", "C"])
    world.run(seconds(2), millis(50))
    assert world["E"].texts("c") == ["c0", "c3"], "what was declared lost came after all"
    assert world["B"].relay.reports.ledger()["SFO"][world["C"].me] == Book(4, 2, 0, 2)


def test_c5_a_loss_is_for_one_site_and_what_it_had_seen_is_acknowledged_not_lost() -> None:
    world = Sites(NYC="ABC", SFO="DE", LON="XY").build()
    world["C"].multicast("c0", "c1")
    world.run(seconds(1))
    cut_off(world, "D")
    cut_off(world, "X")
    world["C"].multicast("c2", "c3", "c4")
    world.run(millis(100))
    world["A"].order("offline", "SFO")
    world.run(seconds(1))
    world["X"].relay.bridge_link.open()
    world["X"].drain()
    world.run(seconds(2))
    assert world["Y"].texts("c") == numbered(0, 5), "another site skips what it could have had"
    assert world["C"].relay.reports.ledger()["SFO"][world["C"].me] == Book(5, 2, 0, 3)
    assert world["C"].relay.reports.ledger()["LON"][world["C"].me] == Book(5, 5, 0, 0)


def test_c6_the_site_table_outlives_the_relay(world: Sites) -> None:
    cut_off(world, "D")
    world.run(seconds(11))
    assert statuses(world["B"]) == ["UP", "DOWN"]
    world["C"].multicast(*numbered(0, 5))
    world.run(millis(100))
    world.sites["NYC"].crash("A")
    world.run(seconds(5))
    assert world["B"].relay.hold.messages == 5, "the new relay has no row for SFO"
    world["D"].relay.bridge_link.open()
    world["D"].drain()
    world.run(seconds(2))
    assert world["F"].texts("c") == numbered(0, 5)


def test_c7_a_new_site_starts_at_the_current_numbers() -> None:
    world = Sites(NYC="ABC").build()
    world["C"].multicast(*numbered(0, 5))
    world.run()
    world.sites["SFO"] = Site(world, "SFO", "DE", {})
    world.run(seconds(1))
    world["C"].multicast(*numbered(5, 8))
    world.run(seconds(1))
    assert world["E"].texts("c") == numbered(5, 8)


# --- D: failover and leave ------------------------------------------------------------------------------------------

def test_d1_a_failover_does_not_wait_for_a_third_site_that_is_down() -> None:
    world = Sites(NYC="ABC", SFO="DE", LON="XY").build()
    for name in "XY":
        world.sites["LON"].members[name].running = False
    world.leave_bridge(world["X"], "crashed")
    world.sites["NYC"].crash("A")
    world["C"].multicast(*numbered(0, 5))
    world.run(millis(500))
    assert world["E"].texts("c") == numbered(0, 5)


def test_d2_what_is_sent_after_goodbye_is_forwarded_by_the_successor(world: Sites) -> None:
    world.leave("A")
    world.run(millis(50))
    world["C"].multicast(*numbered(0, 5))
    world.run(millis(50))
    world.sites["NYC"].crash("A")
    world.run(seconds(2))
    assert world["F"].texts("c") == numbered(0, 5)


def test_d2_a_leaving_relay_does_not_wait_for_ever_for_a_site_that_is_down(world: Sites) -> None:
    world.lose = lambda src, batch: True
    world["C"].multicast(*numbered(0, 5))
    member = world.leave("A")
    world.run(seconds(4))
    assert member.ready_to_leave


# --- E: unicasts and addresses --------------------------------------------------------------------------------------

def test_e1_after_unreachable_later_unicasts_arrive_and_late_copies_are_dropped(world: Sites) -> None:
    kept: list[tuple[object, Batch]] = []
    hold = {"on": True}

    def lose(src: object, batch: Batch) -> bool:
        if hold["on"] and isinstance(batch.headers[-1], SiteUnicast):
            kept.append((src, batch))
            return True
        return False

    world.lose = lose
    world["C"].unicast(world["F"].me, "first")
    world.run(seconds(32))                                 # unicast_timeout
    assert [t.dest for t in reported(world["C"], Unreachable)] == [world["F"].me]      # type: ignore[attr-defined]
    hold["on"] = False
    world["C"].unicast(world["F"].me, "second")
    world.run(seconds(1))
    world.on_bridge.append(kept[0])                        # type: ignore[arg-type]
    world.run(seconds(1))
    assert [payload for _, payload in world["F"].unicasts] == [b"second"]


def test_e2_lost_acknowledgements_duplicate_no_unicast(world: Sites) -> None:
    lost = {"on": True}
    world.lose = lambda src, batch: lost["on"] and isinstance(batch.headers[-1], SiteUnicastSeen)
    world["C"].unicast(world["F"].me, "once")
    world.run(seconds(3))
    lost["on"] = False
    world.run(seconds(2))
    assert [payload for _, payload in world["F"].unicasts] == [b"once"]
    assert world["C"].relay.unicast_router.unicasts_waiting == 0


def test_e3_routing_goes_by_address_not_by_class(world: Sites) -> None:
    world["C"].unicast(world["F"].me, "plain address of a remote member")
    world["C"].unicast(ProxyUUID(world["B"].me, None, "SFO"), "proxy of a local member")
    world.run()
    assert [payload for _, payload in world["F"].unicasts] == [b"plain address of a remote member"]
    assert [payload for _, payload in world["B"].unicasts] == [b"proxy of a local member"]


def test_e4_the_source_on_the_wire_is_the_relay(world: Sites) -> None:
    seen = []
    original = world["D"].group.hand_over
    world["D"].group.hand_over = lambda batch: (seen.append(batch), original(batch))
    world["C"].multicast("c0")
    world.run()
    sources = [batch.src for batch in seen if batch.headers and isinstance(batch.headers[-1], Disseminate)]
    assert sources == [world["D"].me]
    assert not isinstance(sources[0], ProxyUUID)


def test_e5_a_member_that_reconnects_is_a_new_origin_and_its_numbers_are_not_dropped(world: Sites) -> None:
    world["C"].multicast(*numbered(0, 5))
    world.run()
    world.sites["NYC"].crash("C")
    again = world.sites["NYC"].add("C")
    again.multicast(*numbered(5, 8))
    world.run(seconds(1))
    assert world["F"].texts("c") == numbered(0, 8)


def test_e6_unreliable_multicasts_are_not_numbered_and_oob_ones_keep_their_order_across_sites(world: Sites) -> None:
    c = world["C"]
    for flags, text in ((NO_RELIABILITY, b"x"), (OOB, b"c0"), (0, b"c1"), (OOB, b"c2")):
        c.stack.inject(Batch(c.me, None, (text,), (), flags), world.now_ns)
        c.drain()
    world.run()
    assert world["F"].texts("") == ["c0", "c1", "c2"]


@pytest.mark.parametrize("why", ["DOWN", "OFFLINE", "too many", "too late"])
def test_e2_a_unicast_that_is_given_up_is_reported_once(world: Sites, why: str) -> None:
    c, far = world["C"], world["F"].me
    world.lose = lambda src, batch: isinstance(batch.headers[-1], (SiteUnicast, SiteUnicastSeen))
    if why == "too many":
        c.relay.unicast_router.config = attrs.evolve(c.relay.config, max_unicasts=1)
    c.unicast(far, "held")
    assert not reported(c, Unreachable)
    match why:
        case "DOWN":
            cut_off(world, "D")
            world.run(seconds(11), millis(50))
        case "OFFLINE":
            world["A"].order("offline", "SFO")
            world.run(millis(500))
        case "too many":
            c.unicast(far, "one more")
        case "too late":
            world.run(seconds(31), millis(50))
    assert [notice.dest for notice in reported(c, Unreachable)] == [far]


# --- F: views, limits, ledger -----------------------------------------------------------------------------------------

def test_f1_the_view_of_a_site_that_returns_in_the_same_epoch_is_accepted(world: Sites) -> None:
    cut_off(world, "D")
    world.run(seconds(11))
    assert list(world["C"].global_names) == ["NYC"]
    world["D"].relay.bridge_link.open()
    world["D"].drain()
    world.run(seconds(1))
    assert world["C"].global_names["SFO"] == ["D", "E", "F", "G"]


def test_f2_a_link_slower_than_the_sender_costs_messages_or_where_asked_for_time() -> None:
    for on_full, ends_offline in (("offline", True), ("block", False)):
        world = Sites(NYC="AB", SFO="DE").build(hold_bytes="1M", on_full=on_full, split_grace_ns="1s", hold_age_ns="9m")
        world.lose = lambda src, batch: bool(batch.payloads)
        for number in range(60):
            world["B"].multicast(str(number).ljust(30_000))
            world.run(millis(50))
        assert ("OFFLINE" in statuses(world["B"])) is ends_offline
        assert (world["B"].stack.pending_bytes() > 0) is not ends_offline


def test_f3_a_half_without_a_bridge_has_limits_too_and_the_other_half_is_not_bound_by_them() -> None:
    world = Sites(NYC="ABC", SFO="DE").build(hold_bytes="1M", split_grace_ns="1s", hold_age_ns="9m")
    nyc = world.sites["NYC"]
    world.without_bridge = "C"
    nyc.install(["C"])
    nyc.install(["A", "B"])
    world.run(seconds(1))
    for number in range(60):
        world["C"].multicast(str(number).ljust(30_000))
        world["B"].multicast(f"b{number}")
        world.run(millis(50))
    assert statuses(world["C"])[-1] == "OFFLINE"
    assert world["C"].relay.hold.nbytes <= 1 << 20
    assert "OFFLINE" not in statuses(world["A"])
    nyc.install(["A", "B", "C"])
    world.run(seconds(2))
    assert world["E"].texts("b") == [f"b{number}" for number in range(60)]
    assert [statuses(world[name])[-1] for name in "ABC"] == ["UP"] * 3
    ledger = world["C"].relay.reports.ledger()["SFO"][world["C"].me]
    assert (ledger.numbered, ledger.held) == (60, 0)
    assert ledger.lost > 0


def test_f4_messages_of_crashed_members_count_when_the_other_site_shows_that_it_has_them(world: Sites) -> None:
    c = world["C"].me
    world["C"].multicast("c0")
    _, batch = world.sites["NYC"].sent.popleft()
    world["A"].receive(batch)                                 # nobody else in NYC got it
    world.run(millis(3), millis(1))
    world.sites["NYC"].sent.clear()
    for name in "AC":
        world[name].running = False
        world.leave_bridge(world[name], "crashed")
    world.sites["NYC"].install(["B"])
    world.run(seconds(2))
    assert world["F"].texts("c") == ["c0"]
    assert world["B"].texts("c") == []
    assert world["B"].relay.table.sites["SFO"].book(c, 1) == Book(1, 1, 0, 0)


def test_f6_a_site_back_from_offline_gets_later_messages_and_is_advised_to_request_a_state(world: Sites) -> None:
    world["A"].order("offline", "SFO")
    world["C"].multicast(*numbered(0, 5))
    world.run(seconds(1))
    world["A"].order("online", "SFO")
    world["C"].multicast("c5")
    world.run(seconds(1))
    assert world["F"].texts("c") == ["c5"]
    assert lost(world["F"]) == [(None, 1, 6)]
    assert [advised.site for advised in reported(world["D"], StateAdvised)] == ["NYC"]
