"""Owners (blocks/owners) on the simulator: AsyncOwners of production as coroutines, on clocks that run at different
rates; `--profile owners`.

Every member takes part in one set of partitions, with a weight; some leave it and take part again. The body of a
partition writes to a resource outside of the group, which checks fences. What the checkers hold against it, A1 to A6,
is in design/owners.md; they see every ownership when the first replica carries it out, and the grants of all running
members as these see them at that moment.
"""
from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any

import attrs

from jgroups_py.blocks.coordination import AsyncCoordination, StaleFenceError
from jgroups_py.blocks.coordination.assignment import Participant
from jgroups_py.blocks.coordination.lease import DRIFT
from jgroups_py.blocks.coordination.machine import CoordinationMachine, Key
from jgroups_py.blocks.coordination.messages import OWNERS
from jgroups_py.blocks.coordination.owned_sets import StoredOwners
from jgroups_py.blocks.owners import AsyncOwners, OwnerGrant
from jgroups_py.blocks.replication.founding import birth_of
from jgroups_py.channel.aio import AsyncChannel
from jgroups_py.model.errors import ChannelError
from jgroups_py.model.units import NS_PER_S, millis, seconds
from jgroups_py.simulator.plan_parts import WHOLE, PlanPart
from jgroups_py.simulator.runner import APPLICATIONS, Outcome
from jgroups_py.testing.simulation.balance import least_moves, unbalanced
from jgroups_py.testing.simulation.ledger import Broken
from jgroups_py.testing.simulation.store_run import CLOCK_DRIFT, DELAYS_MS, StoreRun, WriteUnderWay, living
from jgroups_py.testing.simulation.trial import Trial

PROFILE = "owners"
SET = "set"
PAUSES_S = (0.02, 0.1, 0.4)                # between two writes of a body
FINISH_S = (0.0, 0.0, 0.05, 0.3)           # that `lost` takes
LEAST_QUIET_NS = seconds(8)                # for so long there are no faults, before a partition without owner counts
HANDOVER_S = 2.0                           # of that: news by renewals, `lost`, a commit
CALM_NS = seconds(1)                       # the time within which nothing may change once all is at rest


