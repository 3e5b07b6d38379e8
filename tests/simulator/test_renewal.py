"""Certificates and tokens that are renewed in time: nobody is excluded when the former ones end."""
from __future__ import annotations

import pytest

from jgroups_py.sealing.identities import MEMBER, RELAY
from jgroups_py.simulator.authority import VirtualAuthority
from jgroups_py.simulator.clocks import EPOCH_NS
from jgroups_py.simulator.profiles.base import stack
from jgroups_py.simulator.secrets import virtual_identity
from jgroups_py.simulator.tokens import TokenService
from jgroups_py.simulator.world import World, seconds


def started(world: World) -> int:
    """The views that the members have installed once all are in one."""
    for name in "ABC":
        world.start(name, stack("udp", ()))
        world.run_for(seconds(1))
    assert world.agreed("ABC")
    return views(world)


def views(world: World) -> int:
    return sum(len(world.process(name).views) for name in "ABC")


def with_tokens(until_ns: int) -> World:
    world = World(1)
    world.seal()
    world.authority = "token"
    world.enroll(*(virtual_identity("1", name) for name in "ABC"))
    give(world, until_ns)
    return world


def give(world: World, until_ns: int) -> None:
    for name in "ABC":
        world.give_token(virtual_identity("1", name), EPOCH_NS + until_ns)


def with_certificates(until_ns: int) -> World:
    world = World(1)
    world.seal()
    world.authority = "x509"
    certify(world, until_ns)
    return world


def certify(world: World, until_ns: int) -> None:
    authority = VirtualAuthority("1", "CA", EPOCH_NS)
    world.certify(authority.certificate, *(
        authority.member(name, "", (MEMBER, RELAY), until_ns=EPOCH_NS + until_ns) for name in "ABC"))


@pytest.mark.parametrize(("make", "renew"), [(with_tokens, give), (with_certificates, certify)],
                         ids=["tokens", "certificates"])
def test_members_that_renew_in_time_stay(make, renew):
    world = make(seconds(60))
    before = started(world)
    world.run_for(seconds(40))
    renew(world, seconds(600))
    world.run_for(seconds(60))
    assert (views(world), world.agreed("ABC")) == (before, True)


@pytest.mark.parametrize("make", [with_tokens, with_certificates], ids=["tokens", "certificates"])
def test_members_that_do_not_renew_are_excluded(make):
    world = make(seconds(60))
    started(world)
    world.run_for(seconds(90))
    assert not world.agreed("ABC")


def test_a_token_that_goes_on_counting_is_checked_again_and_excludes_nobody():
    """What the application says counts for an hour; after that it was asked again."""
    world = with_tokens(seconds(100_000))
    before = started(world)
    checks = world.stats("A")["AUTH"]["tokens_checked"]
    world.run_for(seconds(3700))
    assert (views(world), world.agreed("ABC")) == (before, True)
    assert world.stats("A")["AUTH"]["tokens_checked"] > checks


def test_while_the_application_cannot_decide_what_it_said_before_counts():
    world = with_tokens(seconds(60))
    before = started(world)
    world.token_service = TokenService(world.rng, world.now_ns + seconds(45), failing_ratio=1.0)
    world.run_for(seconds(50))
    assert (views(world), world.agreed("ABC")) == (before, True)
