"""What a JChannel runs on in the simulator: the host of its node, and the thread that calls its receiver.

The channel, its session, dispatcher, send queue and building blocks are those of production. Rounds of the host run on
a thread of their own, as on JChannel's loop: so they wait for locks of the application's threads as these do.
"""
from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from jgroups_py.channel.dispatcher import EXITS, Dispatcher
from jgroups_py.model.batch import Batch
from jgroups_py.model.outputs import Closed, Output
from jgroups_py.model.units import NS_PER_S
from jgroups_py.runtime.inbox import Inbox
from jgroups_py.runtime.send_queue import SendQueue
from jgroups_py.testing.simulation.async_host import NodePort, SimulatedHost
from jgroups_py.testing.simulation.baton import BatonThread, ThreadScheduler


class RoundsThread:
    """The thread that runs the rounds of a process' hosts: calls in order, and later ones when they are due."""

    def __init__(self, scheduler: ThreadScheduler, name: str) -> None:
        self._scheduler = scheduler
        self._calls: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._timers: list[tuple[int, int, Callable[..., object]]] = []
        self._number = 0
        self._thread: BatonThread = scheduler.spawn(
            threading.Thread(name=f"jgroups-{name}-rounds", daemon=True), self._run, traced=False)

    def call_soon(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call a function in the next round; from any thread, the world's too."""
        self._calls.append((function, arguments))
        self._scheduler.wake(self._thread)

    def call_later(self, delay: float, function: Callable[..., object]) -> None:
        """Call a function after some seconds."""
        self._number += 1
        heapq.heappush(self._timers, (self._scheduler.now_ns + round(delay * NS_PER_S), self._number, function))
        self._scheduler.wake(self._thread)

    def _run(self) -> None:
        while True:
            timers = self._timers
            while timers and timers[0][0] <= self._scheduler.now_ns:
                self._calls.append((heapq.heappop(timers)[2], ()))
            while self._calls:
                function, arguments = self._calls.popleft()
                function(*arguments)
            if not timers or timers[0][0] > self._scheduler.now_ns:
                self._thread.wait((timers[0][0] - self._scheduler.now_ns) / NS_PER_S if timers else None)


class ThreadHost(SimulatedHost):
    """See ChannelHost in channel/environment.py, and SimulatedHost. What the world gives it waits for a round."""

    queue_class = SendQueue

    def __init__(
        self, port: NodePort, rounds: RoundsThread, inbox: Inbox, ended: Callable[[str, bool], None],
    ) -> None:
        super().__init__(port, rounds, inbox, ended)
        self._rounds = rounds

    def delivered(self, batch: Batch) -> None:
        """See SimulatedHost."""
        self._rounds.call_soon(super().delivered, batch)

    def put(self, output: Output) -> None:
        """See SimulatedHost."""
        self._rounds.call_soon(super().put, output)


class ReceiverThread:
    """See ThreadIo in channel/environment.py. Rounds have a thread of their own, so who waits just waits.

    exits: called with SystemExit or KeyboardInterrupt of a callback.
    """

    def __init__(self, name: str, host: ThreadHost, dispatcher: Dispatcher, exits: Callable[[BaseException], None],
                 ) -> None:
        self._host = host
        self._dispatcher = dispatcher
        self._exits = exits
        self._thread = threading.Thread(target=self._run, name=f"jgroups-{name}", daemon=True)

    def start(self) -> None:
        """See ThreadIo."""
        self._thread.start()

    def current(self) -> bool:
        """See ThreadIo."""
        return threading.current_thread() is self._thread

    def work_until(self, holds: Callable[[], bool], timeout: float | None) -> None:
        """See ThreadIo."""

    def stop(self, drain_seconds: float, stop_seconds: float) -> bool:
        """See ThreadIo."""
        if self.current():
            self._dispatcher.stopping = True
            return False
        self._thread.join(drain_seconds)
        if self._thread.is_alive():
            self._dispatcher.stopping = True
            self._host.inbox.wake_consumer()
            self._thread.join(stop_seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        dispatcher = self._dispatcher
        self._host.sends.owner = threading.get_ident()
        while not dispatcher.stopping:
            output = dispatcher.next(None)
            if output is not None:
                dispatcher.handle(output)
                if isinstance(output, Closed):
                    break
        dispatcher.abandon()
        error = dispatcher.exit_error
        if isinstance(error, EXITS):
            self._exits(error)
