"""Claim: 10,000 idle clients make a broker's process of less than 250 MB.

`python -m benchmarks.mqtt_idle` connects that many, by TCP, to a broker alone, and then to one of two nodes in a group:
each with a keep-alive and a subscription of its own, which the other node gets to know. It prints the resident memory
of the processes before and after; the exit code is 1 if one is at or above `--most` MB.
"""
from __future__ import annotations

import asyncio
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from jgroups_py.blocks.mqtt.codec.packets import PingReqPacket, PingRespPacket
from jgroups_py.blocks.mqtt.server.listeners import raise_descriptor_limit
from tests.runtime.mqtt.federated import GROUP, nodes, until
from tests.runtime.mqtt.kit import V3, Client
from tests.runtime.mqtt.processes import BrokerProcess, serving

MB = 1_000_000
AT_ONCE = 200


async def measure(port: int, number: int, brokers: Sequence[BrokerProcess], idle_s: float) -> list[float]:
    """Megabytes of each process with so many clients, the last of which still get answers."""
    clients: list[Client] = []
    for begin in range(0, number, AT_ONCE):
        made = {at: Client(port, version=V3) for at in range(begin, min(number, begin + AT_ONCE))}
        await asyncio.gather(*(client.__aenter__() for client in made.values()))
        await asyncio.gather(*(client.connect(f"idle-{at}", keep_alive_s=600) for at, client in made.items()))
        for at, client in made.items():
            await client.subscribe(f"devices/{at}/set", 1)
        clients += made.values()
    await asyncio.sleep(idle_s)
    found = [broker.rss_bytes / MB for broker in brokers]
    for client in (clients[0], clients[-1]):
        client.write(PingReqPacket())
        await client.get(PingRespPacket)
    for client in clients:
        client.writer.transport.abort()
    return found


def main() -> int:
    """The command."""
    parser = ArgumentParser(prog="python -m benchmarks.mqtt_idle", description=__doc__)
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--idle", type=float, default=12.0, help="seconds before the memory is read (default: 12)")
    parser.add_argument("--most", type=float, default=250.0, help="MB of one process (default: 250)")
    args = parser.parse_args()
    if raise_descriptor_limit(args.clients) < args.clients:
        parser.error(f"{args.clients} clients need as many descriptors: ulimit -n")
    largest = 0.0
    with tempfile.TemporaryDirectory() as name:
        for what, number in (("one broker", 1), ("two nodes, clients at the first", 2)):
            with ExitStack() as stack:
                made = nodes(Path(name), number, {**GROUP})
                running = [stack.enter_context(serving("-c", str(node.file), listeners=2)) for node in made]
                until(lambda: all(len(node.statuses()) == len(made) for node in made), "all see all")   # noqa: B023
                before = [broker.rss_bytes / MB for broker in running]
                found = asyncio.run(measure(made[0].port, args.clients, running, args.idle))
                largest = max(largest, *found)
                print(f"{what}, {args.clients} clients: " + ", ".join(
                    f"{first:.0f} -> {last:.0f} MB" for first, last in zip(before, found, strict=True)), flush=True)
    return int(largest >= args.most)


if __name__ == "__main__":
    sys.exit(main())
