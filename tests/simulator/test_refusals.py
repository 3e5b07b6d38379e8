"""What real sockets refuse, the virtual network refuses too, and counts as they do."""
from __future__ import annotations

import pytest

from jgroups_py.model.batch import Batch
from jgroups_py.model.events import LinkDown, SendTo
from jgroups_py.model.units import millis
from jgroups_py.simulator import World
from jgroups_py.simulator.network import LARGEST_DATAGRAM, LARGEST_FRAME
from tests.simulator.handmade import Dial, Solo, Wires, stack_of

HOSTS = {"\0": "name_unresolved_dropped", "no such host;": "name_unresolved_dropped", "b": "name_unresolved_dropped"}


def world_of(names: str, transport: object = "UDP", cls: type = Solo) -> World:
    world = World(1)
    for name in names:
        world.start(name, stack_of(transport, cls))
    world.run_for(millis(100))
    return world


@pytest.mark.parametrize("transport", ["UDP", "TCP"])
@pytest.mark.parametrize("host", HOSTS)
def test_a_host_that_is_none_is_refused_and_counted(host, transport):
    world = world_of("AB", transport)
    for to in ((host, 7), (world.ip("B"), 0), (world.ip("B"), 70_000)):
        world.inject("A", SendTo(to, Batch(world.address("A"), None, (b"x",))))
    stats = world.stats("A")[transport]
    assert (stats[HOSTS[host]], stats["no_port_dropped"]) == (1, 2)
    assert "name_unresolved_dropped" not in world.stats("B")[transport]


@pytest.mark.parametrize(("transport", "largest", "name"), [
    ("UDP", LARGEST_DATAGRAM, "send_EMSGSIZE_dropped"), ("TCP", LARGEST_FRAME, "frame_too_large_dropped")])
def test_a_frame_that_is_too_large_is_refused_and_counted(transport, largest, name):
    world = world_of("AB", transport)
    to = world.process("B").sockets[0].physical
    for size in (largest - 1000, largest):
        world.inject("A", SendTo(to, Batch(world.address("A"), world.address("B"), (bytes(size),))))
    world.run_for(millis(100))
    assert world.stats("A")[transport][name] == 1
    assert [len(payload) for payload in world.delivered("B", unicast=True)] == [largest - 1000]


def test_a_link_to_nowhere_is_down_and_not_refused():
    world = world_of("A", cls=Wires)
    for number, to in enumerate((("\0", 7), ("nowhere", 7), (world.ip("A"), 0))):
        world.inject("A", Dial(number, to, millis(500)))
    world.run_for(millis(100))
    assert world.node("A").local.layers[1].news == [LinkDown(number, refused=False) for number in range(3)]
