"""A process with locks, for tests and benchmarks.

`python -m tests.integration.coordination_member NAME CLUSTER MCAST_PORT TTL WORK`; WORK is

holder    take the lock "held", say "held FENCE", and keep it until stdin ends
updater   again and again: take the lock "updated"; say "read FENCE", which is answered with a number, or "stale"; say
          "write FENCE NUMBER" with the next number, which is answered with "ok" or "stale". "end" ends it
idle      hold a copy of the store until stdin ends
"""
from __future__ import annotations

import sys
import time

import jgroups_py as jg
from jgroups_py.blocks.coordination import Coordination, LostError

FOUNDERS = ("A", "B", "C")


def say(text: str) -> None:
    """A line for the parent."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def heard() -> str:
    """The parent's answer; the end of its output ends this process."""
    line = sys.stdin.readline()
    if not line or line == "end\n":
        raise SystemExit
    return line.strip()


def update(co: Coordination) -> None:
    """One update: read, then write what follows."""
    with co.lock("updated", timeout=30) as grant:
        say(f"read {grant.fence}")
        number = heard()
        if number != "stale":
            time.sleep(0.002)
            say(f"write {grant.fence} {int(number) + 1}")
            heard()


def main(name: str, cluster: str, mcast_port: str, ttl: str, work: str) -> None:
    """Until there is no more input."""
    channel = jg.JChannel("udp", name=name, properties={"mcast_port": mcast_port})
    co = Coordination(channel, founders=FOUNDERS, ttl=ttl)
    with channel:
        channel.connect(cluster)
        co.wait_for_store(60)
        say("ready")
        if work == "holder":
            say(f"held {co.lock('held').acquire().fence}")
        while work == "updater":
            try:
                update(co)
            except (LostError, jg.ChannelError) as error:
                sys.stderr.write(f"{name}: {error}\n")
        while True:
            heard()


if __name__ == "__main__":
    main(*sys.argv[1:])
