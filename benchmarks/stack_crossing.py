"""What a run costs on its way through the packaged udp stack, down at the sender and up at the receiver.

Two members form a group in the simulator; then the sender's node gets runs of 1, 10 and 100 messages, and the frames
that it makes are handed to the receiver's node. No sockets: this is the cost of the layers and the codec. Budget
(design): a run of one crosses the stack, one way, in at most 10 us on the reference machine, with 5 us the aim.
"""
from __future__ import annotations

import argparse
import json
import statistics
import time

from jgroups_py.batch import Batch
from jgroups_py.config.load import load
from jgroups_py.node import Node
from jgroups_py.outputs import Deliver, Frame
from jgroups_py.sim.world import World, seconds

SIZES = (1, 10, 100)
MESSAGES = 20_000                 # of 100 bytes: below the credits and the traffic after which STABLE votes
PAYLOAD = bytes(100)
ROUNDS = 5


def pair() -> tuple[World, Node, Node]:
    """Two members that are in one view."""
    world = World(1)
    spec = load("udp")
    for name in ("A", "B"):
        world.start(name, spec)
    world.run_for(seconds(5))
    assert world.agreed(["A", "B"]), "two members on a quiet network form a group"
    return world, world.node("A"), world.node("B")


def crossing_us(size: int) -> tuple[float, float]:
    """Microseconds per run (down, up) for runs of `size` messages."""
    world, sender, receiver = pair()
    runs = MESSAGES // size
    batch = Batch(sender.me, None, (PAYLOAD,) * size)
    sender.drain()
    receiver.drain()
    begin = time.process_time()
    for _ in range(runs):
        sender.send(batch, world.now_ns)
    down = time.process_time() - begin
    frames = [b"".join(output.data) for output in sender.drain() if isinstance(output, Frame)]
    begin = time.process_time()
    for frame in frames:
        receiver.receive([(frame, None)], world.now_ns)
    up = time.process_time() - begin
    got = sum(len(output.batch) for output in receiver.drain() if isinstance(output, Deliver))
    assert got == runs * size, f"{got} of {runs * size} messages were delivered"
    return down / runs * 1e6, up / runs * 1e6


def measure() -> dict[str, dict[str, float]]:
    """Size of the run -> medians."""
    found = {}
    for size in SIZES:
        pairs = [crossing_us(size) for _ in range(ROUNDS)]
        down, up = (statistics.median(column) for column in zip(*pairs, strict=True))
        found[str(size)] = {"down_us_per_run": round(down, 2), "up_us_per_run": round(up, 2),
                            "us_per_message": round((down + up) / size, 3)}
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = measure()
    if args.json:
        print(json.dumps(found, indent=2))
        return
    print("run of   down us/run   up us/run   both us/message")
    for size, row in found.items():
        down, up, both = row.values()
        print(f"{size:>6}   {down:>11.1f}   {up:>9.1f}   {both:>15.2f}")


if __name__ == "__main__":
    main()
