"""What an AsyncChannel runs on in the simulator: the host of its node, and the rounds on the simulated event loop.

The channel, its session, dispatcher, send queue and building blocks are those of production. This module takes the
place of runtime/host.py and io_task.py: queued messages go to the node in the next turn of the event loop, deliveries
of the node go into the inbox. A name is put in front of each message, by which the checkers distinguish them.
"""
from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.errors import ChannelClosedError, ChannelError, NotConnectedError
from jgroups_py.model.events import Event
from jgroups_py.model.outputs import Closed, Deliver, Output, StateBegin, StateEnd
from jgroups_py.model.units import NS_PER_S
from jgroups_py.node.node import Node
from jgroups_py.runtime.host import FLUSH_NS, PENDING_BYTES, TAKE_BYTES
from jgroups_py.runtime.inbox import HIGH_BYTES, LOW_BYTES, Inbox
from jgroups_py.runtime.loop import Task
from jgroups_py.runtime.send_queue import NOW, QueuedBatch, SendQueue
from jgroups_py.testing.simulation.naming import unnamed

T = TypeVar("T")
RETRY_SECONDS = 0.001                       # until a stack that had no room for messages is tried again


class NodePort(Protocol):
    """The process of a connection, as its host sees it."""

    @property
    def now_ns(self) -> int:
        """The virtual time."""

    @property
    def node(self) -> Node:
        """Its node."""

    def open(self) -> None:
        """Let the node begin to join."""

    def send(self, dest: Address | None, payloads: Sequence[bytes], flags: int, headers: tuple[Header, ...]) -> None:
        """Send a batch from the node."""

    def inject(self, event: Event) -> None:
        """Pass an event down the node's stack."""

    def app_busy(self, on: bool) -> None:
        """The application fell behind, or caught up."""

    def leave(self, forget: bool) -> None:
        """Leave the group gracefully."""

    def kill(self) -> None:
        """Close the sockets."""


class SimulatedQueue(SendQueue):
    """A send queue whose events never wait for room, since the only thread would wait for ever."""

    def put_event(
        self, event: Event, nbytes: int, timeout: float | None, *, multicast: bool = False, may_overdraw: bool = False,
        payload_bytes: int | None = None,
    ) -> None:
        super().put_event(event, nbytes, NOW, multicast=multicast, may_overdraw=may_overdraw,
                          payload_bytes=payload_bytes)


class RoundCalls(Protocol):
    """What makes a host's calls: an event loop, or a thread for rounds."""

    def call_soon(self, function: Callable[..., object], *arguments: Any) -> object:
        """Make a call in the next turn."""

    def call_later(self, delay: float, function: Callable[..., object]) -> object:
        """Make a call after some seconds."""


class SimulatedRounds:
    """Rounds of a host: they are turns of the event loop, or of a thread."""

    def __init__(self, port: NodePort, events: RoundCalls) -> None:
        self._port = port
        self._events = events

    @property
    def now_ns(self) -> int:
        """The virtual time."""
        return self._port.now_ns

    def clock_ns(self) -> int:
        """The virtual time."""
        return self._port.now_ns

    def boot_ns(self) -> int:
        """The virtual time: simulated machines are not suspended."""
        return self._port.now_ns

    def call(self, function: Callable[[], None]) -> None:
        """See HostLoop."""
        self._events.call_soon(function)

    def later(self, delay_ns: int, function: Callable[[], None]) -> Task:
        """See HostLoop."""
        task = Task(function)

        def due() -> None:
            if task.function is not None:
                task.function()
        self._events.call_later(delay_ns / NS_PER_S, due)
        return task


