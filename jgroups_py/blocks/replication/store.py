"""Replicas: partitions on the members of a JChannel's group, and a client of them.

    class Counter(Machine): ...

    store = Replicas(channel, lambda partition: Counter())       # at every member; before or after it connects
    store.create(partitions=16, replicas=3, hosts=3)             # once, at one of them
    store.write(7, b"+1"); store.read(7); store.read(7, strong=True)

One thread has the PartitionHost (host.py); views, messages, requests and time are put into its queue. Members
communicate by a service of the channel's requests (blocks/rpc): messages between hosts are one-way requests.
"""
from __future__ import annotations

import logging
import secrets
import threading
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic, monotonic_ns, sleep
from typing import Any

from jgroups_py.blocks.placement import Candidate
from jgroups_py.blocks.replication.client import PartitionUnavailableError, ReplicaClient
from jgroups_py.blocks.replication.host import PartitionHost
from jgroups_py.blocks.replication.machine import Machine
from jgroups_py.blocks.replication.messages import PartitionRequest, decode, encode
from jgroups_py.blocks.replication.options import Options
from jgroups_py.blocks.replication.outputs import AnswerClient, Health, SendToHost
from jgroups_py.blocks.rpc import LATER, Request, Rpc
from jgroups_py.channel.block import Block, Connection
from jgroups_py.channel.sync import JChannel
from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_RELAY
from jgroups_py.model.errors import ChannelError, MemberLeftError, WireError
from jgroups_py.model.outputs import Closed, Output, ViewInstalled
from jgroups_py.model.units import NS_PER_S
from jgroups_py.model.view import View
from jgroups_py.wire.codec import Interner

log = logging.getLogger("jgroups_py")

SERVICE = 0x7265                           # of the channel's requests, by default
STORE_NAME_BYTES = 16
POLL_SECONDS = 0.01                        # interval at which a waited-for condition is checked
Job = Callable[[], None]


