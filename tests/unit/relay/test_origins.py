"""In whose name messages of other sites are delivered."""
from __future__ import annotations

from sites import Sites

from jgroups_py.address import Address, ProxyUUID
from jgroups_py.batch import Batch
from jgroups_py.outputs import Deliver
from jgroups_py.protocols.relay.headers import Forward
from jgroups_py.units import millis, seconds


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
        world["C"].say(text)
        world.run(seconds(1))
    world.sites["SFO"].crash("D")
    world.run(seconds(2))
    world["C"].say("c3")
    world.run(seconds(1))
    assert all(isinstance(src, ProxyUUID) and src == world["C"].me and src.site == "NYC" for src in sources)
    assert [src.relay for src in sources] == [world["D"].me, world["D"].me, world["E"].me]       # type: ignore[attr-defined]
    assert sources[0] is sources[1], "one object as long as nothing changes: it is on the road of every message"


def test_a_hole_is_asked_for_at_once() -> None:
    world = Sites(NYC="ABC", SFO="DEF").build(resend_interval_ns="30s")
    world["C"].say("c0")
    world.run(seconds(1))
    lost: list[Batch] = []

    def lose_one_forward(src: Address, batch: Batch) -> bool:
        if isinstance(batch.headers[-1], Forward) and not lost:
            lost.append(batch)
            return True
        return False
    world.lose = lose_one_forward
    for text in ("c1", "c2"):
        world["C"].say(text)
        world.settle()
    world.run(millis(100))
    assert lost
    assert world["F"].texts("c") == ["c0", "c1", "c2"]


def test_a_relay_that_has_resigned_knows_nothing_of_its_office_any_more() -> None:
    status = Sites(NYC="ABC", SFO="DEF").build()["A"].relay.status
    for site in status.relay.table:
        site.draining = {}
    assert status.table_told != ()
    status.full, status.holes, status.takes_us_for = True, {"SFO": {}}, {"SFO": 1}       # type: ignore[dict-item]
    status.resigned()
    assert (status.table_told, status.full, status.holes, status.takes_us_for) == ((), False, {}, {})
    assert [site.draining for site in status.relay.table] == [None]
