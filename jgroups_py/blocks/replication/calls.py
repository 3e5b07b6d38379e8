"""Calls: a member's requests about partitions, from the first try to the final answer. Pure.

Many are under way at once. A request goes to the host that routing.py names. It goes to another one when the answer
redirects it, when the host has left, or when no answer came within ANSWER_NS; a write keeps its id and takes effect
once. Requests beyond WINDOW wait for answers of others.
"""
from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Mapping
from typing import Any

import attrs

from jgroups_py.blocks.placement import Candidate
from jgroups_py.blocks.replication.messages import PartitionReply, PartitionRequest, Verb
from jgroups_py.blocks.replication.routing import Operation, PartitionUnavailableError, Routing
from jgroups_py.model.address import ADDRESS_BYTES, Address
from jgroups_py.model.units import NS_PER_S, millis, seconds

WINDOW = 2048                               # requests under way at once; a leader takes 4096 uncommitted writes
ANSWER_NS = seconds(2)                      # until the request goes to another host
PAUSES_NS = millis(5), millis(10), millis(20), millis(50)      # after tries without progress; the last one repeats
SWEEP_NS = millis(5)                        # between two looks at what is under way


@attrs.define(eq=False)
class PartitionCall:
    """A request. dest: the host that has it, None: it waits for a pause to end. due_ns: when something is to be done.

    reply, error: how it ended. waiter: what waits for that; the core does not look at it.
    """

    operation: Operation
    began_ns: int
    deadline_ns: int
    waiter: Any
    dest: str | None = None
    due_ns: int = 0
    pauses: int = 0
    reply: bytes | None = None
    error: Exception | None = None


class PartitionCalls:
    """See the module. requests, finished: for the driver, which takes them away."""

    def __init__(self, key: str) -> None:
        self.routing = Routing((), 1, secrets.token_bytes(ADDRESS_BYTES), key)
        self.addresses: Mapping[str, Address] = {}           # id -> address of hosts
        self.requests: list[tuple[Address, PartitionRequest]] = []
        self.finished: list[PartitionCall] = []
        self._under_way: dict[int, PartitionCall] = {}       # number -> call
        self._queue: deque[PartitionCall] = deque()
        self._sweep_ns: int | None = None

    def __len__(self) -> int:
        return len(self._under_way) + len(self._queue)

    @property
    def next_deadline_ns(self) -> int | None:
        """When `advance` is due."""
        return self._sweep_ns

    # --- what goes in -----------------------------------------------------------------------------------------------

    def begin(
        self, partition: int, verb: Verb, data: bytes, timeout_ns: int, waiter: Any, now_ns: int,
    ) -> None:
        """A new request."""
        call = PartitionCall(self.routing.begin(partition, verb, data), now_ns, now_ns + timeout_ns, waiter)
        if len(self._under_way) >= WINDOW:
            self._queue.append(call)
            self._look_at(call.deadline_ns)
        else:
            self._under_way[call.operation.request.number] = call
            self._try(call, now_ns)

    def replied(self, src: Address, reply: PartitionReply, now_ns: int) -> None:
        """An answer. One that another host sends late is ignored, as the request is under way elsewhere."""
        call = self._under_way.get(reply.number)
        if call is None or call.dest is None or self.addresses.get(call.dest) != src:
            return
        operation = call.operation
        redirects = operation.redirects
        if self.routing.replied(operation, call.dest, reply):
            call.reply = reply.data
            self._end(call, now_ns)
        elif redirects < operation.redirects <= len(PAUSES_NS):
            self._try(call, now_ns)
        else:
            self._pause(call, now_ns)

    def hosts_changed(
        self, hosts: tuple[Candidate, ...], replicas: int, addresses: Mapping[str, Address], now_ns: int,
    ) -> None:
        """These members may have partitions now; requests to others go elsewhere."""
        gone = [host for host, member in self.addresses.items() if addresses.get(host) != member]
        self.routing.replicas, self.addresses = replicas, addresses
        self.routing.hosts_changed(hosts)
        for call in list(self._under_way.values()):
            if call.dest in gone or (call.dest is None and not call.pauses):
                if call.dest is not None:
                    self.routing.failed(call.operation, call.dest)
                self._try(call, now_ns)

    def advance(self, now_ns: int) -> None:
        """Time has passed: deadlines, hosts that do not answer, pauses that are over."""
        if self._sweep_ns is None or now_ns < self._sweep_ns:
            return
        self._sweep_ns = None
        for call in list(self._under_way.values()):
            if call.due_ns > now_ns:
                self._look_at(max(call.due_ns, now_ns + SWEEP_NS))
            elif now_ns >= call.deadline_ns:
                self._give_up(call, now_ns)
            else:
                if call.dest is not None:
                    self.routing.failed(call.operation, call.dest)
                self._try(call, now_ns)
        for call in [call for call in self._queue if now_ns >= call.deadline_ns]:
            self._queue.remove(call)
            self._give_up(call, now_ns)
        if self._queue:
            self._look_at(max(now_ns + SWEEP_NS, min(call.deadline_ns for call in self._queue)))

    def end(self, error: Exception) -> None:
        """The connection is over: nothing is answered any more."""
        calls = [*self._under_way.values(), *self._queue]
        self._under_way.clear()
        self._queue.clear()
        for call in calls:
            call.error = error
        self.finished += calls
        self.addresses, self._sweep_ns = {}, None

    # --- tries --------------------------------------------------------------------------------------------------------

    def _try(self, call: PartitionCall, now_ns: int) -> None:
        target = self.routing.target(call.operation)
        member = None if target is None else self.addresses.get(target)
        if member is None:
            self._pause(call, now_ns)
            return
        call.dest = target
        call.due_ns = min(call.deadline_ns, now_ns + ANSWER_NS)
        self._look_at(call.due_ns)
        self.requests.append((member, call.operation.request))

    def _pause(self, call: PartitionCall, now_ns: int) -> None:
        call.dest = None
        pause_ns = PAUSES_NS[min(call.pauses, len(PAUSES_NS) - 1)]
        call.pauses += 1
        call.due_ns = min(call.deadline_ns, now_ns + pause_ns)
        self._look_at(call.due_ns)

    def _look_at(self, due_ns: int) -> None:
        if self._sweep_ns is None or due_ns < self._sweep_ns:
            self._sweep_ns = due_ns

    def _give_up(self, call: PartitionCall, now_ns: int) -> None:
        request = call.operation.request
        waited_s = (now_ns - call.began_ns) / NS_PER_S
        call.error = PartitionUnavailableError(
            f"partition {request.partition}: no {Verb(request.verb).name.lower()} within {waited_s:g} s; replicas are "
            f"at {', '.join(self.routing.replicas_of(request.partition)) or 'unknown'}")
        self._end(call, now_ns)

    def _end(self, call: PartitionCall, now_ns: int) -> None:
        self._under_way.pop(call.operation.request.number, None)
        self.finished.append(call)
        if self._queue and len(self._under_way) < WINDOW:
            following = self._queue.popleft()
            self._under_way[following.operation.request.number] = following
            self._try(following, now_ns)
