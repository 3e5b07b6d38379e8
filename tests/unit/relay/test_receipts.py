"""Receipts: an origin gets one when every member of a site has its message, and not before."""
from __future__ import annotations

import pytest

from jgroups_py.model.batch import Batch
from jgroups_py.model.events import SendUntil, StopWaiting
from jgroups_py.model.outputs import MessagesLost, SiteReceipt
from jgroups_py.model.units import millis, seconds
from jgroups_py.protocols.relay.headers import BaseHeader, Disseminate, Forward, SeenHeader
from jgroups_py.protocols.relay.headers.receipts import Await, AwaitSettled, Check, Checked, Granted, Settled
from jgroups_py.protocols.relay.sites.table import OFFLINE
from tests.unit.relay.sites import Member, Sites, cut_off, reported

FEW_MS = millis(20)                       # the ideal network takes no time; what waits are timers


@pytest.fixture
def world() -> Sites:
    return Sites(NYC="ABC", SFO="DEF").build()


def say_until(member: Member, ticket: int, text: str, *sites: str) -> None:
    member.stack.inject(SendUntil(ticket, sites, text.encode()), member.site.world.now_ns)
    member.drain()


def receipts(member: Member) -> list[tuple[int, str]]:
    """(ticket, the site for which it is lost) of each."""
    return [(receipt.ticket, receipt.lost_for) for receipt in reported(member, SiteReceipt)]


def drop(world: Sites, *kinds: type) -> None:
    world.lose = lambda src, batch: isinstance(batch.headers[-1], kinds)


def keep_from(world: Sites, name: str, *kinds: type) -> list[Batch]:
    """What of these kinds comes to a member is put deferred from now on; returns where."""
    member, deferred, receive = world[name], [], world[name].receive

    def choosy(batch: Batch) -> None:
        if batch.headers and isinstance(batch.headers[-1], kinds):
            deferred.append(batch)
        else:
            receive(batch)
    member.receive = choosy                  # type: ignore[method-assign]
    return deferred


def let_in(world: Sites, name: str, deferred: list[Batch]) -> None:
    """Give the member what was put deferred."""
    del world[name].receive                  # type: ignore[attr-defined]
    for batch in deferred:
        world[name].receive(batch)


@pytest.mark.parametrize("origin", "ABC")
def test_a_receipt_comes_within_milliseconds_to_any_member(world: Sites, origin: str) -> None:
    say_until(world[origin], 7, "c0", "SFO")
    world.run(FEW_MS)
    assert receipts(world[origin]) == [(7, "")]
    assert [world[name].texts("c") for name in "DEF"] == [["c0"]] * 3


def test_a_receipt_names_the_view_of_the_site_that_has_the_message(world: Sites) -> None:
    say_until(world["C"], 1, "c0", "SFO")
    world.run(FEW_MS)
    [receipt] = reported(world["C"], SiteReceipt)
    assert receipt.views == {"SFO": (world.sites["SFO"].view_of["D"].id,)}


def test_no_receipt_while_a_single_member_that_is_no_backup_lacks_the_message(world: Sites) -> None:
    world.run()
    deferred = keep_from(world, "F", Disseminate, Check)
    say_until(world["C"], 1, "c0", "SFO")
    world.run(seconds(2))
    assert world["A"].relay.hold.messages == 0, "SEEN came: relay and backup have it"
    assert receipts(world["C"]) == []
    let_in(world, "F", deferred)
    world.run(FEW_MS)
    assert receipts(world["C"]) == [(1, "")]


def test_a_member_answers_check_when_it_has_delivered_what_check_names(world: Sites) -> None:
    deferred = keep_from(world, "F", Disseminate)
    say_until(world["C"], 1, "c0", "SFO")
    world.run(FEW_MS)
    assert receipts(world["C"]) == []
    let_in(world, "F", deferred)
    world.run(FEW_MS)
    assert receipts(world["C"]) == [(1, "")]


