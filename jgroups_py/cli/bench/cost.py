"""Measures the CPU time of a batch on its way through a stack: in all, and layer by layer.

Two members form a group in the simulator, in this process; then one node sends batches of several sizes, and its frames
are passed to the other node. There are no sockets and threads, so this is the cost of the layers and the codec. Layers
never call each other (law 1), so the time of a layer's handlers is its own time; the cost of reading the clock is
measured and subtracted.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from time import perf_counter_ns
from typing import Any

from jgroups_py.cli.bench.figures import figure
from jgroups_py.config.load import load
from jgroups_py.model.batch import Batch
from jgroups_py.model.outputs import Deliver, Frame
from jgroups_py.node.node import Node
from jgroups_py.simulator.world import World, seconds
from jgroups_py.stack.protocol import Protocol

BATCH_SIZES = (1, 10, 100)                  # messages
BYTES = 2 << 20                             # in a round: fewer than the credits, and than what makes STABLE multicast
MOST_BATCHES = 10_000

Clock = dict[str, int]                      # layer -> ns


@contextmanager
def timed_layers(stack: str, clock: Clock) -> Iterator[None]:
    """While the context is open, layers add the time of their handlers to `clock`, by layer and direction."""
    kept: list[tuple[type, str, Any]] = []
    inside = [False]                                         # a handler called by another one of its layer is not timed
    for layer in load(stack).build():
        cls = type(layer)
        ways: dict[tuple[type, str], str] = {(cls, "up"): "up", (cls, "receive"): "up", (cls, "down"): "down"}
        ways.update({(handler.part or cls, handler.method): "up" for handler in cls.receivers.values()})
        for (owner, name), way in ways.items():
            function = getattr(owner, name, None)
            if function is not None and function is not getattr(Protocol, name, None):
                kept.append((owner, name, vars(owner).get(name)))
                setattr(owner, name, _timed(function, clock, f"{layer.name} {way}", inside))
    try:
        yield
    finally:
        for cls, name, function in kept:
            if function is None:
                delattr(cls, name)                           # it was inherited
            else:
                setattr(cls, name, function)


def _timed(function: Callable[..., Any], clock: Clock, key: str, inside: list[bool]) -> Callable[..., Any]:
    clock[key] = 0

    @wraps(function)
    def timed(*arguments: Any) -> Any:
        if inside[0]:
            return function(*arguments)
        inside[0] = True
        began = perf_counter_ns()
        found = function(*arguments)
        clock[key] += perf_counter_ns() - began
        inside[0] = False
        return found
    return timed


def pair(stack: str) -> tuple[World, Node, Node]:
    """Two members that are in one view."""
    world, spec = World(1), load(stack)
    for name in ("A", "B"):
        world.start(name, spec)
    world.run_for(seconds(5))
    assert world.agreed(["A", "B"]), "two members on a quiet network form a group"
    return world, world.node("A"), world.node("B")


def crossing(stack: str, size: int, messages: int, clock: Clock) -> tuple[float, float, dict[str, float]]:
    """(us down, us up, us of each layer) for a batch of `messages`. clock: that of `timed_layers`, or an empty one."""
    world, sender, receiver = pair(stack)
    batches = max(1, min(MOST_BATCHES, BYTES // (messages * size)))
    batch = Batch(sender.me, None, (bytes(size),) * messages)
    for node in (sender, receiver):
        node.drain()
    for key in clock:
        clock[key] = 0
    began = perf_counter_ns()
    for _ in range(batches):
        sender.send(batch, world.now_ns)
    down = perf_counter_ns() - began
    layers = {key: ns for key, ns in clock.items() if key.endswith("down")}
    frames = [b"".join(output.data) for output in sender.drain() if isinstance(output, Frame)]
    for key in clock:
        clock[key] = 0
    began = perf_counter_ns()
    for frame in frames:
        receiver.receive([(frame, None)], world.now_ns)
    up = perf_counter_ns() - began
    layers.update({key: ns for key, ns in clock.items() if key.endswith("up")})
    got = sum(len(output.batch) for output in receiver.drain() if isinstance(output, Deliver))
    assert got == batches * messages, f"{got} of {batches * messages} messages were delivered"
    return down / batches / 1e3, up / batches / 1e3, {key: ns / batches / 1e3 for key, ns in layers.items()}


def protocol_cost(stack: str, size: int, repeat: int, progress: Callable[[str], None]) -> dict[str, Any]:
    """The us of a batch of each size, down and up; for batches of one message also those of each layer."""
    found: dict[str, Any] = {}
    for messages in BATCH_SIZES:
        rounds = [crossing(stack, size, messages, {}) for _ in range(repeat)]
        found[f"down_us_batch_of_{messages}"] = figure([down for down, _, _ in rounds])
        found[f"up_us_batch_of_{messages}"] = figure([up for _, up, _ in rounds])
        progress(f"batches of {messages}: done")
    clock: Clock = {}
    with timed_layers(stack, clock):
        layered = [crossing(stack, size, 1, clock)[2] for _ in range(repeat)]
    clock_us = _clock_ns() / 1e3
    for key in layered[0]:
        times_us = [max(0.0, layers[key] - clock_us) for layers in layered]
        if max(times_us) > clock_us:                         # layers that handle no ordinary batch are left out
            found[f"layer {key}, us"] = figure(times_us)
    return {**found, "faults": []}


def _clock_ns() -> float:
    """The ns that reading the clock twice adds to a timed handler."""
    number, total = 10_000, 0
    for _ in range(number):
        began = perf_counter_ns()
        total += perf_counter_ns() - began
    return total / number
