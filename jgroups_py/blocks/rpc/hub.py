"""The hub between a channel and its services: dispatches batches, views and deadlines.

A channel has one hub. Answers and views are handled inside a round of the loop, before the application's queue: a
thread that waits for an answer does not wait for earlier callbacks, and may wait inside a callback. Requests are passed
to their handlers in order with the receiver's calls.
"""
from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import ClassVar

from jgroups_py.blocks.rpc.calls import NEVER_NS, Call, Calls
from jgroups_py.blocks.rpc.serving import Server
from jgroups_py.channel.base import BaseChannel
from jgroups_py.channel.block import Block, Connection
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.errors import ChannelClosedError, ChannelError, NotConnectedError
from jgroups_py.model.outputs import Closed, Deliver, GlobalViewInstalled, Output, Unreachable, ViewInstalled
from jgroups_py.model.ports import ViewSource
from jgroups_py.model.units import millis
from jgroups_py.model.view import View
from jgroups_py.node.node import Node
from jgroups_py.runtime.loop import Task
from jgroups_py.runtime.send_queue import SendQueue
from jgroups_py.wire.block_headers import SURVEY_SERVICE, Answer, Ask, BlockHeader, Failure, OneWayRequest

ANSWERS = (Answer, Failure)                 # a tuple: a union would be made again for each batch
SWEEP_NS = millis(5)                        # granularity of timeouts: one sweep over all requests handles several


class HubService:
    """One service of a hub: its requests, its server, and `done`, called with requests that are done."""

    def __init__(
        self, channel: BaseChannel, calls: Calls, server: Server, done: Callable[[list[Call]], None],
    ) -> None:
        self._channel = channel
        self.calls = calls
        self.server = server
        self.done = done

    def targets(self) -> list[Address]:
        """The destinations of a request to all members; this member only if it has a handler."""
        members, me = self.calls.members, self._channel.address
        return [member for member in members if member != me or self.server.handler is not None]

    def flush(self) -> None:
        """Pass requests that are done to the waiting threads or coroutines."""
        calls = self.calls
        if calls.finished:
            finished, calls.finished = calls.finished, []
            self.done(finished)


