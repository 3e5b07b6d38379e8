"""What a relay starts anew: SYNC in each view, and the bridge after a failure."""
from __future__ import annotations

from jgroups_py.model.units import seconds
from jgroups_py.protocols.relay.outbound.bridge_link import REOPEN_NS
from tests.unit.relay.sites import Sites


def test_an_answer_to_sync_counts_in_its_view_only() -> None:
    """Else a member that left while it was behind is waited for, and nothing is acknowledged to other sites."""
    world = Sites(NYC="ABC", SFO="DEF").build()
    world.run(seconds(1))
    relay = world["A"].relay
    assert set(relay.synchronizer.haves) == {world["B"].me, world["C"].me}
    world.sites["NYC"].crash("C")
    world.run(seconds(1))
    assert relay.synchronizer.complete
    assert set(relay.synchronizer.haves) == {world["B"].me}


def test_a_relay_whose_bridge_failed_opens_it_again() -> None:
    world = Sites(NYC="ABC", SFO="DEF").build()
    world.run(seconds(1))
    world.without_bridge = "A"                              # the first attempt fails too
    world.leave_bridge(world["A"], "cut off")
    assert world["A"].bridge is None
    world["A"].multicast("a0")
    world.run(REOPEN_NS // 2)
    world.without_bridge = ""
    world.run(REOPEN_NS)
    assert world["A"].bridge is not None, "the bridge was not opened again"
    world.run(seconds(5))
    assert [world[name].texts("a") for name in "DEF"] == [["a0"]] * 3, "what was multicast meanwhile has not arrived"
