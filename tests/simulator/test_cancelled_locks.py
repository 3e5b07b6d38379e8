"""Coroutines that are cancelled where they leave an `async with` (case 17 of the blocks): no lock stays behind."""
from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from jgroups_py.aio import AsyncChannel
from jgroups_py.blocks.coordination import AsyncCoordination
from jgroups_py.model.outputs import LOCAL
from jgroups_py.model.units import millis
from jgroups_py.simulator.network import Weather
from jgroups_py.testing.simulation.refusals import simulated
from tests.simulator.code_bench import Bench

pytestmark = pytest.mark.slow
FOUNDERS = ("A", "B", "C")
LATENCY_MS = 10
TTL_S = 5.0
SOON_S = 1.0                               # far less than a ttl: released, not expired
Made = Callable[[AsyncCoordination], AbstractAsyncContextManager[Any]]


def waited_s(make: Made, cancelled_after_s: float, twice: bool = False) -> tuple[str, float]:
    """A task at A leaves its block, and is cancelled so much later; twice: the cancellation also ends the body.

    Returns how the task ended ("cancelled" or "left"), and how long B then waits for the same.
    """
    found: dict[str, Any] = {}

    async def body(co: AsyncCoordination) -> None:
        async with make(co):
            found["entered"] = True
            if twice:
                await asyncio.sleep(60)
            found["leaves"] = asyncio.get_running_loop().time()

    async def app(ch: AsyncChannel) -> None:
        loop = asyncio.get_running_loop()
        co = AsyncCoordination(ch, FOUNDERS, TTL_S)
        await ch.connect("cancelled")
        await co.wait_for_store(60)
        if ch.name == "A":
            task = loop.create_task(body(co))
            while "entered" not in found or not (twice or "leaves" in found):
                await asyncio.sleep(0.001)
            if twice:
                task.cancel()
            await asyncio.sleep(cancelled_after_s)
            task.cancel()
            await asyncio.wait([task])
            found["ended"] = "cancelled" if task.cancelled() else "left"
        elif ch.name == "B":
            while "ended" not in found:
                await asyncio.sleep(0.001)
            began_s = loop.time()
            async with make(co):
                found["waited"] = loop.time() - began_s
        await asyncio.sleep(60)

    with simulated("cancelled locks"):
        bench = Bench(app, "ABC")
        try:
            for one in FOUNDERS:
                for other in FOUNDERS:
                    if one != other:
                        bench.stage.network.set_path_weather(one, other, LOCAL, Weather(latency_ns=millis(LATENCY_MS)))
            bench.until(lambda: "waited" in found, 60)
        finally:
            bench.stage.dispose()
    return found["ended"], found["waited"]


LOCKS: dict[str, Made] = {
    "a lock": lambda co: co.lock("one"), "a re-entrant lock": lambda co: co.lock("one", reentrant=True),
    "a leader": lambda co: co.leadership("one"), "a semaphore": lambda co: co.semaphore("one", 1),
}


@pytest.mark.parametrize("make", LOCKS.values(), ids=LOCKS)
def test_a_task_that_is_cancelled_while_it_leaves_its_block_has_released(make: Made) -> None:
    ended = []
    for after_ms in (0, 5, 15, 25, 45):                # round trips take 20 ms; the last ones come too late
        how, seconds = waited_s(make, after_ms / 1000)
        assert seconds < SOON_S, f"cancelled {after_ms} ms after it began to leave, B waited {seconds:.3f} s"
        ended.append(how)
    assert "cancelled" in ended, "no task was cancelled while it left"


def test_a_task_whose_body_was_cancelled_and_that_is_cancelled_again_while_it_leaves_has_released() -> None:
    for after_ms in (0, 5, 15, 45):
        how, seconds = waited_s(LOCKS["a lock"], after_ms / 1000, twice=True)
        assert how == "cancelled"
        assert seconds < SOON_S, f"cancelled again {after_ms} ms later, B waited {seconds:.3f} s"
