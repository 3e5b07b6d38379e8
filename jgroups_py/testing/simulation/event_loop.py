"""SimulatedLoop: the asyncio event loop of one simulated process.

Its time is the simulator's. It never waits: the world runs its turns when callbacks are ready, and reads when its next
timer is due. It keeps the promises of asyncio: callbacks of call_soon run in the order in which they were registered.
asyncio promises no order among tasks that are ready in one turn, so the seed draws it. The seed also draws whether the
next turn follows at once or at the next tick, since turns take time.

asyncio keeps tasks and futures in sets (TaskGroup, wait, as_completed). The order of a set follows hashes, which are
addresses in memory. Here the hash is the number of creation, so a seed gives the same run in every process.

Only documented methods of AbstractEventLoop are implemented, by documented means. Calls that reach outside of the
simulation (sockets, subprocesses, executors, signals) are refused.
"""
from __future__ import annotations

import asyncio
import contextvars
import heapq
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from random import Random
from typing import Any, NoReturn, TypeVar

from jgroups_py.model.units import NS_PER_S
from jgroups_py.testing.simulation.refusals import refuse

T = TypeVar("T")
TURNS_AT_ONCE = 50                          # turns of one instant, at most: a loop over sleep(0) lets time pass
SAME_INSTANT_RATIO = 0.8                    # how often the next turn follows in the same instant
OUTSIDE = {
    "run_in_executor": "await the work itself; a simulated process has one thread",
    **dict.fromkeys((
        "create_connection", "create_server", "create_datagram_endpoint", "create_unix_connection",
        "create_unix_server", "connect_accepted_socket", "sock_recv", "sock_recv_into", "sock_recvfrom",
        "sock_recvfrom_into", "sock_sendall", "sock_sendto", "sock_connect", "sock_accept", "sock_sendfile",
        "sendfile", "start_tls", "getaddrinfo", "getnameinfo", "connect_read_pipe", "connect_write_pipe", "add_reader",
        "remove_reader", "add_writer", "remove_writer"),
        "hide the socket behind a function of yours, and give the simulation another one"),
    **dict.fromkeys(("subprocess_exec", "subprocess_shell"), "simulated processes start none"),
    **dict.fromkeys(("add_signal_handler", "remove_signal_handler"), "a simulated process is told to leave by a "
                    "cancellation of its task"),
    **dict.fromkeys(("run_forever", "run_until_complete"), "the simulator runs the event loop"),
}
"""Method of an event loop that reaches outside -> the remedy."""


class SimulatedFuture(asyncio.Future[Any]):
    """A future that hashes by its number."""

    number = 0

    def __new__(cls, *args: Any, loop: SimulatedLoop, **options: Any) -> SimulatedFuture:
        self = super().__new__(cls)
        self.number = loop.next_number()
        return self

    def __hash__(self) -> int:
        return self.number


class SimulatedTask(asyncio.Task[Any]):
    """A task that hashes by its number."""

    number = 0

    def __new__(cls, *args: Any, loop: SimulatedLoop, **options: Any) -> SimulatedTask:
        self = super().__new__(cls)
        self.number = loop.next_number()
        return self

    def __hash__(self) -> int:
        return self.number


