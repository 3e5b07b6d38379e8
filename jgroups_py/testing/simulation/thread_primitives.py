"""What `threading`, `queue` and `time` are in simulated threads: locks and waits on virtual time.

Conditions, events, semaphores, barriers, queues, futures and executors are written in Python over locks. So they run
as they are, once their locks are these.
"""
from __future__ import annotations

import asyncio
import concurrent.futures.thread
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, cast

from jgroups_py.model.units import NS_PER_S
from jgroups_py.testing.simulation.baton import BatonThread, ThreadScheduler
from jgroups_py.testing.simulation.refusals import Replacement, current, refuse

NUMBERED = (threading.Thread, concurrent.futures.Future)
"""Whose objects the library keeps in sets: they hash by number, not by address, so their order is repeatable."""


class Unobservable(BaseException):
    """A check would wait for a thread; it is made again later.

    where: the thread that has the lock.
    """


class SimulatedLock:
    """A threading.Lock for threads that run one at a time. Who is woken must still get it before others do."""

    def __init__(self) -> None:
        self._held_by: BatonThread | None = None             # who took it, for messages only
        self._held = False
        self._waiting: deque[BatonThread] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """See threading.Lock."""
        if not blocking and timeout != -1:
            raise ValueError("can't specify a timeout for a non-blocking call")
        if blocking and timeout < 0 and timeout != -1:
            raise ValueError("timeout value must be a non-negative number")
        thread = running_thread()
        if thread is None:
            return self._acquire_outside(blocking)
        thread.before_lock()
        if self._held and (not blocking or not self._wait(thread, None if timeout == -1 else timeout)):
            return False
        self._held, self._held_by = True, thread
        return True

    def _acquire_outside(self, blocking: bool) -> bool:
        """A check, or code after the run."""
        if self._held:
            if not blocking:
                return False
            holder = self._held_by
            raise Unobservable(f"thread {holder.shown.name!r}" if holder is not None else "the check itself")
        self._held, self._held_by = True, None
        return True

    def _wait(self, thread: BatonThread, timeout: float | None) -> bool:
        scheduler = thread.scheduler
        until_ns = None if timeout is None else scheduler.now_ns + round(timeout * NS_PER_S)
        while self._held:
            left = None if until_ns is None else (until_ns - scheduler.now_ns) / NS_PER_S
            if left is not None and left <= 0:
                return False
            self._waiting.append(thread)
            try:
                thread.wait(left)
            except BaseException:
                self._wake()                                 # it may have been woken in place of another one
                raise
            finally:
                if thread in self._waiting:
                    self._waiting.remove(thread)
        return True

    def _wake(self) -> None:
        if self._waiting and not self._held:
            thread = self._waiting.popleft()
            thread.scheduler.wake(thread)

    def release(self) -> None:
        """See threading.Lock."""
        if not self._held:
            raise RuntimeError("release unlocked lock")
        self._held, self._held_by = False, None
        self._wake()

    def locked(self) -> bool:
        """See threading.Lock."""
        return self._held

    def _at_fork_reinit(self) -> None:
        self._held, self._held_by = False, None
        self._waiting.clear()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


class NoLock:
    """In place of a lock of the library that all processes would share: one thread runs at a time."""

    def __enter__(self) -> bool:
        return True

    def __exit__(self, *_: object) -> None:
        pass


def scheduler_of_running() -> ThreadScheduler | None:
    """The threads of the process whose code runs; None: no simulated threads."""
    code = current()
    scheduler: ThreadScheduler | None = None if code is None else code.scheduler
    return scheduler


def running_thread() -> BatonThread | None:
    """The simulated thread that runs."""
    scheduler = scheduler_of_running()
    return None if scheduler is None else scheduler.running


def in_threads() -> bool:
    """Whether simulated threads, or what looks at them, run here."""
    code = current()
    return code is not None and code.uses_threads


def start_thread(shown: Any) -> None:
    """See threading.Thread.start."""
    scheduler = scheduler_of_running()
    assert scheduler is not None, "of a process that has threads"
    if not shown._initialized:
        raise RuntimeError("thread.__init__() not called")
    if shown._started.is_set():
        raise RuntimeError("threads can only be started once")
    scheduler.spawn(shown, shown.run)
    shown._started.set()


