"""Claim: puts into a ReplicatedDict, 64 under way, have at least half the rate of multicasts that 64 callers wait for.

`python -m benchmarks.dicts [--puts 6400] [--pairs 5] [--callers 64]`: three AsyncChannels of one group (udp-total) in
this process; A writes, by turns, so that what else the machine does meets all alike:

  plain    multicasts of as many bytes in the one order, for which nothing waits; the last one says when all is there
  ordered  so many callers, each of which waits for the place of its message before it sends the next one
  puts     so many callers, each of which waits until its put has been carried out here

Processor time is that of all three members. Exits with 1 if puts have less than half the rate of ordered, by processor
time, which a busy machine changes least.
"""
from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from statistics import median
from time import monotonic, process_time

import jgroups_py as jg
from jgroups_py.aio import AsyncChannel
from jgroups_py.blocks.dicts.replicated import ReplicatedDict

LEAST = 0.5
VALUE = b"x" * 64
KEYS = 500
Act = Callable[[int], Awaitable[object]]


async def by_callers(act: Act, number: int, callers: int) -> None:
    """So many callers, one call after the other each."""
    async def some(caller: int) -> None:
        for at in range(caller, number, callers):
            await act(at)
    await asyncio.gather(*map(some, range(callers)))


async def measure(number: int, pairs: int, callers: int, port: int) -> bool:
    """Whether the claim holds."""
    properties = {"bind_addr": "127.0.0.1", "mcast_port": port}
    async with AsyncExitStack() as stack:
        channels: list[AsyncChannel] = []
        copies: list[ReplicatedDict[str, bytes]] = []
        for name in "ABC":
            channel = AsyncChannel("udp-total", name, properties, jg.Receiver())
            copies.append(ReplicatedDict(channel, "bench", str, bytes))
            channels.append(await stack.enter_async_context(channel))
            await channel.connect("bench")
        first, copy = channels[0], copies[0]
        await first.wait_for(members=len(channels), timeout=30)
        for one in copies:
            assert await one.await_ready(30), "the copies are not there"

        async def plain() -> None:
            for _ in range(number):
                await first.send(VALUE)
            await first.send(b"last", until="stable")
        ways: dict[str, Callable[[], Awaitable[None]]] = {
            "plain": plain,
            "ordered": lambda: by_callers(lambda at: first.send(VALUE, until="ordered"), number, callers),
            "puts": lambda: by_callers(lambda at: copy.aput(f"key {at % KEYS}", VALUE), number, callers)}
        found: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        for pair in range(pairs + 1):
            for way in list(ways)[::-1] if pair % 2 else list(ways):
                began, cpu = monotonic(), process_time()
                await ways[way]()
                found[way].append((number / (monotonic() - began), 1e6 * (process_time() - cpu) / number))
        await first.send(b"last", until="stable")
        assert all(dict(one) == dict(copy) for one in copies), "the copies differ"
    for way, runs in found.items():
        rate, cpu_us = (median(run[figure] for run in runs[1:]) for figure in (0, 1))
        print(f"{way:8} {rate:9,.0f} a second {cpu_us:7.1f} us of processor time each")
    ratios = {}
    for other in ("plain", "ordered"):
        sides = list(zip(found["puts"][1:], found[other][1:], strict=True))
        rate = median(mine[0] / its[0] for mine, its in sides)
        ratios[other] = median(its[1] / mine[1] for mine, its in sides)
        print(f"puts to {other}: rate by processor time {ratios[other]:.3f}, by the clock {rate:.3f}")
    return ratios["ordered"] >= LEAST


def main(words: list[str]) -> int:
    """The command."""
    parser = ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--puts", type=int, default=6400)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--callers", type=int, default=64)
    parser.add_argument("--port", type=int, default=46402)
    options = parser.parse_args(words)
    return 0 if asyncio.run(measure(options.puts, options.pairs, options.callers, options.port)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
