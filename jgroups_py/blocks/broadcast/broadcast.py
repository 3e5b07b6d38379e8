"""Best-effort broadcasts among peers that discover each other by PEX: no group, no views, no retransmission.

A stack of a transport and PEX on its own host. A broadcast is sent once, in one datagram to each peer that subscribes
to its topic; a lost one is not repaired: for reliability use a JChannel, or blocks.anti_entropy. One thread runs the
loop, another one calls the dispatcher, one call at a time: a slow dispatcher delays no ping, and what exceeds its queue
is dropped and counted.
"""
from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from jgroups_py.blocks.standalone import Standalone
from jgroups_py.channel.message import as_bytes
from jgroups_py.config.load import Source
from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.counters import counter, declare, drop, table
from jgroups_py.model.errors import ChannelError, ConfigError
from jgroups_py.model.events import Broadcast, Subscribe, Unsubscribe
from jgroups_py.model.outputs import Deliver, Output
from jgroups_py.model.ports import PeerInfo, Peers
from jgroups_py.model.topics import Interest, interest_in
from jgroups_py.system.drops import LoggedCounters
from jgroups_py.wire.topic_headers import topic_header, topic_of

log = logging.getLogger("jgroups_py")

QUEUED_BYTES = 4 << 20                   # payloads in the dispatcher's queue; beyond it they are dropped

Dispatcher = Callable[[str | None, bytes, Address], object]


class PayloadSizeError(ChannelError, ValueError):
    """A payload does not fit one datagram; nothing was sent."""

    def __init__(self, nbytes: int, limit: int) -> None:
        super().__init__(f"a payload of {nbytes} bytes exceeds max_payload of {limit} bytes")
        self.nbytes = nbytes
        self.limit = limit


class Gossip(Standalone):
    """One peer, from `start` to `close`. Any thread may call it.

    dispatcher: called with the topic (None: none), the payload and the sender of each broadcast that arrives.
    """

    COUNTERS = declare(
        counter("dispatcher_exceptions", "Exceptions that the dispatcher raised."),
        drop("dropped", "Broadcasts that arrived while the dispatcher's queue was full."),
    )

    begins = "start"
    leave_seconds = 3.0

    def __init__(
        self, stack: Source = "gossip", dispatcher: Dispatcher | None = None, name: str | None = None,
        properties: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(stack, properties, name)
        self._config = self.spec.config_of("PEX")
        if self._config is None:
            raise ConfigError(f"{self.spec.source}: gossip needs PEX in its stack")
        self.dispatcher = dispatcher
        self.counters = LoggedCounters(table(self.COUNTERS))
        self._interest = interest_in(*self._config.interests)
        self._inbox.early = self._early
        self._waiting_bytes = 0
        self._lock = threading.Lock()

    def start(self, cluster: str = "gossip") -> Self:
        """Start as a peer of `cluster`, and discover others over time. Frames of other clusters are dropped.

        Raises:
            ChannelClosedError: the sockets cannot be opened; or it was started before: make another one, which has a
                new identity.
        """
        self._begin(cluster)
        return self

    def close(self) -> None:
        """Leave and stop. Closing twice does nothing."""
        self._end()

    # --- broadcasts ---------------------------------------------------------------------------------------------------

    def broadcast(self, payload: Any, topic: str | int | None = None, ratio: float = 1.0) -> None:
        """Send to all peers that subscribe to the topic (None: to all), or to a random share of them, rounded up.

        ratio: from 0 to 1. Waits while the queue is full.

        Raises:
            PayloadSizeError: it does not fit a datagram.
            ValueError, TypeError: the topic or the ratio is invalid, or the payload is no bytes.
            NotConnectedError, ChannelClosedError: not started, or closed.
        """
        data = as_bytes(payload)
        limit = self._config.max_payload_bytes
        if len(data) > limit:
            raise PayloadSizeError(len(data), limit)
        if not 0 <= ratio <= 1:
            raise ValueError(f"a ratio of {ratio} is not within 0 to 1")
        headers = () if topic is None else (topic_header(topic),)
        self._running().sends.put_event(Broadcast(data, headers, ratio), len(data), None, payload_bytes=len(data))

    def broadcast_subset(self, payload: Any, topic: str | int | None = None) -> None:
        """Send to a random share of these peers, `subset_ratio`, rounded up: a new sample each time."""
        self.broadcast(payload, topic, self._config.subset_ratio)

    # --- topics -------------------------------------------------------------------------------------------------------

    @property
    def interest(self) -> Interest:
        """The topics that this peer is subscribed to."""
        return self._interest

    def subscribe(self, *topics: str | int) -> None:
        """Subscribe to these topics, too; peers get it with the next ping that reaches them."""
        self._interest = self._interest.union(interest_in(*topics))
        self._inject(Subscribe(interest_in(*topics)))

    def unsubscribe(self, *topics: str | int) -> None:
        """Unsubscribe from these topics; "*": from all."""
        self._interest = self._interest.without(interest_in(*topics))
        self._inject(Unsubscribe(interest_in(*topics)))

    # --- peers --------------------------------------------------------------------------------------------------------

    @property
    def identity(self) -> Address | None:
        """The address of this peer, new for each object; None before `start` has taken effect."""
        return self.address

    def peers(self) -> tuple[PeerInfo, ...]:
        """The peers that have answered and have not been silent for too long."""
        return self._ask(lambda node: node.local.find(Peers).known_peers()) or ()

    def peer_addr(self, identity: Address) -> PhysicalAddress | None:
        """The physical address of a peer; None if unknown."""
        return next((peer.place for peer in self.peers() if peer.identity == identity), None)

    def stats(self) -> dict[str, dict[str, float]]:
        """Protocol name -> its counters; "gossip" has those of the dispatcher's queue."""
        return {**super().stats(), "gossip": dict(self.counters)}

    # --- out of the loop ----------------------------------------------------------------------------------------------

    def _early(self, outputs: Sequence[Output]) -> Sequence[Output]:
        """Inside a round: drop broadcasts that exceed the dispatcher's queue."""
        kept = []
        for output in outputs:
            if isinstance(output, Deliver):
                with self._lock:
                    full = self._waiting_bytes + output.batch.nbytes > QUEUED_BYTES
                    self._waiting_bytes += 0 if full else output.batch.nbytes
                if full:
                    self.counters.drop("dropped", f"of {output.batch.src}: the dispatcher's queue is full",
                                       output.batch.count)
                    continue
            kept.append(output)
        return kept

    def _call(self, output: Output) -> None:
        if isinstance(output, Deliver):
            self._dispatch(output)

    def _dispatch(self, output: Deliver) -> None:
        batch = output.batch
        with self._lock:
            self._waiting_bytes -= batch.nbytes
        if self.dispatcher is None:
            return
        topic = topic_of(batch.headers)
        for payload in batch.payloads:
            try:
                self.dispatcher(topic, payload, batch.src)
            except Exception:
                self.counters.add("dispatcher_exceptions")
                log.exception("%s: the dispatcher raised", self.name)
