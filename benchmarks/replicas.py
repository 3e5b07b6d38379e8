"""`python -m benchmarks.replicas`: acknowledged writes of partitions with three replicas.

Three AsyncChannels of one group, in this process and on one event loop; one client, at the leader of the partition and
at another member by turns. So many writes are under way at once. Rates by the clock, and by the CPU time of the
process: all three members and the client together, which a busy machine changes least. Then the latency of a lone
write. Content is in memory, as Replicas has it: nothing is written to a disk.
"""
from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser
from statistics import median
from time import monotonic, process_time

from jgroups_py.aio import AsyncChannel
from jgroups_py.blocks.replication import AsyncReplicas, Machine

NAMES = "A", "B", "C"
LONE = 1000                                 # writes of the latency


class Counter(Machine):
    """A number, to which writes add."""

    def __init__(self) -> None:
        self.value = 0

    def apply(self, command: bytes) -> bytes:
        self.value += int(command)
        return b"%d" % self.value

    def read(self, query: bytes) -> bytes:
        return b"%d" % self.value

    def save(self) -> bytes:
        return b"%d" % self.value

    def load(self, data: bytes) -> None:
        self.value = int(data)


async def flood(store: AsyncReplicas, writes: int, under_way: int) -> tuple[float, float]:
    """Seconds by the clock and of CPU for that many writes."""
    left = iter(range(writes))

    async def one_after_the_other() -> None:
        for _ in left:
            await store.write(0, b"1")
    began, cpu = monotonic(), process_time()
    await asyncio.gather(*[one_after_the_other() for _ in range(under_way)])
    return monotonic() - began, process_time() - cpu


async def lone(store: AsyncReplicas) -> float:
    """The median latency of a write while nothing else is under way, seconds."""
    found = []
    for _ in range(LONE):
        began = monotonic()
        await store.write(0, b"1")
        found.append(monotonic() - began)
    return median(found)


async def measure(writes: int, under_way: int, runs: int, port: int) -> None:
    """Print the figures."""
    properties = {"bind_addr": "127.0.0.1", "mcast_port": port}
    channels = [AsyncChannel("udp", name=name, properties=properties) for name in NAMES]
    stores = [AsyncReplicas(channel, lambda partition: Counter(), founders=NAMES, partitions=1, replicas=3)
              for channel in channels]
    for channel in channels:
        await channel.connect("bench")
    await stores[0].wait_for_leaders(30)
    leader = (await stores[0].leaders())[0]
    at = [channel.me for channel in channels].index(leader)
    clients = {"at the leader": stores[at], "elsewhere": stores[(at + 1) % len(stores)]}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in clients}
    for _ in range(runs + 1):
        for name, results in found.items():                  # by turns, so that the machine's mood meets all alike
            results.append(await flood(clients[name], writes, under_way))
    for name, results in found.items():
        clock_s, cpu_s = [median(column) for column in zip(*results[1:], strict=True)]
        print(f"client {name:13} {writes / clock_s:8.0f} writes/s by the clock {writes / cpu_s:8.0f} by CPU time "
              f"({1e6 * cpu_s / writes:.1f} us a write); lone write p50 {1e3 * await lone(clients[name]):.2f} ms")
    total = int(await stores[at].read(0, strong=True))
    assert total == len(clients) * ((runs + 1) * writes + LONE), "every write took effect once"
    for channel in channels:
        await channel.close()


def main(words: list[str]) -> None:
    """The command."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--writes", type=int, default=20_000)
    parser.add_argument("--under-way", type=int, default=512)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--port", type=int, default=46499)
    options = parser.parse_args(words)
    asyncio.run(measure(options.writes, options.under_way, options.runs, options.port))


if __name__ == "__main__":
    main(sys.argv[1:])
