"""Links of FD_SOCK are not sealed: whoever ends, refuses or answers them excludes nobody from a group with ENCRYPT."""
from __future__ import annotations

from random import Random

import pytest

from jgroups_py.protocols.fd_sock.protocol import FdSock
from jgroups_py.simulator.links import Tampering
from jgroups_py.simulator.profiles.base import stack
from jgroups_py.simulator.world import World, seconds

NAMES, ATTACKED_S = "ABC", 20


def attacked(ratio: float, sealed: bool = True) -> tuple[World, Tampering]:
    """A group that stands, and whose links are attacked for a while from now on; nothing else fails."""
    world = World(1)
    if sealed:
        world.seal()
    for name in NAMES:
        world.start(name, stack("udp", ()))
        world.run_for(seconds(1))
    world.run_for(seconds(2))
    assert world.agreed(NAMES)
    tampering = Tampering(Random(f"links {ratio}"), ratio, world.now_ns + seconds(ATTACKED_S))
    world.links.tamper(tampering)
    return world, tampering


@pytest.mark.parametrize("ratio", [0.3, 1.0])
def test_an_attack_on_links_excludes_nobody_that_answers_sealed_frames(ratio):
    world, tampering = attacked(ratio)
    before = world.view_of("A")
    for _ in range(ATTACKED_S + 2):
        world.run_for(seconds(1))
        world.links.tamper(tampering)                        # those that stand again
    assert all(tampering.done.values()), f"an attack was not tried: {tampering.done}"
    assert [world.view_of(name) for name in NAMES] == [before] * 3
    assert sum(world.stats(name)["FD_SOCK"]["unsure"] for name in NAMES) > 0


def test_a_crash_during_the_attack_is_still_noticed():
    world, _ = attacked(1.0)
    world.run_for(seconds(1))
    world.crash("B")
    world.run_for(seconds(ATTACKED_S))
    assert world.agreed("AC"), "the others go on without it"


@pytest.mark.parametrize("how", ["links prove", "no ENCRYPT"])
def test_where_links_are_believed_the_same_attack_excludes_members(monkeypatch, how):
    """The two tests above would not notice an attack that has no effect anywhere."""
    start = FdSock.start

    def believing(self: FdSock) -> None:
        start(self)
        self.links_prove = True
    if how == "links prove":
        monkeypatch.setattr(FdSock, "start", believing)
    world, _ = attacked(1.0, sealed=how == "links prove")
    before = world.view_of("A")
    world.run_for(seconds(ATTACKED_S + 2))
    assert world.view_of("A") != before
