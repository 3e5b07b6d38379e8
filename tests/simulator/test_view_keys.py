"""Keys of views when members leave: who has which, as the attacker of profile view-keys sees it."""
from __future__ import annotations

import pytest

from jgroups_py.model.batch import Batch
from jgroups_py.model.outputs import BRIDGE
from jgroups_py.model.view import View
from jgroups_py.protocols.encrypt.protocol import Encrypt
from jgroups_py.protocols.gms.acceptor import ViewAcceptor
from jgroups_py.protocols.gms.headers import InstallHeader, RenewKey, ViewKey
from jgroups_py.protocols.gms.proposer import ViewProposer
from jgroups_py.sealing.identities import MEMBER, OPERATOR, RELAY
from jgroups_py.simulator import history as h
from jgroups_py.simulator.attack.view_keys import ViewKeysAttacker
from jgroups_py.simulator.profiles.base import stack
from jgroups_py.simulator.profiles.sites import site_stack
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


def two_sites(roles: dict[str, tuple[str, ...]]) -> World:
    """Two sites of one member each, with keys of views on the bridge too."""
    world = World(1)
    world.seal()
    world.encrypt_options = "view", "none"
    members = {"A": "NYC", "B": "SFO"}
    world.enroll(*(virtual_identity("1", name, site, roles[name]) for name, site in members.items()))
    hosts = ",".join(f"{world.ip(name)}[7900]" for name in members)
    bridge = stack("bridge", (("bridge_hosts", hosts), ("bridge_port_range", "0")))
    for port, (name, site) in enumerate(members.items(), 45601):
        world.start(name, site_stack(site, port, ()), f"group of {site}", bridge=bridge)
    world.run_for(seconds(8))
    assert len(bridge_view(world, "A").members) == 2
    return world


def bridge_view(world: World, name: str) -> View:
    found = world.process(name).node.relay.bridge_link.view
    assert found is not None
    return found


def bridge_key(world: World, name: str) -> bytes:
    """The id of the key of the bridge's view at a member."""
    return world.process(name).node.bridge.find(Encrypt).view_key.id


def test_an_operator_at_a_relay_gives_the_bridge_a_new_key():
    roles = dict.fromkeys("AB", (MEMBER, RELAY, OPERATOR))
    world = two_sites(roles)
    before, keys, local = bridge_view(world, "A"), [bridge_key(world, name) for name in "AB"], world.view_of("A")
    assert keys[0] == keys[1]
    world.renew_key("B", bridge=True)
    world.run_for(seconds(1))
    after = bridge_view(world, "A")
    assert (after.members, after.id > before.id) == (before.members, True)
    assert [bridge_key(world, name) for name in "AB"] == [bridge_key(world, "A")] * 2 != keys
    assert answers(world) == ["B#1 answers about order 1 of a new key: done"]
    assert world.view_of("A") == local
    assert len(world.process("A").global_view.members) == 2


def test_a_relay_that_is_no_operator_gives_the_bridge_no_new_key():
    world = two_sites({"A": (MEMBER, RELAY, OPERATOR), "B": (MEMBER, RELAY)})
    before = bridge_view(world, "A")
    world.renew_key("B", bridge=True)
    world.run_for(seconds(1))
    (answer,) = answers(world)
    assert "refused: B@SFO" in answer
    assert "has not the role" in answer
    assert bridge_view(world, "A") == before


def test_a_member_that_is_no_relay_says_so(group):
    world, _ = group
    world.renew_key("C", bridge=True)
    world.run_for(millis(50))
    assert answers(world) == ["C#1 answers about order 1 of a new key: this member is no relay now: a new key of the "
                              "bridge's view is ordered at one"]


def test_an_order_is_answered_when_the_bridge_ends_meanwhile():
    world = two_sites(dict.fromkeys("AB", (MEMBER, RELAY, OPERATOR)))
    first = bridge_view(world, "A").members[0]
    coordinator, other = ("A", "B") if world.process("A").node.bridge.me == first else ("B", "A")
    world.pause(coordinator)
    world.renew_key(other, bridge=True)
    world.when_awake(world.process(other), lambda now_ns: world.process(other).node.bind_failed(
        BRIDGE, "its socket failed", now_ns))
    world.run_for(seconds(1))
    (answer,) = answers(world)
    assert "this member is no relay now" in answer
