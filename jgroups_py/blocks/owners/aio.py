"""AsyncOwners: partitions of a set for the members of an AsyncChannel's group.

    async def work(partition, grant):               # runs while this member owns it, and is cancelled when it has to go
        async for order in orders(partition):
            await write(order, fence=grant.fence)

    owners = AsyncOwners(co, "orders", partitions=64, gained=work)       # co: an AsyncCoordination
"""
from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
from collections.abc import Callable
from typing import Any

import attrs

from jgroups_py.blocks.coordination.aio import AsyncCoordination
from jgroups_py.blocks.coordination.errors import UnavailableError
from jgroups_py.blocks.coordination.grants import HeldGrant
from jgroups_py.blocks.coordination.messages import OwnersTable
from jgroups_py.blocks.owners.base import BaseOwners, OwnerGrant, Ownership, OwnershipTable
from jgroups_py.model.errors import ChannelError

log = logging.getLogger("jgroups_py")

AsyncPartitionCallback = Callable[[int, OwnerGrant], Any]


@attrs.define(eq=False)
class Tenure:
    """The time in which this member owns a partition. stop: it has to go; back: and is given back then. told: the
    application knows of it. body: what `gained` runs."""

    grant: OwnerGrant
    stop: asyncio.Event = attrs.Factory(asyncio.Event)
    back: bool = False
    told: bool = False
    task: asyncio.Task[None] | None = None
    body: asyncio.Task[None] | None = None


class AsyncOwners(BaseOwners):
    """See the module, and Owners for what is promised, and for the arguments.

    It is made inside a coroutine. gained and lost are functions or coroutine functions, called on the event loop, of
    different partitions at the same time. A coroutine of `gained` may run as long as it likes: it is cancelled when the
    partition has to go, or is lost. `lost` is called when it has ended; before it returns no other member owns the
    partition, if grant.valid.
    """

    _co: AsyncCoordination

    def __init__(
        self, co: AsyncCoordination, name: str, partitions: int = 64, *, gained: AsyncPartitionCallback | None = None,
        lost: AsyncPartitionCallback | None = None, weight: int = 1, label: str | None = None,
    ) -> None:
        super().__init__(co, name, partitions, weight, label)
        self._events = asyncio.get_running_loop()
        self._context = contextvars.copy_context()           # of the tasks that callbacks run in
        self._gained = gained
        self._lost = lost
        self._tenures: dict[int, Tenure] = {}                # fence -> what has not ended
        self._last: dict[int, Tenure] = {}                   # partition -> the one that began last
        self._over = asyncio.Event()
        self._changed = asyncio.Event()
        self._refused: Exception | None = None
        co._driver.join(self._set)

    async def owner_of(self, key: str | bytes) -> Ownership | None:
        """See Owners.owner_of."""
        return (await self.table()).owners.get(self.partition_of(key))

    async def table(self) -> OwnershipTable:
        """See Owners.table."""
        found = await self._co._ask(self.name, self._query())
        assert isinstance(found, OwnersTable), "the answer to that"
        return self._table(found)

    @property
    def has_left(self) -> bool:
        """See Owners.has_left."""
        return self._over.is_set()

    def check(self) -> None:
        """See Owners.check."""
        if self._refused is not None:
            raise self._refused

    async def close(self, timeout: float = 10.0) -> None:
        """See Owners.close; not to be awaited by what `gained` or `lost` run."""
        if any(asyncio.current_task() in (tenure.task, tenure.body) for tenure in self._tenures.values()):
            raise ChannelError("a callback of AsyncOwners is to end before its partition can go: close it elsewhere")
        self._co._driver.leave(self._set)
        try:
            async with asyncio.timeout(timeout):
                await self._over.wait()
                while self._grants:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise UnavailableError(f"the partitions of {self.name!r} were not given back in time") from None

    # --- inside rounds ------------------------------------------------------------------------------------------------

    def _gained_in_round(self, partition: int, held: HeldGrant) -> None:
        grant = self._owned(partition, held)
        self._co._channel.call(lambda: self._begin(partition, grant))
        grant.when_lost(lambda _: self._co._channel.call(lambda: self._stop(grant, back=False)))

    def _revoked_in_round(self, partition: int, held: HeldGrant) -> None:
        grant = self._grants.get(held.fence)
        if grant is None:                                    # its task was cancelled, so the application has let go
            self._give_back(held)
        else:
            self._co._channel.call(lambda: self._stop(grant, back=True))

    def _ended_in_round(self, error: Exception | None) -> None:
        self._co._channel.call(lambda: self._ended(error))

    # --- on the event loop --------------------------------------------------------------------------------------------

    def _ended(self, error: Exception | None) -> None:
        self._refused = error
        if error is not None:
            log.error("this member owns nothing of %r: %s", self.name, error)
        self._over.set()

    def _begin(self, partition: int, grant: OwnerGrant) -> None:
        tenure = self._tenures[grant.fence] = Tenure(grant)
        before = self._last.get(partition)
        self._last[partition] = tenure
        tenure.task = self._events.create_task(
            self._own(partition, tenure, None if before is None else before.task),
            name=f"partition {partition} of {self.name}", context=self._context.copy())

    def _stop(self, grant: OwnerGrant, *, back: bool) -> None:
        tenure = self._tenures.get(grant.fence)
        if tenure is not None:
            tenure.back = tenure.back or back
            tenure.stop.set()

    async def _own(self, partition: int, tenure: Tenure, before: asyncio.Task[None] | None) -> None:
        grant = tenure.grant
        try:
            if before is not None:
                await asyncio.wait([before])
            if grant.valid:
                self._mine[partition] = grant
                try:
                    await self._serve(partition, tenure)
                finally:
                    del self._mine[partition]
            await tenure.stop.wait()
        finally:
            if tenure.back:
                self._give_back(grant._held)
            del self._tenures[grant.fence], self._grants[grant.fence]
            if self._last.get(partition) is tenure:
                del self._last[partition]
            self._changed.set()

    async def _serve(self, partition: int, tenure: Tenure) -> None:
        async def body() -> None:
            tenure.told = True                               # it may be cancelled before it has begun
            await self._tell(self._gained, partition, tenure.grant)
        tenure.body = self._events.create_task(body())
        try:
            await tenure.stop.wait()
        finally:
            cancelled = await _ended(tenure.body)
            if tenure.told:
                await self._tell(self._lost, partition, tenure.grant)
            if cancelled:
                raise asyncio.CancelledError

    async def _tell(self, callback: AsyncPartitionCallback | None, partition: int, grant: OwnerGrant) -> None:
        try:
            found = None if callback is None else callback(partition, grant)
            if inspect.isawaitable(found):
                await found
        except Exception:
            log.exception("a callback for partition %d of %r raised", partition, self.name)


async def _ended(body: asyncio.Task[None]) -> bool:
    """Cancel what runs, and wait until it has ended, also if this task is cancelled meanwhile: whether it was."""
    cancelled = False
    body.cancel()
    while not body.done():
        try:
            await asyncio.wait([body])
        except asyncio.CancelledError:
            cancelled = True
    return cancelled
