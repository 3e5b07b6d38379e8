"""The loop thread."""
from __future__ import annotations

import threading
from collections.abc import Iterator
from time import monotonic

import pytest

from jgroups_py.model.units import millis
from tests.runtime.helpers import OnLoop, eventually

pytestmark = pytest.mark.real


@pytest.fixture
def on() -> Iterator[OnLoop]:
    made = OnLoop()
    yield made
    made.close()


def test_calls_run_in_order(on):
    ran: list[int] = []
    for number in range(100):
        on.loop.call(lambda number=number: ran.append(number))
    on.run(lambda: None)
    assert ran == list(range(100))


def test_a_call_wakes_a_sleeping_loop_at_once(on):
    """On a busy machine: in a few times what plain threads take to wake each other in this run."""
    on.run(lambda: None)
    start = monotonic()
    for _ in range(100):
        on.run(lambda: None)
    took_s = monotonic() - start
    assert took_s < 1 + 5 * handing_over(100)


def handing_over(times: int) -> float:
    """Seconds that two threads take to wake each other so many times."""
    there, back = threading.Semaphore(0), threading.Semaphore(0)

    def answer() -> None:
        for _ in range(times):
            there.acquire()
            back.release()

    thread = threading.Thread(target=answer)
    thread.start()
    start = monotonic()
    for _ in range(times):
        there.release()
        back.acquire()
    thread.join()
    return monotonic() - start


def test_timers_fire_in_the_order_of_their_deadlines_unless_cancelled(on):
    fired: list[str] = []

    def arm() -> None:
        on.loop.later(millis(20), lambda: fired.append("late"))
        on.loop.later(millis(10), lambda: fired.append("cancelled")).cancel()
        on.loop.later(millis(5), lambda: fired.append("early"))

    on.run(arm)
    eventually(lambda: len(fired) == 2)
    assert fired == ["early", "late"]


def test_what_a_host_raises_is_passed_to_it(on):
    def bad_step(now_ns: int) -> int | None:
        raise AssertionError("a bug")

    on.host.step = bad_step                                 # type: ignore[method-assign]
    on.run(lambda: None)
    eventually(lambda: on.host.errors)
    assert isinstance(on.host.errors[0], AssertionError)


def test_an_exception_of_a_task_reaches_the_host(on):
    on.loop.call(lambda: 1 // 0)
    on.run(lambda: None)
    assert isinstance(on.host.errors[0], ZeroDivisionError)
