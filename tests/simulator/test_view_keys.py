"""Keys of views when members leave: who has which, as the attacker of profile view-keys sees it."""
from __future__ import annotations

import pytest

from jgroups_py.model.batch import Batch
from jgroups_py.protocols.gms.acceptor import ViewAcceptor
from jgroups_py.protocols.gms.headers import InstallHeader
from jgroups_py.protocols.gms.proposer import ViewProposer
from jgroups_py.simulator.attack.view_keys import ViewKeysAttacker
from jgroups_py.simulator.profiles.base import stack
from jgroups_py.simulator.secrets import virtual_identity
from jgroups_py.simulator.world import World, seconds


@pytest.fixture
def group() -> tuple[World, ViewKeysAttacker]:
    world = World(1)
    world.seal()
    attacker = ViewKeysAttacker(world)
    world.encrypt_options = "view", "none"
    world.enroll(*(virtual_identity("1", name) for name in "ABC"))
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
        seen.append((self.me in header.view, bool(batch.headers)))
        follow(self, header, batch)

    monkeypatch.setattr(ViewAcceptor, "follow", watched)
    world.leave("C")
    world.run_for(seconds(2))
    assert world.view_names("B") == ["A", "B"]
    assert sorted(dict.fromkeys(seen)) == [(False, False), (True, True)]