class OwnersRun(StoreRun):
    """One seed: what all members share, and the checkers."""

    def __init__(self, seed: int, fenced: bool = True) -> None:
        rng = Random(f"{seed}/owners")
        super().__init__(rng, fenced)
        self.partitions = rng.choice((1, 5, 12))
        self.weights = rng.choice(((1,), (1,), (1, 2, 5)))
        self.members: list[Participating] = []
        self._owners: dict[tuple[int, int], tuple[int, int]] = {}     # (store, partition) -> (fence, session)
        self._highest: dict[int, int] = {}                 # partition -> fence
        self._partition_of: dict[int, int] = {}            # fence -> partition
        self._seen: dict[int, None] = {}                   # fences that were given
        self._ended: dict[int, None] = {}
        self._assigned: dict[tuple[int, tuple[tuple[int, Participant], ...], tuple[tuple[int, int], ...]], None] = {}
        self._free_ns: dict[tuple[int, int], int] = {}     # (store, partition) -> since when it has no owner

    async def start(self, ch: AsyncChannel) -> Participating:
        """A member that starts."""
        member = Participating(self, ch)
        self.members.append(member)
        await ch.connect("owners")
        return member

    def live(self) -> list[Participating]:
        """The members whose code still runs, also those that are paused."""
        return living(self.members)

    def reached(self) -> dict[str, int]:
        """State -> how often the run reached it."""
        counts = Counter(self.counts)
        for member in self.members:
            counts["sessions ended"] += member.co.stats().get("sessions_lost", 0)
        return dict(counts)

    def highest(self, partition: int) -> int:
        """The fence of the last owner."""
        return self._highest.get(partition, 0)

    # --- GrantWatcher -------------------------------------------------------------------------------------------------

    def owned(self, store: int, name: str, partition: int, fence: int, session: int) -> None:
        if fence in self._seen:
            return
        self._seen[fence] = None
        self._partition_of[fence] = partition
        self.counts["partitions owned"] += 1
        other = self._owners.get((store, partition))
        if other is not None:
            self.fails("A1", f"partition {partition} has a new owner (fence {fence}) while {other[0]} is not over")
        self._owners[store, partition] = fence, session
        if fence <= self.highest(partition):
            self.fails("A2", f"partition {partition}: fence {fence} comes after {self.highest(partition)}")
        self._highest[partition] = max(fence, self.highest(partition))
        for member in self.live():
            for grant in member.valid(partition):
                if store <= grant.fence < fence:
                    self.fails("A1", f"partition {partition} has a new owner (fence {fence}) while {grant.fence} is "
                                     f"valid for {member.name}")
        self._check_gap(store, partition)

    def ended(self, store: int, key: Key, fence: int, *, released: bool) -> None:
        if key[0] != OWNERS or fence in self._ended:
            return
        self._ended[fence] = None
        partition = self._partition_of[fence]
        self._owners.pop((store, partition), None)
        self.counts["partitions given back" if released else "partitions lost"] += 1
        live = self.live()
        if live:
            self._free_ns[store, partition] = live[0].now_ns()
        for member in live:
            if any(grant.fence == fence for grant in member.valid(partition)):
                self.fails("A1", f"the end of partition {partition} (fence {fence}) is carried out, and {member.name} "
                                 "takes it for its own")
            if fence in member.told and released:
                self.fails("A3", f"{member.name} has given partition {partition} (fence {fence}) back, and its `lost` "
                                 "has not returned")

    def assigned(self, store: int, name: str, before: Mapping[int, int], owners: StoredOwners) -> None:
        """A4: balanced, with the least moves."""
        key = store, tuple(sorted(owners.members.items())), tuple(sorted(before.items()))
        if key in self._assigned:
            return
        self._assigned[key] = None
        moved = [partition for partition, session in before.items()
                 if session in owners.members and owners.targets.get(partition) != session]
        self.counts["moves"] += len(moved)
        wrong = unbalanced(owners.partitions, owners.members, owners.targets)
        if wrong:
            self.fails("A4", f"with members {owners.members}: {wrong}")
        least = least_moves(owners.partitions, owners.members, before.values())
        if len(moved) > least:
            self.fails("A4", f"{len(moved)} partitions move, {least} would do: {dict(before)} becomes {owners.targets}")

    def _check_gap(self, store: int, partition: int) -> None:
        """A5: for how long a partition had no owner, while nothing failed."""
        since_ns = self._free_ns.pop((store, partition), None)
        live = self.live()
        healed_ns = None if not live else live[0].stage.healed_ns
        if since_ns is None or healed_ns is None or since_ns < healed_ns + LEAST_QUIET_NS:
            return
        gap_s = (live[0].now_ns() - since_ns) / NS_PER_S
        if gap_s > HANDOVER_S and len(live) == len([one for one in live if one.takes_part]):
            self.fails("A5", f"partition {partition} had no owner for {gap_s:.1f} s, and nothing had failed")

    # --- the end ------------------------------------------------------------------------------------------------------

    def at_end(self, members: list[Participating]) -> None:
        """No update was lost (A2); each partition has one owner that takes part, and is told (A5)."""
        for name, value in self.resource.values.items():
            if value != self.resource.written[name]:
                raise Broken("A2", f"{self.resource.written[name]} updates of partition {name} were admitted, its "
                                   f"number is {value}: some were lost")
        leading = [machine for member in members for machine in member.leading()]
        participants = [member for member in members if member.takes_part]
        if not leading or not participants or len({member.store() for member in members}) != 1:
            return
        owned = {partition: member.name for member in participants for partition in member.owners.mine}
        missing = [partition for partition in range(self.partitions) if partition not in owned]
        if missing:
            raise Broken("A5", f"partitions {missing} have no owner, while {[one.name for one in participants]} take "
                               "part")
        for machine in leading:
            stored = machine.owned.sets.get(SET)
            if stored is None:
                raise Broken("A5", "the store has no set, while members take part")
            if {partition: session for partition, (_, session) in stored.owners.items()} != stored.targets:
                raise Broken("A5", f"owners {stored.owners} are not the ones that are to be: {stored.targets}")
            if len(stored.members) != len(participants):
                raise Broken("A5", f"{len(participants)} members take part, the set has {len(stored.members)}")


