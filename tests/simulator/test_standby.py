"""How long messages of a site do not arrive at another one when its relay ends: with a standby, no joining."""
from __future__ import annotations

import pytest

from jgroups_py.config.spec import StackSpec
from jgroups_py.model.outputs import BRIDGE
from jgroups_py.model.units import millis, seconds
from jgroups_py.protocols.gms import Gms
from jgroups_py.simulator import World
from jgroups_py.simulator.checkers import check
from jgroups_py.simulator.network import Weather
from jgroups_py.simulator.profiles.base import stack
from jgroups_py.simulator.profiles.sites import site_stack

ONE_WAY_MS = 100
SITES = {"NYC": "ABC", "SFO": "DEF"}
EVERY_MS = 10


def two_sites(*, standby: bool, one_way_ms: int = ONE_WAY_MS, proxies: bool = False) -> World:
    """Three members each, in each other's global view. proxies: the bridge does not see that a process has ended."""
    world = World(1, weather={BRIDGE: Weather(latency_ns=millis(one_way_ms), jitter_ns=0)})
    names = [name for members in SITES.values() for name in members]
    hosts = ",".join(f"{world.ip(name)}[7900]" for name in names)
    bridge = stack("bridge", (("bridge_hosts", hosts), ("bridge_port_range", "0")))
    if proxies:
        bridge = StackSpec(tuple(layer for layer in bridge.layers if layer.name != "FD_SOCK"), bridge.source)
    for number, (site, members) in enumerate(SITES.items()):
        for name in members:
            world.start(name, site_stack(site, 45601 + number, (("standby", standby),)), f"group of {site}",
                        bridge=bridge)
            world.run_for(seconds(1))
    def apart() -> bool:
        views = [world.process(name).global_view for name in names]
        return any(view is None or len(view.members) < len(names) for view in views)
    assert world.run_while(apart, seconds(20))
    world.run_for(seconds(5))
    return world


def longest_gap_ms(world: World, end: str, ending: str = "A") -> int:
    """Members of NYC end as `end` says, while C sends each EVERY_MS. The longest time without a message of C at F."""
    longest_ms, since_ms, seen = 0, 0, len(world.delivered("F"))
    for at_ms in range(0, 8000, EVERY_MS):
        if at_ms == 1000:
            for name in ending:
                world.pause(name) if end == "pause" else world.crash(name, power=end == "power")
        world.post("C")
        world.run_for(millis(EVERY_MS))
        now = len(world.delivered("F"))
        since_ms = 0 if now > seen else since_ms + EVERY_MS
        seen, longest_ms = now, max(longest_ms, since_ms)
    if end == "pause":
        for name in ending:
            world.resume(name)
    world.run_for(seconds(20))
    assert check(world.history) == []
    return longest_ms


@pytest.mark.slow
@pytest.mark.parametrize(("end", "detected_ms"), [("kill", 100), ("power", 1200), ("pause", 1200)])
def test_taking_over_costs_detection_and_one_round_trip(end: str, detected_ms: int) -> None:
    gap_ms = longest_gap_ms(two_sites(standby=True), end)
    assert gap_ms <= detected_ms + 2 * ONE_WAY_MS, "HELLO and its answer are all that a standby waits for"


@pytest.mark.slow
def test_without_a_standby_the_new_relay_first_joins_the_bridge() -> None:
    assert longest_gap_ms(two_sites(standby=False), "kill") > 4 * ONE_WAY_MS


@pytest.mark.slow
@pytest.mark.parametrize("proxies", [False, True])
@pytest.mark.parametrize(("standby", "ending"), [(True, "AB"), (False, "A")])
def test_a_relay_that_joins_the_bridge_takes_over_within_two_seconds(
    standby: bool, ending: str, proxies: bool,
) -> None:
    world = two_sites(standby=standby, one_way_ms=40, proxies=proxies)
    gap_ms = longest_gap_ms(world, "kill", ending)
    assert 400 < gap_ms <= (1700 if proxies else 800), "discovery, the exclusion of the old relay, and a join"


@pytest.mark.slow
@pytest.mark.parametrize("phase_ms", [0, 377, 1508])
def test_a_new_relay_that_hears_nobody_in_one_search_searches_on_and_joins_once_the_old_one_is_excluded(
    phase_ms: int,
) -> None:
    """A round trip is longer than a search (GMS.join_timeout of the bridge, 500 ms), as one on a busy host may be."""
    world = two_sites(standby=False, one_way_ms=260, proxies=True)
    world.run_for(millis(phase_ms))
    gap_ms = longest_gap_ms(world, "kill")
    bridge = world.process("B").node.bridge
    assert bridge is not None
    assert bridge.find(Gms).stats()["views_installed"] == 1, "it began a bridge of its own"
    assert gap_ms <= 4300, "the old relay is excluded after 1.8 s; then nine ways: answer, request, challenge, a ballot"


@pytest.mark.slow
def test_a_relay_that_stands_still_for_300_ms_is_no_alarm() -> None:
    world = two_sites(standby=True)
    views = {name: world.view_of(name) for name in "ABCDEF"}
    for number in range(120):                                 # in ten minutes, of relays and standbys by turns
        name = "ADBE"[number % 4]
        world.pause(name)
        world.run_for(millis(300))
        world.resume(name)
        world.run_for(millis(4700))
    assert {name: world.view_of(name) for name in "ABCDEF"} == views
    for name in "ABCDEF":
        stats = world.stats(name)
        found = {(layer, counter): value for layer, counters in stats.items() for counter, value in counters.items()
                 if counter in ("accrual_suspected", "false_alarms", "suspected", "confirmed") and value}
        assert found == {}, f"{name} suspected a member that was only slow"
