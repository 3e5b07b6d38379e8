"""Replicas: partitions on the members of a JChannel's group, and a client of them.

    class Counter(Machine): ...

    store = Replicas(channel, lambda partition: Counter(), founders=("A", "B", "C"), partitions=16, replicas=3)
    store.write(7, b"+1"); store.read(7); store.read(7, strong=True)
    many = [store.submit(7, b"+1") for _ in range(1000)]         # under way at once: some messages, not thousands
    [one.result() for one in many]

The rounds of the channel run the partitions (driver.py); there is no thread beside them.
"""
from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from threading import Event
from typing import Any

from jgroups_py.blocks.replication.calls import PartitionCall
from jgroups_py.blocks.replication.driver import Applied, ReplicaDriver, new_store_name
from jgroups_py.blocks.replication.founding import Founding, birth_of
from jgroups_py.blocks.replication.host import PartitionHost
from jgroups_py.blocks.replication.machine import Machine
from jgroups_py.blocks.replication.messages import Verb
from jgroups_py.blocks.replication.options import Options
from jgroups_py.blocks.replication.outputs import Health
from jgroups_py.blocks.replication.routing import PartitionUnavailableError
from jgroups_py.channel.base import BaseChannel
from jgroups_py.channel.sync import JChannel
from jgroups_py.model.address import Address
from jgroups_py.model.errors import ChannelError
from jgroups_py.model.units import seconds

SERVICE = 0x7265                           # of the store, by default


