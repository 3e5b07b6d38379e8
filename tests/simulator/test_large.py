"""A large group on the virtual network."""
from __future__ import annotations

import pytest

from jgroups_py.config.load import load
from jgroups_py.model.units import seconds
from jgroups_py.simulator import World
from jgroups_py.simulator.checkers import check


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["udp", pytest.param("tcp", marks=pytest.mark.long)])
def test_fifty_members_form_one_group_talk_and_lose_their_coordinator(transport: str) -> None:
    world = World(1)
    names = [f"M{number:02}" for number in range(50)]
    hosts = ",".join(f"{world.ip(name)}[7800]" for name in names[:3])
    spec = load(transport, {"initial_hosts": hosts, "port_range": "0"} if transport == "tcp" else {})
    for name in names:
        world.start(name, spec)
    assert world.run_while(lambda: not world.agreed(names), seconds(20))
    for name in names[::10]:
        world.post(name, count=20)
    view = world.view_of("M00")
    assert view is not None
    world.crash(view.coordinator.name)
    assert world.run_while(lambda: not world.agreed(world.running()), seconds(5))
    assert check(world.history) == []
