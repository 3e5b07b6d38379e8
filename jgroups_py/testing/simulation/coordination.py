"""Coordination (blocks/coordination) on the simulator: AsyncCoordination of production as coroutines, on clocks that
run at different rates; `--profile coordination`.

Every member takes locks, permits, leaderships, items of queues, waits at barriers, counts, and changes cells; some of
these waits are cancelled. Holders write to a resource outside of the group, which checks fences. What the checkers hold
against it, L1 to L11, is in design/guarantees.md; they see every grant when the first replica carries it out, and the
grants of all running members as these see them at that moment.
"""
from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import attrs

from jgroups_py.blocks.coordination import (
    AsyncCoordination,
    LockTimeoutError,
    LostError,
    StaleFenceError,
    WaitTimeoutError,
)
from jgroups_py.blocks.coordination.base import BaseGrant
from jgroups_py.blocks.coordination.core import SessionCore
from jgroups_py.blocks.coordination.grants import HeldGrant
from jgroups_py.blocks.coordination.machine import CoordinationMachine, Key, Wait
from jgroups_py.blocks.coordination.messages import BARRIER, LOCK, QUEUE, SEMAPHORE, SPACES, GrantResult
from jgroups_py.blocks.replication.founding import birth_of
from jgroups_py.channel.aio import AsyncChannel
from jgroups_py.model.errors import ChannelError
from jgroups_py.model.units import NS_PER_S, millis
from jgroups_py.simulator.plan_parts import WHOLE, PlanPart
from jgroups_py.simulator.runner import APPLICATIONS, Outcome
from jgroups_py.testing.simulation.ledger import Broken
from jgroups_py.testing.simulation.store_run import CLOCK_DRIFT, DELAYS_MS, StoreRun, WriteUnderWay, living
from jgroups_py.testing.simulation.trial import Trial

PROFILE = "coordination"
PERMITS, PARTIES = 2, 2
PATIENT_S = 20.0                           # a wait that gets nothing in so long, of which the last
QUIET_S = 12.0                             # seconds were without faults, gets nothing at all: L5
TIMEOUTS = (0.3, 1.5, 6.0, PATIENT_S)
HOLDS = (0.0, 0.02, 0.2, 0.8, 2.0)              # s
COUNTED = {"waits_withdrawn": "waits withdrawn", "orphans_released": "orphans released", "sessions": "sessions",
           "sessions_lost": "sessions ended"}


@attrs.define(eq=False)
class Timed:
    """An operation with a place. stage times."""

    began_ns: int
    ended_ns: int
    place: int
    what: str
    writes: bool


