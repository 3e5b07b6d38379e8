"""`python -m benchmarks.receipts`: senders that wait for a receipt each, beside sends that wait for nothing.

Two AsyncChannels of one group in this process. In each run so many coroutines send a message at once and wait until all
members have it (or have handled it); plain sends of as many end with one receipt, so that both runs end when all is
there. Rates are by the CPU time of the process, both members included, which a busy machine changes least; and by the
clock. Then the latency of a lone receipt.
"""
from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser
from statistics import median
from time import monotonic, process_time

import jgroups_py as jg
from jgroups_py import aio
from jgroups_py.aio import AsyncChannel

LONE = 200                                  # sends of the latency


async def flood(channel: AsyncChannel, senders: int, until: str | None) -> tuple[float, float]:
    """Seconds by the clock and of CPU for that many messages."""
    began, cpu = monotonic(), process_time()
    if until is None:
        await asyncio.gather(*(channel.send(b"%100d" % number) for number in range(senders)))
        await channel.send(b"last", until="stable")
    else:
        await asyncio.gather(*(channel.send(b"%100d" % number, until=until) for number in range(senders)))
    return monotonic() - began, process_time() - cpu


async def measure(senders: int, runs: int, port: int) -> None:
    properties = {"bind_addr": "127.0.0.1", "mcast_port": port}
    async with aio.join("bench", name="A", properties=properties, receiver=jg.Receiver()) as a, \
            aio.join("bench", name="B", properties=properties, receiver=jg.Receiver()) as b:
        await b.wait_for(members=2, timeout=30)
        found: dict[str, list[tuple[float, float]]] = {"plain": [], "stable": [], "handled": []}
        for _ in range(runs + 1):
            for name, results in found.items():              # by turns, so that the machine's mood meets all alike
                results.append(await flood(a, senders, None if name == "plain" else name))
        for name, results in found.items():
            clock_s, cpu_s = [median(column) for column in zip(*results[1:], strict=True)]
            print(f"{name:8} {senders / clock_s:10.0f} messages/s {1e6 * cpu_s / senders:6.1f} us of CPU a message")
        lone = []
        for _ in range(LONE):
            began = monotonic()
            await a.send(b"x", until="stable")
            lone.append(monotonic() - began)
        print(f"a lone receipt: p50 {1e6 * median(lone):.0f} us")


def main(words: list[str]) -> None:
    """The command."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--senders", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--port", type=int, default=46399)
    options = parser.parse_args(words)
    asyncio.run(measure(options.senders, options.runs, options.port))


if __name__ == "__main__":
    main(sys.argv[1:])
