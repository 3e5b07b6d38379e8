"""How long the take-over of a relay lasts, as its counters show it."""
from __future__ import annotations

import pytest

from jgroups_py.model.units import millis, seconds
from tests.unit.relay.sites import Sites, numbered


@pytest.fixture
def world() -> Sites:
    return Sites(NYC="ABC", SFO="DEF", LON="GHI").build(standby=True)


def durations(world: Sites, name: str) -> tuple[float, int]:
    """(take-overs of this member that are over, their sum in us)."""
    figures = world[name].relay.stats()
    number = sum(figure for key, figure in figures.items() if key.startswith("failover_within_"))
    return number, int(figures.get("failover_us", 0))


def test_the_first_relay_of_a_site_takes_nothing_over(world: Sites) -> None:
    world["C"].multicast(*numbered(0, 10))
    world.run(seconds(1))
    assert "failovers" not in world["A"].relay.stats()
    assert durations(world, "A") == (0, 0)


def test_it_lasts_until_every_site_has_acknowledged_a_message(world: Sites) -> None:
    world.sites["NYC"].crash("A")
    world["C"].multicast("c0")
    world.run(millis(5), step_ns=millis(1))
    assert durations(world, "B")[0] == 0, "no site has acknowledged yet"
    world.run(seconds(1))
    number, us = durations(world, "B")
    assert (world["B"].relay.stats()["failovers"], number) == (1, 1)
    assert 5_000 <= us < 1_000_000
    world["C"].multicast("c1")
    world.run(seconds(1))
    assert durations(world, "B") == (1, us), "what comes later is no part of it"
    assert durations(world, "C") == (0, 0), "only the new relay took over"


def test_where_nothing_is_held_it_is_over_with_the_answer_of_the_other_relays(world: Sites) -> None:
    world.run(seconds(1))
    world.sites["NYC"].crash("A")
    world.run(seconds(1))
    assert world["B"].relay.hold.messages == 0
    number, us = durations(world, "B")
    assert number == 1
    assert us < 500_000


def test_a_site_that_is_up_no_longer_is_not_waited_for_and_not_in_the_duration(world: Sites) -> None:
    world["C"].multicast("c0")
    for name in "GHI":
        world.sites["LON"].crash(name)
    world.sites["NYC"].crash("A")
    world.run(seconds(2))
    assert durations(world, "B")[0] == 0, "LON is UP in the table, and has not answered"
    world.run(world["B"].relay.config.site_down_after_ns + seconds(1))
    number, us = durations(world, "B")
    assert number == 1
    assert us < 2_000_000, "the time until LON was DOWN is no part of it"