class CoordinationRun(StoreRun):
    """One seed: what all members share, and the checkers."""

    def __init__(self, seed: int, fenced: bool = True) -> None:
        rng = Random(f"{seed}/coordination")
        super().__init__(rng, fenced)
        self.members: list[Holder] = []
        self.drivers: list[Any] = []
        self._holders: dict[tuple[int, Key], dict[int, int]] = {}       # -> fence -> session
        self._last: dict[Key, int] = {}
        self.keys: dict[int, Key] = {}                     # fence -> what it is of
        self._seen: dict[tuple[int, Key, int, Wait], None] = {}
        self._ended: dict[int, None] = {}
        self._queues: dict[tuple[int, Key], dict[Wait, None]] = {}
        self._waited: dict[tuple[int, Key, Wait], None] = {}
        self._left: dict[tuple[int, Key, Wait], None] = {}
        self._passed: Counter[tuple[int, Key, int]] = Counter()
        self._done: dict[tuple[int, str], list[Timed]] = {}
        self._finished: dict[str, None] = {}
        self.put: dict[str, int] = {}                      # value of an item that was put for sure -> the store

    async def start(self, ch: AsyncChannel) -> Holder:
        """A member that starts."""
        holder = Holder(self, ch)
        self.members.append(holder)
        await ch.connect("coordination")
        return holder

    def live(self) -> list[Holder]:
        """The members whose code still runs, also those that are paused."""
        return living(self.members)

    def reached(self) -> dict[str, int]:
        """State -> how often the run reached it."""
        counts = Counter(self.counts)
        for holder in self.members:
            for name, number in holder.counters().items():
                if name in COUNTED:
                    counts[COUNTED[name]] += number
        return dict(counts)

    # --- GrantWatcher -------------------------------------------------------------------------------------------------

    def waits(self, store: int, key: Key, wait: Wait) -> None:
        if (store, key, wait) not in self._waited:
            self._waited[store, key, wait] = None
            self._queues.setdefault((store, key), {})[wait] = None

    def left(self, store: int, key: Key, wait: Wait) -> None:
        if (store, key, wait) not in self._left:
            self._left[store, key, wait] = None
            self._queues[store, key].pop(wait, None)

    def granted(self, store: int, key: Key, granted: GrantResult, wait: Wait) -> None:
        fence = granted.fence
        if (store, key, fence, wait) in self._seen:
            return
        self._seen[store, key, fence, wait] = None
        self.keys[fence] = key
        what = f"{SPACES[key[0]]} {key[1]!r}"
        self._fair(store, key, wait, what)
        self._definite(wait, what)
        if key[0] == BARRIER:
            self._passed[store, key, fence] += 1
            return
        self.counts["grants"] += 1
        if fence <= self._last.get(key, 0):
            self.fails("L2", f"{what}: fence {fence} comes after {self._last[key]}")
        self._last[key] = max(fence, self._last.get(key, 0))
        most = {SEMAPHORE: PERMITS, QUEUE: 1 << 30}.get(key[0], 1)
        holders = self._holders.setdefault((store, key), {})
        if len(holders) >= most:
            self.fails("L1", f"{what} is granted (fence {fence}) while {list(holders)} are not over")
        holders[fence] = wait[0]
        valid = [grant for holder in self.live() for grant in holder.held(key)
                 if grant.fence != fence and store <= grant.fence < fence and holder.thinks_valid(grant)
                 and (key[0] != QUEUE or grant.value == granted.value)]
        if len(valid) >= (1 if key[0] == QUEUE else most):
            self.fails("L3", f"{what} is granted (fence {fence}) while {[grant.fence for grant in valid]} are valid "
                             "for their holders")

    def ended(self, store: int, key: Key, fence: int, *, released: bool) -> None:
        if fence in self._ended:
            return
        self._ended[fence] = None
        self._holders[store, key].pop(fence, None)
        for holder in self.live():
            for grant in holder.held(key):
                if grant.fence == fence and holder.thinks_valid(grant):
                    self.fails("L7" if released else "L3", f"{SPACES[key[0]]} {key[1]!r}: grant {fence} ends, but "
                               f"{holder.name} holds it, and has not given it back")

    def _fair(self, store: int, key: Key, wait: Wait, what: str) -> None:
        """L6: the first that waits is the next."""
        queue = self._queues.get((store, key), {})
        if key[0] == BARRIER:
            queue.pop(wait, None)
        elif queue and next(iter(queue)) != wait:
            self.fails("L6", f"{what} is granted to {wait}, while {next(iter(queue))} has waited longer")
        else:
            queue.pop(wait, None)

    def _definite(self, wait: Wait, what: str) -> None:
        """L8: whoever was told that the wait is over gets no grant."""
        for holder in self.live():
            for core in holder.cores():
                if core.session == wait[0] and wait[1] not in core._flying and wait[1] not in core._waiting:
                    self.fails("L8", f"{what} is granted to {wait}, whose member {holder.name} was told that it is not")

    # --- operations that were answered --------------------------------------------------------------------------------

    def answered(self, store: int, name: str, timed: Timed) -> None:
        """L9: whatever ended before this began has an earlier place."""
        for other in self._done.setdefault((store, name), []):
            if other.ended_ns < timed.began_ns and not (
                    other.place < timed.place or (other.place == timed.place and not timed.writes)):
                self.fails("L9", f"{name}: {timed.what} (place {timed.place}) began after {other.what} (place "
                                 f"{other.place}) had ended")
            if other.place == timed.place and other.writes and timed.writes:
                self.fails("L9", f"{name}: {timed.what} and {other.what} have place {other.place}")
        self._done[store, name].append(timed)

    def passed(self, store: int, name: str, generation: int) -> None:
        """L11: as many as a barrier has parties have arrived."""
        self.counts["barriers passed"] += 1
        found = self._passed[store, (BARRIER, name), generation]
        if found != PARTIES:
            self.fails("L11", f"barrier {name!r} let {found} pass with generation {generation}, not {PARTIES}")

    def finished(self, value: str) -> None:
        """An item was dealt with, for sure."""
        self.counts["items finished"] += 1
        if value in self._finished:
            self.fails("L9", f"item {value} was finished twice")
        self._finished[value] = None

    # --- the end ------------------------------------------------------------------------------------------------------

    def at_end(self, holders: list[Holder]) -> None:
        """No update of the resource was lost (L2); nothing is held by nobody (L5); no item is lost (L9)."""
        for name, value in self.resource.values.items():
            if value != self.resource.written[name]:
                raise Broken("L2", f"{self.resource.written[name]} updates of {name!r} were admitted, its number is "
                                   f"{value}: some were lost")
        machines = [machine for holder in holders for machine in holder.leading()]
        for machine in machines:
            self._check_machine(machine, holders)
        if machines and len({holder.store() for holder in holders}) == 1:
            self._check_items(machines, holders[0].store())

    def _check_machine(self, machine: CoordinationMachine, holders: list[Holder]) -> None:
        owned = {core.session: core for holder in holders for core in holder.cores() if core.session is not None}
        for number, session in machine.sessions.items():
            core = owned.get(number)
            if core is None and (session.grants or session.waits):
                raise Broken("L5", f"session {number} of {session.owner} holds {session.grants} and waits for "
                                   f"{session.waits}, and nobody has it")
            for fence, key in session.grants.items():
                if core is not None and fence not in core.grants:
                    raise Broken("L5", f"{session.owner} has {SPACES[key[0]]} {key[1]!r} (fence {fence}) and does not "
                                       "know")

    def _check_items(self, machines: list[CoordinationMachine], store: int) -> None:
        there = {value.decode() for machine in machines for queue in machine.queues.values()
                 for value, _ in queue.items.values()}
        there |= {item[1].decode() for machine in machines for queue in machine.queues.values()
                  for item in queue.taken.values()}
        unsure = {value for holder in self.members for value in holder.perhaps_finished}
        lost = [value for value, where in self.put.items()
                if where == store and value not in there and value not in self._finished and value not in unsure]
        if lost:
            raise Broken("L9", f"items {lost} were put, and are neither there nor finished")


