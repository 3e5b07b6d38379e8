"""The driver of partitions on a channel: its rounds run the host and the calls of this member. There is no thread.

Messages, views and time come in inside rounds; what applications ask for is queued by any thread and taken by the next
round, all of it at once. At the end of a round stands what follows from all of it: the entries of many writes in one
message to each follower, the answers to many writes in one batch.
"""
from __future__ import annotations

import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from jgroups_py.blocks.placement import Candidate
from jgroups_py.blocks.replication.calls import PartitionCall, PartitionCalls
from jgroups_py.blocks.replication.founding import RANDOM_BYTES, Founding, store_name
from jgroups_py.blocks.replication.host import MAX_PARTITIONS, PartitionHost
from jgroups_py.blocks.replication.log import ReplicatedEntry
from jgroups_py.blocks.replication.machine import Machine
from jgroups_py.blocks.replication.messages import (
    PartitionNotice,
    PartitionReply,
    PartitionRequest,
    Verb,
    decode,
    encode,
)
from jgroups_py.blocks.replication.options import Options
from jgroups_py.blocks.replication.outputs import AnswerClient, Health, SendToHost, Watcher
from jgroups_py.channel.base import BaseChannel
from jgroups_py.channel.block import Block, Connection
from jgroups_py.channel.message import as_bytes
from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_RELAY, Batch
from jgroups_py.model.counters import Counters, declare, drop, table
from jgroups_py.model.errors import ChannelError, NotConnectedError, WireError
from jgroups_py.model.outputs import Closed, Deliver, MemberGone, Output, ViewInstalled
from jgroups_py.runtime.loop import Task
from jgroups_py.runtime.send_queue import NOW
from jgroups_py.wire.block_headers import BlockHeader, PartitionMessage
from jgroups_py.wire.codec import Interner

log = logging.getLogger("jgroups_py")

OF_CLIENTS = tuple([bytes((cls.kind,)) for cls in (PartitionRequest, PartitionReply, PartitionNotice)])
VERBS = tuple(map(int, Verb))
REQUEST_BYTES = 100                         # of a request or an entry, beside its data
LOCAL = None                                # as the source of a request: this member's own

Applied = Callable[[int, int, bytes], object]
"""(partition, number of the entry, command): a write was carried out by the replica at this member."""

Notified = Callable[[int, bytes], None]
"""(partition, notice): a machine of another member, or this one's, has a notice for this member."""


