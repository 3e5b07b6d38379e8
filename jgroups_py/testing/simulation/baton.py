"""The threads of a simulated process: real threads, of which exactly one runs, the one that has the baton.

The world's thread hands the baton to a thread, waits until it comes back, and goes on. A thread gives it back where it
would wait: for a lock (and so in every Condition, Event, Queue, Future, ...), in time.sleep, or for the end of another
thread. Between, it may lose it: threads do that anywhere. So the seed draws whether a thread that is about to take a
lock lets another one run first, and after how many lines of the application it does so in the middle of its code.

A thread that keeps the baton and uses no CPU waits for something real, which no virtual time brings; that is refused.
"""
from __future__ import annotations

import heapq
import os
import sys
import threading
import time
from _thread import allocate_lock, get_ident, start_new_thread
from collections.abc import Callable
from random import Random
from types import FrameType
from typing import Any

from jgroups_py.model.units import NS_PER_S
from jgroups_py.testing.simulation.refusals import PACKAGE, RUNNING, SITE, SimulationError, is_library, place_of

STEPS_AT_ONCE = 200                         # of one instant, at most: threads that never wait let time pass
SAME_INSTANT_RATIO = 0.95                   # how often the next step follows in the same instant
LOCK_SWITCH_RATIO = 0.1                     # how often a thread that takes a free lock lets another one run first
SWITCH_LINES = (4, 16, 64)                  # a thread runs 1 to so many lines of the application before it does; one
                                            # of them for a process, as races of many kinds need different ones
STUCK_SECONDS = 3.0                         # real time with the baton and without using the CPU
CHECK_SECONDS = 0.5
END_SECONDS = 1.0                           # real time for the `finally` of a thread after the run
MAX_REFUSALS = 100                          # times that a thread catches the end of the run, before it is left alone
THREADING = os.path.realpath(threading.__file__)


class Abandoned(BaseException):
    """Ends a thread of a process that is gone, after the run."""


class BatonThread:
    """One thread. body: what it runs. shown: the Thread object of the application.

    traced: it may lose the baton in the middle of its code.
    """

    def __init__(self, scheduler: ThreadScheduler, shown: threading.Thread, body: Callable[[], object], *,
                 traced: bool) -> None:
        self.scheduler = scheduler
        self.shown = shown
        self.traced = traced
        self.done = False
        self.ident = 0                                       # 0: it has not run yet
        self.waits = False                                   # for `wake` or a time
        self.woken = False                                   # by `wake`, not by a time
        self.error: BaseException | None = None              # what it raises when it runs again
        self.joining: list[BatonThread] = []
        self._body = body
        self._go = allocate_lock()
        self._go.acquire()
        self._lines = scheduler.draw_lines()
        self._wait = 0                                       # the number of its last wait
        self._refusals = 0                                   # how often it raised Abandoned
        self._detached = False                               # it waits for something real: it never runs here again

    # --- on the world's thread --------------------------------------------------------------------------------------

    def step(self) -> None:
        """Give it the baton; returns when it is back."""
        if not self.ident:
            self.ident = start_new_thread(self._run, ())
        RUNNING.thread = self.ident
        self._go.release()

    def detach(self) -> None:
        """It does not give the baton back: do without it."""
        self._detached = True

    def place(self) -> str:
        """ "file:line" of the application where it is."""
        return place_of(sys._current_frames().get(self.ident))

    # --- on the thread itself ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        shown: Any = self.shown
        self._go.acquire()
        ident = get_ident()
        shown._set_ident()
        if hasattr(shown, "_set_native_id"):
            shown._set_native_id()
        active: dict[int, threading.Thread] = threading._active              # type: ignore[attr-defined]
        active[ident] = shown
        try:
            self.scheduler.entered()
            if self.error is None:
                if self.traced:
                    sys.settrace(threading.gettrace() or self._trace)
                self._body()
        except Abandoned:
            pass
        except BaseException as error:                       # noqa: BLE001  any exception is a finding, with its seed
            if not self.scheduler.over:
                self.scheduler.thread_failed(self, error)
        finally:
            sys.settrace(None)
            active.pop(ident, None)
            mark_ended(shown)
            self.done = True
            for thread in self.joining:
                thread.scheduler.wake(thread)
            if not self._detached:
                self.scheduler.give_back()

    def pause(self) -> None:
        """Give the baton back, and go on when it comes again; raises what it is to raise."""
        if self._detached:
            allocate_and_block()
        self.scheduler.give_back()
        self._go.acquire()
        self.check()

    def check(self) -> None:
        """Raise what this thread is to raise: its process is gone, or it is interrupted."""
        error = self.error
        if error is None:
            return
        if isinstance(error, Abandoned):
            self._refusals += 1
            if self._refusals > MAX_REFUSALS:                # it catches it each time: it is left where it is
                self.scheduler.give_back()
                allocate_and_block()
        else:
            self.error = None
        raise error

    def wait(self, timeout: float | None) -> bool:
        """Wait until `wake` (True), or until a time is over (False)."""
        self.check()
        self._wait += 1
        self.waits, self.woken = True, False
        if timeout is not None:
            self.scheduler.plan(timeout, self, self._wait)
        self.pause()
        return self.woken

    def is_due(self, wait: int) -> bool:
        """Whether it is in this wait still."""
        return self.waits and self._wait == wait

    def let_others(self) -> None:
        """Any other thread may run first."""
        self.scheduler.make_ready(self)
        self.pause()

    def before_lock(self) -> None:
        """It is about to take a free lock."""
        self.check()
        if self.traced and self.scheduler.rng.random() < LOCK_SWITCH_RATIO:
            self.let_others()

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._line if is_application(frame.f_code.co_filename) else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self._lines -= 1
            if self._lines <= 0:
                self._lines = self.scheduler.draw_lines()
                if not self.scheduler.over and may_switch_in(frame):
                    self.let_others()
        return self._line


