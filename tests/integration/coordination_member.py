"""A process with locks, for tests and benchmarks.

`python -m tests.integration.coordination_member NAME CLUSTER MCAST_PORT TTL WORK [BIND_ADDR]`; WORK is

holder    take the lock "held", say "held FENCE TIME", and keep it until stdin ends; "lost TIME" once it sees that it
          has lost it. TIME: of the monotonic clock, in seconds
client    the same without a copy of the store
updater   again and again: take the lock "updated"; say "read FENCE", which is answered with a number, or "stale"; say
          "write FENCE NUMBER" with the next number, which is answered with "ok" or "stale". "end" ends it
leader    where it leads "led" (@co.leader): say "leads FENCE", then each 10 ms "write FENCE"; "ends FENCE" once it sees
          that it does not lead any more
coroutine the same with `async with co.leadership("led")`, whose body is cancelled
idle      hold a copy of the store until stdin ends
"""
from __future__ import annotations

import asyncio
import sys
import threading
import time

import jgroups_py as jg
from jgroups_py.aio import AsyncChannel
from jgroups_py.blocks.coordination import AsyncCoordination, Coordination, Grant, LostError
from jgroups_py.blocks.replication import Options

FOUNDERS = ("A", "B", "C")
PAUSE_S = 0.01                             # of a leader, from when it looks whether it leads to its next line


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


def lead(grant: Grant) -> None:
    """A leader. A line comes after a pause, so that one which is stopped in it writes one more."""
    say(f"leads {grant.fence}")
    while grant.valid:
        time.sleep(PAUSE_S)
        say(f"write {grant.fence}")
    say(f"ends {grant.fence}")


async def lead_in_a_coroutine(name: str, cluster: str, mcast_port: str, ttl: str) -> None:
    """The same as a coroutine, for ever."""
    async with AsyncChannel("udp", name=name, properties={"mcast_port": mcast_port}) as channel:
        co = AsyncCoordination(channel, FOUNDERS, ttl)
        await channel.connect(cluster)
        await co.wait_for_store(60)
        say("ready")
        while True:
            fence = 0
            try:
                async with co.leadership("led") as grant:
                    fence = grant.fence
                    say(f"leads {fence}")
                    while True:
                        await asyncio.sleep(PAUSE_S)
                        say(f"write {fence}")
            except (LostError, jg.ChannelError) as error:
                sys.stderr.write(f"{name}: {error}\n")
                if fence:
                    say(f"ends {fence}")


def watch(grant: Grant) -> None:
    """Say when it is lost."""
    while grant.valid:
        time.sleep(0.001)
    say(f"lost {time.monotonic()}")


def main(name: str, cluster: str, mcast_port: str, ttl: str, work: str, bind_addr: str = "127.0.0.1") -> None:
    """Until there is no more input; a coroutine: for ever."""
    if work == "coroutine":
        asyncio.run(lead_in_a_coroutine(name, cluster, mcast_port, ttl))
    channel = jg.JChannel("udp", name=name, properties={
        "mcast_port": mcast_port, "bind_addr": bind_addr, "ip_ttl": "0" if bind_addr.startswith("127.") else "1"})
    co = Coordination(channel, founders=FOUNDERS, ttl=ttl) if work != "client" else \
        Coordination(channel, ttl=ttl, options=Options(weight=0))
    with channel:
        channel.connect(cluster)
        co.wait_for_store(60)
        say("ready")
        if work in ("holder", "client"):
            grant = co.lock("held").acquire()
            say(f"held {grant.fence} {time.monotonic()}")
            threading.Thread(target=watch, args=(grant,), daemon=True).start()
        if work == "leader":
            co.leader("led")(lead)
        while work == "updater":
            try:
                update(co)
            except (LostError, jg.ChannelError) as error:
                sys.stderr.write(f"{name}: {error}\n")
        while True:
            heard()


if __name__ == "__main__":
    main(*sys.argv[1:])