def test_the_own_group_several_sites_and_all_sites() -> None:
    world = Sites(NYC="AB", SFO="CD", LON="EF").build()
    for ticket, sites in enumerate([("NYC",), ("SFO", "LON"), ("*",), ("*", "NYC")]):
        say_until(world["B"], ticket, f"b{ticket}", *sites)
    world.run(FEW_MS)
    assert sorted(receipts(world["B"])) == [(ticket, "") for ticket in range(4)]
    assert {receipt.ticket: sorted(receipt.views) for receipt in reported(world["B"], SiteReceipt)} == {
        0: ["NYC"], 1: ["LON", "SFO"], 2: ["LON", "NYC", "SFO"], 3: ["LON", "NYC", "SFO"]}


def test_all_sites_leaves_out_those_that_are_offline(world: Sites) -> None:
    for name in "ABC":
        world[name].relay.table.sites["SFO"].status = OFFLINE
    say_until(world["C"], 1, "c0", "*")
    world.run(FEW_MS)
    [receipt] = reported(world["C"], SiteReceipt)
    assert list(receipt.views) == ["NYC"]


def test_a_thousand_receipts_cost_few_delivery_checks(world: Sites) -> None:
    for ticket in range(1000):
        say_until(world["C"], ticket, f"c{ticket}", "SFO", "NYC")
    world.run(millis(200))
    assert receipts(world["C"]) == [(ticket, "") for ticket in range(1000)]
    delivery_checks = sum(world[name].relay.stats().get("delivery_checks", 0) for name in "CD")
    assert delivery_checks < 20


@pytest.mark.parametrize("kind", [Await, AwaitSettled, Settled, Granted, Forward, SeenHeader, Checked])
def test_whatever_is_lost_once_is_requested_again(world: Sites, kind: type) -> None:
    left = iter([True])
    if kind in (Await, Granted, Checked):
        name = {Await: "A", Granted: "C", Checked: "D"}[kind]
        deferred = keep_from(world, name, kind)
        say_until(world["C"], 1, "c0", "SFO")
        world.run(FEW_MS)
        deferred.clear()
        del world[name].receive              # type: ignore[attr-defined]
        if kind is Checked:               # the local group loses nothing; a view change may swallow an answer
            world.sites["SFO"].install(list("DEF"))
    else:
        world.lose = lambda src, batch: isinstance(batch.headers[-1], kind) and next(left, False)
        say_until(world["C"], 1, "c0", "SFO")
    world.run(seconds(3))
    assert receipts(world["C"]) == [(1, "")]


@pytest.mark.parametrize("crashes", [("A",), ("D",), ("A", "D"), ("A", "B"), ("D", "E"), ("E",), ("B",), ("F",)])
def test_receipts_survive_failovers_at_both_ends(world: Sites, crashes: tuple[str, ...]) -> None:
    drop(world, Settled)
    for number in range(10):
        say_until(world["C"], number, f"c{number}", "SFO", "NYC")
    world.run(FEW_MS)
    assert receipts(world["C"]) == []
    drop(world)
    for name in crashes:
        world.sites["NYC" if name in "ABC" else "SFO"].crash(name)
        world.run(millis(50))
    world.run(seconds(2))
    assert receipts(world["C"]) == [(number, "") for number in range(10)]
    for name in "DEF":
        if name not in crashes:
            assert world[name].texts("c") == [f"c{number}" for number in range(10)]


def test_a_member_without_an_answer_is_awaited_until_it_leaves_the_view(world: Sites) -> None:
    keep_from(world, "F", Check)
    keep_from(world, "B", Check)
    say_until(world["C"], 1, "c0", "SFO", "NYC")
    world.run(seconds(1))
    assert receipts(world["C"]) == []
    world.sites["SFO"].install(["D", "E"])
    world.sites["NYC"].install(["A", "C"])
    world.run(seconds(1))
    assert receipts(world["C"]) == [(1, "")]


