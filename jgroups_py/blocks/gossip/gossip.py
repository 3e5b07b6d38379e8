"""Best-effort broadcasts among peers that find each other by PEX: no group, no views, no resending.

A stack of a transport and PEX, on a host of its own. A broadcast goes once, in one datagram to each peer that wants its
topic; what is lost is lost. For what must arrive take a JChannel, or repair with blocks.anti_entropy. A thread of its
own runs the loop, another one calls the dispatcher, one call at a time: a slow dispatcher delays no ping, and what is
too much for it is dropped and counted.
"""
from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from jgroups_py.address import Address, PhysicalAddress
from jgroups_py.blocks.standalone import Standalone
from jgroups_py.config.load import Source
from jgroups_py.counters import Counters
from jgroups_py.errors import ChannelError, ConfigError
from jgroups_py.gossip import Broadcast, PeerInfo, Peers
from jgroups_py.message import as_bytes
from jgroups_py.outputs import Deliver, Output
from jgroups_py.topics import Interest, Subscribe, Unsubscribe, interest_in, topic_header, topic_of

log = logging.getLogger("jgroups_py")

QUEUED_BYTES = 4 << 20                   # payloads that wait for the dispatcher; beyond it they are dropped

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
        self.counters = Counters()
        self._interest = interest_in(*self._config.interests)
        self._inbox.early = self._early
        self._waiting_bytes = 0
        self._lock = threading.Lock()

    def start(self, cluster: str = "gossip") -> Self:
        """Be a peer from now on; peers come by and by. Those of other clusters are not heard.

        Raises:
            ChannelClosedError: the sockets cannot be opened; or it was started before: make another one, which has an
                identity of its own.
        """
        self._begin(cluster)
        return self

    def close(self) -> None:
        """Tell the peers, and stop. Closing twice does nothing."""
        self._end()

    # --- broadcasts ---------------------------------------------------------------------------------------------------

    def broadcast(self, payload: Any, topic: str | int | None = None, ratio: float = 1.0) -> None:
        """Send to all peers that want the topic (None: to all), or to a random share of them, rounded up.

        ratio: from 0 to 1. Waits while the queue is full.

        Raises:
            PayloadSizeError: it does not fit a datagram.
            ValueError, TypeError: there can be no such topic, or ratio; or the payload is no bytes.
            NotConnectedError, ChannelClosedError: not started, or closed.
        """
        data = as_bytes(payload)
        limit = self._config.max_payload_bytes
        if len(data) > limit:
            raise PayloadSizeError(len(data), limit)
        if not 0 <= ratio <= 1:
            raise ValueError(f"a ratio of {ratio} is not within 0 to 1")
        headers = () if topic is None else (topic_header(topic),)
        self._running().sends.put_event(Broadcast(data, headers, ratio), len(data), None)

    def broadcast_subset(self, payload: Any, topic: str | int | None = None) -> None:
        """The same to a random share of them, `subset_ratio`, rounded up: another one each time."""
        self.broadcast(payload, topic, self._config.subset_ratio)

    # --- what is wanted -----------------------------------------------------------------------------------------------

    @property
    def interest(self) -> Interest:
        """The topics that are wanted."""
        return self._interest

    def subscribe(self, *topics: str | int) -> None:
        """Want these topics too; peers hear of it by the next ping that reaches them."""
        self._interest = self._interest.union(interest_in(*topics))
        self._inject(Subscribe(interest_in(*topics)))

    def unsubscribe(self, *topics: str | int) -> None:
        """Want these topics no more; "*": none."""
        self._interest = self._interest.without(interest_in(*topics))
        self._inject(Unsubscribe(interest_in(*topics)))

    # --- who is there -------------------------------------------------------------------------------------------------

    @property
    def identity(self) -> Address | None:
        """Who we are: another one each time; None before `start` has taken effect."""
        return self.address

    def peers(self) -> tuple[PeerInfo, ...]:
        """Who has answered us and was not silent for too long."""
        return self._ask(lambda node: node.local.find(Peers).known_peers()) or ()

    def peer_addr(self, identity: Address) -> PhysicalAddress | None:
        """Where a peer receives; None if it is not known."""
        return next((peer.place for peer in self.peers() if peer.identity == identity), None)

    def stats(self) -> dict[str, dict[str, float]]:
        """Protocol name -> its counters; "gossip" has those of the dispatcher's queue."""
        return {**super().stats(), "gossip": dict(self.counters)}

    # --- out of the loop ----------------------------------------------------------------------------------------------

    def _early(self, outputs: Sequence[Output]) -> Sequence[Output]:
        """Inside a round: keep what the dispatcher can still take."""
        kept = []
        for output in outputs:
            if isinstance(output, Deliver):
                with self._lock:
                    full = self._waiting_bytes + output.batch.nbytes > QUEUED_BYTES
                    self._waiting_bytes += 0 if full else output.batch.nbytes
                if full:
                    self.counters.add("dropped", output.batch.count)
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
