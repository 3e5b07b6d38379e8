"""Replicas: partitions on the members of a JChannel's group, and a client of them.

    class Counter(Machine): ...

    store = Replicas(channel, lambda partition: Counter())       # at every member; before or after it connects
    store.create(partitions=16, replicas=3, hosts=3)             # once, at one of them
    store.write(7, b"+1"); store.read(7); store.read(7, strong=True)

One thread has the Host (host.py); views, messages, requests and time are put into its queue. Members talk by a service
of the channel's requests (blocks/rpc): messages between hosts are requests that nobody waits for.
"""
from __future__ import annotations

import logging
import secrets
import threading
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic, monotonic_ns, sleep
from typing import Any

from jgroups_py.address import Address
from jgroups_py.batch import NO_RELAY
from jgroups_py.block import Block
from jgroups_py.blocks.placement import Candidate
from jgroups_py.blocks.replicas.client import PartitionUnavailableError, ReplicaClient
from jgroups_py.blocks.replicas.host import Host
from jgroups_py.blocks.replicas.machine import Machine
from jgroups_py.blocks.replicas.messages import Request as Question
from jgroups_py.blocks.replicas.messages import decode, encode
from jgroups_py.blocks.replicas.options import Options
from jgroups_py.blocks.replicas.outputs import Answer, Health, Send
from jgroups_py.blocks.rpc import LATER, Request, Rpc
from jgroups_py.channel import JChannel
from jgroups_py.codec import Interner
from jgroups_py.errors import ChannelError, MemberLeftError, WireError
from jgroups_py.outputs import Closed, Output, ViewInstalled
from jgroups_py.session import Session
from jgroups_py.units import NS_PER_S
from jgroups_py.view import View

log = logging.getLogger("jgroups_py")

SERVICE = 0x7265                           # of the channel's requests, unless told otherwise
STORE_NAME_BYTES = 16
LOOK_SECONDS = 0.01                        # between looks at what is waited for
Job = Callable[[], None]