class ThreadScheduler:
    """The threads of one process (see Turns in code_member.py).

    clock_ns: the time of the process. woken: called when one became ready outside of a turn. failed: called with the
    name of a thread and what it raised. refused: called with what waits for real. rng: draws the order.
    """

    def __init__(
        self, clock_ns: Callable[[], int], woken: Callable[[], None], failed: Callable[[str, BaseException], None],
        refused: Callable[[SimulationError], None], rng: Random,
    ) -> None:
        self.rng = rng
        self.running: BatonThread | None = None
        self.over = False
        self.entered: Callable[[], object] = lambda: None    # called on each thread before it runs
        self.steps_run = 0
        self.threads: dict[BatonThread, None] = {}           # that have not ended
        self._switch_lines = rng.choice(SWITCH_LINES)
        self._clock_ns = clock_ns
        self._woken = woken
        self._failed = failed
        self._refused = refused
        self._ready: list[BatonThread] = []
        self._timers: list[tuple[int, int, BatonThread, int]] = []
        self._number = 0
        self._named = self._objects = 0
        self._back = allocate_lock()
        self._back.acquire()

    # --- threads ----------------------------------------------------------------------------------------------------

    def spawn(self, shown: threading.Thread, body: Callable[[], object], *, traced: bool = True) -> BatonThread:
        """Start a thread."""
        thread = BatonThread(self, shown, body, traced=traced)
        shown._simulated = thread                            # type: ignore[attr-defined]  # for join and is_alive
        self.threads[thread] = None
        self.make_ready(thread)
        return thread

    def draw_lines(self) -> int:
        """After how many lines a thread loses the baton."""
        return self.rng.randint(1, self._switch_lines)

    def next_thread_number(self) -> int:
        """For the names of threads that have none."""
        self._named += 1
        return self._named

    def next_object_number(self) -> int:
        """For the hashes of threads and futures."""
        self._objects += 1
        return self._objects

    def thread_failed(self, thread: BatonThread, error: BaseException) -> None:
        """A thread raised what nothing caught."""
        self._failed(thread.shown.name, error)

    def wake(self, thread: BatonThread) -> None:
        """End the wait of a thread, of this process or another one."""
        if thread.waits:
            thread.woken = True
            thread.scheduler.make_ready(thread)

    def interrupt(self, thread: BatonThread, error: BaseException) -> None:
        """Have a thread raise this where it waits."""
        thread.error = error
        self.wake(thread)

    def make_ready(self, thread: BatonThread) -> None:
        """It may run."""
        thread.waits = False
        if self.over:
            return
        idle = not self._ready
        self._ready.append(thread)
        if idle and self.running is None:
            self._woken()

    def plan(self, timeout: float, thread: BatonThread, wait: int) -> None:
        """End a wait after some seconds."""
        self._number += 1
        due_ns = self._clock_ns() + max(0, round(min(timeout, threading.TIMEOUT_MAX) * NS_PER_S))
        heapq.heappush(self._timers, (due_ns, self._number, thread, wait))

    def give_back(self) -> None:
        """By the thread that has the baton: the world goes on."""
        self._back.release()

    @property
    def now_ns(self) -> int:
        """The time of the process."""
        return self._clock_ns()

    # --- for the world: Turns ---------------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """Whether a thread waits for its turn."""
        return bool(self._ready)

    @property
    def next_timer_ns(self) -> int | None:
        """When the next wait ends by its time."""
        timers = self._timers
        while timers and not timers[0][2].is_due(timers[0][3]):
            heapq.heappop(timers)
        return timers[0][0] if timers else None

    def run_turns(self) -> bool:
        """Run threads in an order that the seed draws, as long as it draws that no time passes in between."""
        for _ in range(STEPS_AT_ONCE):
            now_ns = self._clock_ns()
            while (due_ns := self.next_timer_ns) is not None and due_ns <= now_ns:
                self.make_ready_by_time(heapq.heappop(self._timers)[2])
            ready = self._ready
            if not ready or self.over:
                return False
            self._step(ready.pop(self.rng.randrange(len(ready)) if len(ready) > 1 else 0))
            if self.rng.random() > SAME_INSTANT_RATIO:
                break
        return bool(self._ready)

    def make_ready_by_time(self, thread: BatonThread) -> None:
        """The time of its wait is over."""
        thread.waits = False
        self._ready.append(thread)

    def abandon(self) -> None:
        """The process is gone: nothing runs any more, no `finally` either."""
        self.over = True
        self._ready.clear()
        self._timers.clear()

    def dispose(self) -> None:
        """After the run: end the threads. Their `finally` runs then, when nothing counts any more."""
        self.abandon()
        for thread in list(self.threads):
            if thread.ident and not thread.done:
                thread.error = Abandoned()
                thread.traced = False
                self._step(thread, END_SECONDS)
            threading._active.pop(thread.ident, None)        # type: ignore[attr-defined]
            mark_ended(thread.shown)
        self.threads.clear()

    def _step(self, thread: BatonThread, limit: float | None = None) -> None:
        """Let a thread run until it gives the baton back. limit: real seconds (None: while it uses the CPU)."""
        self.steps_run += 1
        before, mine, self.running = self.running, RUNNING.thread, thread
        try:
            thread.step()
            if not self._back.acquire(timeout=CHECK_SECONDS if limit is None else limit):
                self._wait_for(thread, limit)
        finally:
            self.running, RUNNING.thread = before, mine
        if thread.done:
            self.threads.pop(thread, None)

    def _wait_for(self, thread: BatonThread, limit: float | None) -> None:
        used, since = cpu_ns(thread.ident), time_real()
        while limit is None:
            if self._back.acquire(timeout=CHECK_SECONDS):
                return
            now = cpu_ns(thread.ident)
            if now != used:
                used, since = now, time_real()
            elif time_real() - since >= STUCK_SECONDS:
                break
        thread.detach()
        self.over = True
        if limit is None:
            where = place_of(sys._current_frames().get(thread.ident))
            self._refused(SimulationError(
                f"the thread {thread.shown.name!r} waits for something outside of the simulation (or for a lock that "
                "was made before the application began)", where))


