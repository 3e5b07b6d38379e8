"""A key is changed in three phases under a flood; in each phase a member crashes and another one joins late."""
from __future__ import annotations

from collections.abc import Callable

import pytest

from jgroups_py.model.batch import Batch
from jgroups_py.model.units import millis, seconds
from jgroups_py.sealing.keyring import GroupKeyring
from jgroups_py.simulator.process import App
from jgroups_py.simulator.profiles.base import stack
from jgroups_py.simulator.secrets import virtual_key
from jgroups_py.simulator.world import World

EVERY_NS = millis(5)
MOST_PAUSE_NS = millis(50)
PHASE_NS = seconds(8)                    # a crash is noticed, a member joins, and all have read the keyring
PATH = "group.keys"


class Taker(App):
    """Notes A's numbers, and when they came."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.numbers: list[int] = []
        self.at_ns: list[int] = []

    def delivered(self, batch: Batch) -> None:
        super().delivered(batch)
        for payload in batch.payloads:
            self.numbers.append(int(payload.rpartition(b"/")[2].rstrip(b".")))
            self.at_ns.append(self.world.now_ns)

    @property
    def longest_pause_ns(self) -> int:
        return max(later - earlier for earlier, later in zip(self.at_ns, self.at_ns[1:], strict=False))


def flood(world: World) -> None:
    """A multicasts all the time."""
    world.post("A")
    world.after(EVERY_NS, flood, world)


def flooded(seed: int, names: str) -> tuple[World, dict[str, Taker]]:
    world = World(seed)
    world.seal()
    takers: dict[str, Taker] = {}
    for name in names:
        join(world, takers, name)
        world.run_for(seconds(1))
    flood(world)
    world.run_for(seconds(1))
    return world, takers


def join(world: World, takers: dict[str, Taker], name: str) -> None:
    takers[name] = Taker(world)
    world.start(name, stack("udp", ()), app=takers[name])


def phases(world: World) -> tuple[Callable[[GroupKeyring], GroupKeyring], ...]:
    old = world.keyring(PATH).active.name
    return (lambda ring: ring.with_key(virtual_key("next")), lambda ring: ring.activated(ring.keys[-1].name),
            lambda ring: ring.without(old))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 3))])
def test_no_message_is_lost_or_comes_twice_though_members_crash_and_join_in_each_phase(seed):
    world, takers = flooded(seed, "ABCDE")
    for change, crashes, joins in zip(phases(world), "CDE", "FGH", strict=True):
        world.change_keyring(PATH, change)
        world.run_for(millis(300))                           # some members have read it
        world.crash(crashes)
        world.run_for(millis(400))
        join(world, takers, joins)
        world.run_for(PHASE_NS)
    assert sorted(world.view_names("B")) == list("ABFGH")
    sent = takers["A"].numbers[-1] + 1
    assert sent > 1000
    for name in "ABFGH":
        numbers = takers[name].numbers
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), f"{name}: holes, or twice"
        assert sent - numbers[-1] <= 3, f"{name} lags"
        assert world.stats(name)["ENCRYPT"]["keys"] == 1
    assert takers["B"].numbers[0] == 0


@pytest.mark.parametrize("seed", range(4))
def test_a_change_of_keys_makes_no_pause(seed):
    world, takers = flooded(seed, "ABC")
    begins = {name: len(taker.at_ns) for name, taker in takers.items()}
    for change in phases(world):
        world.change_keyring(PATH, change)
        world.run_for(seconds(3))
    for name, taker in takers.items():
        taker.at_ns = taker.at_ns[begins[name]:]
        assert len(taker.at_ns) > 1000
        assert taker.longest_pause_ns < MOST_PAUSE_NS, f"{name}: {taker.longest_pause_ns / 1e6:.1f} ms"
        assert world.stats(name)["ENCRYPT"]["keyrings_read"] == 3
