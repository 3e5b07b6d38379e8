"""What traces cost: CPU of a message of 100 B at its sender and a receiver, both in this process, by turns without a
Tracing, with one that samples nothing, and with one of 1 %. `python -m benchmarks.tracing`.

One by one and in batches of 100. Exit 1 if one of 1 % costs more than --most times what it costs without.
"""
from __future__ import annotations

import json
import sys
import threading
from argparse import ArgumentParser
from contextlib import ExitStack
from statistics import median
from time import process_time

from opentelemetry.sdk.trace import TracerProvider

import jgroups_py as jg
from jgroups_py.ops.tracing import Tracing
from jgroups_py.system.free_ports import free_range

RATIOS: dict[str, float | None] = {"off": None, "on, ratio 0": 0.0, "on, ratio 0.01": 0.01}
PAYLOAD = bytes(100)
BATCH = 100
WAIT_SECONDS = 60.0


class Receiver:
    """Counts, and tells when `wanted` are there."""

    def __init__(self) -> None:
        self.wanted = self.count = 0
        self.there = threading.Event()

    def receive(self, message: jg.Message) -> None:
        """A message."""
        self.count += 1
        if self.count == self.wanted:
            self.there.set()


def cost_us(sender: jg.JChannel, receiver: Receiver, messages: int, size: int) -> float:
    """CPU of a message in us, of both members."""
    receiver.count, receiver.wanted = 0, messages
    receiver.there.clear()
    batch, before = [PAYLOAD] * size, process_time()
    if size == 1:
        for _ in range(messages):
            sender.send(None, PAYLOAD)
    else:
        for _ in range(messages // size):
            sender.send_batch(None, batch)
    if not receiver.there.wait(WAIT_SECONDS):
        raise RuntimeError(f"{receiver.count} of {messages} messages came in {WAIT_SECONDS:g} s")
    return (process_time() - before) / messages * 1e6


def main(words: list[str]) -> int:
    """The command."""
    parser = ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--messages", type=int, default=300_000, help="of a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--most", type=float, default=1.05)
    args = parser.parse_args(words)
    messages = max(BATCH, args.messages // BATCH * BATCH)
    found: dict[tuple[int, str], list[float]] = {(size, mode): [] for size in (1, BATCH) for mode in RATIOS}
    receiver = Receiver()
    with ExitStack() as opened:
        ports = {"mcast_port": free_range()}
        a, b = (opened.enter_context(jg.JChannel("udp", name, ports)) for name in "AB")
        a.discard_own_messages = True
        b.receiver = receiver
        a.connect("tracing")
        b.connect("tracing")
        a.wait_for(members=2, timeout=30)
        for at in range(args.rounds + 1):                    # the first one warms up
            for mode, ratio in RATIOS.items():
                with ExitStack() as traced:
                    if ratio is not None:
                        for channel in (a, b):
                            traced.enter_context(Tracing(channel, ratio=ratio, tracer_provider=TracerProvider()))
                    for size in (1, BATCH):
                        cost = cost_us(a, receiver, messages, size)
                        if at:
                            found[size, mode].append(cost)
    result = {("one by one" if size == 1 else f"batches of {size}"): {
        mode: {"cpu_us_per_msg": round(median(found[size, mode]), 2),
               "ratio": round(median(ours / off for ours, off in zip(found[size, mode], found[size, "off"],
                                                                     strict=True)), 3)}
        for mode in RATIOS} for size in (1, BATCH)}
    print(json.dumps(result, indent=1))
    return 0 if all(way["on, ratio 0.01"]["ratio"] <= args.most for way in result.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
