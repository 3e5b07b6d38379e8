"""The other world: production nodes on a virtual network and clock, with faults, a history and checkers.

    world = World(seed=1)
    for name in "ABC":
        world.start(name, udp_stack(), cluster="demo")
    world.run_for(seconds(3))
    world.send("A", None, [b"x", b"y"])

See design/simulator.md. Everything random follows from the seed; the same seed gives the same history, byte by byte.
"""
from jgroups_py.sim.history import History
from jgroups_py.sim.network import Weather
from jgroups_py.sim.process import App, Process
from jgroups_py.sim.stacks import make_stack
from jgroups_py.sim.world import World

__all__ = ["App", "History", "Process", "Weather", "World", "make_stack"]
