"""The loop thread."""
from __future__ import annotations

import threading
from collections.abc import Iterator
from time import monotonic

import pytest

from jgroups_py.runtime.loop import Loop
from jgroups_py.units import millis
from tests.unit.runtime.helpers import Guest, OnLoop, eventually

pytestmark = pytest.mark.real


@pytest.fixture
def on() -> Iterator[OnLoop]:
    made = OnLoop()
    yield made
    made.close()


def test_all_users_of_a_process_share_one_thread(on):
    other = Loop.acquire()
    assert other is on.loop
    other.release()
    assert on.run(threading.get_ident) == on.run(threading.get_ident)


def test_the_thread_ends_with_its_last_user_and_a_new_one_starts_afresh():
    first = OnLoop()
    thread_id = first.run(threading.get_ident)
    first.close()
    assert thread_id not in [thread.ident for thread in threading.enumerate()]
    second = OnLoop()
    assert second.loop is not first.loop
    second.close()


def test_calls_run_in_order(on):
    ran: list[int] = []
    for number in range(100):
        on.loop.call(lambda number=number: ran.append(number))
    on.run(lambda: None)
    assert ran == list(range(100))


def test_a_call_wakes_a_sleeping_loop_at_once(on):
    on.run(lambda: None)
    start = monotonic()
    for _ in range(100):
        on.run(lambda: None)
    assert monotonic() - start < 1


def test_timers_fire_in_the_order_of_their_deadlines_unless_cancelled(on):
    fired: list[str] = []

    def arm() -> None:
        on.loop.later(millis(20), lambda: fired.append("late"))
        on.loop.later(millis(10), lambda: fired.append("cancelled")).cancel()
        on.loop.later(millis(5), lambda: fired.append("early"))

    on.run(arm)
    eventually(lambda: len(fired) == 2)
    assert fired == ["early", "late"]


def test_what_a_guest_raises_ends_that_guest_alone(on):
    bad, good = Guest(), Guest()
    stepped: list[int] = []

    def bad_step(now_ns: int) -> int | None:
        raise AssertionError("a bug")

    bad.step = bad_step                                      # type: ignore[method-assign]
    good.step = lambda now_ns: stepped.append(now_ns)        # type: ignore[method-assign,return-value]
    bad.fail = lambda error: (bad.errors.append(error), on.loop.remove(bad))     # type: ignore[method-assign,return-value]
    on.run(lambda: (on.loop.add(bad), on.loop.add(good)))
    on.run(lambda: None)
    eventually(lambda: bad.errors)
    before = len(stepped)
    on.run(lambda: None)
    eventually(lambda: len(stepped) > before)
    on.run(lambda: on.loop.remove(good))


def test_a_task_that_raises_tells_its_guest(on):
    guest = Guest()
    on.loop.call(lambda: 1 // 0, guest)
    on.run(lambda: None)
    assert isinstance(guest.errors[0], ZeroDivisionError)
