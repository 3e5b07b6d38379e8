"""A group with FLOW on the simulator, for the acceptance cases of flow control."""
from __future__ import annotations

from collections.abc import Mapping

from jgroups_py.config.load import load
from jgroups_py.config.spec import StackSpec
from jgroups_py.simulator.process import App
from jgroups_py.simulator.world import World, millis, seconds

MESSAGE = 5000
STEP_NS = millis(10)


def flow_stack(fc: str, gtag: str = "", window: str = "256K", **more: str) -> StackSpec:
    """stacks/flow.xml, with failure detectors so slow that only flow control notices a silent member."""
    text = load("flow", {"fc": fc, "gtag": gtag, "window": window, **more})
    return load([layer for layer in text.layers if layer.name not in ("FD_SOCK", "FD_ALL", "VERIFY_SUSPECT")])


def group(fc: str, rates: Mapping[str, int], tags: Mapping[str, str] | None = None, seed: int = 1) -> World:
    """Members by name, each with an application that takes so many messages a second (0: any), in one view."""
    world = World(seed)
    for name, rate in rates.items():
        world.start(name, flow_stack(fc, (tags or {}).get(name, "")), app=App(rate=rate))
        world.run_while(lambda: not world.agreed(world.running()), seconds(10))
    assert world.agreed(rates)
    return world


def pump(world: World, name: str, for_ns: int, backlog_bytes: int = 1 << 20) -> int:
    """Send as a channel does, whose queue is bounded: as long as the stack keeps little back. How many were sent."""
    sent, stop_ns = 0, world.now_ns + for_ns
    while world.now_ns < stop_ns:
        while world.node(name).pending_bytes() < backlog_bytes:
            world.post(name, count=20, size=MESSAGE)
            sent += 20
            if sent % 100 == 0:
                break                                    # an application without any limit has a rate, too
        world.run_for(STEP_NS)
    return sent