class BaseReplicas:
    """What Replicas and AsyncReplicas share."""

    def __init__(
        self, channel: BaseChannel, make: Callable[[int], Machine], options: Options | None, service: int,
        health: Callable[[Health], object] | None, applied: Applied | None, timeout: float,
        founders: tuple[str, ...], partitions: int, replicas: int,
    ) -> None:
        self.options = options or Options()
        self.timeout = timeout
        founding = Founding(tuple(founders), partitions, replicas, new_store_name) if founders else None
        self._channel = channel
        self._driver = ReplicaDriver(channel, make, self.options, service, founding, self._ended, health, applied)

    def _ended(self, calls: list[PartitionCall]) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Stop: this member has no partitions any more. The channel stays connected."""
        self._driver.close()


class Replicas(BaseReplicas):
    """See the module. Any thread may call it, but not a callback of the channel: the answer would wait for its end."""

    def __init__(
        self, channel: JChannel, make: Callable[[int], Machine], options: Options | None = None, *,
        service: int = SERVICE, health: Callable[[Health], object] | None = None, applied: Applied | None = None,
        timeout: float = 10.0, founders: tuple[str, ...] = (), partitions: int = 16, replicas: int = 3,
    ) -> None:
        """make: a new machine for a partition. health: called at a partition's leader when it has too few replicas, or
        enough again. applied: called with (partition, number, command) for each write that a replica of this member
        has carried out, in order; what a state brings is not among them. Both are called inside rounds: they must not
        block. timeout: of writes and reads, seconds. founders: logical names of the members that create the store, of
        `partitions` with so many `replicas`, once all of them are in one view; without them see `create`.

        Raises:
            ValueError: the channel has such a store already, or a founder is no name.
        """
        self._sync_channel = channel
        super().__init__(channel, make, options, service, health, applied, timeout, founders, partitions, replicas)

    # --- for applications -------------------------------------------------------------------------------------------

    def create(self, partitions: int, replicas: int, hosts: int = 1, timeout: float = 10.0) -> None:
        """Create the store, once, at one member; returns when every partition has a leader.

        A leader that does not know all hosts yet begins with fewer replicas and adds the others one by one; until then
        fewer may fail. `report()` at the leader has the members of a partition, `health` is told of too few.

        hosts: wait until the view has so many hosts. The content is in the memory of the members only: when a majority
        of a partition's replicas ends at once, the partition is lost.

        Raises:
            StoreExistsError: the group has one.
            PartitionUnavailableError: not enough members, or no leaders, in time.
        """
        name = new_store_name()
        self._wait(lambda host: len(host.placement()[1]) >= hosts, timeout, f"{hosts} hosts")
        self._do(lambda host, now_ns: host.create(name, partitions, replicas, now_ns))
        self.wait_for_leaders(timeout)

    def wait_for_leaders(self, timeout: float = 10.0) -> None:
        """Wait until the store has been announced here and every partition has a leader.

        Raises:
            PartitionUnavailableError: not in time.
        """
        self._wait(has_leaders, timeout, "a leader for every partition")

    def write(self, partition: int, data: bytes) -> bytes:
        """Carry out a command. Returns its result, once a majority of the replicas has it.

        Raises:
            PartitionUnavailableError: not in time. It may have been carried out.
            NotConnectedError, ChannelClosedError: of the channel.
        """
        return self._call(partition, Verb.WRITE, data)

    def read(self, partition: int, query: bytes = b"", *, strong: bool = False) -> bytes:
        """The result of a query: of any replica, never older than what this member has read before; or with `strong`
        of the leader (linearizable). Raises what `write` raises."""
        return self._call(partition, Verb.STRONG if strong else Verb.READ, query)

    def submit(self, partition: int, data: bytes) -> Future[bytes]:
        """Begin a write; the future has its result. Writes that are under way at once take effect in any order.

        A callback of the future is called inside a round of the channel: it must not block.

        Raises:
            NotConnectedError, ChannelClosedError: of the channel.
        """
        future: Future[bytes] = Future()
        self._driver.call(partition, Verb.WRITE, data, seconds(self.timeout), future)
        return future

    def replicas_of(self, partition: int) -> tuple[str, ...]:
        """Names of the hosts that hold a partition, by the latest redirects or by placement; the best first."""
        found: tuple[str, ...] = self._do(lambda host, _: self._driver.calls.routing.replicas_of(partition))
        return found

    def leaders(self) -> dict[int, Address]:
        """Partition -> its leader, where one is known here."""
        found: dict[int, Address] = self._do(lambda host, _: dict(sorted(host.leader_of.items())))
        return found

    def report(self) -> dict[int, dict[str, Any]]:
        """Partition -> its state at this member: role, epoch, committed, leader, members."""
        found: dict[int, dict[str, Any]] = self._do(lambda host, _: reports(host))
        return found

    def stats(self) -> dict[str, int]:
        """Counters: elections_won, states_sent, states_loaded, replicas_dropped, reads, ...; those of the client, too:
        redirect, busy, unknown, failed, ..."""
        found: dict[str, int] = self._do(lambda host, _: stats(self._driver, host))
        return found

    @property
    def birth(self) -> int:
        """The birth number of the store: one that is created after a loss has a higher one. 0: no store is known."""
        found: int = self._do(lambda host, _: 0 if host.store is None else birth_of(host.store[0]))
        return found

    def vacate(self, timeout: float = 30.0) -> bool:
        """Move all replicas of this member to others. Returns whether that was done in time (it needs enough
        others)."""
        self._do(lambda host, now_ns: host.vacate(now_ns))
        try:
            self._wait(lambda host: host.is_empty, timeout, "")
        except PartitionUnavailableError:
            return False
        return True

    def __enter__(self) -> Replicas:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- waiting ------------------------------------------------------------------------------------------------------

    def _call(self, partition: int, verb: Verb, data: bytes) -> bytes:
        waiter = ThreadWaiter()
        self._driver.call(partition, verb, data, seconds(self.timeout), waiter)
        self._sync_channel.work_until(waiter.is_set, self.timeout)
        waiter.wait()                                        # for the core's answer, which comes at the deadline
        call = waiter.call
        assert call is not None, "set before"
        if call.error is not None:
            raise call.error
        assert call.reply is not None, "it has ended"
        return call.reply

    def _ended(self, calls: list[PartitionCall]) -> None:
        for call in calls:
            waiter = call.waiter
            if isinstance(waiter, ThreadWaiter):
                waiter.call = call
                waiter.set()
                continue
            with suppress(InvalidStateError):                # cancelled
                if call.error is not None:
                    waiter.set_exception(call.error)
                else:
                    waiter.set_result(call.reply)

    def _do(self, call: Callable[[PartitionHost, int], Any]) -> Any:
        """The result of a call of the host, made inside a round."""
        over, got = Event(), list[tuple[Any, Exception | None]]()

        def job(now_ns: int) -> None:
            host = self._driver.host
            try:
                if host is None:
                    raise PartitionUnavailableError("this member is in no group")
                got.append((call(host, now_ns), None))
            except (ChannelError, ValueError) as error:
                got.append((None, error))
            over.set()
        self._driver.put(job)
        if not over.wait(self.timeout):
            raise PartitionUnavailableError("this store was closed")
        result, error = got[0]
        if error is not None:
            raise error
        return result

    def _wait(self, holds: Callable[[PartitionHost], bool], timeout: float, what: str) -> None:
        over = Event()
        self._driver.put(lambda _: self._driver.when(holds, over.set))
        if not over.wait(timeout):
            raise PartitionUnavailableError(f"not in time: {what}")


class ThreadWaiter(Event):
    """A thread that waits for the end of a call."""

    call: PartitionCall | None = None


def has_leaders(host: PartitionHost) -> bool:
    """Whether the store is known, and a leader for each of its partitions."""
    return host.store is not None and len(host.leader_of) == host.store[1]


def reports(host: PartitionHost) -> dict[int, dict[str, Any]]:
    """Partition -> its state at a host."""
    return {partition: replica.stats() for partition, replica in sorted(host.parts.items())}


def stats(driver: ReplicaDriver, host: PartitionHost) -> dict[str, int]:
    """The counters of a host, of its driver, and of the calls of this member."""
    return {**host.counters, **driver.counters, **driver.calls.routing.counters}
