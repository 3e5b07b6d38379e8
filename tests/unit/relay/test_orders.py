"""Orders of an operator about other sites: offline, online, drain."""
from __future__ import annotations

import pytest

from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.units import millis, seconds
from jgroups_py.protocols.relay.headers import Forward, Order, OrderAnswer, Trim
from jgroups_py.protocols.relay.sites.admin import SUPERSEDED
from tests.unit.relay.sites import Member, Sites, answers, cut_off, lost, numbered, statuses


@pytest.fixture
def world() -> Sites:
    return Sites(NYC="ABC", SFO="DEF").build()


def reconnect(world: Sites, name: str) -> None:
    cut_off(world, name)
    world.run(millis(200))
    world[name].relay.bridge_link.open()
    world[name].drain()
    world.run(seconds(1))


@pytest.mark.parametrize("name", ["A", "B", "C"])
def test_an_order_works_at_any_member(world: Sites, name: str) -> None:
    world[name].order("offline", "SFO")
    world.run(seconds(1))
    assert answers(world[name]) == [""]
    assert [statuses(world[member]) for member in "ABC"] == [["UP", "OFFLINE"]] * 3
    assert statuses(world["E"]) == ["UP"], "one site's opinion of another is its own"


def test_a_site_that_an_operator_took_offline_stays_so_until_online(world: Sites) -> None:
    world["B"].order("offline", "SFO")
    reconnect(world, "D")
    world.run(seconds(30), millis(200))
    assert statuses(world["C"]) == ["UP", "OFFLINE"]
    world["C"].multicast("c0")
    world.run(seconds(1))
    assert world["E"].texts("c") == []
    world["C"].order("online", "SFO")
    world.run(seconds(1))
    world["C"].multicast("c1")
    world.run(seconds(1))
    assert statuses(world["C"]) == ["UP", "OFFLINE", "UP"]
    assert world["E"].texts("c") == ["c1"]
    assert lost(world["C"]) == [("SFO", 1, 2)]


def test_an_order_of_an_operator_stays_in_force_at_a_new_relay(world: Sites) -> None:
    world["B"].order("offline", "SFO")
    world.run(seconds(1))
    world.sites["NYC"].crash("A")
    world.run(seconds(2))
    assert statuses(world["C"]) == ["UP", "OFFLINE"]


def test_a_new_relay_keeps_nothing_for_a_site_that_is_offline(world: Sites) -> None:
    world["B"].order("offline", "SFO")
    world.run(seconds(1))
    world.sites["NYC"].crash("A")
    world.run(seconds(2))
    world["C"].multicast(*numbered(0, 10))
    world.run(seconds(2))
    assert world["B"].relay.stats()["held_messages"] == 0


def test_a_half_that_did_not_get_an_order_follows_it_after_the_merge(world: Sites) -> None:
    nyc = world.sites["NYC"]
    nyc.install(["C"])
    nyc.install(["A", "B"])
    world.run(seconds(1))
    world["C"].order("offline", "SFO")
    world.run(seconds(1))
    assert statuses(world["B"]) == ["UP"]
    nyc.install(["A", "B", "C"])
    world.run(seconds(1))
    assert [statuses(world[member])[-1] for member in "ABC"] == ["OFFLINE"] * 3


def test_online_lets_a_site_return_whose_relay_comes_later(world: Sites) -> None:
    world["A"].order("offline", "SFO")
    cut_off(world, "D")
    world.run(seconds(1))
    world["A"].order("online", "SFO")
    world.run(seconds(1))
    assert statuses(world["C"]) == ["UP", "OFFLINE"]
    reconnect(world, "D")
    assert statuses(world["C"]) == ["UP", "OFFLINE", "UP"]


