"""A state between sites leaves nothing behind at the relays that passed it on; what relays pass on is counted."""
from __future__ import annotations

import pytest
from sites import Sites, numbered

from jgroups_py.events import GetState, StateChunk
from jgroups_py.outputs import ProvideState
from jgroups_py.units import seconds


@pytest.fixture
def world() -> Sites:
    return Sites(NYC="ABC", SFO="DEF").build()


def test_the_relay_of_the_providing_site_forgets_who_asked_when_the_provider_gives_up(world: Sites) -> None:
    provider = world["B"]

    def fail(output: object) -> None:
        assert isinstance(output, ProvideState)
        assert list(world["A"].relay.states.carrier.routes) == [(world["E"].me, 1)]
        provider.stack.inject(StateChunk(output.request, b"half", last=True, error="get_state raised"), world.now_ns)
        provider.drain()
    provider.state_output = fail                  # type: ignore[method-assign]
    world["E"].stack.inject(GetState(provider.me, seconds(1)), world.now_ns)
    world["E"].drain()
    world.run(seconds(4))
    assert world["E"].state_ends == ["get_state raised"]
    assert world["A"].relay.states.carrier.routes == {}


def test_a_relay_counts_what_it_disseminates(world: Sites) -> None:
    world["C"].say(*numbered(0, 10))
    world.run(seconds(1))
    assert world["D"].relay.stats()["disseminated"] == 10
    assert "disseminated" not in world["E"].relay.stats()
