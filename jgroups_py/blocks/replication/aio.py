"""AsyncReplicas: Replicas for an AsyncChannel; what waits is a coroutine.

    store = AsyncReplicas(channel, lambda partition: Counter(), founders=("A", "B", "C"))
    await channel.connect("counters")
    await store.wait_for_leaders()
    await asyncio.gather(*[store.write(7, b"+1") for _ in range(1000)])      # some messages, not thousands
"""
from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from jgroups_py.blocks.replication.calls import PartitionCall
from jgroups_py.blocks.replication.driver import Applied, new_store_name
from jgroups_py.blocks.replication.founding import birth_of
from jgroups_py.blocks.replication.host import PartitionHost
from jgroups_py.blocks.replication.machine import Machine
from jgroups_py.blocks.replication.messages import Verb
from jgroups_py.blocks.replication.options import Options
from jgroups_py.blocks.replication.outputs import Health
from jgroups_py.blocks.replication.routing import PartitionUnavailableError
from jgroups_py.blocks.replication.store import SERVICE, BaseReplicas, has_leaders, reports, stats
from jgroups_py.channel.aio import AsyncChannel
from jgroups_py.model.address import Address
from jgroups_py.model.errors import ChannelError
from jgroups_py.model.units import seconds

Waiter = asyncio.Future[Any]


class AsyncReplicas(BaseReplicas):
    """See Replicas for what the methods do and raise."""

    def __init__(
        self, channel: AsyncChannel, make: Callable[[int], Machine], options: Options | None = None, *,
        service: int = SERVICE, health: Callable[[Health], object] | None = None, applied: Applied | None = None,
        timeout: float = 10.0, founders: tuple[str, ...] = (), partitions: int = 16, replicas: int = 3,
    ) -> None:
        """See Replicas."""
        self._async_channel = channel
        super().__init__(channel, make, options, service, health, applied, timeout, founders, partitions, replicas)

    async def create(self, partitions: int, replicas: int, hosts: int = 1, timeout: float = 10.0) -> None:
        """See Replicas.create."""
        name = new_store_name()
        await self._wait(lambda host: len(host.placement()[1]) >= hosts, timeout, f"{hosts} hosts")
        await self._do(lambda host, now_ns: host.create(name, partitions, replicas, now_ns))
        await self.wait_for_leaders(timeout)

    async def wait_for_leaders(self, timeout: float = 10.0) -> None:
        """See Replicas.wait_for_leaders."""
        await self._wait(has_leaders, timeout, "a leader for every partition")

    async def write(self, partition: int, data: bytes) -> bytes:
        """See Replicas.write. Writes that are under way at once take effect in any order."""
        return await self._call(partition, Verb.WRITE, data)

    async def read(self, partition: int, query: bytes = b"", *, strong: bool = False) -> bytes:
        """See Replicas.read."""
        return await self._call(partition, Verb.STRONG if strong else Verb.READ, query)

    async def leaders(self) -> dict[int, Address]:
        """See Replicas.leaders."""
        found: dict[int, Address] = await self._do(lambda host, _: dict(sorted(host.leader_of.items())))
        return found

    async def report(self) -> dict[int, dict[str, Any]]:
        """See Replicas.report."""
        found: dict[int, dict[str, Any]] = await self._do(lambda host, _: reports(host))
        return found

    async def stats(self) -> dict[str, int]:
        """See Replicas.stats."""
        found: dict[str, int] = await self._do(lambda host, _: stats(self._driver, host))
        return found

    async def birth(self) -> int:
        """See Replicas.birth."""
        found: int = await self._do(lambda host, _: 0 if host.store is None else birth_of(host.store[0]))
        return found

    async def vacate(self, timeout: float = 30.0) -> bool:
        """See Replicas.vacate."""
        await self._do(lambda host, now_ns: host.vacate(now_ns))
        try:
            await self._wait(lambda host: host.is_empty, timeout, "")
        except PartitionUnavailableError:
            return False
        return True

    # --- waiting ------------------------------------------------------------------------------------------------------

    async def _call(self, partition: int, verb: Verb, data: bytes) -> bytes:
        waiter: Waiter = asyncio.get_running_loop().create_future()
        self._driver.call(partition, verb, data, seconds(self.timeout), waiter)
        found: bytes = await waiter
        return found

    def _ended(self, calls: list[PartitionCall]) -> None:
        self._async_channel.call(lambda: _resolve(calls))

    async def _do(self, call: Callable[[PartitionHost, int], Any]) -> Any:
        """The result of a call of the host, made inside a round."""
        waiter: Waiter = asyncio.get_running_loop().create_future()

        def job(now_ns: int) -> None:
            result, raised = None, None
            try:
                if self._driver.host is None:
                    raise PartitionUnavailableError("this member is in no group")
                result = call(self._driver.host, now_ns)
            except (ChannelError, ValueError) as error:
                raised = error
            self._async_channel.call(lambda: _settle(waiter, result, raised))
        self._driver.put(job)
        try:
            return await asyncio.wait_for(waiter, self.timeout)
        except TimeoutError:
            raise PartitionUnavailableError("this store was closed") from None

    async def _wait(self, holds: Callable[[PartitionHost], bool], timeout: float, what: str) -> None:
        waiter: Waiter = asyncio.get_running_loop().create_future()
        self._driver.put(lambda _: self._driver.when(
            holds, lambda: self._async_channel.call(lambda: _settle(waiter, None, None))))
        try:
            await asyncio.wait_for(waiter, timeout)
        except TimeoutError:
            raise PartitionUnavailableError(f"not in time: {what}") from None


def _settle(waiter: Waiter, result: object, error: Exception | None) -> None:
    if not waiter.done():                                    # else it was cancelled
        if error is not None:
            waiter.set_exception(error)
        else:
            waiter.set_result(result)


def _resolve(calls: list[PartitionCall]) -> None:
    """Resume the waiting coroutines, on their event loop."""
    for call in calls:
        _settle(call.waiter, call.reply, call.error)
