"""A state between sites leaves nothing behind at the relays that passed it on; what relays pass on is counted."""
from __future__ import annotations

import pytest

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.events import GetState, StateChunk
from jgroups_py.model.outputs import ProvideState
from jgroups_py.model.units import seconds
from jgroups_py.protocols.relay.headers.state import StateFailed, StateFetch, StatePaused
from jgroups_py.protocols.relay.state.forwarder import StateForwarder
from tests.unit.relay.sites import Sites, cut_off, numbered


@pytest.fixture
def world() -> Sites:
    return Sites(NYC="ABC", SFO="DEF").build()


def test_the_relay_of_the_providing_site_drops_its_route_when_the_provider_fails(world: Sites) -> None:
    provider = world["B"]

    def fail(output: object) -> None:
        assert isinstance(output, ProvideState)
        assert list(world["A"].relay.state_forwarder.routes) == [(world["E"].me, 1)]
        provider.stack.inject(StateChunk(output.request, b"half", last=True, error="get_state raised"), world.now_ns)
        provider.drain()
    provider.state_output = fail                  # type: ignore[method-assign]
    tries: list[StateFetch] = []

    def watch(src: Address, batch: Batch) -> bool:
        tries.extend(header for header in batch.headers if isinstance(header, StateFetch))
        return False
    world.lose = watch
    world["E"].stack.inject(GetState(provider.me, seconds(1)), world.now_ns)
    world["E"].drain()
    world.run(seconds(4))
    assert world["E"].state_ends == ["get_state raised"]
    assert len(tries) == 1, "an attempt was repeated that must fail as well"
    assert world["A"].relay.state_forwarder.routes == {}


def test_the_relay_of_the_providing_site_drops_its_route_when_the_state_is_complete(world: Sites) -> None:
    world["B"].multicast("something")
    world.run()
    for requester in ("E", "F"):
        world[requester].stack.inject(GetState(world["B"].me, seconds(5)), world.now_ns)
        world[requester].drain()
        world.run(seconds(2))
        assert world[requester].state_ends[-1] == ""
        assert world["A"].relay.state_forwarder.routes == {}


def fetching(world: Sites, timeout_ns: int = seconds(60)) -> StateForwarder:
    """SFO's relay while a state of B comes for E and does not end."""
    world["B"].multicast("something")
    world.run()
    world["B"].writes_all = False
    world["E"].stack.inject(GetState(world["B"].me, timeout_ns), world.now_ns)
    world["E"].drain()
    world.run(seconds(1))
    forwarder = world["D"].relay.state_forwarder
    assert forwarder.fetch is not None
    return forwarder


def test_an_attempt_ends_when_the_relay_of_its_site_leaves_and_not_when_another_does() -> None:
    world = Sites(NYC="ABC", SFO="DEF", LON="GH").build()
    forwarder = fetching(world)
    present = forwarder.fetch
    cut_off(world, "G")
    world.settle()
    assert forwarder.fetch is present
    cut_off(world, "A")
    world.settle()
    assert forwarder.fetch is not present, "the attempt goes on although A, its relay, left the bridge"


def test_an_attempt_that_a_new_view_ends_may_be_repeated(world: Sites) -> None:
    """F crashes while a state for E comes from NYC."""
    fetching(world)
    told: list[StateFailed] = []

    def watch(src: Address, batch: Batch) -> bool:
        told.extend(header for header in batch.headers if isinstance(header, StateFailed))
        return False
    world.lose = watch
    world.sites["SFO"].crash("F")
    world.settle()
    assert [(failed.reason, failed.final) for failed in told] == [("the view of the asking site changed", False)]


def test_only_the_requesting_member_ends_its_current_attempt(world: Sites) -> None:
    forwarder = fetching(world)
    present = forwarder.fetch
    assert present is not None
    requester, number = present.request.key
    assert requester == world["E"].me
    for src, about in ((world["E"], number - 1), (world["F"], number)):
        world["D"].receive(Batch(src.me, world["D"].me, (), (StateFailed(requester, about, "it is over", False),)))
        assert forwarder.fetch is present
    world["D"].receive(Batch(world["E"].me, world["D"].me, (), (StateFailed(requester, number, "it is over", False),)))
    assert forwarder.fetch is None


def test_a_late_header_of_an_earlier_attempt_has_no_effect_on_the_current_one(world: Sites) -> None:
    late = StatePaused(world["E"].me, 7, 1, "refused")
    world["D"].receive(Batch(world["F"].me, world["D"].me, (), (late,)))
    assert world["D"].relay.state_forwarder.fetch is None
    forwarder = fetching(world)
    present = forwarder.fetch
    world["D"].receive(Batch(world["F"].me, world["D"].me, (), (late,)))
    assert forwarder.fetch is present


def test_a_state_that_is_arriving_is_not_given_up_by_the_relay_however_long_it_takes(world: Sites) -> None:
    forwarder = fetching(world, timeout_ns=seconds(4))
    present = forwarder.fetch
    world.run(seconds(2))
    assert forwarder.fetch is present, "the relay gave up before half of the requester's timeout was over"


def test_a_provider_whose_relay_has_gone_drops_the_state_for_the_requester(world: Sites) -> None:
    fetching(world)
    provider = world["B"].relay.state_provider
    assert list(provider.streams) == [(world["E"].me, 1)]
    world.sites["NYC"].crash("A")
    assert provider.streams == {}, "the provider keeps a state whose requester starts a new attempt"


def test_a_relay_counts_what_it_disseminates(world: Sites) -> None:
    world["C"].multicast(*numbered(0, 10))
    world.run(seconds(1))
    assert world["D"].relay.stats()["disseminated"] == 10
    assert "disseminated" not in world["E"].relay.stats()