def test_an_answer_goes_the_way_of_the_table_and_behind_it(world: Sites) -> None:
    """So the member with the order shows the site OFFLINE when it reports that the order was carried out."""
    said: list[tuple[type, object]] = []
    group = world["A"].group
    send = group.hand_over

    def down(batch: Batch) -> None:
        said.append((type(batch.headers[-1]), batch.dest))
        send(batch)
    group.hand_over = down
    world["C"].order("offline", "SFO")
    world.run(seconds(1))
    assert [entry for entry in said if entry[0] in (Trim, OrderAnswer)][:2] == [(Trim, None), (OrderAnswer, None)]


def test_repeated_orders_change_nothing_more(world: Sites) -> None:
    for verb in ("offline", "offline", "online", "online"):
        world["C"].order(verb, "SFO")
        world.run(seconds(1))
    assert answers(world["C"]) == [""] * 4
    assert statuses(world["C"]) == ["UP", "OFFLINE", "UP"]


def test_orders_about_an_unknown_site_and_the_own_site_are_refused_with_the_known_sites(world: Sites) -> None:
    world["C"].order("offline", "LON")
    world["C"].order("offline", "NYC")
    world["C"].order("explode", "SFO")
    world.run(seconds(1))
    assert answers(world["C"]) == [
        "LON is no site that was ever heard of; known: SFO", "NYC is our own site; known: SFO",
        "'explode' is not an order; known: offline, online, drain, hold"]


def test_a_drain_sends_what_is_held_then_takes_the_site_offline_without_loss(world: Sites) -> None:
    world.lose = lambda src, batch: isinstance(batch.headers[-1], Forward)
    world["C"].multicast(*numbered(0, 10))
    world.run(millis(100))
    world["B"].order("drain", "SFO", timeout_ns=seconds(20))
    world.run(millis(500))
    assert answers(world["B"]) == []
    world.lose = lambda src, batch: False
    world.run(seconds(3))
    assert answers(world["B"]) == [""]
    assert statuses(world["C"]) == ["UP", "OFFLINE"]
    assert world["F"].texts("c") == numbered(0, 10)
    assert lost(world["C"]) == []


def test_a_drain_ends_although_members_go_on_sending(world: Sites) -> None:
    world["C"].multicast(*numbered(0, 10))
    world.settle()
    world["A"].order("drain", "SFO", timeout_ns=seconds(20))
    for number in range(10, 30):
        world["C"].multicast(f"c{number}")
        world.run(millis(20))
    world.run(seconds(1))
    assert answers(world["A"]) == [""]
    got = world["F"].texts("c")
    assert got == numbered(0, len(got))
    assert 10 <= len(got) < 30
    assert world["D"].texts("c") == got


def test_a_drain_that_takes_too_long_is_given_up_and_nothing_is_lost(world: Sites) -> None:
    cut_off(world, "D")
    world["C"].multicast(*numbered(0, 10))
    world["C"].order("drain", "SFO", timeout_ns=seconds(2))
    world.run(seconds(3))
    assert answers(world["C"]) == ["SFO has not acknowledged 10 messages in time; it stays as it was"]
    reconnect(world, "D")
    world["C"].multicast("c10")
    world.run(seconds(2))
    assert world["F"].texts("c") == numbered(0, 11)
    assert statuses(world["C"]) == ["UP"]


def test_a_site_that_is_offline_cannot_be_drained(world: Sites) -> None:
    world["A"].order("offline", "SFO")
    world["A"].order("drain", "SFO", timeout_ns=seconds(1))
    world.run(seconds(1))
    assert answers(world["A"]) == ["", "SFO is OFFLINE already; nothing is held for it"]


def test_online_stops_a_drain(world: Sites) -> None:
    cut_off(world, "D")
    world["C"].multicast("c0")
    world["B"].order("drain", "SFO", timeout_ns=seconds(20))
    world.run(seconds(1))
    world["A"].order("online", "SFO")
    world.run(seconds(1))
    assert answers(world["B"]) == ["an operator ordered it online meanwhile"]
    reconnect(world, "D")
    assert world["F"].texts("c") == ["c0"]


