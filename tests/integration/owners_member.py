"""A process that owns partitions, for tests.

`python -m tests.integration.owners_member NAME CLUSTER MCAST_PORT TTL`. Prints "ready", then, as it happens, "gained
PARTITION FENCE", "lost PARTITION FENCE VALID" (VALID: 1 or 0), and every 50 ms "write PARTITION FENCE" for each
partition that it was told to be its own 50 ms before, without another look: as what is on its way to a resource. The
line "close" gives everything back and prints "closed"; the end of its input ends it.
"""
from __future__ import annotations

import sys
import threading
import time

import jgroups_py as jg
from jgroups_py.blocks.coordination import Coordination
from jgroups_py.blocks.owners import OwnerGrant, Owners
from tests.integration.coordination_member import FOUNDERS

PARTITIONS = 6
PAUSE_S = 0.05


class Worker:
    """What the process does with its partitions."""

    def __init__(self) -> None:
        self.held: dict[int, int] = {}                       # partition -> fence
        self.lock = threading.Lock()

    def say(self, *words: object) -> None:
        with self.lock:
            sys.stdout.write(" ".join(map(str, words)) + "\n")
            sys.stdout.flush()

    def gained(self, partition: int, grant: OwnerGrant) -> None:
        self.held[partition] = grant.fence
        self.say("gained", partition, grant.fence)

    def lost(self, partition: int, grant: OwnerGrant) -> None:
        del self.held[partition]
        self.say("lost", partition, grant.fence, int(grant.valid))

    def write(self) -> None:
        while True:
            found = list(self.held.items())
            time.sleep(PAUSE_S)
            for partition, fence in found:
                self.say("write", partition, fence)


def main(name: str, cluster: str, mcast_port: str, ttl: str) -> None:
    """Until there is no more input."""
    worker = Worker()
    channel = jg.JChannel("udp", name=name, properties={"mcast_port": mcast_port})
    co = Coordination(channel, founders=FOUNDERS, ttl=ttl)
    with channel:
        channel.connect(cluster)
        owners = Owners(co, "shards", PARTITIONS, gained=worker.gained, lost=worker.lost)
        co.wait_for_store(60)
        worker.say("ready")
        threading.Thread(target=worker.write, daemon=True).start()
        for line in sys.stdin:
            if line == "close\n":
                owners.close(30)
                worker.say("closed")


if __name__ == "__main__":
    main(*sys.argv[1:])
