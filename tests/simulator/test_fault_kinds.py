"""Faults of single profiles: bursts of loss, narrow paths, wall clocks; and a standstill is found."""
from __future__ import annotations

from random import Random

from jgroups_py.model.outputs import BRIDGE, LOCAL
from jgroups_py.model.units import NS_PER_S, millis, seconds
from jgroups_py.simulator import Weather, World
from jgroups_py.simulator.clocks import EPOCH_NS
from jgroups_py.simulator.faults.actions import Begin, Burst, CrashOf
from jgroups_py.simulator.faults.clock_faults import ClockChange
from jgroups_py.simulator.faults.relay_faults import Flapping
from jgroups_py.simulator.history import Stalled
from jgroups_py.simulator.network import QUEUE_NS, Path
from jgroups_py.simulator.profiles import PROFILES
from jgroups_py.simulator.profiles.base import BURSTY_AMONG, BURSTY_SEEDS
from tests.simulator.handmade import Solo, stack_of
from tests.simulator.test_found_seeds import FOUND

PLAIN = Weather(latency_ns=millis(1), jitter_ns=0)


def path(weather: Weather = PLAIN) -> Path:
    return Path(Random(1), weather)


def test_a_burst_swallows_datagrams_and_holds_up_streams() -> None:
    datagrams, stream = path(), path()
    datagrams.burst_ns = stream.burst_ns = millis(20)
    assert datagrams.arrivals(millis(19), False) == ()
    assert stream.arrivals(millis(5), True) == (millis(21),)
    assert datagrams.arrivals(millis(20), False) == stream.arrivals(millis(20), True) == (millis(21),)


def test_frames_wait_for_each_other_on_a_narrow_path_until_its_queue_is_full() -> None:
    narrow = path(Weather(latency_ns=millis(1), jitter_ns=0, bytes_per_s=1000))
    arrivals = [narrow.arrivals(0, True, 1000) for _ in range(6)]
    assert arrivals == [(seconds(turn) + millis(1),) for turn in (1, 2, 3, 4)] + [(), ()]
    assert seconds(3) == QUEUE_NS                          # the fifth would wait for four
    assert narrow.arrivals(seconds(4), True, 1000) == (seconds(5) + millis(1),)


def test_a_burst_befalls_one_direction_between_two_members_only() -> None:
    world = World(1)
    for name in "AB":
        world.start(name, stack_of("UDP", Solo))
    world.run_for(millis(100))
    Burst(world.now_ns, "A", "B", millis(50)).do(world, world.start)
    world.send("A", None, [b"lost"])
    world.send("B", None, [b"arrives"])
    world.run_for(millis(50))
    world.send("A", None, [b"later"])
    world.run_for(millis(10))
    assert world.delivered("A") == [b"arrives"]
    assert world.delivered("B") == [b"later"]


def test_a_wall_clock_jumps_and_runs_at_its_own_rate_while_time_goes_on() -> None:
    world = World(1)
    world.run_for(seconds(10))
    ClockChange(world.now_ns, "A", seconds(-3600), 2.0).do(world, world.start)
    world.run_for(seconds(5))
    assert world.wall_ns("A") == EPOCH_NS + seconds(10 - 3600 + 10)
    assert world.wall_ns("B") == EPOCH_NS + seconds(15)
    assert world.now_ns == seconds(15)


def test_seeds_that_are_kept_have_no_bursts() -> None:
    for profile, seed, _ in FOUND:
        if profile in ("wan", "large", "late", "clocks", "site-states", "hostile", "storm-topics", "order",
                       "order-sites", "relay-crash", "standby"):
            continue                                      # these were kept with their bursts
        bursty = PROFILES[profile].bursts and seed % BURSTY_AMONG in BURSTY_SEEDS
        assert not bursty, f"{profile} {seed} is another plan now"
    kinds = [fault.kind for fault in PROFILES["relay"](BURSTY_SEEDS[0]).plan.faults]
    assert kinds.count(Burst.kind) >= 5


def test_a_site_may_start_minutes_after_another_and_members_cut_off_or_at_once_again() -> None:
    starts, again = [], 0
    for seed in range(60):
        plan = PROFILES["late"](seed).plan
        first = {action.name: action.at_ns for action in plan.traffic if isinstance(action, Begin)}
        starts.append(max(first.values()))
        crashes = {action.name: action.at_ns for action in plan.faults if isinstance(action, CrashOf)}
        again += any(isinstance(action, Begin) and 0 <= action.at_ns - crashes.get(action.name, -NS_PER_S) < millis(100)
                     for action in plan.faults)
    assert max(starts) > seconds(60)
    assert again > 5


def test_the_weather_of_wan_stays_when_all_heals() -> None:
    profile = PROFILES["wan"](1)
    world = World(1)
    world.network.set_fair(BRIDGE, profile.weather[BRIDGE])
    world.set_weather(Weather(loss_ratio=0.5), BRIDGE)
    world.heal()
    latency_ns = world.network.path("A", "B", BRIDGE).weather.latency_ns
    assert millis(40) <= latency_ns == profile.weather[BRIDGE].latency_ns <= millis(400)
    assert world.network.path("A", "B", LOCAL).weather.latency_ns < millis(1)


def sites_of_one(world: World) -> None:
    """A at NYC and B at SFO, which have met."""
    profile = PROFILES["relay"](2)
    for name in (profile.plan.sites["NYC"][0], profile.plan.sites["SFO"][0]):
        profile.start(world, name)
    world.run_for(seconds(5))


def test_a_relay_that_stops_sending_is_noticed_while_the_run_goes_on() -> None:
    world = World(1)
    sites_of_one(world)
    first = world.running()[0]
    relay = world.audits[world.address(first)].relay
    relay.forwarder.pump = relay.forwarder.probe = lambda: None          # type: ignore[method-assign]
    world.post(first)
    world.run_for(seconds(30))
    assert not [entry for entry in world.history.entries if isinstance(entry, Stalled)]
    world.run_for(seconds(15))
    (found,) = [entry for entry in world.history.entries if isinstance(entry, Stalled)]
    assert found.member == world.address(first)
    assert "not acknowledged nor lost" in found.text


def test_a_cut_bridge_is_no_standstill() -> None:
    world = World(1)
    sites_of_one(world)
    one, other = world.running()
    world.partition([[one], [other]], (BRIDGE,))
    world.post(one)
    world.run_for(seconds(90))
    assert not [entry for entry in world.history.entries if isinstance(entry, Stalled)]


def test_no_cut_of_a_flapping_bridge_follows_once_all_faults_have_healed() -> None:
    world = World(1)
    for name in "AB":
        world.start(name, stack_of("UDP"))
    assert Flapping(0, ("A",), ("B",), 5, seconds(1), seconds(1)).do(world, world.start)
    world.run_for(millis(2500))
    assert world.network.is_cut("A", "B", BRIDGE)
    world.heal()
    for _ in range(70):
        world.run_for(millis(100))
        assert not world.network.is_cut("A", "B", BRIDGE)
