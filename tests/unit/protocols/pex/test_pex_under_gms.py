"""PEX as discovery: for groups (GMS and MERGE3), and for SWIM."""
from __future__ import annotations

import attrs
import pytest

from jgroups_py.config.load import load
from jgroups_py.config.spec import LayerSpec, StackSpec
from jgroups_py.model.ports import MemberTable
from jgroups_py.model.units import seconds
from jgroups_py.protocols import KNOWN
from jgroups_py.simulator import World

NAMES = [f"M{number}" for number in range(8)]


def stack(world: World, transport: str) -> StackSpec:
    """A shipped stack with PEX for its discovery; its seed is the first member."""
    spec = load(transport, {"initial_hosts": "", "port_range": "0"} if transport == "tcp" else {})
    config = KNOWN["PEX"].load().Config(seeds=f"{world.ip(NAMES[0])}[7800]", ping_interval_ns="500ms")
    layers = [LayerSpec("PEX", config) if layer.name in ("PING", "TCPPING") else layer for layer in spec.layers]
    if transport == "udp":
        layers[0] = attrs.evolve(layers[0], config=attrs.evolve(layers[0].config, ip_mcast=False, bind_port=7800))
    return StackSpec(tuple(layers), "test")


@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_members_with_one_seed_form_one_group_and_find_each_other_again(transport: str) -> None:
    world = World(1)
    spec = stack(world, transport)
    for name in NAMES:
        world.start(name, spec)
    assert world.run_while(lambda: not world.agreed(NAMES), seconds(20))
    world.run_for(seconds(2))
    assert all(world.stats(name)["PEX"]["peers"] == len(NAMES) - 1 for name in NAMES)
    world.partition([NAMES[:4], NAMES[4:]])
    assert world.run_while(lambda: not (world.agreed(NAMES[:4]) and world.agreed(NAMES[4:])), seconds(60))
    world.heal()
    assert world.run_while(lambda: not world.agreed(NAMES), seconds(60))
    world.leave(NAMES[7])
    assert world.run_while(lambda: world.node(NAMES[7]).closed is False, seconds(10))
    world.run_for(seconds(1))
    assert world.stats(NAMES[1])["PEX"]["peers"] == len(NAMES) - 2


def test_swim_finds_its_members_by_pex() -> None:
    world = World(1)
    shipped = load("membership", {"initial_hosts": "", "bind_port": "7946", "port_range": "0"})
    config = KNOWN["PEX"].load().Config(seeds=f"{world.ip(NAMES[0])}[7946]")
    transport, swim = shipped.layers
    for name in NAMES:
        world.start(name, StackSpec((transport, LayerSpec("PEX", config), swim), "test"))

    def all_in_tables() -> bool:
        return all(len(world.node(name).local.find(MemberTable).known_members()) == len(NAMES) for name in NAMES)

    assert world.run_while(lambda: not all_in_tables(), seconds(20))
