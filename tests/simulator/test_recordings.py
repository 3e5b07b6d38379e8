"""All frames of ten minutes are recorded and replayed: to the same members, later incarnations and another group."""
from __future__ import annotations

import pytest

from jgroups_py.model.outputs import LOCAL, Frame
from jgroups_py.model.units import millis, seconds
from jgroups_py.simulator.attack.sealed import SealedAttacker
from jgroups_py.simulator.process import Process
from jgroups_py.simulator.profiles.base import stack
from jgroups_py.simulator.profiles.hostile import attacker_of
from jgroups_py.simulator.profiles.sealed import watch_wires
from jgroups_py.simulator.world import World

pytestmark = pytest.mark.slow
RECORDED_S, EVERY_S = 600, 5
AT_ONCE = 50                             # frames that are replayed between two rounds of a member
NAMES, LATER = "ABC", "DE"


class Recorder(SealedAttacker):
    """Keeps each frame."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.all: list[bytes] = []

    def intercept(self, process: Process, frame: Frame, data: bytes) -> None:
        super().intercept(process, frame, data)
        self.all.append(data)


def watched(seed: int) -> tuple[World, Recorder]:
    """A sealed world whose frames are recorded."""
    world = World(seed)
    watch_wires(world, Recorder)
    attacker = attacker_of(world)
    assert isinstance(attacker, Recorder)
    return world, attacker


@pytest.fixture(scope="module")
def ten_minutes() -> tuple[World, Recorder, list[bytes]]:
    """A group that talks for ten minutes, multicasts and unicasts, and all of its frames."""
    world, attacker = watched(1)
    for name in NAMES:
        world.start(name, stack("udp", ()))
        world.run_for(seconds(1))
    for _ in range(RECORDED_S // EVERY_S):
        for name, to in zip(NAMES, "BCA", strict=True):
            world.post(name)
            world.post(name, to)
        world.run_for(seconds(EVERY_S))
    frames = list(attacker.all)
    assert len(frames) > 3000
    assert got(world, NAMES)[0][0] != []
    return world, attacker, frames


def replay(world: World, attacker: Recorder, frames: list[bytes], names: str) -> None:
    """Send the frames to members, from another place, fifty at once."""
    world.run_for(millis(1))                                 # one that has just been started opens its sockets
    for at in range(0, len(frames), AT_ONCE):
        for name in names:
            for frame in frames[at:at + AT_ONCE]:
                attacker.feed(world.process(name), LOCAL, frame)
        world.run_for(millis(5))


def got(world: World, names: str) -> list[tuple[list[bytes], list[bytes]]]:
    """The multicasts and unicasts that each member has delivered."""
    return [(world.delivered(name), world.delivered(name, unicast=True)) for name in names]


def counted(world: World, names: str, counter: str) -> list[float]:
    return [world.stats(name)["ENCRYPT"].get(counter, 0) for name in names]


def test_a_recording_of_ten_minutes_has_no_effect_on_its_group_and_later_incarnations(ten_minutes):
    world, attacker, frames = ten_minutes
    before, view = [(list(all_), list(one)) for all_, one in got(world, NAMES)], world.view_of("A")
    assert [len(all_) for all_, _ in before] == [3 * RECORDED_S // EVERY_S] * 3
    assert [len(one) for _, one in before] == [RECORDED_S // EVERY_S] * 3
    replay(world, attacker, frames, NAMES)
    assert got(world, NAMES) == before
    assert [world.view_of(name) for name in NAMES] == [view] * 3
    assert all(number > len(frames) / 3 for number in counted(world, NAMES, "replayed_dropped"))

    world.crash("B")                                         # its later incarnation, while it joins and after that
    world.run_for(seconds(10))
    world.start("B", stack("udp", ()))
    for _ in range(2):
        replay(world, attacker, frames, "B")
        world.run_for(seconds(10))
    assert world.agreed(NAMES)
    assert got(world, "B") == [([], [])]
    assert got(world, "AC") == [before[0], before[2]]
    assert counted(world, "B", "unproven_dropped") > [0]

    for name in NAMES:                                       # nobody is left that knows a counter
        world.crash(name)
    for name in LATER:
        world.start(name, stack("udp", ()))
    replay(world, attacker, frames, LATER)
    world.run_for(seconds(10))
    no_effect(world, attacker)


def test_a_recording_of_ten_minutes_has_no_effect_on_another_cluster_with_the_same_keyring(ten_minutes):
    recorded, _, frames = ten_minutes
    world, attacker = watched(2)
    world.keyrings.update(recorded.keyrings)
    for name in LATER:
        world.start(name, stack("udp", ()), cluster="another")
    replay(world, attacker, frames, LATER)
    world.run_for(seconds(10))
    assert attacker.frames == len(LATER) * len(frames), "each reached both"
    assert counted(world, LATER, "foreign_cluster_dropped") == [len(frames)] * len(LATER)
    no_effect(world, attacker)


def no_effect(world: World, attacker: Recorder) -> None:
    """D and E have formed a group of their own, have delivered nothing, and go on."""
    assert world.agreed(LATER)
    assert got(world, LATER) == [([], [])] * 2
    world.post("D")
    world.run_for(seconds(1))
    assert [len(all_) for all_, _ in got(world, LATER)] == [1, 1]
    attacker.at_the_end()
    assert attacker.violations == {}
