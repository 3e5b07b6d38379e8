"""`python -m benchmarks.coordination`: locks of three members, in memory.

Three AsyncChannels of one group, in this process and on one event loop. First one client: how long an acquire and a
release of a free lock take, at the leader of the store and elsewhere; then 64 clients with a lock each: pairs a second
by the clock, and CPU for each, of all three members and the clients together. With --kills, the members are processes:
how long after a holder was killed (-9) the next one has the lock; while its session would live for a minute.
"""
from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from argparse import ArgumentParser
from statistics import median
from time import monotonic, perf_counter, process_time

from jgroups_py import JChannel
from jgroups_py.aio import AsyncChannel
from jgroups_py.blocks.coordination import AsyncCoordination, Coordination
from jgroups_py.blocks.replication import Options

NAMES = "A", "B", "C"
LONE = 1000
CLIENTS, PAIRS = 64, 50
TTL = "60s"


async def lone(co: AsyncCoordination) -> tuple[float, float]:
    """Medians of acquire, and of acquire and release, in ms."""
    acquired, both = [], []
    for _ in range(LONE):
        began = perf_counter()
        grant = await co.lock("lone").acquire()
        acquired.append(perf_counter() - began)
        await grant.release()
        both.append(perf_counter() - began)
    return median(acquired) * 1e3, median(both) * 1e3


async def pairs(coordinations: list[AsyncCoordination]) -> tuple[float, float]:
    """(pairs a second, CPU us of each) of 64 clients."""
    async def client(number: int) -> None:
        lock = coordinations[number % len(coordinations)].lock(f"lock {number}")
        for _ in range(PAIRS):
            await (await lock.acquire()).release()
    began, cpu = monotonic(), process_time()
    await asyncio.gather(*[client(number) for number in range(CLIENTS)])
    total = CLIENTS * PAIRS
    return total / (monotonic() - began), (process_time() - cpu) / total * 1e6


async def measure(port: int) -> None:
    """Print the figures of members in this process."""
    channels = [AsyncChannel("udp", name=name, properties={"mcast_port": port}) for name in NAMES]
    coordinations = [AsyncCoordination(channel, founders=NAMES) for channel in channels]
    for channel in channels:
        await channel.connect(f"bench-coordination-{os.getpid()}")
    for co in coordinations:
        await co.wait_for_store(30)
    for name, co in zip(NAMES, coordinations, strict=True):
        acquired, both = await lone(co)
        sys.stdout.write(f"one client at {name}: acquire p50 {acquired:.2f} ms, with its release p50 {both:.2f} ms\n")
    rate, cpu_us = await pairs(coordinations)
    sys.stdout.write(f"{CLIENTS} clients: {rate:.0f} pairs/s by the clock, {cpu_us:.0f} us of CPU a pair\n")
    for channel in channels:
        await channel.close()


def spawn(name: str, cluster: str, port: int, work: str) -> subprocess.Popen[str]:
    """A member in a process of its own; returns when it is in the group."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.coordination_member", name, cluster, str(port), TTL, work],
        text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    return process


def hear(process: subprocess.Popen[str], word: str) -> None:
    """Wait for a line of a member."""
    assert process.stdout is not None, "a pipe"
    line = process.stdout.readline()
    assert line.startswith(word), f"{word!r} was expected, not {line!r}"


def kills(number: int, port: int) -> None:
    """Print how long the next holder waits after a kill -9 of the one before."""
    cluster = f"bench-kills-{os.getpid()}"
    processes = [spawn(name, cluster, port, "idle") for name in NAMES]
    for process in processes:
        hear(process, "ready")
    channel = JChannel("udp", name="W", properties={"mcast_port": port})
    co = Coordination(channel, ttl=TTL, options=Options(weight=0))
    waits = []
    with channel:
        channel.connect(cluster)
        co.wait_for_store(30)
        for at in range(number):
            holder = spawn(f"H{at}", cluster, port, "holder")
            hear(holder, "ready")
            hear(holder, "held")
            time.sleep(1.0)                                  # until the ring of FD_SOCK is complete
            killed = monotonic()
            holder.kill()
            grant = co.lock("held").acquire(30)
            waits.append(monotonic() - killed)
            grant.release()
            holder.wait()
        sys.stdout.write(f"kill -9 of the holder, {number} times: the next one has the lock after p50 "
                         f"{median(waits) * 1e3:.0f} ms, max {max(waits) * 1e3:.0f} ms\n")
    for process in processes:
        process.kill()
        process.wait()


def main() -> None:
    """The command."""
    parser = ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--port", type=int, default=45990, help="of IP multicast")
    parser.add_argument("--kills", type=int, default=0, metavar="N", help="kill so many holders instead")
    arguments = parser.parse_args()
    if arguments.kills:
        kills(arguments.kills, arguments.port)
    else:
        asyncio.run(measure(arguments.port))


if __name__ == "__main__":
    main()