def test_a_receipt_does_not_wait_for_joiners_to_get_earlier_messages(world: Sites) -> None:
    drop(world, Settled)
    say_until(world["C"], 1, "c0", "SFO", "NYC")
    world.run(FEW_MS)
    world.sites["SFO"].add("G")
    world.sites["NYC"].add("H")
    drop(world)
    world.run(seconds(1))
    assert receipts(world["C"]) == [(1, "")]


def test_a_site_that_goes_offline_ends_the_waiting_at_once(world: Sites) -> None:
    drop(world, Forward)
    say_until(world["C"], 1, "c0", "SFO")
    world.run(FEW_MS)
    for name in "ABC":
        world[name].relay.table.sites["SFO"].status = OFFLINE
        world[name].relay.site_news.publish()
        world[name].drain()
    assert receipts(world["C"]) == [(1, "SFO")]
    say_until(world["C"], 2, "c1", "SFO")
    assert receipts(world["C"]) == [(1, "SFO"), (2, "SFO")], "OFFLINE already"
    assert world["C"].relay.stats()["receipts_lost"] == 2
    world.run(FEW_MS)
    assert world["B"].texts("c") == ["c0", "c1"], "the own group has them all the same"


def test_a_message_that_was_reported_lost_to_one_member_has_no_receipt(world: Sites) -> None:
    """F, cut off, comes back when no member holds the message any more."""
    site = world.sites["SFO"]
    site.install(["D", "E"])
    site.install(["F"])
    cut_off(world, "F")
    drop(world, Settled)
    say_until(world["C"], 1, "c0", "SFO")
    world.run(seconds(25))                # beyond split_grace
    site.install(["D", "E", "F"])
    world.run(seconds(2))
    drop(world)
    world.run(seconds(2))
    [loss] = reported(world["F"], MessagesLost)
    assert (loss.first, loss.stop) == (1, 2)
    assert receipts(world["C"]) == [(1, "SFO")]


def test_halves_of_a_split_site_that_are_both_on_the_bridge_must_both_have_it(world: Sites) -> None:
    world.sites["SFO"].install(["D", "E"])
    world.sites["SFO"].install(["F"])
    world.run()
    deferred = keep_from(world, "F", Check)
    say_until(world["C"], 1, "c0", "SFO")
    world.run(millis(400))
    assert receipts(world["C"]) == []
    let_in(world, "F", deferred)
    world.run(FEW_MS)
    [receipt] = reported(world["C"], SiteReceipt)
    assert len(receipt.views["SFO"]) == 2


def test_no_receipt_is_reported_after_the_application_gave_it_up(world: Sites) -> None:
    drop(world, Settled)
    say_until(world["C"], 1, "c0", "SFO")
    say_until(world["C"], 2, "c1", "SFO")
    world["C"].stack.inject(StopWaiting(1), world.now_ns)
    drop(world)
    world.run(seconds(1))
    assert receipts(world["C"]) == [(2, "")]


def test_a_loss_that_the_sending_site_declares_reaches_the_receipt(world: Sites) -> None:
    world["C"].multicast("c0")
    world.run()
    lose_next(world, 1, "c1")
    assert [(loss.first, loss.stop) for loss in reported(world["F"], MessagesLost)] == [(2, 3)]
    assert receipts(world["C"]) == [(1, "SFO")]


def test_the_loss_of_the_very_first_message_of_an_origin_is_noticed_too(world: Sites) -> None:
    lose_next(world, 1, "c0")
    assert world["F"].texts("c") == ["cnext"]
    assert receipts(world["C"]) == [(1, "SFO")]


def lose_next(world: Sites, ticket: int, text: str) -> None:
    """C's next message, and another; the first one is lost for SFO."""
    drop(world, Forward, BaseHeader)
    say_until(world["C"], ticket, text, "SFO")
    world.run(FEW_MS)
    for name in "ABC":                    # every holder's copy is gone
        world[name].relay.hold.drop_below(world["C"].me, world["C"].relay.numbering.next_number)
    world["A"].relay.table.sites["SFO"].acknowledge({world["C"].me: world["C"].relay.numbering.next_number})
    drop(world)
    world["C"].multicast("cnext")
    world.run(seconds(2))
