"""A process that keeps partitions, until stdin ends.

`python -m tests.integration.replica_member NAME CLUSTER MCAST_PORT`
"""
from __future__ import annotations

import sys

import jgroups_py as jg
from jgroups_py.blocks.replication import Options, Replicas
from jgroups_py.testing.simulation.ledger import Records


def main(name: str, cluster: str, mcast_port: str) -> None:
    """Until there is no more input."""
    channel = jg.JChannel("udp", name=name, properties={"mcast_port": mcast_port})
    with Replicas(channel, lambda partition: Records(), Options(settle_ns="300ms")), channel:
        channel.connect(cluster)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