class SimulatedHost:
    """See ChannelHost in channel/environment.py."""

    queue_class: type[SendQueue] = SimulatedQueue

    def __init__(
        self, port: NodePort, events: RoundCalls, inbox: Inbox, ended: Callable[[str, bool], None],
    ) -> None:
        self.loop = SimulatedRounds(port, events)
        self.sends = self.queue_class(self._queued)
        self.inbox = inbox
        self.coalesces_sends = False
        self.node: Node | None = None
        self._port = port
        self._events = events
        self._ended = ended
        self._scheduled = False                              # `_turn` is
        self._leaving = self._over = False
        self._leave_by_ns: int | None = None                 # leaving waits for the queue to empty, until then
        self._forget = False
        self._no_state = asyncio.Event()                     # no state is arriving
        self._no_state.set()

    # --- from the channel -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """See ChannelHost."""
        self.inbox.caught_up = self._caught_up
        self.node = self._port.node
        self._port.open()

    def leave(self, forget: bool = False) -> None:
        """See ChannelHost: what was queued before is sent first, for at most FLUSH_NS."""
        if self._over or self._leaving:
            return
        self._leaving, self._forget = True, forget
        if self.node is None:
            self.kill("left")
            return
        self.sends.close(lambda: NotConnectedError("the channel is leaving its group"))
        self._leave_by_ns = self._port.now_ns + FLUSH_NS
        self._schedule()

    def kill(self, reason: str) -> None:
        """See ChannelHost."""
        if not self._over:
            self._port.kill()
            self.closed(Closed(reason))

    def join(self) -> None:
        """There is nothing to wait for."""

    def ask(self, question: Callable[[Node], Any], answer: Callable[[Any], None]) -> None:
        """See ChannelHost."""
        self.loop.call(lambda: answer(None if self.node is None else question(self.node)))

    def change_interest(self, change: Event) -> None:
        """See ChannelHost."""
        if not self._over:
            self._port.inject(change)

    def stats(self, node: Node) -> dict[str, dict[str, float]]:
        """See ChannelHost."""
        return {**node.stats(), "channel": {
            "send_queue_bytes": self.sends.nbytes, "backlog_bytes": self.inbox.backlog_bytes,
            "messages_queued": self.sends.sent, "payload_bytes_sent": self.sends.payload_bytes,
            "kept_back_bytes": node.pending_bytes()}}

    async def run_blocking(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call the function that reads or writes a state, when the state is complete, so that it does not wait."""
        await self._no_state.wait()
        return function(*arguments)

    # --- turns ------------------------------------------------------------------------------------------------------

    def _queued(self) -> None:
        if self.node is not None and not self._over:
            self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._events.call_soon(self._turn)

    def _turn(self) -> None:
        """Pass queued messages to the node, unless its layers have queued too much already."""
        self._scheduled = False
        node = self.node
        if node is None or self._over:
            return
        if node.pending_bytes() <= PENDING_BYTES:
            for item in self.sends.take(TAKE_BYTES):
                if isinstance(item, QueuedBatch):
                    self._port.send(item.dest, item.payloads, item.flags, item.headers)
                else:
                    self._port.inject(item[0])
        if self._leave_by_ns is not None and (
                self._port.now_ns >= self._leave_by_ns or not (self.sends.nbytes or node.pending_bytes())):
            self._leave_by_ns = None
            self._port.leave(self._forget)
        if self.sends.nbytes or self._leave_by_ns is not None:
            self._scheduled = True
            self._events.call_later(RETRY_SECONDS, self._turn)

    # --- from the node ----------------------------------------------------------------------------------------------

    def delivered(self, batch: Batch) -> None:
        """Pass on messages for the application, without those of the simulator itself."""
        self._put(*(Deliver(part) for part in unnamed(batch)))

    def put(self, output: Output) -> None:
        """An output for the application."""
        if isinstance(output, Closed):
            self.closed(output)
            return
        if isinstance(output, StateBegin):
            self._no_state.clear()
        self._put(output)
        if isinstance(output, StateEnd):
            self._no_state.set()

    def closed(self, closed: Closed) -> None:
        """The node has ended."""
        if self._over:
            return
        self._over = True
        self._no_state.set()
        self.sends.close(self._refusal(closed.reason))
        self._ended(closed.reason, not self._leaving)
        self._put(closed)

    def _put(self, *outputs: Output) -> None:
        inbox = self.inbox
        if not outputs:
            return
        inbox.put(outputs)
        if not inbox.busy and inbox.backlog_bytes > HIGH_BYTES and not self._over:
            inbox.busy = True
            self._port.app_busy(True)

    def _caught_up(self) -> None:
        if self.inbox.busy and self.inbox.backlog_bytes <= LOW_BYTES:
            self.inbox.busy = False
            if not self._over:
                self._port.app_busy(False)

    def _refusal(self, reason: str) -> Callable[[], ChannelError]:
        if self._leaving:
            return lambda: NotConnectedError("the channel has left its group")
        return lambda: ChannelClosedError(reason)


class SimulatedIo:
    """See AsyncIo in channel/environment.py: the simulated event loop is the only thread."""

    def __init__(self, host: SimulatedHost) -> None:
        self._host = host

    def start(self) -> None:
        """The world runs the event loop already."""

    def call(self, function: Callable[[], object]) -> None:
        """See AsyncIo."""
        function()

    async def run_blocking(self, function: Callable[..., T], *arguments: Any) -> T:
        """See AsyncIo."""
        return await self._host.run_blocking(function, *arguments)
