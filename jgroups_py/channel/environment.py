"""Where a channel runs: on sockets, or on what its event loop or its thread brings along.

A channel needs a host, which runs its node, and something that calls the host's rounds. These are runtime/host.py and,
for an AsyncChannel, io_task.py, for a JChannel io_thread.py. An event loop with an attribute `channel_environment`
brings its own, and so does a thread whose context has THREAD_ENVIRONMENT, as those of the simulator do
(testing/simulation): the same channels run there.
"""
from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

from jgroups_py.channel.dispatcher import Dispatcher
from jgroups_py.channel.io_task import IoTask
from jgroups_py.channel.io_thread import IoThread
from jgroups_py.config.spec import StackSpec
from jgroups_py.model.events import Event
from jgroups_py.node.node import Node
from jgroups_py.runtime.host import Host
from jgroups_py.runtime.inbox import Inbox
from jgroups_py.runtime.loop import Task
from jgroups_py.runtime.send_queue import SendQueue

T = TypeVar("T")


class HostLoop(Protocol):
    """What runs the rounds of a host, as a session and its building blocks use it."""

    @property
    def now_ns(self) -> int:
        """Inside a round: its time, monotonic."""

    def clock_ns(self) -> int:
        """The time now, monotonic; from any thread."""

    def boot_ns(self) -> int:
        """The time now, by a clock that counts also while the machine is suspended; from any thread."""

    def call(self, function: Callable[[], None]) -> None:
        """Call `function` inside a round, soon; from any thread."""

    def later(self, delay_ns: int, function: Callable[[], None]) -> Task:
        """Inside a round: call `function` inside another one, `delay_ns` from now."""


class ChannelHost(Protocol):
    """What a session needs of that which runs its node.

    sends: where any thread puts what is to be sent. inbox: outputs for the application. coalesces_sends: single
    messages wait for the next round, which is soon.
    """

    sends: SendQueue
    inbox: Inbox
    coalesces_sends: bool

    @property
    def loop(self) -> HostLoop:
        """What runs its rounds."""

    @property
    def node(self) -> Node | None:
        """The node, once it was started."""

    def start(self) -> None:
        """Build the node and open its sockets."""

    def leave(self, forget: bool = False) -> None:
        """Leave the group gracefully. forget: as in the event LeaveRequested."""

    def kill(self, reason: str) -> None:
        """End without leaving the group gracefully."""

    def join(self) -> None:
        """After the end: wait until sockets and files are closed."""

    def ask(self, question: Callable[[Node], Any], answer: Callable[[Any], None]) -> None:
        """Call `answer`, inside a round, with what `question` returns for the node (None: there is none)."""

    def change_interest(self, change: Event) -> None:
        """Subscribe or unsubscribe."""

    def stats(self, node: Node) -> dict[str, dict[str, float]]:
        """The counters of the node by protocol, and those of the channel."""


NewHost = Callable[[StackSpec, str, str, Inbox, Callable[[str, bool], None]], ChannelHost]
"""(stack, cluster, name, inbox, function called with the reason at the end, and whether it was unrequested)."""


class AsyncIo(Protocol):
    """What runs a host's rounds on an event loop: see IoTask."""

    def start(self) -> None:
        """Run the rounds from now on."""

    def call(self, function: Callable[[], object]) -> None:
        """From any thread: call `function` on the event loop, at once if this is its thread."""

    async def run_blocking(self, function: Callable[..., T], *arguments: Any) -> T:
        """What `function` returns, which may block."""


class ThreadIo(Protocol):
    """The thread that calls a JChannel's receiver: see IoThread."""

    def start(self) -> None:
        """Run the rounds and deliver from now on."""

    def current(self) -> bool:
        """Whether the caller is inside a callback."""

    def work_until(self, holds: Callable[[], bool], timeout: float | None) -> None:
        """Run rounds until a condition holds, if the caller may; it then waits by itself."""

    def stop(self, drain_seconds: float, stop_seconds: float) -> bool:
        """Wait for what is queued, then stop without the rest; whether the thread has ended."""


class HostEnvironment(Protocol):
    """What any environment gives a channel that connects in it."""

    def new_host(
        self, spec: StackSpec, cluster: str, name: str, inbox: Inbox, ended: Callable[[str, bool], None],
    ) -> ChannelHost:
        """The host of a connection. Raises ChannelError or ConfigError if there is none for it here."""

    def callback_failed(self, name: str, error: BaseException) -> bool:
        """A callback of the application raised. Returns whether that was dealt with; otherwise it is logged."""


class Environment(HostEnvironment, Protocol):
    """What an event loop gives an AsyncChannel that connects on it."""

    def new_io(self, name: str, host: ChannelHost, orphaned: Callable[[], None]) -> AsyncIo:
        """What runs its rounds. orphaned: called when the event loop was closed and the host goes on."""


class ThreadEnvironment(HostEnvironment, Protocol):
    """What a thread gives a JChannel that it connects."""

    def new_thread(self, name: str, host: ChannelHost, dispatcher: Dispatcher) -> ThreadIo:
        """What runs its rounds and calls its receiver."""


class Sockets(Environment, ThreadEnvironment):
    """That of all usual event loops and threads: real sockets, and a watchdog thread beside them."""

    def new_host(
        self, spec: StackSpec, cluster: str, name: str, inbox: Inbox, ended: Callable[[str, bool], None],
    ) -> Host:
        return Host(spec, cluster, name, inbox, ended)

    def new_io(self, name: str, host: ChannelHost, orphaned: Callable[[], None]) -> IoTask:
        assert isinstance(host, Host), "made by new_host"
        return IoTask(name, host.loop, orphaned)

    def new_thread(self, name: str, host: ChannelHost, dispatcher: Dispatcher) -> IoThread:
        assert isinstance(host, Host), "made by new_host"
        return IoThread(name, host, dispatcher)

    def callback_failed(self, name: str, error: BaseException) -> bool:
        return False


SOCKETS = Sockets()
THREAD_ENVIRONMENT: ContextVar[ThreadEnvironment] = ContextVar("jgroups_channel_environment", default=SOCKETS)
"""That of the JChannels which a thread connects."""


def environment() -> Environment:
    """The environment of the running event loop."""
    found: Environment | None = getattr(asyncio.get_running_loop(), "channel_environment", None)
    return SOCKETS if found is None else found
