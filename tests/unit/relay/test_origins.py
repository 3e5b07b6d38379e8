"""In whose name messages of other sites are delivered."""
from __future__ import annotations

from jgroups_py.model.address import Address, ProxyUUID
from jgroups_py.model.batch import Batch
from jgroups_py.model.outputs import Deliver
from jgroups_py.model.units import millis, seconds
from jgroups_py.protocols.relay.headers import Forward
from tests.unit.relay.sites import Sites


def test_a_message_of_another_site_names_its_origin_its_site_and_the_relay_that_brought_it() -> None:
    world = Sites(NYC="ABC", SFO="DEF").build()
    sources: list[object] = []
    member = world["F"]
    drain = member.drain

    def watch() -> None:
        sources.extend(output.batch.src for output in member.stack.outputs if isinstance(output, Deliver))
        drain()
    member.drain = watch                          # type: ignore[method-assign]
    for text in ("c1", "c2"):
        world["C"].multicast(text)
        world.run(seconds(1))
    world.sites["SFO"].crash("D")
    world.run(seconds(2))
    world["C"].multicast("c3")
    world.run(seconds(1))
    assert all(isinstance(src, ProxyUUID) and src == world["C"].me and src.site == "NYC" for src in sources)
    assert [src.relay for src in sources] == [world["D"].me, world["D"].me, world["E"].me]       # type: ignore[attr-defined]
    assert sources[0] is sources[1], "a new object is made for every message, though nothing changed"


def test_a_hole_is_requested_at_once() -> None:
    world = Sites(NYC="ABC", SFO="DEF").build(resend_interval_ns="30s")
    world["C"].multicast("c0")
    world.run(seconds(1))
    lost: list[Batch] = []

    def lose_one_forward(src: Address, batch: Batch) -> bool:
        if isinstance(batch.headers[-1], Forward) and not lost:
            lost.append(batch)
            return True
        return False
    world.lose = lose_one_forward
    for text in ("c1", "c2"):
        world["C"].multicast(text)
        world.settle()
    world.run(millis(100))
    assert lost
    assert world["F"].texts("c") == ["c0", "c1", "c2"]


def test_a_member_that_is_no_longer_the_relay_keeps_no_state_of_a_relay() -> None:
    world = Sites(NYC="ABC", SFO="DEF").build()
    relay = world["A"].relay
    for site in relay.table:
        site.draining = {}
    assert relay.trimmer.last_table != ()
    relay.trimmer.full, relay.trimmer.holes = True, {"SFO": {}}                       # type: ignore[dict-item]
    relay.site_status.status_elsewhere = {"SFO": 1}
    world.sites["NYC"].install(["B", "A", "C"])
    assert not relay.group.is_relay
    assert (relay.trimmer.last_table, relay.trimmer.full, relay.trimmer.holes) == ((), False, {})
    assert relay.site_status.status_elsewhere == {}
    assert [site.draining for site in relay.table] == [None]
