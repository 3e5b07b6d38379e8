"""IoTask: what the event loop does while the watchdog runs a round. The loop of the channel is a stand-in."""
from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from time import monotonic
from typing import Any

import uvloop

from jgroups_py.channel.io_state import IoState
from jgroups_py.channel.io_task import IoTask

EVENT_LOOPS: tuple[Callable[[], asyncio.AbstractEventLoop], ...] = (asyncio.new_event_loop, uvloop.new_event_loop)


class StandIn:
    """A loop with one descriptor; a round reads it. rounds, wakes: how many there were."""

    ended = False
    wake_reader: Callable[[], None]

    def __init__(self) -> None:
        self.reads, self.writes = os.pipe()
        self.rounds = self.wakes = 0

    def fileno(self) -> int:
        return self.reads

    def round(self, due: Callable[[], bool]) -> None:
        self.rounds += 1
        if self.rounds > 1:                              # the first one is that of `start`
            os.read(self.reads, 1)

    def idle_seconds(self, due: Callable[[], bool]) -> float:
        return 60.0

    def wake_poller(self) -> None:
        self.wakes += 1

    def overdue(self) -> bool:
        return False


def test_the_event_loop_does_not_spin_while_the_watchdog_runs_a_round():
    async def turns(number: int) -> None:
        for _ in range(number):
            await asyncio.sleep(0)

    async def test() -> None:
        loop: Any = StandIn()
        task = IoTask("A", loop, lambda: None)
        task.start()
        await turns(3)
        assert loop.rounds == 1

        io = task._io
        with io.mutex:                                   # as the watchdog does
            assert io.rounds.acquire(False)
            io.transition(IoState.OWNED, IoState.WATCHDOG)
        os.write(loop.writes, b"1")
        await turns(1_000)
        assert (loop.rounds, io.state) == (1, IoState.RECALLED)
        assert loop.wakes <= 2, "what is readable calls the event loop without end"

        with io.mutex:
            io.transition(IoState.RECALLED, IoState.OWNED)
            io.rounds.release()
        asyncio.get_running_loop().call_soon(task._round)
        await turns(3)
        assert loop.rounds == 2
        os.write(loop.writes, b"2")                      # and it is watched again
        while loop.rounds < 3:
            await asyncio.sleep(0.001)
        loop.ended = True
        task._round()

    for make in EVENT_LOOPS:
        with asyncio.Runner(loop_factory=make) as runner:
            runner.run(asyncio.wait_for(test(), 20))


class Deadlines(StandIn):
    """Has the next deadline a few milliseconds behind the one that was met, `left` times."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left
        self.due = monotonic()

    def round(self, due: Callable[[], bool]) -> None:
        self.rounds += 1
        if self.left and monotonic() >= self.due:
            self.left -= 1
            self.due = monotonic() + 0.001 + self.left % 17 * 0.00013

    def idle_seconds(self, due: Callable[[], bool]) -> float:
        return max(0.0, self.due - monotonic()) if self.left else 60.0


def test_each_deadline_is_met_and_takes_few_rounds():
    """uvloop counts whole milliseconds, so its timers fire up to 1.5 ms early: what was set for such a deadline is no
    timer any more, and the rest of a millisecond is not spent on one round after the other."""
    async def test() -> None:
        loop: Any = Deadlines(200)
        task = IoTask("A", loop, lambda: None)
        task.start()
        while loop.left:                                 # nothing else calls for a round, the watchdog neither
            await asyncio.sleep(0.05)
        assert loop.rounds <= 3 * 200 + 1, f"{loop.rounds} rounds for 200 deadlines"
        loop.ended = True
        task._round()

    for make in EVENT_LOOPS:
        with asyncio.Runner(loop_factory=make) as runner:
            runner.run(asyncio.wait_for(test(), 20))
