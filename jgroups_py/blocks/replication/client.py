"""ReplicaClient: writes and reads of partitions, for threads, over any transport of requests to members.

    client = ReplicaClient(request, [("A", 1), ("B", 2), ("C", 1)], replicas=3)
    client.write(7, b"...")                     # acknowledged by a majority of the partition's replicas
    client.read(7)                              # from any replica, never older than what this client has read before
    client.read(7, strong=True)                 # from the leader: every write acknowledged before the call is in it
"""
from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable

from jgroups_py.blocks.placement import Candidate
from jgroups_py.blocks.replication.messages import PartitionReply, Verb, decode, encode
from jgroups_py.blocks.replication.routing import Operation, PartitionUnavailableError, Routing
from jgroups_py.model.address import ADDRESS_BYTES
from jgroups_py.model.errors import ChannelClosedError, ChannelError, NotConnectedError, WireError
from jgroups_py.wire.codec import Interner

SendRequest = Callable[[str, bytes, float], bytes]
"""(id of a member, request, seconds to wait) -> its answer; raises a ChannelError if there is none."""

Host = Candidate | tuple[str, float] | tuple[str, float, str]
ANSWER_SECONDS = 2.0                       # until the request goes to another host
PAUSES = 0.005, 0.01, 0.02, 0.05           # after redirects without progress; the last one repeats


class ReplicaClient:
    """Any thread may use it. Reads never go back, over all threads together."""

    def __init__(
        self, request: SendRequest, hosts: Iterable[Host], replicas: int, *, key: str = "", timeout: float = 10.0,
    ) -> None:
        """hosts: (id, weight) or (id, weight, zone) of all members with partitions; replicas, key: as of the
        store; timeout: of each call, in seconds."""
        self.timeout = timeout
        self._request = request
        self._lock = threading.Lock()
        self._addresses = Interner()
        self._routing = Routing(map(candidate, hosts), replicas, secrets.token_bytes(ADDRESS_BYTES), key)

    @property
    def counters(self) -> dict[str, int]:
        """redirect, busy, unknown, no_store: answers of that status; failed: requests without an answer."""
        with self._lock:
            return dict(self._routing.counters)

    def hosts_changed(self, hosts: Iterable[Host], replicas: int | None = None) -> None:
        """These members may have partitions now."""
        with self._lock:
            self._routing.replicas = self._routing.replicas if replicas is None else replicas
            self._routing.hosts_changed(map(candidate, hosts))

    def replicas_of(self, partition: int) -> tuple[str, ...]:
        """Hosts that hold a partition, by the latest redirects or by placement; the best first."""
        with self._lock:
            return self._routing.replicas_of(partition)

    def write(self, partition: int, data: bytes) -> bytes:
        """Carry out a command. Returns its result, once a majority of the replicas has it.

        Raises:
            PartitionUnavailableError: not in time. It may have been carried out.
            NotConnectedError, ChannelClosedError: of the channel underneath.
        """
        return self._call(partition, Verb.WRITE, data)

    def read(self, partition: int, query: bytes = b"", *, strong: bool = False) -> bytes:
        """The result of a query: of any replica, or with `strong` of the leader (linearizable).

        Raises:
            PartitionUnavailableError: not in time.
            NotConnectedError, ChannelClosedError: of the channel underneath.
        """
        return self._call(partition, Verb.STRONG if strong else Verb.READ, query)

    def _call(self, partition: int, verb: Verb, data: bytes) -> bytes:
        until = time.monotonic() + self.timeout
        with self._lock:
            operation = self._routing.begin(partition, verb, data)
        attempts = 0
        while (left := until - time.monotonic()) > 0:
            with self._lock:
                target = self._routing.target(operation)
            redirects = operation.redirects
            if target is not None and self._try(operation, target, left):
                assert operation.reply is not None, "it was answered"
                return operation.reply.data
            if operation.redirects == redirects or operation.redirects > len(PAUSES):
                time.sleep(min(PAUSES[min(attempts, len(PAUSES) - 1)], max(0.0, until - time.monotonic())))
                attempts += 1
        raise PartitionUnavailableError(f"partition {partition}: no {verb.name.lower()} within {self.timeout:g} s; "
                                        f"replicas are at {', '.join(self.replicas_of(partition)) or 'unknown'}")

    def _try(self, operation: Operation, target: str, left: float) -> bool:
        """Send the request to one member. Returns whether its answer was the final one."""
        try:
            reply = decode(self._request(target, encode(operation.request), min(left, ANSWER_SECONDS)), self._addresses)
        except (NotConnectedError, ChannelClosedError):
            raise
        except (ChannelError, WireError):
            reply = None
        with self._lock:
            if isinstance(reply, PartitionReply):
                return self._routing.replied(operation, target, reply)
            self._routing.failed(operation, target)
            return False


def candidate(host: Host) -> Candidate:
    """A host as a candidate of the placement."""
    return host if isinstance(host, Candidate) else Candidate(*host)