class Replicas:
    """See the module. Any thread may call it, but not a callback of the channel: the answer would wait for its end."""

    def __init__(
        self, channel: JChannel, make: Callable[[int], Machine], options: Options | None = None, *,
        service: int = SERVICE, health: Callable[[Health], None] | None = None, timeout: float = 10.0,
    ) -> None:
        """make: a new machine for a partition. health: called at a partition's leader when it has too few replicas, or
        enough again; on a thread of this object. timeout: of writes and reads, seconds.

        Raises:
            ValueError: the channel has such a service already.
        """
        self.options = options or Options()
        self._channel = channel
        self._make = make
        self._health = health
        self._host: PartitionHost | None = None
        self._hosts: dict[str, Address] = {}               # id -> address, of those that may have partitions
        self._known: tuple[tuple[Candidate, ...], int] = (), 0
        self._addresses = Interner()
        self._jobs: deque[Job | None] = deque()
        self._stir = threading.Condition()
        self._closed = False
        self.client = ReplicaClient(self._request, (), 1, key=self.options.key, timeout=timeout)
        self._rpc = Rpc(channel, self._handle, service)
        self._thread = threading.Thread(target=self._work, name=f"replicas of {channel.name}", daemon=True)
        self._thread.start()
        channel.attach(Views(self._view, self._ended))

    # --- for applications -------------------------------------------------------------------------------------------

    def create(self, partitions: int, replicas: int, hosts: int = 1, timeout: float = 10.0) -> None:
        """Create the store, once, at one member; returns when every partition has a leader.

        hosts: wait until the view has so many hosts. The content is in the memory of the members only: when a majority
        of a partition's replicas ends at once, the partition is lost.

        Raises:
            StoreExistsError: the group has one.
            PartitionUnavailableError: not enough members, or no leaders, in time.
        """
        until = monotonic() + timeout
        self._wait(lambda host: len(host.placement()[1]) >= hosts, until, f"{hosts} hosts")
        name = secrets.token_bytes(STORE_NAME_BYTES)
        self._do(lambda host: host.create(name, partitions, replicas, monotonic_ns()))
        self.wait_for_leaders(until - monotonic())

    def wait_for_leaders(self, timeout: float = 10.0) -> None:
        """Wait until the store has been announced here and every partition has a leader.

        Raises:
            PartitionUnavailableError: not in time.
        """
        self._wait(lambda host: host.store is not None and len(host.leader_of) == host.store[1],
                   monotonic() + timeout, "a leader for every partition")

    def write(self, partition: int, data: bytes) -> bytes:
        """See ReplicaClient.write."""
        return self.client.write(partition, data)

    def read(self, partition: int, query: bytes = b"", *, strong: bool = False) -> bytes:
        """See ReplicaClient.read."""
        return self.client.read(partition, query, strong=strong)

    def leaders(self) -> dict[int, Address]:
        """Partition -> its leader, where one is known here."""
        found: dict[int, Address] = self._do(lambda host: dict(sorted(host.leader_of.items())))
        return found

    def report(self) -> dict[int, dict[str, Any]]:
        """Partition -> its state at this member: role, epoch, committed, leader, members."""
        found: dict[int, dict[str, Any]] = self._do(
            lambda host: {partition: replica.stats() for partition, replica in sorted(host.parts.items())})
        return found

    def stats(self) -> dict[str, int]:
        """Counters: elections_won, states_sent, states_loaded, replicas_dropped, reads, ..."""
        found: dict[str, int] = self._do(lambda host: dict(host.counters))
        return found

    def vacate(self, timeout: float = 30.0) -> bool:
        """Move all replicas of this member to others. Returns whether that was done in time (it needs enough
        others)."""
        self._do(lambda host: host.vacate(monotonic_ns()))
        try:
            self._wait(lambda host: host.is_empty, monotonic() + timeout, "")
        except PartitionUnavailableError:
            return False
        return True

    def close(self) -> None:
        """Stop: this member has no partitions any more. The channel stays connected."""
        self._rpc.close()
        self._closed = True
        self._put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def __enter__(self) -> Replicas:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- from other threads -----------------------------------------------------------------------------------------

    def _put(self, job: Job | None) -> None:
        with self._stir:
            self._jobs.append(job)
            self._stir.notify()

    def _do(self, call: Callable[[PartitionHost], Any]) -> Any:
        """The result of a call of the host, made on its thread."""
        over, got = threading.Event(), list[Any]()

        def job() -> None:
            try:
                if self._host is None:
                    raise PartitionUnavailableError("this member is in no group")
                got.append((call(self._host), None))
            except (ChannelError, ValueError) as error:
                got.append((None, error))
            over.set()
        self._put(job)
        if self._closed or not over.wait(self.client.timeout):
            raise PartitionUnavailableError("this store was closed")
        result, error = got[0]
        if error is not None:
            raise error
        return result

    def _wait(self, holds: Callable[[PartitionHost], bool], until: float, what: str) -> None:
        while not (self._host is not None and self._do(holds)):
            if monotonic() > until:
                raise PartitionUnavailableError(f"not in time: {what}")
            sleep(POLL_SECONDS)

    def _view(self, view: View, me: Address) -> None:
        def job() -> None:
            if self._host is None or self._host.me != me:
                self._host = PartitionHost(me, self._make, self.options)
            self._host.view(view, monotonic_ns())
        self._put(job)

    def _ended(self) -> None:
        def job() -> None:
            self._host = None
        self._put(job)

    def _handle(self, request: Request) -> object:
        """A message of a host, or a client's request; on the thread of the channel's callbacks."""
        if not request.needs_answer:
            self._put(lambda: self._received(request))
            return b""
        command = decode(request.payload, self._addresses)
        if not isinstance(command, PartitionRequest):
            raise WireError("no request about a partition")
        self._put(lambda: self._requested(request, command))
        return LATER

    def _request(self, dest: str, data: bytes, timeout: float) -> bytes:
        member = self._hosts.get(dest)
        if member is None:
            raise MemberLeftError(dest)
        return self._rpc.request(member, data, timeout)

    # --- the thread -------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            for job in self._take():
                if job is None:
                    return
                job()
            host = self._host
            if host is not None:
                host.advance(monotonic_ns())
                self._carry_out(host)

    def _received(self, request: Request) -> None:
        if self._host is not None:
            self._host.receive(request.src, request.payload, monotonic_ns())

    def _requested(self, request: Request, command: PartitionRequest) -> None:
        if self._host is not None:
            self._host.request(request, command, monotonic_ns())

    def _take(self) -> Sequence[Job | None]:
        """The queued jobs; waits for one, or until the host is due."""
        host = self._host
        due_ns = None if host is None else host.next_deadline_ns
        with self._stir:
            if not self._jobs:
                self._stir.wait(None if due_ns is None else max(0.0, (due_ns - monotonic_ns()) / NS_PER_S))
            jobs, self._jobs = self._jobs, deque()
        return jobs

    def _carry_out(self, host: PartitionHost) -> None:
        for output in host.drain():
            if isinstance(output, SendToHost):
                self._send(output)
            elif isinstance(output, AnswerClient):
                assert isinstance(output.ticket, Request), "tickets are requests"
                output.ticket.answer(encode(output.reply))
            elif self._health is not None:
                self._report(output)
        known, addresses = host.placement()
        if (known.candidates, host.replicas) != self._known:
            self._known, self._hosts = (known.candidates, host.replicas), addresses
            self.client.hosts_changed(known.candidates, host.replicas)

    def _send(self, output: SendToHost) -> None:
        try:
            self._rpc.notify(output.dest, output.data, NO_RELAY)
        except ChannelError:                                 # it left, or this member does: repeated in the next view
            log.debug("a message about partitions was not sent", exc_info=True)

    def _report(self, health: Health) -> None:
        assert self._health is not None, "a health output needs a callback"
        try:
            self._health(health)
        except Exception:
            log.exception("the callback for the health of partitions raised")


class Views(Block):
    """Passes views on, inside the rounds of the channel's loop."""

    def __init__(self, view: Callable[[View, Address], None], ended: Callable[[], None]) -> None:
        self._on_view = view
        self._on_end = ended
        self._connection: Connection | None = None

    def begin(self, connection: Connection) -> None:
        self._connection = connection
        view, me = connection.view, connection.address
        if view is not None and me is not None:
            self._on_view(view, me)

    def early(self, outputs: Sequence[Output]) -> Sequence[Output]:
        for output in outputs:
            if isinstance(output, ViewInstalled):
                assert self._connection is not None, "views come in a connection"
                me = self._connection.address
                if me is not None:
                    self._on_view(output.view, me)
            elif isinstance(output, Closed):
                self._on_end()
        return outputs