def keep_back(member: Member, kind: type[Header]) -> list[Batch]:
    """From now on `member` sends nothing in the group with such a header; what it would have sent is collected."""
    kept: list[Batch] = []
    send = member.group.hand_over
    member.group.hand_over = lambda batch: kept.append(batch) if isinstance(batch.headers[-1], kind) else send(batch)
    return kept


def test_a_drain_that_arrives_after_a_later_online_order_is_refused(world: Sites) -> None:
    """Were it carried out, the site would be OFFLINE although `online` was answered last."""
    late = keep_back(world["C"], Order)
    world["C"].order("drain", "SFO", timeout_ns=seconds(1))
    world["B"].order("online", "SFO")
    world.run(seconds(7))
    assert answers(world["B"]) == [""]
    del world["C"].group.hand_over
    for batch in late[:1]:
        world["C"].group.hand_over(batch)
    world.run(seconds(1))
    assert statuses(world["A"]) == ["UP"]
    assert world["A"].relay.table.sites["SFO"].open


def test_an_order_of_a_member_that_had_not_seen_a_conflicting_one_is_refused(world: Sites) -> None:
    for verb in ("offline", "online"):
        world["C"].order(verb, "SFO")
        world["B"].order(verb, "SFO")
        world.run(seconds(1))
    assert answers(world["B"]) == answers(world["C"]) == ["", ""]
    world["C"].order("offline", "SFO")
    world["B"].order("online", "SFO")
    world.run(seconds(1))
    assert sorted(answers(world["B"])[2:] + answers(world["C"])[2:]) == ["", SUPERSEDED]


def test_a_drain_in_one_half_ends_if_the_other_half_was_ordered_online(world: Sites) -> None:
    cut_off(world, "D")
    world["C"].multicast("c0")
    nyc = world.sites["NYC"]
    nyc.install(["C"])
    nyc.install(["A", "B"])
    world.run(seconds(1))
    world["A"].order("drain", "SFO", timeout_ns=seconds(60))
    world["C"].order("online", "SFO")
    world.run(seconds(1))
    assert answers(world["A"]) == []
    nyc.install(["A", "B", "C"])
    world.run(seconds(1))
    assert answers(world["A"]) == [SUPERSEDED]
    assert world["A"].relay.admin.drains == {}
    reconnect(world, "D")
    assert world["F"].texts("c") == ["c0"]
    assert statuses(world["A"])[-1] == "UP"


def test_drains_of_a_site_at_one_member_do_not_overtake_each_other(world: Sites) -> None:
    cut_off(world, "D")
    world["C"].multicast("c0")
    world["C"].order("drain", "SFO", timeout_ns=seconds(20))
    world["C"].order("drain", "SFO", timeout_ns=seconds(20))
    world.run(seconds(1))
    assert answers(world["C"]) == []
    reconnect(world, "D")
    world.run(seconds(1))
    assert answers(world["C"]) == ["", ""]


def test_an_order_outlives_the_coordinator_that_did_not_answer(world: Sites) -> None:
    cut_off(world, "D")
    world["C"].multicast("c0")
    world["C"].order("drain", "SFO", timeout_ns=seconds(20))
    world.run(seconds(1))
    world.sites["NYC"].crash("A")
    world.run(seconds(2))
    assert answers(world["C"]) == []
    reconnect(world, "D")
    world.run(seconds(2))
    assert answers(world["C"]) == [""]
    assert world["F"].texts("c") == ["c0"]
    assert statuses(world["B"])[-1] == "OFFLINE"


def test_an_order_that_no_coordinator_answers_is_reported_to_the_operator(world: Sites) -> None:
    keep_back(world["A"], OrderAnswer)
    world["C"].order("offline", "SFO")
    world.run(seconds(7))
    assert answers(world["C"]) == ["the coordinator did not answer in time"]