class Holder:
    """One member."""

    def __init__(self, run: CoordinationRun, ch: AsyncChannel) -> None:
        self.run = run
        self.ch = ch
        self.co = AsyncCoordination(ch, founders=("A", "B", "C"), ttl=run.ttl, options=run.options, expire=run.expire,
                                    timeout=3.0, watcher=run)
        self.number = 0
        self.perhaps_finished: dict[str, None] = {}

    # --- for the checkers ---------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Of the member."""
        return self.ch.name

    def alive(self) -> bool:
        """Whether its process has not ended."""
        io = self.ch._io
        return io is not None and io._host._port.alive       # type: ignore[attr-defined]

    def cores(self) -> list[SessionCore]:
        """Its sessions."""
        return list(self.co._driver.cores.values())

    def held(self, key: Key) -> list[HeldGrant]:
        """Its grants of a name that it has not given back."""
        return [grant for core in self.cores() for grant in core.grants.values()
                if self.run.keys.get(grant.fence, key) == key]

    def thinks_valid(self, grant: HeldGrant) -> bool:
        """Whether `valid` would be True now."""
        return grant.valid(self.co._driver.clock_ns())

    def counters(self) -> dict[str, int]:
        """Of all its sessions."""
        return dict(self.co._driver.counters)

    def store(self) -> int:
        """The birth number of its store, 0: none."""
        host = self.co._driver.replicas.host
        return 0 if host is None or host.store is None else birth_of(host.store[0]) // 1000

    def leading(self) -> list[CoordinationMachine]:
        """The content of the partitions that it leads."""
        host = self.co._driver.replicas.host
        found = [] if host is None else [replica.state.content.machine for replica in host.parts.values()
                                         if replica.is_ready and replica.state.has_quorum()]
        return [machine for machine in found if isinstance(machine, CoordinationMachine)]

    @property
    def stage(self) -> Any:
        """The world."""
        return self.ch._io._host._port.stage                 # type: ignore[union-attr]

    def quiet_s(self) -> float:
        """For how long there have been no faults."""
        healed_ns = self.stage.healed_ns
        return 0.0 if healed_ns is None else (self.now_ns() - healed_ns) / NS_PER_S

    def now_ns(self) -> int:
        """The time of the world."""
        found: int = self.stage.now_ns
        return found

    # --- operations ---------------------------------------------------------------------------------------------------

    async def act(self, rng: Random) -> None:
        """One operation; some are given up by a cancellation."""
        operation = rng.choice(OPERATIONS)
        task = asyncio.create_task(operation(self, rng))
        if rng.random() < 0.15:
            await asyncio.sleep(rng.choice((0.0, 0.001, 0.05, 0.5)))
            task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            if not task.cancelled():
                raise
        except (LockTimeoutError, WaitTimeoutError):
            self.run.counts["timeouts"] += 1
        except LostError:
            self.run.counts["grants lost"] += 1
        except StaleFenceError:
            self.run.counts["writes refused by a fence"] += 1
        except ChannelError as error:
            self.run.counts["definite errors" if error.definite else "indefinite errors"] += 1

    async def hold(self, grant: BaseGrant, rng: Random, name: str) -> None:
        """Work with a grant: read and write the resource, look whether it is valid."""
        run, looked = self.run, 0
        for _ in range(rng.choice((1, 1, 2, 5))):
            if rng.random() < 0.7:
                value = run.resource.read(name, grant.fence)
                await asyncio.sleep(rng.choice(HOLDS))
                write = WriteUnderWay(run, name, grant.fence, value + 1)
                self.stage.after(millis(rng.choice(DELAYS_MS)), write.arrive)
                while not write.arrived:
                    await asyncio.sleep(0.02)
            else:
                await asyncio.sleep(rng.choice(HOLDS))
            looked += not grant.valid
            if looked > 1:
                run.fails("L4", f"{self.name} goes on with {name!r}, though it has seen that it lost it")

    async def take_lock(self, rng: Random) -> None:
        name = f"l{rng.randrange(2)}"
        timeout = rng.choice(TIMEOUTS)
        try:
            async with self.co.lock(name, timeout, reentrant=True) as grant:
                await self.hold(grant, rng, name)
                if rng.random() < 0.3:
                    async with self.co.lock(name, timeout, reentrant=True) as again:
                        await self.hold(again, rng, name)
                        self.run.counts["locks taken again"] += 1
        except LockTimeoutError:
            live = self.run.live()
            if (timeout == PATIENT_S and self.quiet_s() > QUIET_S and any(one.leading() for one in live)
                    and not any(one.held((LOCK, name)) for one in live)):
                self.run.fails("L5", f"{self.name} waited {timeout:g} s for {name!r}, and nobody holds it for so long")
            raise

    async def take_permit(self, rng: Random) -> None:
        async with self.co.semaphore("s", PERMITS, rng.choice(TIMEOUTS)) as grant:
            await self.hold(grant, rng, f"permit {grant.fence}")

    async def lead(self, rng: Random) -> None:
        async with self.co.leadership("boss", rng.choice(TIMEOUTS)) as grant:
            await self.hold(grant, rng, "boss")

    async def release_by_hand(self, rng: Random) -> None:
        """As a program without `async with` does, and twice."""
        lock = self.co.lock("l0")
        grant = await lock.acquire(rng.choice(TIMEOUTS))
        await asyncio.sleep(rng.choice(HOLDS))
        await grant.release()
        again = asyncio.create_task(lock.acquire(rng.choice((0.3, 1.5))))
        await grant.release()
        await (await again).release()

    async def timed(self, name: str, what: str, writes: bool, call: Callable[[], Any]) -> None:
        """An operation whose answer has a place."""
        store, began_ns = self.store(), self.now_ns()
        place = await call()
        if store and store == self.store() and place is not None:
            self.run.answered(store, name, Timed(began_ns, self.now_ns(), place, f"{what} of {self.name}", writes))

    async def count(self, rng: Random) -> None:
        counter = self.co.counter("n")
        if rng.random() < 0.3:
            await self.timed("counter", "get", False, counter.get)
            return
        for _ in range(rng.choice((1, 3))):
            await self.timed("counter", "add", True, counter.add)
            self.run.counts["counters added to"] += 1

    async def change_cell(self, rng: Random) -> None:
        cell = self.co.cell("c", str)
        self.number += 1
        value = f"{self.ch.me.raw.hex()[:6]}.{self.number}"

        async def get() -> int:
            return (await cell.state()).version

        async def compare_and_set() -> int | None:
            old = await cell.state()
            if not await cell.compare_and_set(old.value, value):
                return None
            self.run.counts["cells changed"] += 1
            return old.version + 1                           # every write has a value of its own
        if rng.random() < 0.5:
            await self.timed("cell", "get", False, get)
        else:
            await self.timed("cell", "compare_and_set", True, compare_and_set)

    async def meet(self, rng: Random) -> None:
        store = self.store()
        generation = await self.co.barrier("b", PARTIES).wait(rng.choice((0.3, 1.5, 6.0)))
        if store and store == self.store():
            self.run.passed(store, "b", generation)

    async def put_item(self, rng: Random) -> None:
        self.number += 1
        value, store = f"{self.ch.me.raw.hex()[:6]}.{self.number}", self.store()
        await self.co.queue("q", str).put(value)
        if store and store == self.store():
            self.run.put[value] = store

    async def take_item(self, rng: Random) -> None:
        async with self.co.queue("q", str).take(rng.choice((0.3, 1.5, 6.0))) as item:
            await asyncio.sleep(rng.choice(HOLDS))
            self.perhaps_finished[item.value] = None
        self.run.finished(item.value)


OPERATIONS = (Holder.take_lock, Holder.take_lock, Holder.take_lock, Holder.take_permit, Holder.lead,
              Holder.release_by_hand, Holder.count, Holder.change_cell, Holder.meet, Holder.meet, Holder.put_item,
              Holder.take_item)


async def act(holder: Holder, rng: Random) -> None:
    """The trial's `act`."""
    await holder.act(rng)


def run(seed: int, part: PlanPart = WHOLE, keep: bool = False, drift: float = CLOCK_DRIFT,
        fenced: bool = True) -> Outcome:
    """Run a seed, or a part of it. drift, fenced: for tests of the checkers."""
    shared = CoordinationRun(seed, fenced)
    trial = Trial(PROFILE, shared.start, act, always=shared.always, at_end=shared.at_end, sends_for_ever=True,
                  clock_drift=drift)
    outcome = trial.run(seed, part, keep=keep)
    return attrs.evolve(outcome, reached={**outcome.reached, **shared.reached()})


APPLICATIONS[PROFILE] = run

