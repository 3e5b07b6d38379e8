"""Caches (blocks/cache) on the simulator: `--profile cache`, `--profile cache-split`, and what N1 to N4 say of them.

Every member has the Cache of production on an AsyncChannel, over one source outside of the simulated network: a number
a key, which only grows. Members read through their caches, and write: a larger number to the source, then an
invalidation, half of the time with a receipt.
"""
from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import Counter
from random import Random
from typing import Any

import attrs

from jgroups_py.blocks.cache.cache import Cache
from jgroups_py.channel.aio import AsyncChannel
from jgroups_py.model.address import Address
from jgroups_py.model.errors import ChannelError, MessageLostError, ReceiptTimeoutError
from jgroups_py.model.units import millis, seconds
from jgroups_py.simulator.plan_parts import WHOLE, PlanPart
from jgroups_py.simulator.runner import APPLICATIONS, Outcome
from jgroups_py.testing.simulation.ledger import Broken
from jgroups_py.testing.simulation.refusals import current
from jgroups_py.testing.simulation.trial import Trial

PROFILES = ("cache", "cache-split")
KEYS = 12
TTLS = ("2s", "10m")                     # of a seed
MAX_BYTES = 2600                         # room for eight values
PAYLOAD = 60                             # bytes of a value, beside its number
COUNTED = {"hits": "values read", "forgotten": "values forgotten", "stale_loads": "loads overtaken",
           "expired": "values too old", "cleared": "all forgotten", "evicted": "values evicted"}


class Source:
    """The source: key -> its numbers' times; number n was written at times[n] (0: the first, at the beginning)."""

    def __init__(self, now_ns: Any) -> None:
        self.now_ns = now_ns
        self.times: list[list[int]] = [[0] for _ in range(KEYS)]

    def read(self, key: int) -> int:
        """The number of a key now."""
        return len(self.times[key]) - 1

    def write(self, key: int) -> int:
        """Write the next number; returns it."""
        self.times[key].append(self.now_ns())
        return self.read(key)

    def at(self, key: int, when_ns: int) -> int:
        """The number that a key had then."""
        return bisect_right(self.times[key], when_ns) - 1


class CacheRun:
    """What all members of one seed share."""

    def __init__(self, seed: int, profile: str) -> None:
        self.seed = seed
        self.profile = profile
        self.ttl = TTLS[seed % len(TTLS)]
        self.ttl_ns = seconds(2) if self.ttl == "2s" else seconds(600)
        self.source = Source(self.now_ns)
        self.began_ns: int | None = None
        self.promised: dict[Address, list[int]] = {}         # member -> the numbers below which it returns nothing
        self.announced = [0] * KEYS                          # numbers for which there was a receipt
        self.counts: Counter[str] = Counter()
        self.caches: list[Cache[int, bytes]] = []

    def now_ns(self) -> int:
        """The virtual time: all processes have one clock here."""
        code = current()
        assert code is not None, "called by the application"
        return code.clock_ns

    async def start(self, channel: AsyncChannel) -> CacheHolder:
        """The application of a member that starts."""
        holder = CacheHolder(channel, self)
        await channel.connect("shop")
        return holder

    def promise(self, member: Address, key: int, number: int) -> None:
        """A receipt named the member: it returns nothing older to calls that begin now."""
        least = self.promised.setdefault(member, [0] * KEYS)
        least[key] = max(least[key], number)

    def least(self, member: Address, key: int) -> int:
        """What a call that begins now returns at least."""
        return self.promised.get(member, [0] * KEYS)[key]

    def at_end(self, holders: list[CacheHolder]) -> None:
        """N3: where all notices have come, what is kept is new."""
        sent = [max((holder.sent[key] for holder in holders), default=0) for key in range(KEYS)]
        self.announced = list(map(max, self.announced, sent))
        for holder in holders:
            for key in range(KEYS):
                kept = holder.cache.peek(key)
                if kept is not None and number_of(kept) < self.announced[key]:
                    raise Broken("N3", f"{holder.channel.name} keeps number {number_of(kept)} of key {key} in the end; "
                                       f"{self.announced[key]} was announced")

    def reached(self) -> dict[str, int]:
        """State -> how often the run reached it."""
        counts = Counter(self.counts)
        for cache in self.caches:
            stats = cache.stats()
            counts.update({shown: int(stats[name]) for name, shown in COUNTED.items() if stats.get(name)})
        return dict(counts)