class SimulatedLoop(asyncio.AbstractEventLoop):
    """See the module.

    clock_ns: the time of the process. woken: called when something became ready outside of a turn. raised: called with
    what a callback raised, or a task that nothing awaited. rng: draws the order of tasks.
    """

    channel_environment: Any = None                          # see channel/environment.py

    def __init__(
        self, clock_ns: Callable[[], int], woken: Callable[[], None], raised: Callable[[BaseException], None],
        rng: Random,
    ) -> None:
        self._clock_ns = clock_ns
        self._woken = woken
        self._raised = raised
        self._rng = rng
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[int, int, asyncio.TimerHandle]] = []
        self._number = 0
        self._in_turn = False
        self._over = False
        self._factory: Callable[..., Any] | None = None
        self._handler: Callable[[Any, dict[str, Any]], object] | None = None
        self.tasks: dict[SimulatedTask, None] = {}           # that have not ended
        self.failures: list[SimulatedTask] = []              # that ended with an exception, read by nothing so far
        self.callbacks_run = 0

    def next_number(self) -> int:
        """The number of a new task, future or timer."""
        self._number += 1
        return self._number

    @property
    def is_ready(self) -> bool:
        """Whether something waits for a turn."""
        return bool(self._ready)

    # --- for the world ----------------------------------------------------------------------------------------------

    @property
    def next_timer_ns(self) -> int | None:
        """When the next timer is due."""
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        return timers[0][0] if timers else None

    def run_turns(self) -> bool:
        """Run what is ready, and what that makes ready, as long as the seed draws that no time passes in between.

        Returns whether something is ready still.
        """
        for _ in range(TURNS_AT_ONCE):
            self._turn()
            if not self._ready or self._over:
                return False
            if self._rng.random() > SAME_INSTANT_RATIO:
                break
        return True

    def inside(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function as a callback of this event loop would be called."""
        hooks, before = sys.get_asyncgen_hooks(), self._in_turn
        running = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        sys.set_asyncgen_hooks(firstiter=None, finalizer=self._close_generator)
        self._in_turn = True
        try:
            return function(*arguments)
        finally:
            self._in_turn = before
            asyncio._set_running_loop(running)
            sys.set_asyncgen_hooks(*hooks)
            if self._ready and not before:
                self._woken()

    def abandon(self) -> None:
        """The process is gone: none of its code runs any more, `finally` included."""
        self._over = True
        self._ready.clear()
        self._timers.clear()

    def dispose(self) -> None:
        """After the run: free the coroutines of an abandoned loop. Python closes them; errors in that are ignored."""
        self.abandon()
        tasks, self.tasks = list(self.tasks), {}
        for task in tasks:
            task._log_destroy_pending = False                # type: ignore[attr-defined]
            coroutine = task.get_coro()
            try:
                if coroutine is not None:
                    coroutine.close()
            except BaseException:                            # noqa: BLE001  of a `finally`; there is no run now
                pass
        self.failures.clear()

    def _turn(self) -> None:
        timers, now_ns, ready = self._timers, self._clock_ns(), self._ready
        while timers and timers[0][0] <= now_ns:
            handle = heapq.heappop(timers)[2]
            if not handle.cancelled():
                ready.append(handle)
        if ready:
            self.inside(self._run, self._drawn_order())

    def _drawn_order(self) -> list[asyncio.Handle]:
        """The handles that are ready; steps of tasks in an order that is drawn, in the positions of steps of tasks."""
        handles = list(self._ready)
        self._ready.clear()
        places = [place for place, handle in enumerate(handles) if is_step(handle)]
        if len(places) > 1:
            steps = [handles[place] for place in places]
            self._rng.shuffle(steps)
            for place, step in zip(places, steps, strict=True):
                handles[place] = step
        return handles

    def _run(self, handles: list[asyncio.Handle]) -> None:
        for handle in handles:
            if self._over:
                return
            if not handle.cancelled():
                self.callbacks_run += 1
                handle._run()

    # --- callbacks and time -----------------------------------------------------------------------------------------

    def time(self) -> float:
        """Virtual seconds."""
        return self._clock_ns() / NS_PER_S

    def call_soon(                                           # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """See asyncio. An event loop that was abandoned takes nothing."""
        handle = asyncio.Handle(callback, args, self, context)
        if not self._over:
            idle = not self._ready
            self._ready.append(handle)
            if idle and not self._in_turn:
                self._woken()
        return handle

    call_soon_threadsafe = call_soon                         # type: ignore[assignment]

    def call_later(                                          # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """See asyncio."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(                                             # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """See asyncio."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if not self._over:
            heapq.heappush(self._timers, (round(when * NS_PER_S), self.next_number(), handle))
            if not self._in_turn:
                self._woken()
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Called by a handle; cancelled ones are dropped when their time comes."""

    # --- tasks and futures ------------------------------------------------------------------------------------------

    def create_future(self) -> SimulatedFuture:
        """See asyncio."""
        return SimulatedFuture(loop=self)

    def create_task(
        self, coro: Coroutine[Any, Any, Any] | Generator[Any, Any, Any], *, name: str | None = None,
        context: contextvars.Context | None = None, **options: Any,
    ) -> asyncio.Task[Any]:
        """See asyncio."""
        task = SimulatedTask(coro, loop=self, name=name or f"Task-{self._number + 1}", context=context, **options)
        self.tasks[task] = None
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: Any) -> None:
        self.tasks.pop(task, None)
        if not task.cancelled() and task._exception is not None:
            self.failures.append(task)

    def unread_failures(self) -> list[SimulatedTask]:
        """Tasks that ended with an exception that nothing has read."""
        return [task for task in self.failures if task._log_traceback]

    def set_task_factory(self, factory: Any) -> None:
        """Refused but for None."""
        if factory is not None:
            refuse("set_task_factory", "a simulated event loop makes its own tasks, whose order is repeatable")

    def get_task_factory(self) -> None:
        """There is none."""

    # --- the rest of AbstractEventLoop ------------------------------------------------------------------------------

    def is_running(self) -> bool:
        """Whether a turn runs."""
        return self._in_turn

    def is_closed(self) -> bool:
        """Whether the process is gone."""
        return self._over

    def get_debug(self) -> bool:
        """False."""
        return False

    def set_debug(self, enabled: bool) -> None:
        """Ignored."""

    def stop(self) -> NoReturn:
        """Refused."""
        refuse("loop.stop", "the simulator runs the event loop; return from your coroutine")

    def close(self) -> NoReturn:
        """Refused."""
        refuse("loop.close", "the simulator runs the event loop; return from your coroutine")

    async def shutdown_asyncgens(self) -> None:
        """Nothing to do."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """There is none."""

    def set_exception_handler(self, handler: Any) -> None:
        """See asyncio."""
        self._handler = handler

    def get_exception_handler(self) -> Any:
        """See asyncio."""
        return self._handler

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """An exception that nothing handled fails the run; texts without one are for logs."""
        error = context.get("exception")
        if error is not None and not isinstance(context.get("future"), asyncio.Task):
            self._raised(error)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """See asyncio."""
        if self._over:
            return
        if self._handler is None:
            self.default_exception_handler(context)
        else:
            self._handler(self, context)

    def _close_generator(self, generator: Any) -> None:
        """An asynchronous generator was dropped before its end."""
        if not self._over:
            self.create_task(generator.aclose())


def is_step(handle: asyncio.Handle) -> bool:
    """Whether a handle runs a step of a task."""
    return isinstance(getattr(handle._callback, "__self__", None), asyncio.Task)     # type: ignore[attr-defined]


def _outside(name: str, instead: str) -> Callable[..., NoReturn]:
    def refused(self: SimulatedLoop, *args: Any, **options: Any) -> NoReturn:
        refuse(f"loop.{name}", instead)
    refused.__name__, refused.__doc__ = name, "Refused."
    return refused


for _name, _instead in OUTSIDE.items():
    setattr(SimulatedLoop, _name, _outside(_name, _instead))