time_real = time.monotonic
"""Read before anything replaces the clocks."""


def cpu_ns(ident: int) -> int:
    """CPU time of a thread; that of the process where the system does not tell."""
    try:
        return time.clock_gettime_ns(time.pthread_getcpuclockid(ident))
    except (AttributeError, OSError):
        return time.process_time_ns()


def mark_ended(shown: Any) -> None:
    """For Thread.join and is_alive after the run."""
    if hasattr(shown, "_handle"):
        shown._handle._set_done()
    else:
        shown._is_stopped = True


def allocate_and_block() -> None:
    """Block this thread for ever; it does not keep the interpreter from ending."""
    never = allocate_lock()
    never.acquire()
    never.acquire()


_known: dict[str, bool] = {}


def is_application(path: str) -> bool:
    """Whether a file is neither of Python's library, nor of this package, nor installed."""
    found = _known.get(path)
    if found is None:
        real = os.path.realpath(path)
        found = _known[path] = not (is_library(real) or is_library(path) or real.startswith(PACKAGE) or SITE in real)
    return found


def may_switch_in(frame: FrameType | None) -> bool:
    """Whether no library's code is on the stack: it may hold a real lock (of an import, of logging)."""
    while frame is not None:
        path = frame.f_code.co_filename
        if not is_application(path):
            real = os.path.realpath(path)
            if real != THREADING and not real.startswith(PACKAGE):
                return False
        frame = frame.f_back
    return True