class ReplicaDriver(Block):
    """See the module.

    resolve: called inside a round with calls that have ended. health, applied: of the application; must not block.
    notified: called inside a round with notices for this member.
    """

    service: int
    closed: bool                                             # by the application
    headers: ClassVar[tuple[type[BlockHeader], ...]] = (PartitionMessage,)
    COUNTERS = declare(
        drop("malformed_requests", "Requests and answers about partitions that could not be decoded."),
        drop("for_no_store", "Messages of a store that this member does not run."),
    )

    def __init__(
        self, channel: BaseChannel, make: Callable[[int], Machine], options: Options, service: int,
        founding: Founding | None, resolve: Callable[[list[PartitionCall]], None],
        health: Callable[[Health], object] | None, applied: Applied | None, notified: Notified | None = None,
    ) -> None:
        if any(isinstance(block, ReplicaDriver) and block.service == service and not block.closed
               for block in channel.blocks):
            raise ValueError(f"the channel has a store with service {service} already")
        self.service = service
        self.hears_of_ends = True                            # supervisors are told of processes that have ended
        self.host: PartitionHost | None = None
        self.calls = PartitionCalls(options.key)
        self.closed = False
        self.counters = Counters(table(self.COUNTERS))
        self._channel = channel
        self._make = make
        self._options = options
        self._founding = founding
        self._resolve = resolve
        self._health = health
        self._notified = notified
        self._watcher = AppliedWatcher(applied)
        self._header = (PartitionMessage(service),)
        self._connection: Connection | None = None
        self._addresses = Interner()
        self._known: tuple[tuple[Candidate, ...], int] = (), 0
        self._timer: Task | None = None
        self._timer_ns = 0
        self._jobs: deque[Callable[[int], None]] = deque()       # put by any thread
        self._scheduled = False                                  # the next round runs them
        self._conditions: list[tuple[Callable[[PartitionHost], bool], Callable[[], None]]] = []
        channel.attach(self)

    # --- from any thread --------------------------------------------------------------------------------------------

    def put(self, job: Callable[[int], None]) -> None:
        """Call `job` with the time inside the next round, before its outputs are carried out.

        Raises:
            NotConnectedError, ChannelClosedError.
        """
        connection = self._channel.connection()
        self._jobs.append(job)
        if not self._scheduled:
            self._scheduled = True
            connection.call(self._run_jobs)
        if connection.ended:                                 # perhaps after `_end` has run what was there
            with suppress(ValueError):
                self._jobs.remove(job)
                raise NotConnectedError("the channel is leaving its group")

    def call(self, partition: int, verb: Verb, data: bytes, timeout_ns: int, waiter: Any) -> None:
        """Begin a request; `resolve` gets it with `waiter` at its end.

        Raises:
            TypeError, ValueError: it cannot be sent. As `put`.
        """
        if not isinstance(partition, int):
            raise TypeError(f"a partition is a number, not {type(partition).__name__}")
        if not 0 <= partition < MAX_PARTITIONS:
            raise ValueError(f"partition {partition}: they are numbered from 0, and below {MAX_PARTITIONS}")
        data = as_bytes(data)
        self._channel.check_size(len(data) + REQUEST_BYTES)
        self.put(lambda now_ns: self.calls.begin(partition, verb, data, timeout_ns, waiter, now_ns))

    def when(self, holds: Callable[[PartitionHost], bool], call: Callable[[], None]) -> None:
        """Inside a round: make the call once when the condition holds, now or after what changes the host."""
        self._conditions.append((holds, call))

    def close(self) -> None:
        """Take part no more: this member has no partitions now."""
        self.closed = True
        connection = self._connection
        if connection is not None and not connection.ended:
            connection.call(lambda: self._end(NotConnectedError("this store was closed")))

    # --- inside rounds: Block -----------------------------------------------------------------------------------------

    def begin(self, connection: Connection) -> None:
        self._connection = connection
        self._scheduled = False
        if connection.view is not None:
            view = connection.view
            connection.call(lambda: self._installed(ViewInstalled(view)))

    def early(self, outputs: Sequence[Output]) -> Sequence[Output]:
        if self.closed:
            return outputs
        kept: list[Output] = []
        for output in outputs:
            kind = output.__class__
            if kind is Deliver and self._is_own(output.batch):   # type: ignore[attr-defined]
                self._received(output.batch)                     # type: ignore[attr-defined]
                continue
            if kind is ViewInstalled:
                self._viewed(output)                             # type: ignore[arg-type]
            elif kind is MemberGone:
                self._gone(output.member)                        # type: ignore[attr-defined]
            elif kind is Closed:
                self._end(NotConnectedError("the channel was disconnected before the answer came"))
            kept.append(output)
        self.settle()
        return kept

    def deliver(self, batch: Batch) -> None:
        self.counters.add("for_no_store", len(batch.payloads))

    def _is_own(self, batch: Batch) -> bool:
        header = batch.headers[0] if batch.headers else None
        return isinstance(header, PartitionMessage) and header.service == self.service

    def _installed(self, output: ViewInstalled) -> None:
        self._viewed(output)
        self.settle()

    def _viewed(self, output: ViewInstalled) -> None:
        connection = self._connection
        assert connection is not None, "views come in a connection"
        me = connection.address
        if me is None or self.closed:
            return
        if self.host is None or self.host.me != me:
            self.host = PartitionHost(me, self._make, self._options, self._watcher, founding=self._founding)
        self.host.view(output.view, connection.clock_ns())

    def _gone(self, member: Address) -> None:
        if self.host is not None and self._connection is not None and self.hears_of_ends:
            self.host.member_gone(member, self._connection.clock_ns())

    def _received(self, batch: Batch) -> None:
        host, connection = self.host, self._connection
        if host is None or connection is None:
            return
        # Not the round's time, which was read before the messages: if the process was stopped in between, a message may
        # have been sent long after that, and a lease that it renews counts from when it arrived, at the earliest.
        now_ns, src = connection.clock_ns(), batch.src
        for payload in batch.payloads:
            if payload[:1] not in OF_CLIENTS:
                host.receive(src, payload, now_ns)
                continue
            try:
                message = decode(payload, self._addresses)
            except WireError:
                self.counters.add("malformed_requests")
                continue
            if isinstance(message, PartitionReply):
                self.calls.replied(src, message, now_ns)
            elif isinstance(message, PartitionNotice):
                if self._notified is not None and src in host.members:
                    self._notified(message.partition, message.data)
            elif src not in host.members:
                host.count("from_non_members")
            elif isinstance(message, PartitionRequest) and message.verb in VERBS:
                host.request((src, message.number), message, now_ns)
            else:
                self.counters.add("malformed_requests")

    def _end(self, error: Exception) -> None:
        connection = self._connection
        while self._jobs and connection is not None:
            self._jobs.popleft()(connection.now_ns)
        self.host = None
        self._known = (), 0
        self.calls.end(error)
        self.settle()

    def _run_jobs(self) -> None:
        self._scheduled = False                              # first: what is put from now on schedules a round again
        connection = self._connection
        if connection is None:
            return
        while self._jobs:
            self._jobs.popleft()(connection.now_ns)
        self.settle()

    def _wake(self) -> None:
        self._timer = None
        connection = self._connection
        if connection is None or connection.ended:
            return
        if self.host is not None:
            self.host.advance(connection.clock_ns())
        self.calls.advance(connection.now_ns)
        self.settle()

    # --- inside rounds: what follows ----------------------------------------------------------------------------------

    def settle(self) -> None:
        """Carry out the outputs of host and calls, as long as one causes others; then plan the next deadline."""
        self._exchange()
        while self.calls.finished or self._has_requests():   # what is resolved may begin further calls
            finished, self.calls.finished = self.calls.finished, []
            if finished:
                self._resolve(finished)
            self._exchange()
        self._plan()

    def _has_requests(self) -> bool:
        """Whether requests wait to be sent: a condition that was met has begun them."""
        return bool(self.calls.requests) and self.host is not None and self._connection is not None

    def _exchange(self) -> None:
        host, connection, calls = self.host, self._connection, self.calls
        if connection is None:
            return
        while host is not None:
            self._hosts_changed(host, connection.now_ns)     # a host that has been heard of may cause no output
            requests, calls.requests = calls.requests, []
            for member, request in requests:
                if member == host.me:
                    host.request((LOCAL, request.number), request, connection.clock_ns())
                else:
                    self._send(member, encode(request))
            outputs = host.drain()
            if not requests and not outputs:
                break
            for output in outputs:
                if isinstance(output, SendToHost):
                    self._send(output.dest, output.data)
                elif isinstance(output, AnswerClient):
                    self._answer(host, output, connection.now_ns)
                else:
                    self._report(output)
        if self._conditions and host is not None:
            met = [(holds, call) for holds, call in self._conditions if holds(host)]
            self._conditions = [one for one in self._conditions if one not in met]
            for _, call in met:
                call()

    def _hosts_changed(self, host: PartitionHost, now_ns: int) -> None:
        placement, addresses = host.placement()
        if (placement.candidates, host.replicas) != self._known:
            self._known = placement.candidates, host.replicas
            self.calls.hosts_changed(placement.candidates, host.replicas, addresses, now_ns)

    def _answer(self, host: PartitionHost, output: AnswerClient, now_ns: int) -> None:
        ticket = output.ticket
        assert isinstance(ticket, tuple), "tickets are (source, number)"
        src, number = ticket
        reply = output.reply
        numbered = PartitionReply(reply.partition, number, reply.status, reply.position, reply.leader, reply.members,
                                  reply.data)
        if src is LOCAL:
            self.calls.replied(host.me, numbered, now_ns)
        else:
            self._send(src, encode(numbered))

    def _send(self, dest: Address | None, data: bytes) -> None:
        connection = self._connection
        assert connection is not None, "there is a connection inside a round"
        try:
            connection.sends.put(dest, data, NO_RELAY, self._header, NOW)
        except ChannelError:                                 # this member leaves: repeated in the next view, if any
            log.debug("a message about partitions was not sent", exc_info=True)

    def _report(self, health: Health) -> None:
        if self._health is not None:
            try:
                self._health(health)
            except Exception:
                log.exception("the callback for the health of partitions raised")

    def _plan(self) -> None:
        connection, host = self._connection, self.host
        if connection is None or connection.ended:
            return
        due_ns = self.calls.next_deadline_ns
        if host is not None and (host_ns := host.next_deadline_ns) is not None:
            due_ns = host_ns if due_ns is None else min(due_ns, host_ns)
        if due_ns is None or (self._timer is not None and self._timer_ns <= due_ns):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ns = due_ns
        self._timer = connection.later(max(0, due_ns - connection.now_ns), self._wake)


def new_store_name() -> bytes:
    """The name of a store that is created now."""
    return store_name(time.time_ns(), secrets.token_bytes(RANDOM_BYTES))


class AppliedWatcher(Watcher):
    """Tells the application of each write that the replicas of this member carry out."""

    def __init__(self, applied: Applied | None) -> None:
        self._applied = applied

    def applied(self, me: Address, partition: int, number: int, entry: ReplicatedEntry) -> None:
        if self._applied is not None and entry.request:
            try:
                self._applied(partition, number, entry.data)
            except Exception:
                log.exception("the callback for writes of partitions raised")
