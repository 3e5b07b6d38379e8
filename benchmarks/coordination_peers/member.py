"""A process of the comparison: `python -m benchmarks.coordination_peers.member ROLE ...`.

server NAME CLUSTER MCAST_PORT TTL_S EXPIRE   a member with a copy of the store; says "ready"
holder KIND PLACE TTL_S NAME                  a client of any store that takes a lock; says "held"

Both live until their input ends, or until they are killed.
"""
from __future__ import annotations

import sys

from benchmarks.coordination_peers.clients import KINDS
from jgroups_py import JChannel
from jgroups_py.blocks.coordination import Coordination

FOUNDERS = ("A", "B", "C")
START_S = 60.0


def said(text: str) -> None:
    """Tell the parent, and wait for the end of its output."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
    sys.stdin.read()


def serve(name: str, cluster: str, mcast_port: str, ttl_s: str, expire: str) -> None:
    """Be a member with a copy."""
    channel = JChannel("udp", name=name, properties={"mcast_port": mcast_port})
    co = Coordination(channel, founders=FOUNDERS, ttl=float(ttl_s), expire=expire)
    with channel:
        channel.connect(cluster)
        co.wait_for_store(START_S)
        said("ready")


def hold(kind: str, place: str, ttl_s: str, name: str) -> None:
    """Be a client that holds a lock."""
    client = KINDS[kind](place, float(ttl_s))
    client.acquire(name)
    said("held")
    client.close()


if __name__ == "__main__":
    {"server": serve, "holder": hold}[sys.argv[1]](*sys.argv[2:])
