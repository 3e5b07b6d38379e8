"""Keys of views when members leave: who has which, as the attacker of profile view-keys sees it."""
from __future__ import annotations

import pytest

from jgroups_py.model.batch import Batch
from jgroups_py.protocols.gms.acceptor import ViewAcceptor
from jgroups_py.protocols.gms.headers import InstallHeader, RenewKey, ViewKey
from jgroups_py.protocols.gms.proposer import ViewProposer
from jgroups_py.sealing.identities import MEMBER, OPERATOR
from jgroups_py.simulator import history as h
from jgroups_py.simulator.attack.view_keys import ViewKeysAttacker
from jgroups_py.simulator.profiles.base import stack
from jgroups_py.simulator.secrets import virtual_identity
from jgroups_py.simulator.world import World, millis, seconds
from jgroups_py.stack.protocol import CONTROL


@pytest.fixture
def group() -> tuple[World, ViewKeysAttacker]:
    world = World(1)
    world.seal()
    attacker = ViewKeysAttacker(world)
    world.encrypt_options = "view", "none"
    world.enroll(*(virtual_identity("1", name, "", (MEMBER, OPERATOR)) for name in "ABC"))
    for name in "ABC":
        world.start(name, stack("udp", ()))
        world.run_for(seconds(1))
    assert world.view_names("C") == ["A", "B", "C"]
    return world, attacker


def test_the_key_that_a_coordinator_knows_which_leaves_is_replaced(group):
    world, attacker = group
    world.leave("A")
    world.run_for(seconds(12))
    assert world.agreed("BC")
    assert attacker.key_violations() == []


def test_without_that_the_checker_of_k6_finds_it(group, monkeypatch):
    world, attacker = group
    monkeypatch.setattr(ViewProposer, "renew", lambda self: None)
    world.leave("A")
    world.run_for(seconds(12))
    assert [found.guarantee for found in attacker.key_violations()] == ["K6"]


def test_an_install_has_its_key_for_members_of_its_view_alone(group, monkeypatch):
    world, _ = group
    seen: list[tuple[bool, bool]] = []
    follow = ViewAcceptor.follow

    def watched(self: ViewAcceptor, header: InstallHeader, batch: Batch) -> None:
        seen.append((self.me in header.view, any(isinstance(found, ViewKey) for found in batch.headers)))
        follow(self, header, batch)

    monkeypatch.setattr(ViewAcceptor, "follow", watched)
    world.leave("C")
    world.run_for(seconds(2))
    assert world.view_names("B") == ["A", "B"]
    assert sorted(dict.fromkeys(seen)) == [(False, False), (True, True)]


def answers(world: World) -> list[str]:
    return [entry.text for entry in world.history.entries
            if isinstance(entry, h.Remark) and "of a new key:" in entry.text]


def keys_used(attacker: ViewKeysAttacker, world: World) -> int:
    """With how many keys members of the present view sealed."""
    now = world.view_of("B")
    assert now is not None
    return sum(any(members == now.members for members, _ in uses) for uses in attacker.used.values())


def test_an_order_gives_the_same_members_a_new_key(group):
    world, attacker = group
    before = world.view_of("C")
    world.renew_key("C")
    world.run_for(millis(50))
    after = world.view_of("C")
    assert (after.members, after.id > before.id) == (before.members, True)
    assert answers(world) == ["C#1 answers about order 1 of a new key: done"]
    world.post("A")
    world.run_for(seconds(1))
    assert keys_used(attacker, world) == 2
    assert attacker.key_violations() == []


def test_an_order_is_carried_out_although_its_coordinator_crashes(group):
    world, _ = group
    world.renew_key("C")
    world.crash("A")
    world.run_for(seconds(12))
    assert world.view_names("B") == world.view_names("C") == ["B", "C"]
    assert answers(world) == ["C#1 answers about order 1 of a new key: done"]


def test_a_group_without_keys_of_views_says_so_and_obeys_nobody():
    world = World(1)
    for name in "AB":
        world.start(name, stack("udp", ()))
    world.run_for(seconds(2))
    view = world.view_of("A")
    world.renew_key("B")
    world.inject("B", Batch(world.address("B"), world.address("A"), (), (RenewKey(1),), CONTROL))
    world.run_for(seconds(1))
    assert world.view_of("A") == view
    assert answers(world) == ["B#1 answers about order 1 of a new key: this group has no keys of views: ENCRYPT has "
                              "not mode='view'"]
    assert world.stats("A")["GMS"]["key_orders_refused"] == 1
