"""Unicasts, credits, large messages and states between whole members in the simulated world."""
from __future__ import annotations

from collections.abc import Callable
from random import Random

import attrs
import pytest

from jgroups_py.config.load import load
from jgroups_py.model.units import millis, seconds
from jgroups_py.simulator import App, Weather, World
from jgroups_py.simulator.checkers import check

LOSSY = Weather(loss_ratio=0.05, reorder_ratio=0.05, duplicate_ratio=0.02)


def world_of(names: str, *, seed: int = 1, stack: str = "udp", apps: dict[str, App] | None = None) -> World:
    world = World(seed)
    for name in names:
        join(world, name, stack=stack, app=(apps or {}).get(name))
    until(world, lambda: world.agreed(names))
    return world


def join(world: World, name: str, *, stack: str = "udp", app: App | None = None) -> None:
    world.start(name, load(stack, {}), app=app)


def until(world: World, holds: Callable[[], bool], within_s: float = 30) -> None:
    stop_ns = world.now_ns + seconds(within_s)
    while not holds():
        assert world.now_ns < stop_ns, f"not within {within_s} s"
        world.run_for(millis(50))


def same(got: list[bytes], wanted: list[bytes]) -> bool:
    """Compared here, so that a failing assert does not print megabytes."""
    return got == wanted


def settled(world: World) -> None:
    """No checker finds a violation."""
    assert [str(found) for found in check(world.history)] == []


def test_the_first_unicast_may_be_lost() -> None:
    world = world_of("AB")
    world.cut("A", "B")
    world.post("A", "B", 3)
    world.run_for(millis(20))
    world.mend()
    world.post("A", "B", 2)
    world.run_for(seconds(1))
    assert len(world.delivered("B", unicast=True)) == 5
    settled(world)


def test_dropped_acknowledgements_end_in_silence() -> None:
    world = world_of("AB")
    world.cut("B", "A")
    world.post("A", "B", 10)
    world.run_for(seconds(1))
    assert world.stats("A")["UNICAST"]["unacknowledged"] > 0
    world.mend()
    world.run_for(seconds(2))
    assert world.stats("A")["UNICAST"]["unacknowledged"] == 0
    resent = world.stats("A")["UNICAST"]["highest_resent"]
    world.run_for(seconds(10))
    assert world.stats("A")["UNICAST"]["highest_resent"] == resent
    settled(world)


def test_a_member_that_restarts_is_another_peer() -> None:
    world = world_of("ABC")
    for sender in "AC":
        world.post(sender, "B", 20)
    world.run_for(millis(1))
    world.crash("B")
    until(world, lambda: world.agreed("AC"))
    join(world, "B")
    until(world, lambda: world.agreed("ABC"))
    for sender in "AC":
        world.post(sender, "B", 20)
        world.post("B", sender, 20)
    world.run_for(seconds(2))
    assert len(world.delivered("B", unicast=True)) == 40
    settled(world)


def test_a_paused_member_that_was_excluded_talks_again() -> None:
    world = world_of("ABC")
    world.post("A", "C", 20)
    world.post("C", "A", 20)
    world.pause("C")
    world.post("A", "C", 20)
    until(world, lambda: world.agreed("AB") or "C" not in world.view_names("A"), 90)
    world.resume("C")
    until(world, lambda: world.agreed("ABC"), 60)
    world.post("A", "C", 20)
    world.post("C", "A", 20)
    world.run_for(seconds(3))
    assert len(world.delivered("C", unicast=True)) == 60
    assert len(world.delivered("A", unicast=True)) == 40
    settled(world)


@pytest.mark.parametrize("dest", [None, "B"])
def test_a_slow_receiver_bounds_what_is_kept_anywhere(dest: str | None) -> None:
    slow = App(rate=2000)
    world = world_of("ABC", apps={"B": slow})
    most_waiting = 0
    for _ in range(20):
        world.post("A", dest, 1000, 1000)
    waiting = world.process("B")
    for _ in range(60):
        world.run_for(millis(200))
        most_waiting = max(most_waiting, waiting.waiting_bytes)
    # What was sent for credits granted before the application fell behind, and for those granted since.
    assert most_waiting < 2 * (4 << 20) + (1 << 20)
    assert len(world.delivered("B", unicast=dest is not None)) == 20_000
    assert world.node("A").pending_bytes() == 0
    settled(world)


