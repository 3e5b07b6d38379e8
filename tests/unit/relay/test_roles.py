"""What identities are good for in RELAY: whose orders are obeyed, and for which site a relay on the bridge speaks."""
from __future__ import annotations

import pytest

from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.batch import Batch
from jgroups_py.model.events import BridgeView
from jgroups_py.model.outputs import SiteCommandDone
from jgroups_py.model.ports import Identities
from jgroups_py.model.units import millis
from jgroups_py.model.view import View, ViewId
from jgroups_py.protocols.relay.headers import Order
from jgroups_py.protocols.relay.part import RELIABLE
from jgroups_py.protocols.relay.sites.table import OFFLINE, UP
from jgroups_py.sealing.identities import Identity
from tests.unit.relay import sites
from tests.unit.relay.sites import Member, Sites

ROLES = {"A": ("member", "relay"), "B": ("member", "relay"), "C": ("member", "relay", "operator")}


class IdentifiedGroup(sites.IdealGroup, Identities):
    """A group in which AUTH knows all members but D."""

    def objection(self, member: Address) -> str:
        return ""

    def contradiction(self, member: Address) -> str:
        return ""

    def disbelieve(self, member: Address, why: str) -> None:
        """Nobody is."""

    def identity_of(self, member: Address) -> Identity | None:
        return Identity(member.name, "NYC", ROLES[member.name]) if member.name in ROLES else None

    def challenge_member(self, member: Address, physical: PhysicalAddress) -> None:
        """Nobody is."""


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Sites:
    monkeypatch.setattr(sites, "IdealGroup", IdentifiedGroup)
    made = Sites(NYC="ABCD", SFO="X").build()
    made.run(millis(200))
    return made


def answers(member: Member) -> list[str]:
    return [each.error for each in member.reported if isinstance(each, SiteCommandDone)]


def status(world: Sites) -> str:
    return world["A"].relay.table.get("SFO").status


def logged(member: Member) -> list[str]:
    return [each.text for each in member.notes if each.text.startswith("order ")]


def test_an_operators_order_is_obeyed_and_logged_with_the_identity(world):
    world["C"].order("offline", "SFO")
    world.run(millis(200))
    assert status(world) == OFFLINE
    assert answers(world["C"]) == [""]
    assert logged(world["A"]) == ["order obeyed: offline SFO, of C@NYC"]


@pytest.mark.parametrize(("name", "who"), [("A", "A@NYC"), ("B", "B@NYC")])
def test_the_order_of_a_member_that_is_no_operator_is_refused_counted_and_answered(world, name, who):
    world[name].order("offline", "SFO")
    world.run(millis(200))
    assert status(world) == UP
    assert answers(world[name]) == [f"refused: {who} has not the role 'operator'"]
    assert world["A"].relay.stats()["orders_refused_dropped"] == 1
    assert logged(world["A"]) == [f"order refused: offline SFO: {who} has not the role 'operator'"]


def test_a_member_that_has_not_proven_itself_orders_nothing(world):
    world["D"].order("drain", "SFO")
    world.run(millis(200))
    assert status(world) == UP
    assert answers(world["D"]) == ["refused: D has not proven its identity"]


def test_an_order_by_frames_is_judged_by_its_source(world):
    world["A"].receive(Batch(world["B"].me, world["A"].me, (), (Order(7, "offline", "SFO", 0, 0),), RELIABLE))
    world.run(millis(200))
    assert status(world) == UP
    assert world["A"].relay.stats()["orders_refused_dropped"] == 1


@pytest.mark.parametrize(("certified", "dropped"), [("SFO", False), ("LON", True)])
def test_a_relay_speaks_for_the_site_of_its_identity_only(monkeypatch, certified, dropped):
    plain = Member.notify

    def notify(self: Member, event: object) -> None:
        if isinstance(event, BridgeView):
            found = {each: certified for each in event.view.members if each.name == "X"}
            event = BridgeView(event.view, event.me, found)
        plain(self, event)

    monkeypatch.setattr(Member, "notify", notify)
    world = Sites(NYC="A", SFO="X").build()
    world.run(millis(500))
    relay, other = world["A"], world["X"]
    assert bool(relay.relay.stats().get("uncertified_site_dropped")) is dropped
    assert relay.relay.site_guard.site_of(other.bridge) == (None if dropped else "SFO")
    assert list(relay.global_names) == (["NYC"] if dropped else ["NYC", "SFO"])


def test_sites_of_identities_are_forgotten_with_the_view(world):
    guard = world["A"].relay.site_guard
    view = View(ViewId(9, world["A"].me), (world["A"].me,))
    guard.bridge_view_changed(view, {world["A"].me: "NYC"})
    guard.bridge_view_changed(view, {})
    assert guard.certified == {}
