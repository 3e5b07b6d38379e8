"""All interleavings of a few threads, with a bounded number of preemptions: real code, real threads, one at a time.

A stress run meets the interleavings that the machine happens to make. Here a trace function stops each thread before
every bytecode that touches what threads share, and a schedule decides who goes on. Without a preemption a thread runs
until it waits or ends. `explore` runs all schedules with up to so many preemptions: faults of hand-overs need one or
two, seldom three (Musuvathi and Qadeer, "Iterative context bounding", 2007).

Locks and sleeping must be those of this file, so that a thread that waits lets another one run.
"""
from __future__ import annotations

import dis
import sys
import threading
from collections.abc import Callable, Collection, Sequence
from functools import cache
from types import CodeType, FrameType, TracebackType
from typing import Any, Self

WAIT_SECONDS = 20.0                         # a thread that is not let on for so long is a fault of the test
ALWAYS = ("BEFORE_WITH", "BINARY_SUBSCR", "DELETE_SUBSCR")      # bytecodes that count whatever their argument
Schedule = tuple[tuple[int, int], ...]      # (point, thread): at this point this thread goes on instead


class Deadlock(Exception):
    """All threads wait."""


class Interleaving:
    """One run of some functions, each on a thread of its own, by a schedule.

    files: ends of the names of files whose code is interleaved; shared: names of attributes that threads share.
    points: of each point that the run came to: which thread ran, and which others could have.
    """

    def __init__(self, files: Collection[str], shared: Collection[str], schedule: Schedule) -> None:
        self.points: list[tuple[int, tuple[int, ...]]] = []
        self.error: BaseException | None = None
        self._files = tuple(files)
        self._shared = frozenset(shared)
        self._turns = dict(schedule)
        self._running = 0
        self._blocked: dict[int, Callable[[], bool]] = {}    # thread -> what it waits for
        self._ended: set[int] = set()
        self._batons: list[threading.Semaphore] = []

    def run(self, functions: Sequence[Callable[[], None]]) -> None:
        """Run the functions to their ends; raises what one of them raised, or Deadlock."""
        self._batons = [threading.Semaphore(0) for _ in functions]
        threads = [threading.Thread(target=self._thread, args=(number, function), daemon=True)
                   for number, function in enumerate(functions)]
        for thread in threads:
            thread.start()
        self._batons[0].release()
        for thread in threads:
            thread.join(WAIT_SECONDS)
            assert not thread.is_alive(), "a thread waits for something that is not of this file"
        if self.error is not None:
            raise self.error

    def _thread(self, number: int, function: Callable[[], None]) -> None:
        self._batons[number].acquire()
        sys.settrace(self._trace)
        try:
            if self.error is None:
                function()
        except BaseException as error:                       # noqa: BLE001  passed on to the thread of the test
            self.error = self.error or error
        finally:
            sys.settrace(None)
            self._ended.add(number)
            others = self._runnable(self.error is not None)
            if others:
                self._running = others[0]
                self._batons[others[0]].release()
            elif len(self._ended) < len(self._batons):
                self.error = Deadlock("the other threads wait")
                self._running = next(iter(self._blocked))
                self._batons[self._running].release()

    def _runnable(self, all_of_them: bool = False) -> list[int]:
        return [number for number in range(len(self._batons)) if number not in self._ended
                and (all_of_them or number not in self._blocked or self._blocked[number]())]

    @property
    def others_ended(self) -> bool:
        """Whether the thread that runs is the last one."""
        return len(self._ended) == len(self._batons) - 1

    # --- the threads ------------------------------------------------------------------------------------------------

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """By a thread of this run: let others run until `holds()`."""
        me = self._running
        while not holds():
            self._blocked[me] = holds
            others = self._runnable()
            if not others:
                self.error = self.error or Deadlock("all threads wait")
            if self.error is not None:
                raise self.error
            self._give(others[0])
        self._blocked.pop(me, None)

    def _give(self, other: int) -> None:
        me, self._running = self._running, other
        self._batons[other].release()
        assert self._batons[me].acquire(timeout=WAIT_SECONDS), "it gets its turn again"
        if self.error is not None:
            raise self.error

    def _trace(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        if not frame.f_code.co_filename.endswith(self._files):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return self._trace_opcode

    def _trace_opcode(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
        if event == "opcode" and frame.f_lasti in shared_at(frame.f_code, self._shared):
            self._point()
        return self._trace_opcode

    def _point(self) -> None:
        me, point = self._running, len(self.points)
        others = [number for number in self._runnable() if number != me]
        self.points.append((me, tuple(others)))
        turn = self._turns.get(point, me)
        if turn != me:
            assert turn in others, "a schedule is made of the points of the run that it prolongs"
            self._give(turn)


@cache
def shared_at(code: CodeType, shared: frozenset[str]) -> frozenset[int]:
    """The places in some code where what threads share is read or written."""
    return frozenset(found.offset for found in dis.get_instructions(code) if found.opname in ALWAYS
                     or (found.opname.endswith(("_ATTR", "_METHOD")) and found.argval in shared))


class TurnLock:
    """A lock whose waiting threads let others run."""

    def __init__(self, run: Interleaving) -> None:
        self._run = run
        self._held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """As threading.Lock's; timeouts never end here."""
        if self._held and not blocking:
            return False
        self._run.wait_until(lambda: not self._held)
        self._held = True
        return True

    def release(self) -> None:
        """As threading.Lock's."""
        assert self._held, "only a held lock is released"
        self._held = False

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        self.release()


Trial = Callable[[Interleaving], tuple[Sequence[Callable[[], None]], Callable[[], None]]]
"""Makes, for one run, the functions of its threads, and what checks its outcome when all have ended."""


def explore(trial: Trial, files: Collection[str], shared: Collection[str], preemptions: int) -> int:
    """Run all schedules with up to `preemptions` preemptions; returns how many. Raises what the first bad one did."""
    todo: list[Schedule] = [()]
    number = 0
    while todo:
        schedule = todo.pop()
        number += 1
        run = Interleaving(files, shared, schedule)
        functions, check = trial(run)
        try:
            run.run(functions)
            check()
        except BaseException as error:
            error.add_note(f"with the schedule {schedule}")
            raise
        if len(schedule) < preemptions:
            first = schedule[-1][0] + 1 if schedule else 0
            todo += [(*schedule, (point, other)) for point, (_, others) in enumerate(run.points) if point >= first
                     for other in others]
    return number
