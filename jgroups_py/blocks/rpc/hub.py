"""Between a channel and its services: who gets which run, the news of the group, deadlines.

One hub a channel. Answers and views are handled inside a round of the loop, before the application's queue: a thread
that waits for an answer does not wait for the callbacks before it, and may wait inside a callback. Requests go to their
handlers in order with the receiver's calls.
"""
from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from time import monotonic_ns
from typing import ClassVar

from jgroups_py.address import Address
from jgroups_py.batch import Batch
from jgroups_py.block import Block
from jgroups_py.blockheaders import Answer, Ask, BlockHeader, Failure, Tell
from jgroups_py.blocks.rpc.calls import NEVER_NS, Call, Calls
from jgroups_py.blocks.rpc.serving import Server
from jgroups_py.errors import ChannelClosedError, NotConnectedError
from jgroups_py.node import Node
from jgroups_py.outputs import Closed, Deliver, GlobalViewInstalled, Output, Unreachable, ViewInstalled
from jgroups_py.ports import Membership
from jgroups_py.runtime.loop import Task
from jgroups_py.runtime.sends import SendQueue
from jgroups_py.session import BaseChannel, Session
from jgroups_py.units import millis
from jgroups_py.view import View

SWEEP_NS = millis(5)                        # how late a timeout may be told; sweeping takes time, so not for each


class Service:
    """What a hub knows of one service: its requests, its server, and how to tell that requests are over."""

    def __init__(
        self, channel: BaseChannel, calls: Calls, server: Server, done: Callable[[list[Call]], None],
    ) -> None:
        self._channel = channel
        self.calls = calls
        self.server = server
        self.done = done

    def targets(self) -> list[Address]:
        """Whom a request to all members asks: ourselves only if we would answer."""
        members, me = self.calls.members, self._channel.address
        return [member for member in members if member != me or self.server.handler is not None]

    def flush(self) -> None:
        """Tell whoever waits."""
        calls = self.calls
        if calls.finished:
            finished, calls.finished = calls.finished, []
            self.done(finished)


class Hub(Block):
    """The services of one channel."""

    headers: ClassVar[tuple[type[BlockHeader], ...]] = (Ask, Tell, Answer, Failure)

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
        self.services: dict[int, Service] = {}
        self.session: Session | None = None
        self._lock = threading.Lock()
        self._drawn = 1
        self._sweep_ns = NEVER_NS                            # when the deadlines are looked at next
        self._sweeper: Task | None = None

    # --- from any thread --------------------------------------------------------------------------------------------

    def add(self, number: int, make: Callable[[Callable[[int], int]], Service]) -> Service:
        """Take part as service `number`.

        Raises:
            ValueError: the number is taken.
        """
        with self._lock:
            if number in self.services:
                raise ValueError(f"service {number} of this channel is taken already")
            service = make(self._draw)
            self.services = {**self.services, number: service}
        if self.session is not None:
            self.begin(self.session)
        return service

    def remove(self, number: int) -> None:
        """The service ends; its waiting requests fail."""
        with self._lock:
            services = dict(self.services)
            service = services.pop(number, None)
            self.services = services
        session = self.session
        if service is not None:
            self.on_loop(lambda: _end(service, ChannelClosedError("the service was closed")), session)

    def sends(self) -> SendQueue | None:
        """The send queue of the connection that is now."""
        return None if self.session is None else self.session.host.sends

    def watch(self, deadline_ns: int) -> None:
        """A request with this deadline was sent."""
        if deadline_ns < self._sweep_ns:
            with self._lock:
                self._sweep_ns = min(self._sweep_ns, deadline_ns)
            self.on_loop(self._arm, self.session)

    def check(self, service: Service, call: Call) -> None:
        """A request was sent to a member that left just then."""
        def late() -> None:
            service.calls.check(call)
            service.flush()
        self.on_loop(late, self.session)

    def on_loop(self, function: Callable[[], None], session: Session | None) -> None:
        """Call `function` inside a round; at once if there is no connection, hence nobody else to call it."""
        if session is None or session.ended:
            function()
        else:
            session.host.loop.call(function)

    def _draw(self, count: int) -> int:
        with self._lock:
            first = self._drawn
            self._drawn += count
        return first

    # --- the block --------------------------------------------------------------------------------------------------

    def begin(self, session: Session) -> None:
        self.session = session
        view = session.channel.view
        if view is not None:
            self._view(view)                                 # a round brings it up to date below
            session.host.ask(_current_view, self._seed)

    def early(self, outputs: Sequence[Output]) -> Sequence[Output]:
        kept = [output for output in outputs if not self._takes(output)]
        for service in self.services.values():
            if service.calls.finished:
                service.flush()
        return kept

    def _takes(self, output: Output) -> bool:
        if isinstance(output, Deliver):
            return bool(output.batch.headers) and self._takes_run(output.batch)
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

    def _takes_run(self, batch: Batch) -> bool:
        """Answers are for us; of our own multicast requests we note which view they were delivered in."""
        header = batch.headers[0]
        if isinstance(header, Answer | Failure):
            service = self.services.get(header.service)
            if service is not None:
                take = service.calls.answered if header.__class__ is Answer else service.calls.failed
                take(batch.src, header.first, batch.payloads)
            return True
        if isinstance(header, Ask) and batch.dest is None:
            service, session = self.services.get(header.service), self.session
            if service is not None and session is not None and batch.src == session.channel.address:
                service.calls.came_back(header.first, len(batch.payloads), service.targets())
        return False

    def deliver(self, batch: Batch) -> None:
        header = batch.headers[0]
        assert isinstance(header, Ask | Tell), "answers were taken early"
        service = self.services.get(header.service)
        if service is not None:
            service.server.serve(batch)
        elif isinstance(header, Ask):
            Server(header.service, None, self.sends).serve(batch)               # says that there is none

    # --- news -------------------------------------------------------------------------------------------------------

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
        session = self.session
        if session is None or session.ended:
            self._sweep_ns = NEVER_NS
            return
        if self._sweeper is not None:
            self._sweeper.cancel()
        delay_ns = max(0, self._sweep_ns - session.host.loop.now_ns)
        self._sweeper = session.host.loop.later(delay_ns, self._sweep)

    def _sweep(self) -> None:
        self._sweep_ns = NEVER_NS
        now_ns = monotonic_ns()
        soonest = NEVER_NS
        for service in self.services.values():
            soonest = min(soonest, service.calls.expire(now_ns))
            service.flush()
        if soonest < NEVER_NS:
            with self._lock:
                self._sweep_ns = min(self._sweep_ns, max(soonest, now_ns + SWEEP_NS))
            self._arm()


def _end(service: Service, error: Exception) -> None:
    service.calls.end(lambda: type(error)(*error.args))
    service.flush()


def _current_view(node: Node) -> View | None:
    found = node.local.find(Membership)
    return None if found is None else found.current_view()
