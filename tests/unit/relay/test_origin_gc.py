"""Rule 19: when what is known of an origin is forgotten."""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.model.units import NS_PER_S, seconds
from tests.unit.relay.sites import Sites, cut_off, lost

FORGET_S = 100                           # of the members here
STEP_NS = seconds(0.5)


def world() -> Sites:
    """NYC with A, B, C; SFO with D."""
    return Sites(NYC="ABC", SFO="D").build(hold_age_ns="50s", forget_after_ns=f"{FORGET_S}s")


def knows(world: Sites, origin: Address) -> bool:
    """Whether SFO knows how much it has of an origin."""
    return origin in world["D"].relay.delivery.seen.get("NYC", {})


def gone_origin(world: Sites) -> Address:
    """C multicasts, and crashes."""
    world["C"].multicast("c0", "c1")
    world.run()
    world.sites["NYC"].crash("C")
    world.run(seconds(1))
    return world["C"].me


def test_an_origin_that_left_its_site_is_forgotten_after_a_while_in_which_its_site_is_up() -> None:
    sites = world()
    origin = gone_origin(sites)
    sites.run((FORGET_S - 2) * NS_PER_S, STEP_NS)
    assert knows(sites, origin)
    sites.run((FORGET_S + 4) * NS_PER_S, STEP_NS)
    assert not knows(sites, origin)


def test_time_in_which_the_site_is_not_up_does_not_count() -> None:
    """It may hold messages of the origin all that time, and sends them again when it is back."""
    sites = world()
    origin = gone_origin(sites)
    for name in "AB":
        cut_off(sites, name)
    sites.run(5 * FORGET_S * NS_PER_S, STEP_NS)
    assert knows(sites, origin)
    sites["A"].relay.bridge_link.open()
    sites["A"].drain()
    sites.run(seconds(2))
    assert sites["D"].texts("c") == ["c0", "c1"]
    assert lost(sites["D"]) == []


def test_the_time_begins_anew_when_the_site_is_back() -> None:
    sites = world()
    origin = gone_origin(sites)
    sites.run((FORGET_S + 10) * NS_PER_S, STEP_NS)         # one stroke has found it gone
    assert knows(sites, origin)
    cut_off(sites, "A")
    sites.run(seconds(15), STEP_NS)
    sites["A"].relay.bridge_link.open()
    sites["A"].drain()
    sites.run((FORGET_S - 20) * NS_PER_S, STEP_NS)         # the next stroke falls into this
    assert knows(sites, origin)
    sites.run((FORGET_S + 4) * NS_PER_S, STEP_NS)
    assert not knows(sites, origin)
