"""A simulated process whose application consists of threads with a JChannel.

`start` runs in a thread of its own, and so does each operation; the threads that they start go on when they have
returned. A member that is to leave gets a KeyboardInterrupt in `start`, if that has not returned, as by Ctrl-C; then
its channel is closed, and the process ends, with its other threads. See code_member.py for the rest of its life.
"""
from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random
from typing import Any

from jgroups_py.channel.base import ChannelState
from jgroups_py.channel.dispatcher import Dispatcher
from jgroups_py.channel.environment import THREAD_ENVIRONMENT, ChannelHost, ThreadEnvironment
from jgroups_py.channel.sync import JChannel
from jgroups_py.config.spec import StackSpec
from jgroups_py.model.errors import ChannelError
from jgroups_py.runtime.inbox import Inbox
from jgroups_py.testing.simulation.baton import BatonThread, ThreadScheduler
from jgroups_py.testing.simulation.code_member import CANCEL_SECONDS, CodeMember, Operation, only_channel_errors
from jgroups_py.testing.simulation.refusals import code_of
from jgroups_py.testing.simulation.thread_host import ReceiverThread, RoundsThread, ThreadHost


class ThreadMember(CodeMember, ThreadEnvironment):
    """See the module, and CodeMember."""

    channel: JChannel
    scheduler: ThreadScheduler
    uses_threads = True
    _main: BatonThread | None = None

    def begin(self, rng: Random) -> None:
        """See CodeMember."""
        scheduler = self.turns = self.scheduler = ThreadScheduler(
            lambda: self.clock_ns, self._plan, self._thread_failed, self.refused, rng)
        scheduler.entered = lambda: THREAD_ENVIRONMENT.set(self)
        with code_of(self):
            self.channel = JChannel(self.spec, self.process.name)
            self._rounds = RoundsThread(scheduler, self.process.name)
            self._main = self._spawn("application", self._application)

    def _spawn(self, name: str, body: Callable[[], object]) -> BatonThread:
        return self.scheduler.spawn(threading.Thread(name=name, daemon=True), body)

    def _application(self) -> None:
        try:
            made = self.stage.begin_application(self.channel)
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001  a finding, with its seed
            self._ended(error)
        else:
            self.application = self.channel if made is None else made
            self.ready = True

    def _thread_failed(self, name: str, error: BaseException) -> None:
        """A thread of the application ended with an exception; SystemExit ends it in silence, as any thread."""
        closed = self._leaves or not self.alive or self.channel.state is not ChannelState.CONNECTED
        if not isinstance(error, SystemExit) and not (closed and only_channel_errors(error)):
            self.stage.failed(f"thread {name}", error)

    def abandon(self) -> None:
        """See CodeMember."""
        if self._main is not None:
            self.scheduler.abandon()

    def leave_process(self) -> None:
        """See CodeMember."""
        with code_of(self):
            self._spawn("leave", self._leave)

    def _leave(self) -> None:
        main = self._main
        assert main is not None, "it has begun"
        if not main.done:
            self.scheduler.interrupt(main, KeyboardInterrupt())
            main.shown.join(CANCEL_SECONDS)
        self.channel.close()
        self._exit("it was told to leave")

    def act(self, operation: Operation, rng: Random) -> None:
        """See CodeMember: it has a thread of its own."""
        name = getattr(operation, "__name__", "act")

        def body() -> None:
            try:
                operation(self.application, rng)
            except ChannelError:
                pass                                         # the group refused it, as it may
            except Exception as error:                       # noqa: BLE001  a finding, with its seed
                if not only_channel_errors(error):
                    self.stage.failed("act", error)
            finally:
                self.operations.pop(thread, None)
        with code_of(self):
            thread = self._spawn(name, body)
        self.operations[thread] = name

    def waits_at(self, operation: BatonThread) -> str:
        """See CodeMember."""
        return f" (waits at {operation.place()})"

    @property
    def steps_run(self) -> int:
        """See CodeMember."""
        return self.scheduler.steps_run if self._main is not None else 0

    def dispose(self) -> None:
        """See CodeMember."""
        if self._main is not None:
            with code_of(self):
                self.scheduler.dispose()
            self.channel._forked()                           # the end of the program has nothing to close

    # --- for the channel: ThreadEnvironment -------------------------------------------------------------------------

    def new_host(
        self, spec: StackSpec, cluster: str, name: str, inbox: Inbox, ended: Callable[[str, bool], None],
    ) -> ChannelHost:
        """The host of the channel that the application was given; raises SimulationError for another one."""
        self.check_channel(spec, name)
        self._host = ThreadHost(self, self._rounds, inbox, ended)
        return self._host

    def new_thread(self, name: str, host: ChannelHost, dispatcher: Dispatcher) -> ReceiverThread:
        """See ThreadEnvironment."""
        assert isinstance(host, ThreadHost), "made by new_host"
        return ReceiverThread(name, host, dispatcher, self._ended)


class Checking:
    """While a check of the run looks at applications of threads: its locks never wait (see Unobservable)."""

    scheduler = None
    uses_threads = True

    def __init__(self, now_ns: Callable[[], int], refused: Callable[[Any], None]) -> None:
        self._now_ns = now_ns
        self.refused = refused

    @property
    def clock_ns(self) -> int:
        """The virtual time."""
        return self._now_ns()

    wall_ns = clock_ns