class CacheHolder:
    """One member."""

    def __init__(self, channel: AsyncChannel, run: CacheRun) -> None:
        self.channel = channel
        self.run = run
        self.cache: Cache[int, bytes] = Cache(channel, "prices", int, bytes, max_bytes=MAX_BYTES, ttl=run.ttl)
        self.sent = [0] * KEYS                               # numbers whose notices were sent; counts if it runs on
        run.caches.append(self.cache)

    async def load(self, key: int) -> bytes:
        """Read the source, at some time within 60 ms."""
        rng, source = Random(f"{self.run.seed}/{key}/{self.run.now_ns()}"), self.run.source
        await asyncio.sleep(rng.random() * 0.03)
        number = source.read(key)
        await asyncio.sleep(rng.random() * 0.03)
        return b"%d " % number + bytes(PAYLOAD)

    async def act(self, rng: Random) -> None:
        """Read often, write now and then."""
        key = rng.randrange(KEYS)
        if rng.random() < 0.3:
            await self.write(key, rng.random() < 0.5)
            return
        for key in rng.sample(range(KEYS), rng.randint(1, KEYS)):
            await self.read(key)
            await asyncio.sleep(rng.random() * rng.choice((0.02, 0.2)))

    async def read(self, key: int) -> None:
        """N1, N2 and N4 of one call."""
        run = self.run
        began_ns, me = run.now_ns(), self.channel.address
        least = 0 if me is None else run.least(me, key)
        value = await self.cache.aget_or_load(key, self.load)
        assert value is not None, "the source has all keys"
        number = number_of(value)
        if number < least:
            raise Broken("N1", f"{self.channel.name} returned number {number} of key {key}; a receipt that names it "
                               f"was given for {least} before the call")
        oldest = run.source.at(key, began_ns - run.ttl_ns - millis(60))
        if number < oldest:
            raise Broken("N2", f"{self.channel.name} returned number {number} of key {key}, older than {run.ttl}: "
                               f"{oldest} was written before")
        if self.cache.stats()["bytes"] > MAX_BYTES:
            raise Broken("N4", f"{self.channel.name} keeps {self.cache.stats()['bytes']} bytes of {MAX_BYTES}")

    async def write(self, key: int, receipt: bool) -> None:
        """A larger number, and its invalidation."""
        run = self.run
        number = run.source.write(key)
        until = None if not receipt else "handled@*" if self.channel.site else "handled"
        try:
            found = await self.cache.ainvalidate(key, until=until, timeout=5)
        except (ReceiptTimeoutError, MessageLostError):      # sent; where it was lost, that is reported
            run.counts["no receipt"] += 1
            self.sent[key] = max(self.sent[key], number)
            return
        except ChannelError:
            run.counts["not sent"] += 1
            return
        self.sent[key] = max(self.sent[key], number)
        if found is not None:
            run.counts["receipts"] += 1
            run.announced[key] = max(run.announced[key], number)
            for member in found.members:
                run.promise(member, key, number)


def number_of(value: bytes) -> int:
    """The number in a value."""
    return int(value.split(b" ")[0])


async def act(holder: CacheHolder, rng: Random) -> None:
    """An operation of a member: the trial's `act`."""
    await holder.act(rng)


def runner_of(profile: str) -> Any:
    """What runs a seed of a profile."""
    def run(seed: int, part: PlanPart = WHOLE, keep: bool = False) -> Outcome:
        shared = CacheRun(seed, profile)
        outcome = Trial(profile, shared.start, act, at_end=shared.at_end).run(seed, part, keep=keep)
        return attrs.evolve(outcome, reached={**outcome.reached, **shared.reached()})
    return run


APPLICATIONS.update({name: runner_of(name) for name in PROFILES})
