"""A simulated process whose application is a coroutine with an AsyncChannel.

Its tasks and blocks go on when it has returned. A member that is to leave has its tasks cancelled, as by Ctrl-C, and
its channel closed; then the process ends. See code_member.py for the rest of its life.
"""
from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any

from jgroups_py.channel.aio import AsyncChannel
from jgroups_py.channel.base import ChannelState
from jgroups_py.channel.environment import ChannelHost, Environment
from jgroups_py.config.spec import StackSpec
from jgroups_py.model.errors import ChannelError
from jgroups_py.runtime.inbox import Inbox
from jgroups_py.testing.simulation.async_host import SimulatedHost, SimulatedIo
from jgroups_py.testing.simulation.code_member import (
    CANCEL_SECONDS,
    CodeMember,
    Operation,
    StagePort,
    only_channel_errors,
)
from jgroups_py.testing.simulation.event_loop import SimulatedLoop
from jgroups_py.testing.simulation.refusals import code_of


class AsyncMember(CodeMember, Environment):
    """See the module, and CodeMember."""

    channel: AsyncChannel

    def __init__(
        self, stage: StagePort, spec: StackSpec, rate: int, start: Callable[[CodeMember | None], object],
    ) -> None:
        super().__init__(stage, spec, rate, start)
        self._main: asyncio.Task[Any] | None = None
        self._failed_ns: dict[asyncio.Task[Any], int] = {}

    def begin(self, rng: Random) -> None:
        """See CodeMember."""
        self.loop = SimulatedLoop(                           # type: ignore[abstract]  # the rest is set, and refused
            lambda: self.clock_ns, self._plan, self._raised, rng)
        self.turns = self.loop
        self.loop.channel_environment = self
        self.channel = AsyncChannel(self.spec, self.process.name)
        self._main = self.run(self._application())

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a task of this process."""
        return self.loop.inside(self.loop.create_task, coroutine)

    async def _application(self) -> None:
        try:
            made = await self.stage.begin_application(self.channel)
        except (Exception, SystemExit) as error:             # noqa: BLE001  any exception is a finding, with its seed
            self._ended(error)
        else:
            self.application = self.channel if made is None else made
            self.ready = True

    def abandon(self) -> None:
        """See CodeMember."""
        if self._main is not None:
            self.loop.abandon()

    def leave_process(self) -> None:
        """See CodeMember: tasks are cancelled."""
        self.run(self._leave())

    async def _leave(self) -> None:
        own = asyncio.current_task(), self.channel._consumer
        rest = [task for task in self.loop.tasks if task not in own]
        for task in rest:
            task.cancel()
        if rest:
            await asyncio.wait(rest, timeout=CANCEL_SECONDS)
        await self.channel.close()
        self._exit("it was told to leave")

    def _raised(self, error: BaseException) -> None:
        if isinstance(error, SystemExit):
            self._ended(error)
        else:
            self.stage.failed("callback", error)

    def after_turns(self) -> None:
        """See CodeMember."""
        for task in self.loop.failures:
            self._failed_ns.setdefault(task, self.stage.now_ns)

    def act(self, operation: Operation, rng: Random) -> None:
        """Carry out one operation of the application; one that awaits is a task of the process."""
        with code_of(self):
            made = self.stage.guard("act", self.loop.inside, operation, self.application, rng, refusals=True)
        if inspect.isawaitable(made):
            task = self.run(self._operation(made))
            self.operations[task] = getattr(operation, "__name__", "act")
            task.add_done_callback(lambda ended: self.operations.pop(ended, None))

    async def _operation(self, awaitable: Awaitable[object]) -> None:
        try:
            await awaitable
        except ChannelError:
            pass                                             # the group refused it, as it may
        except Exception as error:                           # noqa: BLE001  any exception is a finding, with its seed
            if not only_channel_errors(error):
                self.stage.failed("act", error)

    @property
    def steps_run(self) -> int:
        """Callbacks of its event loop so far."""
        return self.loop.callbacks_run if self._main is not None else 0

    def check_tasks(self) -> None:
        """A task that raised, and that nothing awaited, is a failure; a ChannelError while the channel is closed is
        none."""
        if self._main is None:
            return
        closed = self._leaves or not self.alive or self.channel.state is not ChannelState.CONNECTED
        for task in self.loop.unread_failures():
            error = task._exception
            assert error is not None, "it failed"
            if not (closed and only_channel_errors(error)):
                self.stage.failed(f"task {task.get_name()}", error, self._failed_ns.get(task))

    def dispose(self) -> None:
        """After the run."""
        if self._main is not None:
            self.loop.dispose()

    # --- for the channel: Environment -------------------------------------------------------------------------------

    def new_host(
        self, spec: StackSpec, cluster: str, name: str, inbox: Inbox, ended: Callable[[str, bool], None],
    ) -> ChannelHost:
        """The host of the channel that the application was given; raises SimulationError for another one."""
        self.check_channel(spec, name)
        self._host = SimulatedHost(self, self.loop, inbox, ended)
        return self._host

    def new_io(self, name: str, host: ChannelHost, orphaned: Callable[[], None]) -> SimulatedIo:
        """See Environment."""
        assert isinstance(host, SimulatedHost), "made by new_host"
        return SimulatedIo(host)