def join_thread(shown: Any, timeout: float | None = None) -> None:
    """See threading.Thread.join."""
    made: BatonThread | None = getattr(shown, "_simulated", None)
    if made is None:
        raise RuntimeError("cannot join thread before it is started")
    thread = running_thread()
    if thread is None or thread is made:
        raise RuntimeError("cannot join current thread")
    thread.check()
    if not made.done and (timeout is None or timeout > 0):
        made.joining.append(thread)
        try:
            thread.wait(timeout)
        finally:
            made.joining.remove(thread)


def sleep(seconds: float) -> None:
    """See time.sleep."""
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    thread = running_thread()
    if thread is None:
        refuse("time.sleep", "a check looks at what is there; it is made again")
    if seconds:
        thread.wait(seconds)
    else:
        thread.check()
        thread.let_others()


Real = Callable[..., Any]


def simulated_by(made: Callable[..., Any]) -> Callable[[Real], Real]:
    """`made` where simulated threads run, what was there elsewhere."""
    def of(real: Real) -> Real:
        def call(*arguments: Any, **options: Any) -> Any:
            return (made if in_threads() else real)(*arguments, **options)
        return call
    return of


def of_thread(made: Callable[..., Any]) -> Callable[[Real], Real]:
    """The same for a method of Thread, of threads that are simulated."""
    def of(real: Real) -> Real:
        def call(shown: Any, *arguments: Any, **options: Any) -> Any:
            known = hasattr(shown, "_simulated") or made is start_thread
            return (made if known and in_threads() else real)(shown, *arguments, **options)
        return call
    return of


def is_alive(shown: Any) -> bool:
    """See threading.Thread.is_alive."""
    return not shown._simulated.done


def reentrant(*_: Any, **__: Any) -> Any:
    """The RLock that is written in Python."""
    return threading._RLock()


def no_event_loop(*_: Any) -> Any:
    """Refused."""
    return refuse("an event loop in a thread", "simulate coroutines by a `start` that is a coroutine function")


def clock_of(real: Real) -> Real:
    """The library's own alias of time.monotonic."""
    def clock() -> float:
        code = current()
        return float(real()) if code is None else code.clock_ns / NS_PER_S
    return clock


def thread_number(real: Real) -> Real:
    """The number in the name of a thread that was given none: each process has its own."""
    def number() -> int:
        scheduler = scheduler_of_running()
        return int(real()) if scheduler is None else scheduler.next_thread_number()
    return number


def init_with_number(real: Real) -> Real:
    """For NUMBERED: __init__."""
    def init(self: Any, *arguments: Any, **options: Any) -> None:
        scheduler = scheduler_of_running()
        if scheduler is not None:
            self._simulated_number = scheduler.next_object_number()
        real(self, *arguments, **options)
    return init


def hash_by_number(real: Real) -> Real:
    """For NUMBERED: __hash__."""
    def hashed(self: object) -> int:
        number: int | None = getattr(self, "_simulated_number", None)
        return int(real(self)) if number is None else number
    return hashed


def in_order_of_numbers(real: Any) -> Any:
    """The library's _AcquireFutures, which takes the locks of many futures in the order of their addresses."""
    class AcquireFutures(real):                              # type: ignore[misc]
        def __init__(self, futures: Any) -> None:
            self.futures = sorted(futures, key=lambda future: getattr(future, "_simulated_number", id(future)))
    return AcquireFutures


def replacements() -> list[Replacement]:
    """(owner, name, how its real value becomes that for simulated threads)."""
    return [
        (time, "sleep", simulated_by(sleep)),
        (threading, "Lock", simulated_by(SimulatedLock)), (threading, "_allocate_lock", simulated_by(SimulatedLock)),
        (threading, "RLock", simulated_by(reentrant)), (threading, "_time", clock_of), (queue, "time", clock_of),
        (queue, "SimpleQueue", simulated_by(queue._PySimpleQueue)),          # type: ignore[attr-defined]
        (threading, "_counter", thread_number),
        (threading.Thread, "start", of_thread(start_thread)), (threading.Thread, "join", of_thread(join_thread)),
        (threading.Thread, "is_alive", of_thread(is_alive)),
        *((kind, "__init__", init_with_number) for kind in NUMBERED),
        *((kind, "__hash__", hash_by_number) for kind in NUMBERED),
        (concurrent.futures._base, "_AcquireFutures", in_order_of_numbers),
        (concurrent.futures.thread, "_global_shutdown_lock", lambda real: cast(Any, NoLock())),
        (asyncio.events, "new_event_loop", simulated_by(no_event_loop)),
        (asyncio, "new_event_loop", simulated_by(no_event_loop)),
    ]


__all__ = ["SimulatedLock", "Unobservable", "in_threads", "replacements", "running_thread"]