class Hub(Block):
    """The services of one channel."""

    headers: ClassVar[tuple[type[BlockHeader], ...]] = (Ask, OneWayRequest, Answer, Failure)

    @classmethod
    def of(cls, channel: BaseChannel) -> Hub:
        """The hub of a channel, made and attached if it has none."""
        for block in channel.blocks:
            if isinstance(block, Hub):
                return block
        hub = cls()
        channel.attach(hub)
        return hub

    def __init__(self) -> None:
        self.services: dict[int, HubService] = {}
        self.connection: Connection | None = None
        self._lock = threading.Lock()
        self._drawn = 1
        self._sweep_ns = NEVER_NS                            # when deadlines are checked next
        self._sweeper: Task | None = None

    # --- from any thread --------------------------------------------------------------------------------------------

    def add(self, number: int, make: Callable[[Callable[[int], int]], HubService]) -> HubService:
        """Register service `number`.

        Raises:
            ValueError: the number is taken, or that of surveys.
        """
        with self._lock:
            if number == SURVEY_SERVICE:
                raise ValueError(f"service {number} is that of surveys")
            if number in self.services:
                raise ValueError(f"service {number} of this channel is taken already")
            service = make(self._draw)
            self.services = {**self.services, number: service}
        if self.connection is not None:
            self.begin(self.connection)
        return service

    def remove(self, number: int) -> None:
        """End a service; its waiting requests fail."""
        with self._lock:
            services = dict(self.services)
            service = services.pop(number, None)
            self.services = services
        connection = self.connection
        if service is not None:
            self.on_loop(lambda: _end(service, ChannelClosedError("the service was closed")), connection)

    def sends(self) -> SendQueue | None:
        """The send queue of the current connection, None without one."""
        return None if self.connection is None else self.connection.sends

    def watch(self, deadline_ns: int) -> None:
        """Schedule a sweep for a request with this deadline."""
        if deadline_ns < self._sweep_ns:
            with self._lock:
                self._sweep_ns = min(self._sweep_ns, deadline_ns)
            self.on_loop(self._arm, self.connection)

    def check(self, service: HubService, call: Call) -> None:
        """End a request that was sent to a member that left meanwhile."""
        def late() -> None:
            service.calls.check(call)
            service.flush()
        self.on_loop(late, self.connection)

    def on_loop(self, function: Callable[[], None], connection: Connection | None) -> None:
        """Call `function` inside a round; immediately if there is no connection, and so no loop that could race."""
        if connection is None or connection.ended:
            function()
        else:
            connection.call(function)

    def _draw(self, count: int) -> int:
        with self._lock:
            first = self._drawn
            self._drawn += count
        return first

    # --- the block --------------------------------------------------------------------------------------------------

    def begin(self, connection: Connection) -> None:
        self.connection = connection
        view = connection.view
        if view is not None:
            self._view(view)                                 # may be stale: a round asks the node for the current one
            connection.ask(_current_view, self._seed)

    def early(self, outputs: Sequence[Output]) -> Sequence[Output]:
        kept = [output for output in outputs if not self._handles(output)]
        for service in self.services.values():
            if service.calls.finished:
                service.flush()
        return kept

    def _handles(self, output: Output) -> bool:
        if isinstance(output, Deliver):
            return bool(output.batch.headers) and self._handles_batch(output.batch)
        if isinstance(output, ViewInstalled):
            self._view(output.view)
        elif isinstance(output, GlobalViewInstalled):
            for service in self.services.values():
                service.calls.sites_changed(output.view.members)
        elif isinstance(output, Unreachable):
            for service in self.services.values():
                service.calls.unreachable(output.dest)
        elif isinstance(output, Closed):
            self._ended()
        return False

    def _handles_batch(self, batch: Batch) -> bool:
        """Handle answers; for this member's own multicast requests, record the view in which they were delivered."""
        header = batch.headers[0]
        if isinstance(header, ANSWERS):
            if header.service == SURVEY_SERVICE:
                return False
            service = self.services.get(header.service)
            if service is not None:
                handle = service.calls.answered if header.__class__ is Answer else service.calls.failed
                handle(batch.src, header.first, batch.payloads)
            return True
        if isinstance(header, Ask) and batch.dest is None:
            service, connection = self.services.get(header.service), self.connection
            if service is not None and connection is not None and batch.src == connection.address:
                service.calls.own_delivered(header.first, len(batch.payloads), service.targets())
        return False

    def deliver(self, batch: Batch) -> None:
        header = batch.headers[0]
        assert isinstance(header, Ask | OneWayRequest), "answers were handled in the round"
        service = self.services.get(header.service)
        if service is not None:
            service.server.serve(batch)
        elif isinstance(header, Ask):
            Server(header.service, None, self.sends).serve(batch)               # answers that there is no handler

    # --- views --------------------------------------------------------------------------------------------------------

    def _seed(self, view: View | None) -> None:
        if view is not None:
            self._view(view)

    def _view(self, view: View) -> None:
        for service in self.services.values():
            service.calls.view_installed(view.members)
            service.server.keep(service.calls.members)
            service.flush()

    def _ended(self) -> None:
        for service in self.services.values():
            _end(service, NotConnectedError("the channel was disconnected before the answer came"))

    # --- deadlines, inside a round ----------------------------------------------------------------------------------

    def _arm(self) -> None:
        connection = self.connection
        if connection is None or connection.ended:
            self._sweep_ns = NEVER_NS
            return
        if self._sweeper is not None:
            self._sweeper.cancel()
        delay_ns = max(0, self._sweep_ns - connection.now_ns)
        self._sweeper = connection.later(delay_ns, self._sweep)

    def _sweep(self) -> None:
        self._sweep_ns = NEVER_NS
        connection = self.connection
        if connection is None:
            return
        now_ns = connection.now_ns
        soonest = NEVER_NS
        for service in self.services.values():
            soonest = min(soonest, service.calls.expire(now_ns))
            service.flush()
        if soonest < NEVER_NS:
            with self._lock:
                self._sweep_ns = min(self._sweep_ns, max(soonest, now_ns + SWEEP_NS))
            self._arm()


def _end(service: HubService, error: ChannelError) -> None:
    """Each request fails with an error of this class; it was sent, so whether it was handled is unknown."""
    def unanswered() -> ChannelError:
        made = type(error)(*error.args)
        made.definite = False
        return made
    service.calls.end(unanswered)
    service.flush()


def _current_view(node: Node) -> View | None:
    found = node.local.find(ViewSource)
    return None if found is None else found.current_view()