class Replicas:
    """See the module. Any thread may call it, but not a callback of the channel: that would wait for itself."""

    def __init__(
        self, channel: JChannel, make: Callable[[int], Machine], options: Options | None = None, *,
        service: int = SERVICE, health: Callable[[Health], None] | None = None, timeout: float = 10.0,
    ) -> None:
        """make: a new machine for a partition. health: told, at a partition's leader, when it has too few replicas, or
        enough again; on a thread of this object. timeout: of writes and reads, seconds.

        Raises:
            ValueError: the channel has such a service already.
        """
        self.options = options or Options()
        self._channel = channel
        self._make = make
        self._health = health
        self._host: Host | None = None
        self._hosts: dict[str, Address] = {}               # id -> address, of those that may have partitions
        self._known: tuple[tuple[Candidate, ...], int] = (), 0
        self._addresses = Interner()
        self._jobs: deque[Job | None] = deque()
        self._stir = threading.Condition()
        self._closed = False
        self.client = ReplicaClient(self._ask, (), 1, key=self.options.key, timeout=timeout)
        self._rpc = Rpc(channel, self._handle, service)
        self._thread = threading.Thread(target=self._work, name=f"replicas of {channel.name}", daemon=True)
        self._thread.start()
        channel.attach(Views(self._view, self._ended))

    # --- for applications -------------------------------------------------------------------------------------------

    def create(self, partitions: int, replicas: int, hosts: int = 1, timeout: float = 10.0) -> None:
        """Begin the store, once in its life, at one member; returns when every partition has a leader.

        hosts: wait until so many members are there. What is in the store is in the memory of its members only: when a
        majority of a partition's replicas ends at once, the partition ends.

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
        """Return when the store is known here and every partition has a leader.

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
        """Partition -> who leads it, as far as this member knows."""
        found: dict[int, Address] = self._do(lambda host: dict(sorted(host.leader_of.items())))
        return found

    def report(self) -> dict[int, dict[str, Any]]:
        """Partition -> what this member knows of it: role, epoch, committed, leader, members."""
        found: dict[int, dict[str, Any]] = self._do(
            lambda host: {partition: replica.stats() for partition, replica in sorted(host.parts.items())})
        return found

    def stats(self) -> dict[str, int]:
        """Counters: elections_won, states_sent, states_loaded, replicas_dropped, reads, ..."""
        found: dict[str, int] = self._do(lambda host: dict(host.counters))
        return found

    def vacate(self, timeout: float = 30.0) -> bool:
        """Move all that this member has to others; whether that was done in time (it needs enough others)."""
        self._do(lambda host: host.vacate(monotonic_ns()))
        try:
            self._wait(lambda host: host.is_empty, monotonic() + timeout, "")
        except PartitionUnavailableError:
            return False
        return True

    def close(self) -> None:
        """End: this member has no partitions any more. The channel goes on."""
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

    def _do(self, call: Callable[[Host], Any]) -> Any:
        """What a call of the host gives, in its thread."""
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

    def _wait(self, holds: Callable[[Host], bool], until: float, what: str) -> None:
        while not (self._host is not None and self._do(holds)):
            if monotonic() > until:
                raise PartitionUnavailableError(f"not in time: {what}")
            sleep(LOOK_SECONDS)

    def _view(self, view: View, me: Address) -> None:
        def job() -> None:
            if self._host is None or self._host.me != me:
                self._host = Host(me, self._make, self.options)
            self._host.view(view, monotonic_ns())
        self._put(job)

    def _ended(self) -> None:
        def job() -> None:
            self._host = None
        self._put(job)

    def _handle(self, request: Request) -> object:
        """A message of a host, or a client's request; on the thread of the channel's callbacks."""
        if not request.wanted:
            self._put(lambda: self._heard(request))
            return b""
        question = decode(request.payload, self._addresses)
        if not isinstance(question, Question):
            raise WireError("no request about a partition")
        self._put(lambda: self._asked(request, question))
        return LATER

    def _ask(self, dest: str, data: bytes, timeout: float) -> bytes:
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

    def _heard(self, request: Request) -> None:
        if self._host is not None:
            self._host.receive(request.src, request.payload, monotonic_ns())

    def _asked(self, request: Request, question: Question) -> None:
        if self._host is not None:
            self._host.request(request, question, monotonic_ns())

    def _take(self) -> Sequence[Job | None]:
        """What is to be done now; waits for something, or until the host is due."""
        host = self._host
        due_ns = None if host is None else host.next_deadline_ns
        with self._stir:
            if not self._jobs:
                self._stir.wait(None if due_ns is None else max(0.0, (due_ns - monotonic_ns()) / NS_PER_S))
            jobs, self._jobs = self._jobs, deque()
        return jobs

    def _carry_out(self, host: Host) -> None:
        for output in host.drain():
            if isinstance(output, Send):
                self._say(output)
            elif isinstance(output, Answer):
                assert isinstance(output.ticket, Request), "tickets are requests"
                output.ticket.answer(encode(output.reply))
            elif self._health is not None:
                self._tell(output)
        known, addresses = host.placement()
        if (known.candidates, host.replicas) != self._known:
            self._known, self._hosts = (known.candidates, host.replicas), addresses
            self.client.hosts_changed(known.candidates, host.replicas)

    def _say(self, output: Send) -> None:
        try:
            self._rpc.tell(output.dest, output.data, NO_RELAY)
        except ChannelError:                                 # it left, or we do: said again in the next view
            log.debug("a message about partitions was not sent", exc_info=True)

    def _tell(self, health: Health) -> None:
        assert self._health is not None, "somebody wants to know"
        try:
            self._health(health)
        except Exception:
            log.exception("the callback for the health of partitions raised")


class Views(Block):
    """Hears of views, inside the rounds of the channel's loop."""

    def __init__(self, view: Callable[[View, Address], None], ended: Callable[[], None]) -> None:
        self._tell_view = view
        self._tell_end = ended
        self._session: Session | None = None

    def begin(self, session: Session) -> None:
        self._session = session
        view, me = session.channel.view, session.channel.address
        if view is not None and me is not None:
            self._tell_view(view, me)

    def early(self, outputs: Sequence[Output]) -> Sequence[Output]:
        for output in outputs:
            if isinstance(output, ViewInstalled):
                assert self._session is not None, "views come in a session"
                node = self._session.host.node
                if node is not None:
                    self._tell_view(output.view, node.me)
            elif isinstance(output, Closed):
                self._tell_end()
        return outputs
