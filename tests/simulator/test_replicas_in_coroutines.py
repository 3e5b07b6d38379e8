"""AsyncReplicas, with its driver, on the simulator: founders, many writes under way, faults."""
from __future__ import annotations

import asyncio
from random import Random

import pytest

import jgroups_py as jg
from jgroups_py import aio
from jgroups_py.blocks.replication import AsyncReplicas, Options
from jgroups_py.testing.simulation import Trial
from jgroups_py.testing.simulation.ledger import Records, values_of
from jgroups_py.testing.simulation.refusals import simulated
from tests.simulator.coroutine_bench import Bench

PARTITIONS = 2


class Writer:
    """One member: a host and a client. written: partition -> value -> its place."""

    def __init__(self, ch: aio.AsyncChannel) -> None:
        self.ch = ch
        self.applied: dict[tuple[int, int], bytes] = {}
        self.store = AsyncReplicas(
            ch, lambda partition: Records(), Options(settle_ns="300ms", keep_entries=10), founders=("A", "B", "C"),
            partitions=PARTITIONS, replicas=3, timeout=5.0,
            applied=lambda partition, number, data: self.applied.update({(partition, number): data}))
        self.number = 0
        self.answered = 0

    async def write_many(self, rng: Random) -> None:
        """Writes several values at once, then reads what must contain them."""
        partition = rng.randrange(PARTITIONS)
        values = []
        for _ in range(rng.choice((1, 2, 20))):
            self.number += 1
            values.append(f"{self.ch.me.raw.hex()[:6]}.{self.number}".encode())
        born = await self.store.birth()
        places = await asyncio.gather(*[self.store.write(partition, value) for value in values])
        found = values_of(await self.store.read(partition, strong=rng.random() < 0.5))
        self.answered += len(places)
        if born == await self.store.birth():
            for value, place in zip(values, places, strict=True):
                assert found[int.from_bytes(place, "big")] == value, "a read lacks the writes before it"


async def start(ch: aio.AsyncChannel) -> Writer:
    """A member, in a group with a store."""
    writer = Writer(ch)
    await ch.connect("stores")
    return writer


async def act(writer: Writer, rng: Random) -> None:
    """An operation."""
    await writer.write_many(rng)


def replicas_agree(writers: list[Writer]) -> None:
    """What replicas of running members have carried out is the same, entry by entry (P1)."""
    known: dict[tuple[int, int, int], bytes] = {}
    for writer in writers:
        host = writer.store._driver.host
        if host is None or host.store is None:
            continue
        for (partition, number), data in writer.applied.items():
            name = int.from_bytes(host.store[0][:8], "big"), partition, number
            assert known.setdefault(name, data) == data, f"entry {number} of partition {partition} differs"


@pytest.mark.slow
def test_writes_are_read_and_replicas_agree() -> None:
    answered = []

    def at_end(writers: list[Writer]) -> None:
        replicas_agree(writers)
        answered.append(sum(writer.answered for writer in writers))
    for seed in range(40):
        assert Trial("group", start, act, always=replicas_agree, at_end=at_end).run(seed).violations == ()
    assert sum(answered) > 1000


def test_founders_create_one_store_and_a_later_one_has_a_higher_birth_number() -> None:
    births: list[int] = []

    async def app(ch: aio.AsyncChannel) -> None:
        store = AsyncReplicas(ch, lambda partition: Records(), founders=("A", "B"), partitions=1, replicas=2)
        await ch.connect("x")
        await store.wait_for_leaders(60)
        births.append(await store.birth())
    with simulated("test"):
        made = Bench(app, "AB")
        made.until(lambda: len(births) == 2)
        assert births[0] == births[1] > 0
        made.stage.crash("A")
        made.stage.crash("B")
        made.start("A")
        made.start("B")
        made.until(lambda: len(births) == 4, 60)
        assert births[3] == births[2] > births[0]
        made.stage.dispose()


def test_writes_of_a_closed_channel_end_with_the_reason() -> None:
    ended: list[str] = []

    async def app(ch: aio.AsyncChannel) -> None:
        store = AsyncReplicas(ch, lambda partition: Records(), timeout=30)
        await ch.connect("x")
        write = asyncio.create_task(store.write(0, b"x"))    # there is no store
        await asyncio.sleep(0.1)
        await ch.close()
        try:
            await write
        except jg.NotConnectedError as error:
            ended.append(str(error))
        try:
            await store.write(0, b"x")
        except jg.ChannelClosedError as error:
            ended.append(str(error))
    with simulated("test"):
        made = Bench(app, "A")
        made.until(lambda: len(ended) == 2)
        made.stage.dispose()
    assert "disconnected" in ended[0]
