"""A process that keeps partitions, until stdin ends. For each line of it, it prints how many replicas partition 0 has.

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
    with Replicas(channel, lambda partition: Records(), Options(settle_ns="300ms")) as store, channel:
        channel.connect(cluster)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        for _ in sys.stdin:
            known = store.report().get(0)
            sys.stdout.write(f"{0 if known is None else len(known['members'])}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