@pytest.mark.parametrize("dest", [None, "C"])
def test_the_crash_of_a_slow_receiver_frees_the_sender(dest: str | None) -> None:
    world = world_of("ABC", apps={"C": App(rate=1)})
    world.post("A", dest, 10_000, 1000)
    world.run_for(seconds(1))
    assert world.node("A").pending_bytes() > 1 << 20
    world.crash("C")
    world.run_for(seconds(2))
    assert world.agreed("AB")
    assert world.node("A").pending_bytes() == 0
    if dest is None:
        assert len(world.delivered("B")) == 10_000
    settled(world)


@pytest.mark.parametrize("stack", ["udp", "tcp"])
@pytest.mark.parametrize("seed", range(4))
def test_five_megabytes_over_lossy_links_while_a_member_joins(seed: int, stack: str) -> None:
    world = World(seed)
    hosts = {"initial_hosts": ",".join(f"{world.ip(name)}[7800]" for name in "ABCJ")} if stack == "tcp" else {}
    for name in "ABC":
        world.start(name, load(stack, hosts))
    until(world, lambda: world.agreed("ABC"))
    world.set_weather(attrs.evolve(LOSSY, latency_ns=millis(20)))
    rng = Random(seed)
    large = [rng.randbytes(5_000_000) for _ in range(3)]
    world.start("J", load(stack, hosts))
    world.run_for(millis(rng.randrange(300)))
    world.send("A", None, [b"before", large[0], b"after"])
    world.send("B", None, [large[1]])
    world.send("B", "C", [large[2]])
    until(world, lambda: world.agreed("ABCJ") and all(len(world.delivered(name)) == 4 for name in "ABC"), 60)
    world.heal()
    world.run_for(seconds(3))
    for name in "ABC":
        of_a = [payload for payload in world.delivered(name) if payload != large[1]]
        assert same(of_a, [b"before", large[0], b"after"])
    assert same(world.delivered("C", unicast=True), [large[2]])
    settled(world)


@pytest.mark.slow
def test_a_hundred_megabytes_over_lossy_links_begin_again_when_a_member_joins() -> None:
    world = world_of("AB")
    world.set_weather(Weather(loss_ratio=0.01, latency_ns=millis(20)))
    large = Random(1).randbytes(1 << 20) * 100
    join(world, "J")
    world.send("A", None, [large, b"after"])
    until(world, lambda: world.agreed("ABJ") and len(world.delivered("B")) == 2, 120)
    assert world.stats("A")["FRAG"]["restarted"] == 1
    assert same(world.delivered("B"), [large, b"after"])
    assert same(world.delivered("J"), [large, b"after"])
    settled(world)


class Pausing(App):
    """Calls the test when a state is requested."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def state(self) -> bytes:
        self.asked += 1
        return super().state()


@pytest.mark.parametrize("seed", range(12))
def test_a_state_fits_a_flood_though_its_provider_crashes(seed: int) -> None:
    rng = Random(seed)
    apps = {name: Pausing() for name in "ABCD"}
    world = world_of("ABCD", seed=seed, apps=apps)
    order = world.view_names("A")
    requester, provider = order[-1], order[0]
    for name in order:
        world.post(name, None, 2000, 1000)
    world.run_for(seconds(1))
    world.set_weather(Weather(loss_ratio=0.02, reorder_ratio=0.02))
    world.get_state(requester, provider)
    crash_at_ns = world.now_ns + millis(rng.choice([0, 1, 3, 8, 20, 60]))
    while world.now_ns < crash_at_ns + seconds(1):
        if world.now_ns >= crash_at_ns:
            world.crash(provider)
        for name in order:
            if world.process(name).running:
                world.post(name, None, rng.randrange(5), 200)
        world.run_for(millis(1 if world.now_ns < crash_at_ns + millis(100) else 50))
    world.heal()
    live = [name for name in order if name != provider]
    until(world, lambda: world.agreed(live) and bool(apps[requester].state_errors))
    world.run_for(seconds(2))
    assert apps[requester].state_errors == [""]
    logs = {name: world.delivered(name) for name in live}
    reference = logs[live[0]]
    for name in live:
        assert sorted(logs[name]) == sorted(reference)
        for sender in order:
            start = f"{sender}#".encode()
            assert [p for p in logs[name] if p.startswith(start)] == [p for p in reference if p.startswith(start)]
    settled(world)
