"""A holder of a lock that leads the store is cut off (case 15 of the blocks): the next one has the lock as soon as if
another member led the store, `ttl` x 1.05 after the last renewal that was confirmed, and not before the holder knows
that it has lost it."""
from __future__ import annotations

import asyncio

import pytest

from jgroups_py.aio import AsyncChannel
from jgroups_py.blocks.coordination import AsyncCoordination
from jgroups_py.blocks.coordination.lease import DRIFT
from jgroups_py.model.units import NS_PER_S
from jgroups_py.testing.simulation.refusals import simulated
from tests.simulator.code_bench import Bench

pytestmark = pytest.mark.slow
FOUNDERS = ("A", "B", "C")
TTL_S = 10.0                               # FD_ALL excludes the holder before that


def leads_the_store(co: AsyncCoordination) -> bool:
    host = co._driver.replicas.host
    return host is not None and any(replica.is_ready for replica in host.parts.values())


@pytest.mark.parametrize("cut_after_s", [0.0, 1.0, 3.0, 3.4, 6.0])
def test_accept_15_a_holder_that_leads_the_store_is_cut_off(cut_after_s: float) -> None:
    stores: dict[str, AsyncCoordination] = {}
    held: dict[str, float] = {}
    lost: dict[str, float] = {}
    takes: list[str] = []

    async def app(ch: AsyncChannel) -> None:
        loop = asyncio.get_running_loop()
        co = stores[ch.name] = AsyncCoordination(ch, FOUNDERS, TTL_S)
        await ch.connect("cut")
        await co.wait_for_store(60)
        while ch.name not in takes:
            await asyncio.sleep(0.001)
        grant = await co.lock("one").acquire(timeout=None)
        held[ch.name] = loop.time()
        while grant.valid:
            await asyncio.sleep(0.001)
        lost[ch.name] = loop.time()
        await asyncio.sleep(60)

    with simulated("a holder that is cut off"):
        bench = Bench(app, "ABC")
        try:
            stage = bench.stage
            bench.until(lambda: any(leads_the_store(co) for co in stores.values()) and len(stores) == 3, 60)
            first = next(name for name, co in stores.items() if leads_the_store(co))
            takes.append(first)
            bench.until(lambda: first in held)
            takes += [name for name in FOUNDERS if name != first][:1]
            stage.run_for(round((1 + cut_after_s) * NS_PER_S))
            assert leads_the_store(stores[first])
            for other in FOUNDERS:
                if other != first:
                    stage.network.cut(first, other)
                    stage.network.cut(other, first)
            cut_s = stage.now_ns / NS_PER_S
            bench.until(lambda: takes[1] in held, 60)
            assert lost[first] < held[takes[1]], "two held it at a time"
            assert held[takes[1]] - cut_s <= TTL_S * (1 + DRIFT) + 1, f"it took {held[takes[1]] - cut_s:.1f} s"
        finally:
            bench.stage.dispose()
