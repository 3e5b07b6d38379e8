"""ReplicaClient: writes and reads of partitions, for threads, over anything that carries a request to a member.

    client = ReplicaClient(ask, [("A", 1), ("B", 2), ("C", 1)], replicas=3)
    client.write(7, b"...")                     # acknowledged by a majority of the partition's replicas
    client.read(7)                              # any replica's, never older than what this client has seen
    client.read(7, strong=True)                 # the leader's, and nothing older than the question
"""
from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable

from jgroups_py.address import ADDRESS_BYTES
from jgroups_py.blocks.placement import Candidate
from jgroups_py.blocks.replicas.messages import Reply, Verb, decode, encode
from jgroups_py.blocks.replicas.routing import Operation, Routing
from jgroups_py.codec import Interner
from jgroups_py.errors import ChannelClosedError, ChannelError, NotConnectedError, WireError

Ask = Callable[[str, bytes, float], bytes]
"""(id of a member, request, seconds to wait) -> its answer; raises a ChannelError if there is none."""

Host = Candidate | tuple[str, float] | tuple[str, float, str]
ANSWER_SECONDS = 2.0                       # until somebody else is asked
PAUSES = 0.005, 0.01, 0.02, 0.05           # after hints that lead nowhere, the last one again and again


class PartitionUnavailableError(ChannelError):
    """No replica answered in time. A write may have happened, or may yet."""

    definite = False


class ReplicaClient:
    """Any thread may use it. Its memory of what it has seen is for all of them together."""

    def __init__(
        self, ask: Ask, hosts: Iterable[Host], replicas: int, *, key: str = "", timeout: float = 10.0,
    ) -> None:
        """hosts: (id, weight) or (id, weight, zone) of all members with partitions; replicas, key: as the store has
        them; timeout: of each call, in seconds."""
        self.timeout = timeout
        self._ask = ask
        self._lock = threading.Lock()
        self._addresses = Interner()
        self._routing = Routing(map(candidate, hosts), replicas, secrets.token_bytes(ADDRESS_BYTES), key)

    @property
    def counters(self) -> dict[str, int]:
        """redirect, busy, unknown, no_store, failed: how often an answer was that, or there was none."""
        with self._lock:
            return dict(self._routing.counters)

    def hosts_changed(self, hosts: Iterable[Host], replicas: int | None = None) -> None:
        """These have partitions now."""
        with self._lock:
            self._routing.replicas = self._routing.replicas if replicas is None else replicas
            self._routing.hosts_changed(map(candidate, hosts))

    def replicas_of(self, partition: int) -> tuple[str, ...]:
        """Who has a partition, as far as this client knows; the best first."""
        with self._lock:
            return self._routing.replicas_of(partition)

    def write(self, partition: int, data: bytes) -> bytes:
        """Carry out a command; what it answers, once a majority of the replicas has it.

        Raises:
            PartitionUnavailableError: not in time. It may have happened.
            NotConnectedError, ChannelClosedError: of the channel underneath.
        """
        return self._call(partition, Verb.WRITE, data)

    def read(self, partition: int, query: bytes = b"", *, strong: bool = False) -> bytes:
        """Answer a query: by any replica, or strongly by the leader.

        Raises:
            PartitionUnavailableError: not in time.
            NotConnectedError, ChannelClosedError: of the channel underneath.
        """
        return self._call(partition, Verb.STRONG if strong else Verb.READ, query)

    def _call(self, partition: int, verb: Verb, data: bytes) -> bytes:
        until = time.monotonic() + self.timeout
        with self._lock:
            operation = self._routing.begin(partition, verb, data)
        vain = 0
        while (left := until - time.monotonic()) > 0:
            with self._lock:
                target = self._routing.target(operation)
            redirects = operation.redirects
            if target is not None and self._asked(operation, target, left):
                assert operation.reply is not None, "it was answered"
                return operation.reply.data
            if operation.redirects == redirects or operation.redirects > len(PAUSES):
                time.sleep(min(PAUSES[min(vain, len(PAUSES) - 1)], max(0.0, until - time.monotonic())))
                vain += 1
        raise PartitionUnavailableError(f"partition {partition}: no {verb.name.lower()} within {self.timeout:g} s; "
                                        f"replicas are at {', '.join(self.replicas_of(partition)) or 'nobody'}")

    def _asked(self, operation: Operation, target: str, left: float) -> bool:
        """Ask one member; whether that was the final answer."""
        try:
            reply = decode(self._ask(target, encode(operation.request), min(left, ANSWER_SECONDS)), self._addresses)
        except (NotConnectedError, ChannelClosedError):
            raise
        except (ChannelError, WireError):
            reply = None
        with self._lock:
            if isinstance(reply, Reply):
                return self._routing.replied(operation, target, reply)
            self._routing.failed(operation, target)
            return False


def candidate(host: Host) -> Candidate:
    """A host as the placement has it."""
    return host if isinstance(host, Candidate) else Candidate(*host)