class Participating:
    """One member."""

    def __init__(self, run: OwnersRun, ch: AsyncChannel) -> None:
        self.run = run
        self.ch = ch
        self.co = AsyncCoordination(ch, founders=("A", "B", "C"), ttl=run.ttl, options=run.options, expire=run.expire,
                                    timeout=3.0, watcher=run)
        self.rng = Random(f"{ch.name}/{len(run.members)}")
        self.told: dict[int, int] = {}                     # fence -> partition: `gained` began, `lost` has not ended
        self.takes_part = True
        self.owners = self.join()

    def join(self) -> AsyncOwners:
        """Take part."""
        return AsyncOwners(self.co, SET, self.run.partitions, gained=self.gained, lost=self.lost,
                           weight=self.rng.choice(self.run.weights))

    # --- for the checkers ---------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Of the member."""
        return self.ch.name

    @property
    def stage(self) -> Any:
        """The world."""
        return self.ch._io._host._port.stage                 # type: ignore[union-attr]

    def now_ns(self) -> int:
        """The time of the world."""
        found: int = self.stage.now_ns
        return found

    def alive(self) -> bool:
        """Whether its process has not ended."""
        io = self.ch._io
        return io is not None and io._host._port.alive       # type: ignore[attr-defined]

    def valid(self, partition: int) -> list[OwnerGrant]:
        """Its grants of a partition that it takes for valid now."""
        return [grant for grant in list(self.owners._grants.values())
                if grant.partition == partition and grant._held.valid(self.co._driver.clock_ns())]

    def store(self) -> int:
        """The birth number of its store, 0: none."""
        host = self.co._driver.replicas.host
        return 0 if host is None or host.store is None else birth_of(host.store[0]) // 1000

    def leading(self) -> list[CoordinationMachine]:
        """The content of the partitions of the store that it leads."""
        host = self.co._driver.replicas.host
        found = [] if host is None else [replica.state.content.machine for replica in host.parts.values()
                                         if replica.is_ready and replica.state.has_quorum()]
        return [machine for machine in found if isinstance(machine, CoordinationMachine)]

    # --- callbacks ----------------------------------------------------------------------------------------------------

    async def gained(self, partition: int, grant: OwnerGrant) -> None:
        """Write to the resource, again and again."""
        run, name = self.run, str(partition)
        if partition in self.told.values():
            run.fails("A6", f"{self.name} is told of partition {partition} again, and its `lost` has not ended")
        self.told[grant.fence] = partition
        while True:
            try:
                value = run.resource.read(name, grant.fence)
            except StaleFenceError:                          # another one has been there: `lost` is on its way
                run.counts["reads refused by a fence"] += 1
                return
            await asyncio.sleep(self.rng.choice(PAUSES_S))
            write = WriteUnderWay(run, str(partition), grant.fence, value + 1)
            self.stage.after(millis(self.rng.choice(DELAYS_MS)), write.arrive)
            while not write.arrived:
                await asyncio.sleep(0.05)

    async def lost(self, partition: int, grant: OwnerGrant) -> None:
        """Finish, which takes a while; a member that leaves has its tasks cancelled, and this one ends then."""
        if self.told.get(grant.fence) != partition:
            self.run.fails("A6", f"`lost` of {self.name} is called for partition {partition}, of which it was not told")
        try:
            await asyncio.sleep(self.rng.choice(FINISH_S))
        finally:
            self.told.pop(grant.fence, None)

    # --- operations ---------------------------------------------------------------------------------------------------

    async def act(self, rng: Random) -> None:
        """One operation."""
        try:
            if rng.random() < 0.7:
                await self.read(rng)
            elif self.takes_part:
                await self.leave_for_a_while(rng)
        except ChannelError as error:
            self.run.counts["definite errors" if error.definite else "indefinite errors"] += 1

    async def read(self, rng: Random) -> None:
        """A2: what is read is not older than what was the case when the read began."""
        key = f"key {rng.randrange(100)}"
        partition = self.owners.partition_of(key)
        store, before = self.store(), self.run.highest(partition)
        found = await self.owners.owner_of(key)
        self.run.counts["owners read"] += 1
        if found is not None and store and store == self.store() <= before and found.fence < before:
            self.run.fails("A2", f"{self.name} reads the owner of partition {partition} with fence {found.fence}, "
                                 f"after another one had got {before}")

    async def leave_for_a_while(self, rng: Random) -> None:
        """Take part no more, and again."""
        self.takes_part = False
        try:
            await self.owners.close(timeout=15.0)
            if self.told:
                self.run.fails("A3", f"{self.name} has left the set, and has not let go of {self.told}")
            self.run.counts["sets left"] += 1
            await asyncio.sleep(rng.choice((0.0, 0.2, 1.0)))
        finally:
            if self.owners.has_left:
                self.owners = self.join()
                self.takes_part = True
                self.run.counts["sets joined again"] += 1


async def act(member: Participating, rng: Random) -> None:
    """The trial's `act`."""
    await member.act(rng)


def run(seed: int, part: PlanPart = WHOLE, keep: bool = False, drift: float = CLOCK_DRIFT,
        fenced: bool = True) -> Outcome:
    """Run a seed, or a part of it. drift, fenced: for tests of the checkers."""
    assert 2 * CLOCK_DRIFT < DRIFT, "clocks within the bound, unless a test says otherwise"
    shared = OwnersRun(seed, fenced)
    trial = Trial(PROFILE, shared.start, act, always=shared.always, at_end=shared.at_end, sends_for_ever=True,
                  clock_drift=drift)
    outcome = trial.run(seed, part, keep=keep)
    return attrs.evolve(outcome, reached={**outcome.reached, **shared.reached()})


APPLICATIONS[PROFILE] = run
