"""Clients of a store: members without a copy (weight 0) use it at once, whatever they hear first; many that wait."""
from __future__ import annotations

import asyncio

from jgroups_py.aio import AsyncChannel
from jgroups_py.blocks.coordination import AsyncCoordination
from jgroups_py.blocks.replication import Options
from jgroups_py.model.outputs import LOCAL
from jgroups_py.model.units import millis, seconds
from jgroups_py.simulator.network import Weather
from jgroups_py.testing.simulation.refusals import simulated
from tests.simulator.code_bench import Bench
from tests.simulator.waiters import MOST_BYTES, MOST_RENEWALS_PER_S, measure

FOUNDERS = ("A", "B", "C")


def test_a_client_that_hears_another_client_before_the_hosts_of_the_store_has_its_lock_at_once() -> None:
    took_s: dict[str, float] = {}

    async def app(ch: AsyncChannel) -> None:
        is_client = ch.name not in FOUNDERS
        co = AsyncCoordination(ch, () if is_client else FOUNDERS, options=Options(weight=0) if is_client else None)
        await ch.connect("x")
        await co.wait_for_store(60)
        began = asyncio.get_running_loop().time()
        if is_client:
            await (await co.lock("one").acquire()).release()
        took_s[ch.name] = asyncio.get_running_loop().time() - began
    with simulated("clients of a store"):
        bench = Bench(app, "W")                              # the coordinator, which announces itself first
        try:
            bench.stage.run_for(seconds(2))
            for founder in FOUNDERS:
                bench.start(founder)
            bench.until(lambda: len(took_s) == 1 + len(FOUNDERS))
            for founder in FOUNDERS:
                bench.stage.network.set_path_weather(founder, "X", LOCAL, Weather(latency_ns=millis(30)))
            bench.start("X")
            bench.stage.run_for(seconds(20))
        finally:
            bench.stage.dispose()
    assert took_s.get("X", 20) < 1.0, (
        f"a client waits {took_s.get('X', 20):.1f} s or more for a free lock: its requests find no host of the store")


def test_accept_20_many_waiters_of_a_lock_have_it_in_order_and_cost_the_leader_little() -> None:
    """200 here; `python -m tests.simulator.waiters` has 10,000."""
    found = measure(200)
    assert found.waiters == 200, "not all had the lock"
    assert found.in_order, "grants are not in the order of the log's entries"
    assert found.bytes_each <= MOST_BYTES, f"a wait costs the leader {found.bytes_each:.0f} bytes"
    assert found.renewals_per_s <= MOST_RENEWALS_PER_S, f"a session is renewed {found.renewals_per_s} times a second"
