"""What a relay starts anew: SYNC in each view, the bridge after a failure; and what it requests again."""
from __future__ import annotations

from jgroups_py.model.batch import Batch
from jgroups_py.model.events import BridgeDelivered
from jgroups_py.model.units import millis, seconds
from jgroups_py.protocols.relay.headers import ProbeHeader
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


def test_a_new_relay_expects_relays_on_the_bridge_if_other_sites_are_up() -> None:
    """Then it does not begin a bridge of its own when one search has no answer."""
    world = Sites(NYC="AB", SFO="D").build()
    world.run(seconds(1))
    assert world.expected == {"A": False, "D": False}
    world.sites["SFO"].crash("D")
    world.sites["NYC"].crash("A")
    assert world.expected["B"], "D's site counts as UP until site_down_after"
    world = Sites(NYC="AB", SFO="D").build(site_down_after_ns="2s")
    world.sites["SFO"].crash("D")
    world.run(seconds(3))
    world.sites["NYC"].crash("A")
    assert not world.expected["B"]


def test_a_relay_requests_only_what_it_lacks_when_it_is_probed() -> None:
    world = Sites(NYC="ABC", SFO="DEF").build()
    world["A"].multicast("a0", "a1", "a2")
    world.run(seconds(2))
    assert world["D"].texts("a") == ["a0", "a1", "a2"]
    for sent, requests in ((4, 0), (5, 1)):
        probe = Batch(world["A"].bridge, world["D"].bridge, (), (ProbeHeader({world["A"].me: sent}),), 0)
        world["D"].notify(BridgeDelivered(probe))
        world.run(millis(100))
        assert world["A"].relay.stats().get("needs", 0) == requests, f"D has 1 to 3; all below {sent} were sent"
