"""An application that uses what asyncio keeps in sets, chance, clocks, requests and a dict: for Z1."""
from __future__ import annotations

import asyncio
import random
import secrets
import time
import uuid
from random import Random

from jgroups_py import aio
from jgroups_py.blocks.dicts.replicated import ReplicatedDict
from jgroups_py.blocks.rpc.aio import AsyncRpc
from jgroups_py.testing.simulation import Trial


class Busy:
    """What one member holds."""

    def __init__(self, ch: aio.AsyncChannel) -> None:
        self.ch = ch
        self.rpc = AsyncRpc(ch, self.answer)
        self.dict = ReplicatedDict(ch, "d", str, bytes)
        self.heart: asyncio.Task[None] | None = None

    async def answer(self, request: object) -> bytes:
        """Answers after a while."""
        await asyncio.sleep(random.uniform(0, 0.05))
        return uuid.uuid4().bytes

    async def beat(self) -> None:
        """Sends now and then."""
        while True:
            await asyncio.sleep(random.uniform(0.05, 0.2))
            await self.ch.send(b"%.3f" % time.monotonic() + secrets.token_bytes(2))


async def start(ch: aio.AsyncChannel) -> Busy:
    """A member."""
    busy = Busy(ch)
    await ch.connect("x")
    busy.heart = asyncio.create_task(busy.beat())
    return busy


async def act(busy: Busy, rng: Random) -> None:
    """One operation of everything."""
    asked = [asyncio.create_task(busy.rpc.request(member, b"?", timeout=1)) for member in busy.ch.members]
    asked += [asyncio.create_task(busy.rpc.request(busy.ch.me, b"?", timeout=1)) for _ in range(20)]
    done, _ = await asyncio.wait(asked)
    first = next(iter(done))                             # whichever that is: it decides when all else happens
    await asyncio.sleep(asked.index(first) / 1000)
    found = [b"" if task.exception() else task.result() for task in done]
    for ended in asyncio.as_completed([asyncio.sleep(rng.random() / 100, b"%d" % number) for number in range(20)]):
        found.append(await ended)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(busy.dict.aput(f"key {number}", b" ".join(found)))


def run(seed: int) -> str:
    """The digest of a run."""
    return Trial("dict", start, act, sends_for_ever=True).run(seed).digest
