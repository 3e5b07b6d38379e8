"""Case 12: so many peers in one process that start at once with one seed, until all list all.

    python -m tests.simulator.full_exchange --peers 300
"""
from __future__ import annotations

import argparse
import sys
import time

import attrs

from benchmarks.swim import Ether
from jgroups_py.config.load import load
from jgroups_py.model.events import Broadcast
from jgroups_py.model.units import NS_PER_S, millis, seconds
from jgroups_py.simulator import World
from jgroups_py.simulator.network import Weather
from tests.unit.protocols.pex.peers import CLUSTER, PORT


@attrs.frozen
class Exchange:
    """When all knew all, in simulated time; how many datagrams that took, and what came of a broadcast then."""

    at_ns: int
    datagrams: int
    reached: int


def full_exchange(number: int, limit_ns: int = seconds(20)) -> Exchange:
    """Raises AssertionError if they do not get so far."""
    world = World(1)
    world.network = Ether("1", Weather())                  # a path for each of a million pairs would take gigabytes
    spec = load("gossip", {"seeds": f"{world.ip('P0')}[{PORT}]", "profile": "influx-2023"})
    names = [f"P{at}" for at in range(number)]
    for name in names:
        world.start(name, spec, CLUSTER)

    def lacking() -> bool:
        return any(world.stats(name)["PEX"]["peers"] < number - 1 for name in names)

    assert world.run_while(lacking, limit_ns, millis(250)), f"{number} peers did not meet"
    at_ns, datagrams = world.now_ns, world.frame_count
    world.inject("P1", Broadcast(b"to all"))
    world.run_for(millis(100))
    return Exchange(at_ns, datagrams, sum(world.delivered(name, unicast=True) == [b"to all"] for name in names))


def main() -> int:
    """Run it and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", type=int, default=300)
    peers = parser.parse_args().peers
    began_s = time.monotonic()
    found = full_exchange(peers)
    sys.stdout.write(f"{peers} peers: all list all after {found.at_ns / NS_PER_S:.2f} s of their time, "
                     f"{found.datagrams} datagrams; a broadcast reached {found.reached}; took "
                     f"{time.monotonic() - began_s:.0f} s\n")
    return 0 if found.reached == peers - 1 else 1


if __name__ == "__main__":
    sys.exit(main())
