"""Very many waiters of one lock (case 20): python -m tests.simulator.waiters [--waiters 10000]

Five members, of which three have a copy of the store, on the simulated event loop. All coroutines ask for one lock and
let it go at once. Counted: the order of grants beside the order of the log's entries, the bytes that the leader of the
store keeps for each wait, and the renewals of each member's session while all wait.
"""
from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser

import attrs

from jgroups_py.aio import AsyncChannel
from jgroups_py.blocks.coordination import AsyncCoordination
from jgroups_py.blocks.coordination.machine import GrantWatcher, Key, Wait
from jgroups_py.blocks.coordination.messages import GrantResult
from jgroups_py.model.units import seconds
from jgroups_py.simulator.object_sizes import weigh
from jgroups_py.testing.simulation.refusals import simulated
from tests.simulator.code_bench import Bench

NAMES, FOUNDERS = "ABCDE", ("A", "B", "C")
NAME = "one"
TTL_S = 3.0
MOST_BYTES, MOST_RENEWALS_PER_S = 1024, 1.0
SETTLED_S = 10
WATCHED_S = 30                             # of renewals, while all wait
LIMIT_S = 600.0                            # simulated


class Order(GrantWatcher):
    """The waits and the grants of a copy, in the order of its log."""

    def __init__(self) -> None:
        self.waited: list[Wait] = []
        self.granted_to: list[Wait] = []

    def waits(self, store: int, key: Key, wait: Wait) -> None:
        self.waited.append(wait)

    def granted(self, store: int, key: Key, granted: GrantResult, wait: Wait) -> None:
        self.granted_to.append(wait)


@attrs.frozen
class Found:
    """waiters: that have had the lock. in_order: in that of the entries, and no fence was below one before.
    bytes_each: of a wait, at the leader. renewals_per_s: of a session, the most of all members."""

    waiters: int
    in_order: bool
    bytes_each: float
    renewals_per_s: float

    @property
    def holds(self) -> bool:
        """Whether it is as was wanted."""
        return self.in_order and self.bytes_each <= MOST_BYTES and self.renewals_per_s <= MOST_RENEWALS_PER_S


def measure(waiters: int) -> Found:
    """Let so many wait at once, then let all of them have the lock."""
    orders = {name: Order() for name in NAMES}
    blocks: dict[str, AsyncCoordination] = {}
    fences: list[int] = []
    stage: dict[str, bool] = {}

    async def one(co: AsyncCoordination) -> None:
        async with co.lock(NAME) as grant:
            fences.append(grant.fence)

    async def hold_the_others_up(co: AsyncCoordination) -> None:
        async with co.lock(NAME):
            stage["held"] = True
            while "let go" not in stage:
                await asyncio.sleep(0.1)

    async def app(ch: AsyncChannel) -> None:
        co = blocks[ch.name] = AsyncCoordination(ch, FOUNDERS, TTL_S, watcher=orders[ch.name])
        await ch.connect("waiters")
        await co.wait_for_store(60)
        tasks = [hold_the_others_up(co)] if ch.name == NAMES[0] else []
        first = [asyncio.ensure_future(task) for task in tasks]
        while "ask" not in stage:
            await asyncio.sleep(0.1)
        await asyncio.gather(*first, *(one(co) for _ in range(waiters // len(NAMES))))
    number = waiters // len(NAMES) * len(NAMES)
    with simulated("waiters"):
        bench = Bench(app, NAMES)
        try:
            bench.until(lambda: "held" in stage, LIMIT_S)
            bench.stage.run_for(seconds(SETTLED_S))          # replicas move to where they are best placed
            leader = next(name for name in NAMES if leads(blocks[name]))
            stage["ask"] = True
            before = content(blocks[leader], orders[leader])
            bench.until(lambda: len(orders[leader].waited) == number, LIMIT_S)
            bench.stage.run_for(seconds(1))
            renewals = {name: co.stats()["renewals"] for name, co in blocks.items()}
            bench.stage.run_for(seconds(WATCHED_S))
            most = max(co.stats()["renewals"] - renewals[name] for name, co in blocks.items())
            assert leads(blocks[leader]), "the leader moved meanwhile: its replica is not that which was weighed before"
            weight = content(blocks[leader], orders[leader]) - before
            stage["let go"] = True
            bench.until(lambda: len(fences) == number, LIMIT_S)
        finally:
            bench.stage.dispose()
    order = orders[leader]
    return Found(len(fences), order.granted_to[1:] == order.waited and fences == sorted(fences), weight / number,
                 most / WATCHED_S)


def leads(co: AsyncCoordination) -> bool:
    """Whether the leader of the store is at this member."""
    host = co._driver.replicas.host
    return host is not None and 0 in host.parts and host.parts[0].is_ready


def content(co: AsyncCoordination, order: Order) -> int:
    """The bytes of the replica of a member: its log, and the content with all sessions and what they wait for."""
    host = co._driver.replicas.host
    assert host is not None
    state = host.parts[0].state
    return weigh([state.content, state.log], shared=(order,))


def main(words: list[str]) -> int:
    """The command."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--waiters", type=int, default=10_000)
    found = measure(parser.parse_args(words).waiters)
    sys.stdout.write(f"{found.waiters} waits, granted {'' if found.in_order else 'NOT '}in the order of the log; at "
                     f"the leader {found.bytes_each:.0f} bytes a wait; {found.renewals_per_s:.2f} renewals/s of a "
                     "session\n")
    return 0 if found.holds else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
