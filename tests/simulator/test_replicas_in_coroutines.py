"""AsyncReplicas, with its driver, on the simulator: founders, many writes under way, faults."""
from __future__ import annotations

import asyncio
from random import Random

import pytest

import jgroups_py as jg
from jgroups_py import aio
from jgroups_py.blocks.replication import AsyncReplicas, Options
from jgroups_py.blocks.replication.messages import PartitionRequest, encode
from jgroups_py.blocks.replication.store import SERVICE
from jgroups_py.runtime.send_queue import NOW
from jgroups_py.testing.simulation import Trial
from jgroups_py.testing.simulation.ledger import Records, values_of
from jgroups_py.testing.simulation.refusals import simulated
from jgroups_py.wire.block_headers import PartitionMessage
from tests.simulator.code_bench import Bench

PARTITIONS = 2


class Writer:
    """One member: a host and a client. applied: partition, number and data of entries that nobody has compared yet."""

    def __init__(self, ch: aio.AsyncChannel) -> None:
        self.ch = ch
        self.applied: list[tuple[int, int, bytes]] = []
        self.store = AsyncReplicas(
            ch, lambda partition: Records(), Options(settle_ns="300ms", keep_entries=10), founders=("A", "B", "C"),
            partitions=PARTITIONS, replicas=3, timeout=5.0,
            applied=lambda partition, number, data: self.applied.append((partition, number, data)))
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


class Agreement:
    """What replicas of running members carry out is the same, entry by entry (P1). For one run."""

    def __init__(self) -> None:
        self.entries: dict[tuple[int, int, int], bytes] = {}   # store, partition, number -> data
        self.answered = 0

    def check(self, writers: list[Writer]) -> None:
        """What came since the last time, against all that came before."""
        for writer in writers:
            host = writer.store._driver.host
            if host is None or host.store is None:
                continue
            store = int.from_bytes(host.store[0][:8], "big")
            for partition, number, data in writer.applied:
                known = self.entries.setdefault((store, partition, number), data)
                assert known == data, f"entry {number} of partition {partition} differs"
            writer.applied.clear()

    def at_end(self, writers: list[Writer]) -> None:
        """At the end of the run."""
        self.check(writers)
        self.answered = sum(writer.answered for writer in writers)


@pytest.mark.long
@pytest.mark.slow
def test_writes_are_read_and_replicas_agree() -> None:
    answered = entries = 0
    for seed in range(16):
        agreement = Agreement()
        trial = Trial("group", start, act, always=agreement.check, at_end=agreement.at_end)
        assert trial.run(seed).violations == ()
        answered += agreement.answered
        entries += len(agreement.entries)
    assert answered > 1000
    assert entries > 1000, "hardly any entry was compared"


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


def test_what_cannot_be_sent_is_refused_before_it_is() -> None:
    refused: list[str] = []

    async def app(ch: aio.AsyncChannel) -> None:
        store = AsyncReplicas(ch, lambda partition: Records(), founders=("A",), partitions=1, replicas=1)
        await ch.connect("x")
        for partition, data in ((-1, b"x"), (1 << 20, b"x"), ("0", b"x"), (0, "x"), (0, bytes(1 << 30))):
            with pytest.raises((TypeError, ValueError)) as error:
                await store.write(partition, data)           # type: ignore[arg-type]
            refused.append(str(error.value))
        await store.wait_for_leaders()
        assert await store.write(0, b"x") == bytes(4)
        store.timeout = 0.5
        with pytest.raises(jg.ChannelError, match="partition 5: no write within"):
            await store.write(5, b"the store has one partition")
        refused.append("done")
    with simulated("test"):
        made = Bench(app, "A")
        made.until(lambda: len(refused) == 6, 30)
        made.stage.dispose()


def test_malformed_requests_are_counted_and_end_nothing() -> None:
    counted: list[dict[str, int]] = []

    async def app(ch: aio.AsyncChannel) -> None:
        store = AsyncReplicas(ch, lambda partition: Records(), founders=("A",), partitions=1, replicas=1)
        await ch.connect("x")
        await store.wait_for_leaders()
        good = encode(PartitionRequest(0, 1, 1, b"", 0, b""))
        for payload in (bytes((30,)), good.replace(b"\x01", b"\x09"), good + b"x", bytes((31, 7)), bytes((200,)), b""):
            ch.connection().sends.put(ch.me, payload, 0, (PartitionMessage(SERVICE),), NOW)
        ch.connection().sends.put(ch.me, good, 0, (PartitionMessage(7),), NOW)
        await asyncio.sleep(0.1)
        assert await store.write(0, b"x") == bytes(4)
        counted.append(await store.stats())
    with simulated("test"):
        made = Bench(app, "A")
        made.until(lambda: counted, 30)
        made.stage.dispose()
    assert (counted[0]["malformed_requests"], counted[0]["malformed"], counted[0]["for_no_store"]) == (4, 2, 1)


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
