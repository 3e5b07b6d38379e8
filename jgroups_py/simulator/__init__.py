"""The simulator: production nodes on a virtual network and clock, with faults, a history and checkers.

    world = World(seed=1)
    for name in "ABC":
        world.start(name, udp_stack(), cluster="demo")
    world.run_for(seconds(3))
    world.send("A", None, [b"x", b"y"])

See design/simulator.md. Everything random follows from the seed; the same seed gives the same history, byte by byte.

Ring 4.
"""
from jgroups_py.simulator.history import History
from jgroups_py.simulator.network import Weather
from jgroups_py.simulator.process import App, Process
from jgroups_py.simulator.stacks import make_stack
from jgroups_py.simulator.world import World

__all__ = ["App", "History", "Process", "Weather", "World", "make_stack"]
