"""Planned stops of sites, and time in which a site is down, on simulated members."""
from __future__ import annotations

import pytest

from jgroups_py.config.load import load
from jgroups_py.model.units import millis, seconds
from jgroups_py.simulator import history as h
from jgroups_py.simulator.checkers import check
from jgroups_py.simulator.world import World

SITES = {"A": "NYC", "B": "NYC", "D": "SFO", "E": "SFO"}


def start(world: World, name: str, **options: str) -> None:
    hosts = ",".join(f"{world.ip(other)}[7900]" for other in SITES)
    site = SITES[name]
    properties = {"site": site, "mcast_port": str(45601 + (site == "SFO")), **options}
    world.start(name, load("nyc", properties), f"group of {site}",
                bridge=load("bridge", {"bridge_hosts": hosts, "bridge_port_range": "0"}))


def two_sites(seed: int, **options: str) -> World:
    world = World(seed)
    for name in SITES:
        world.ip(name)
    for name in SITES:
        start(world, name, **options)
        world.run_for(millis(100))
    world.run_for(seconds(8))
    return world


def close(world: World, name: str) -> None:
    """Leave, and wait until the member is out."""
    world.leave(name)
    assert world.run_while(lambda: name in world.running(), seconds(10), millis(1))


def statuses(world: World, name: str) -> list[str]:
    member = world.address(name)
    return [entry.status for entry in world.history.entries
            if isinstance(entry, h.SiteStatusSeen) and entry.member == member]


def test_a_site_whose_last_member_left_does_not_come_back_by_a_hello_that_was_under_way() -> None:
    """The other site's view changes just before, so its relay sends HELLO to the one that leaves."""
    for seed in (2, 12, 42, 52):
        for pause_ms in (0, 1, 2, 20):
            world = two_sites(seed)
            last = world.view_of("D").coordinator.name
            for name in ("DE".replace(last, ""), "B", last):
                close(world, name)
                world.run_for(millis(pause_ms))
            world.run_for(seconds(3))
            assert statuses(world, "A") in (["UP"], ["UP", "DOWN"]), (seed, pause_ms)
            world.run_for(seconds(10))
            assert statuses(world, "A") == ["UP", "DOWN"], (seed, pause_ms)


@pytest.mark.parametrize("planned", [True, pytest.param(False, marks=pytest.mark.long)])
def test_what_a_site_holds_on_disk_survives_any_time_that_it_is_down(planned: bool) -> None:
    """hold_age is 30 s: it counts time in which the site ran."""
    options = {"hold_dir": "/hold", "hold_age": "30s", "forget_after": "60s"}
    world = two_sites(1, **options)
    world.partition((("A", "B"), ("D", "E")), (1,))
    world.post("A", count=20)
    world.run_for(seconds(2))
    for name in "AB":
        if planned:
            close(world, name)
        else:
            world.crash(name)
    world.run_for(seconds(600))
    world.heal()
    for name in "BA":
        start(world, name, **options)
    world.run_for(seconds(20))
    payloads = [f"A#1>*/{number}".encode() for number in range(20)]
    for name in "DE":
        assert [payload for payload in world.delivered(name) if payload in payloads] == payloads
    assert not [entry for entry in world.history.entries if isinstance(entry, h.Lost)]
    assert not check(world.history)


@pytest.mark.long
def test_what_reaches_hold_age_over_several_lives_is_reported_as_lost_at_both_sites() -> None:
    options = {"hold_dir": "/hold", "hold_age": "30s", "forget_after": "60s"}
    world = two_sites(1, **options)
    origin = world.address("A")
    world.partition((("A", "B"), ("D", "E")), (1,))
    world.post("A", count=20)
    for _ in range(4):
        world.run_for(seconds(10))
        for name in "AB":
            world.crash(name)
        world.run_for(seconds(100))
        for name in "AB":
            start(world, name, **options)
    world.heal()
    world.run_for(seconds(20))
    found = {(world.history.name(entry.member)[0], entry.first, entry.stop, entry.dest_site)
             for entry in world.history.entries if isinstance(entry, h.Lost) and entry.origin == origin}
    assert found == {("A", 1, 21, "SFO"), ("B", 1, 21, "SFO"), ("D", 1, 21, None), ("E", 1, 21, None)}
    stats = world.node("A").stats()["RELAY"]
    assert (stats["numbered_SFO"], stats["lost_SFO"], stats["held_SFO"]) == (20, 20, 0)
    assert not check(world.history)


@pytest.mark.long
def test_a_member_that_was_away_for_long_does_not_send_again_what_its_site_has_settled_meanwhile() -> None:
    """Its disk has messages whose acknowledgement it never received; both sites have forgotten their origin."""
    options = {"hold_dir": "/hold", "hold_age": "30s", "forget_after": "60s"}
    world = two_sites(1, **options)
    relay = world.view_of("A").coordinator.name
    world.post(relay, count=20)
    world.run_for(millis(5))                              # delivered at both sites, and not trimmed
    world.crash(relay)
    world.run_for(seconds(600))
    start(world, relay, **options)
    world.run_for(seconds(20))
    assert world.node(relay).stats()["RELAY"].get("journal_messages_expired") == 20
    assert not check(world.history)
