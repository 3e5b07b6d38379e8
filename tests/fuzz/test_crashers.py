"""The hostile frames of attacks on real processes, here in one process: no member ends, and the group works on."""
from __future__ import annotations

import pytest

from jgroups_py.model.address import Address
from jgroups_py.model.units import millis, seconds
from jgroups_py.simulator.attack.attacker import join_of
from jgroups_py.simulator.object_sizes import weigh
from tests.fuzz.crashers import CRASHERS, Siege
from tests.fuzz.worlds import MARK

KEPT_BYTES = 20 << 20
FLOOD = 600                              # requests, 200 a second


@pytest.mark.parametrize("stack", ["udp", "tcp"])
@pytest.mark.parametrize("attack", CRASHERS)
def test_a_hostile_frame_ends_no_member_and_the_group_works_on(attack: str, stack: str) -> None:
    siege = Siege(stack)
    nodes = {name: siege.world.node(name) for name in "ABC"}
    before = {name: weigh(node, (siege.world,)) for name, node in nodes.items()}
    CRASHERS[attack](siege)
    assert siege.harm() == []
    for name, node in nodes.items():
        assert weigh(node, (siege.world,)) - before[name] < KEPT_BYTES
    assert siege.groups.recover() == ""
    assert siege.harm() == []


def test_joins_from_addresses_that_do_not_exist_do_not_delay_deliveries() -> None:
    siege = Siege()
    world = siege.world
    longest_ns, since_ns, delivered = 0, world.now_ns, 0
    for number in range(FLOOD):
        non_member = Address(number.to_bytes(16, "big"), f"n{number}")
        siege.hit("A", join_of(non_member, ("10.9.9.9", 7800)), src=non_member)
        world.send("A", None, [MARK + str(number).encode()])
        siege.pause(millis(5))
        if len(world.delivered("B")) > delivered:
            delivered, since_ns = len(world.delivered("B")), world.now_ns
        longest_ns = max(longest_ns, world.now_ns - since_ns)
    siege.pause(seconds(1))
    assert len(world.delivered("B")) == FLOOD
    assert longest_ns < seconds(1)
