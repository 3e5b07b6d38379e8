"""Claim: what a message costs grows with the members only by the copies the network makes.

    python -m benchmarks.scale                       # on the simulator: exact counts, one core, about two minutes
    python -m benchmarks.scale --plot design/plots   # and draws them (needs matplotlib: pip install jgroups_py[bench])
    python -m benchmarks.scale --processes           # real processes by UDP, 2 to 32 of them

The simulator runs the production stack without sockets, so a group of 64 fits one process, counts do not depend on the
machine, and CPU time is that of the stacks and of the simulator together. A multicast frame counts once, as an IP
multicast network carries it. Everything in the table is per group size: one member multicasts, then all do.
"""
from __future__ import annotations

import json
import sys
import tracemalloc
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import attrs

from benchmarks.claims import measure
from jgroups_py.config.load import load
from jgroups_py.model.batch import Batch
from jgroups_py.simulator.process import App
from jgroups_py.simulator.world import World, millis, seconds

SIZES = (2, 4, 8, 16, 32, 64)
PROCESSES = (2, 4, 8, 16, 32)
MESSAGES, PIECE, BYTES = 16_384, 64, 1000
PACE = millis(2)                            # a piece from each sender so often: 32,000 messages a second
SETTLE, IDLE = seconds(3), seconds(20)
FLIGHTS = (1_000, 4_000, 16_000, 64_000)    # messages under way when memory is looked at
MEGABYTE = 1e6
MESSAGE_FIELDS = ("cpu_us_per_delivery", "control_bytes_per_message", "frames_per_message")
MESSAGE_TITLES = ("CPU us per delivered message", "control bytes per message", "frames per message, all members")
GROUP_FIELDS = ("form_s", "idle_frames_per_member_s")
GROUP_TITLES = ("s until all starting at once have one view", "frames a second and member, idle")


class Counting(App):
    """An application that only counts, so that the figures are the stack's."""

    count = 0

    def delivered(self, batch: Batch) -> None:
        self.count += len(batch.payloads)


@attrs.frozen
class Cost:
    """What one group size cost. Per message: of those multicast; per delivery: of those given to applications."""

    members: int
    senders: str
    frames_per_message: float
    control_bytes_per_message: float                         # all bytes sent but the payloads
    cpu_us_per_delivery: float


@attrs.frozen
class Shape:
    """What a group of this size does without messages."""

    members: int
    form_s: float                                            # all start at once -> one view, virtual time
    form_frames_per_member: float
    idle_frames_per_member_s: float


@attrs.frozen
class Flight:
    """Memory for messages that not everybody has acknowledged."""

    messages: int
    megabytes: float
    overhead_bytes: float                                    # per message, beyond its payload


def names(members: int) -> list[str]:
    """M00, M01, ..."""
    return [f"M{number:02}" for number in range(members)]


def group(members: int) -> World:
    """A group in one view."""
    world = World(members)
    for name in names(members):
        world.start(name, load("udp"), app=Counting())
    if not world.run_while(lambda: not world.agreed(names(members)), seconds(30)):
        raise SystemExit(f"{members} members found no common view")
    return world


def total(world: World, figure: str) -> float:
    """The sum of one of the transport's counters over all members."""
    return sum(world.stats(name)["UDP"].get(figure, 0) for name in world.running())


def shape(members: int) -> Shape:
    """Forming, then nothing."""
    world = group(members)
    formed_ns, frames = world.now_ns, total(world, "frames_sent")
    world.run_for(SETTLE)
    before = total(world, "frames_sent")
    world.run_for(IDLE)
    idle = (total(world, "frames_sent") - before) / members / (IDLE / 1e9)
    return Shape(members, formed_ns / 1e9, frames / members, idle)


def cost(members: int, senders: str) -> Cost:
    """A flood of MESSAGES in all."""
    world = group(members)
    world.run_for(SETTLE)
    sending = names(members) if senders == "all" else names(members)[:1]
    rounds = MESSAGES // PIECE // len(sending)
    frames, sent_bytes = total(world, "frames_sent"), total(world, "bytes_sent")
    began_s = process_time()
    payloads = [bytes(BYTES)] * PIECE
    for _ in range(rounds):
        for name in sending:
            world.send(name, None, payloads)
        world.run_for(PACE * len(sending))
    messages = rounds * len(sending) * PIECE
    world.run_while(lambda: any(counted(world, name) < messages for name in world.running()), seconds(30))
    took_s = process_time() - began_s
    late = [name for name in world.running() if counted(world, name) != messages]
    if late:
        raise SystemExit(f"{', '.join(late)} did not get {messages} messages")
    return Cost(members, senders, (total(world, "frames_sent") - frames) / messages,
                (total(world, "bytes_sent") - sent_bytes) / messages - BYTES,
                took_s / (messages * members) * 1e6)


def counted(world: World, name: str) -> int:
    """How many messages a member's application was given."""
    app = world.process(name).app
    assert isinstance(app, Counting), "this benchmark starts members with it"
    return app.count


def in_flight(messages: int) -> Flight:
    """What one sender's stack keeps while a member that is cut off, but not yet suspected, acknowledges nothing."""
    world = group(3)
    world.run_for(SETTLE)
    world.partition([["M00", "M01"], ["M02"]])
    node = world.node("M00")
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(messages // PIECE):
        payloads = tuple(number.to_bytes(BYTES, "big") for number in range(PIECE))       # objects of their own
        node.send(Batch(node.me, None, payloads), world.now_ns)
        node.drain()
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return Flight(messages, used / MEGABYTE, used / messages - BYTES)


def curves(tell: Callable[[str], None]) -> dict[str, list[dict[str, float | str]]]:
    """Everything on the simulator."""
    tell(f"{'members':>7} {'form s':>8} {'frames each':>12} {'idle frames/s each':>19}")
    shapes = []
    for members in SIZES:
        found = shape(members)
        tell(f"{members:7} {found.form_s:8.2f} {found.form_frames_per_member:12.1f} "
             f"{found.idle_frames_per_member_s:19.2f}")
        shapes.append(found)
    tell(f"\n{'members':>7} {'senders':>8} {'frames/msg':>11} {'control B/msg':>14} {'CPU us/delivery':>16}")
    costs = []
    for senders in ("one", "all"):
        for members in SIZES:
            dear = cost(members, senders)
            tell(f"{members:7} {senders:>8} {dear.frames_per_message:11.4f} {dear.control_bytes_per_message:14.2f} "
                 f"{dear.cpu_us_per_delivery:16.2f}")
            costs.append(dear)
    tell(f"\n{'in flight':>9} {'MB':>8} {'bytes beyond the payload':>25}")
    flights = []
    for messages in FLIGHTS:
        flight = in_flight(messages)
        tell(f"{messages:9} {flight.megabytes:8.1f} {flight.overhead_bytes:25.1f}")
        flights.append(flight)
    return {"shapes": [attrs.asdict(item) for item in shapes], "costs": [attrs.asdict(item) for item in costs],
            "flights": [attrs.asdict(item) for item in flights]}


def draw(found: dict[str, list[dict[str, float | str]]], folder: Path) -> None:
    """Three pictures as SVG."""
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot
    folder.mkdir(parents=True, exist_ok=True)
    costs, shapes, flights = found["costs"], found["shapes"], found["flights"]
    figure, axes = pyplot.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    for axis, field, title in zip(axes, MESSAGE_FIELDS, MESSAGE_TITLES, strict=True):
        for senders in ("one", "all"):
            rows = [row for row in costs if row["senders"] == senders]
            axis.plot([row["members"] for row in rows], [row[field] for row in rows], "o-", label=f"{senders} sending")
        finish(axis, title, "members")
    figure.savefig(folder / "scale-messages.svg")
    figure, axes = pyplot.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    for axis, field, title in zip(axes[:2], GROUP_FIELDS, GROUP_TITLES, strict=True):
        axis.plot([row["members"] for row in shapes], [row[field] for row in shapes], "o-")
        finish(axis, title, "members")
    axes[2].plot([row["messages"] for row in flights], [row["megabytes"] for row in flights], "o-", label="1 KB each")
    finish(axes[2], "MB kept by a sender's stack", "messages in flight")
    figure.savefig(folder / "scale-group.svg")


def finish(axis: Any, title: str, label: str) -> None:
    """What all plots have."""
    axis.set_title(title, fontsize=10)
    axis.set_xlabel(label)
    axis.set_ylim(bottom=0)
    axis.grid(alpha=0.3)
    if axis.get_legend_handles_labels()[0]:
        axis.legend(fontsize=8)


def main() -> None:
    """See the module."""
    parser = ArgumentParser(prog="python -m benchmarks.scale", description=__doc__.split("\n\n")[0])
    parser.add_argument("--plot", type=Path, metavar="FOLDER", help="draw the curves there")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--processes", action="store_true", help="measure real processes instead; further options go "
                        "to `jgroups bench multicast`")
    args, rest = parser.parse_known_args()
    if args.processes:
        sys.argv[1:] = [*rest, *(["--json"] if args.json else [])]
        measure([("multicast", "--members", str(members)) for members in PROCESSES],
                ("msgs_per_s", "cpu_us_per_msg", "rss_mb"))
        return
    if rest:
        parser.error(f"unknown: {' '.join(rest)}")
    found = curves((lambda _: None) if args.json else (lambda line: print(line, flush=True)))
    if args.json:
        print(json.dumps(found, indent=2))
    if args.plot is not None:
        draw(found, args.plot)


if __name__ == "__main__":
    main()
