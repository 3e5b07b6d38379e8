"""The states of a channel's I/O, and the policy for moving rounds between threads; no threads here."""
from __future__ import annotations

import sys
from types import FrameType

import pytest

from jgroups_py.channel.io_state import (
    IDLE_CHECKS,
    IN_CALLBACK,
    LEASE_NS,
    LEASES,
    SLICE_NS,
    TASK_TRANSITIONS,
    THREAD_TRANSITIONS,
    HandoverPolicy,
    IoOwnership,
    IoState,
    Transitions,
    WatchdogStep,
)
from jgroups_py.channel.io_thread import AFTER_CALLBACKS, IoThread

ONE, OTHER = 1, 2                           # threads


def test_a_transition_that_is_not_in_the_diagram_names_both_states() -> None:
    io = IoOwnership(THREAD_TRANSITIONS)
    with pytest.raises(AssertionError, match="from OWNED to WATCHDOG while it was OWNED"):
        io.transition(IoState.OWNED, IoState.WATCHDOG)


def test_a_transition_from_a_state_that_is_not_the_present_one_names_all_three() -> None:
    io = IoOwnership(THREAD_TRANSITIONS)
    io.transition(IoState.OWNED, IoState.LEASED)
    with pytest.raises(AssertionError, match="from OWNED to CALLBACK_RUNNING while it was LEASED"):
        io.transition(IoState.OWNED, IoState.CALLBACK_RUNNING)
    assert io.state is IoState.LEASED


@pytest.mark.parametrize("transitions", [THREAD_TRANSITIONS, TASK_TRANSITIONS])
def test_every_state_is_reached_from_owned_and_leads_back_or_stops(transitions: Transitions) -> None:
    def reached(start: IoState) -> dict[IoState, None]:
        found, todo = {start: None}, [start]
        while todo:
            for state in transitions[todo.pop()]:
                if state not in found:
                    found[state] = None
                    todo.append(state)
        return found

    assert reached(IoState.OWNED).keys() == transitions.keys()
    for state in transitions:
        assert IoState.OWNED in reached(state) or state is IoState.STOPPING


def test_callbacks_begin_and_end_in_every_state_in_which_they_may() -> None:
    """They begin where the owner is in charge; in CALLBACK_WAITING the callback itself runs a round, so cannot end."""
    for state in (IoState.OWNED, IoState.LEASED, IoState.RECALLED):
        assert IoState.CALLBACK_RUNNING in THREAD_TRANSITIONS[state]
        assert state not in IN_CALLBACK
    assert {*AFTER_CALLBACKS, IoState.CALLBACK_WAITING} == set(IN_CALLBACK)
    for state, after in AFTER_CALLBACKS.items():
        assert after in THREAD_TRANSITIONS[state]
        assert after not in IN_CALLBACK
    assert IoState.STOPPING in THREAD_TRANSITIONS[IoState.OWNED]


def test_only_leases_lead_to_a_recall_besides_the_watchdog_and_an_owner_that_waits_its_turn() -> None:
    recalled = [state for state, after in THREAD_TRANSITIONS.items() if IoState.RECALLED in after]
    assert recalled == [IoState.OWNED, IoState.WATCHDOG, IoState.LEASED]
    assert [state for state in LEASES if state in IN_CALLBACK] == [IoState.LEASED_CALLBACK]


# --- leases ---------------------------------------------------------------------------------------------------------

def test_the_first_wait_of_a_thread_is_no_chain_and_the_next_one_soon_is() -> None:
    policy = HandoverPolicy()
    assert not policy.is_chain(ONE, 0)
    assert policy.is_chain(ONE, LEASE_NS)
    assert policy.is_chain(ONE, 2 * LEASE_NS)


def test_a_wait_that_begins_too_late_begins_a_new_chain() -> None:
    policy = HandoverPolicy()
    policy.is_chain(ONE, 0)
    assert not policy.is_chain(ONE, LEASE_NS + 1)
    assert policy.is_chain(ONE, LEASE_NS + 2)


def test_two_threads_that_wait_in_turn_have_no_chain() -> None:
    policy = HandoverPolicy()
    assert not any(policy.is_chain(thread, now_ns) for now_ns, thread in enumerate([ONE, OTHER] * 5))
    assert policy.is_chain(OTHER, 10)


def test_a_lease_lapses_without_another_wait_unless_there_is_something_to_deliver_first() -> None:
    assert HandoverPolicy.lapsed(3, 3, waiting=False)
    assert not HandoverPolicy.lapsed(3, 4, waiting=False)
    assert not HandoverPolicy.lapsed(3, 3, waiting=True)


# --- the watchdog ---------------------------------------------------------------------------------------------------

def test_the_watchdog_takes_over_from_a_callback_that_it_finds_running_twice() -> None:
    policy = HandoverPolicy()
    policy.woken(7)
    assert policy.check(8, running=True) is WatchdogStep.CHECK_AGAIN      # another one than when it was woken
    assert policy.check(8, running=True) is WatchdogStep.TAKE_OVER
    assert policy.check(8, running=True) is WatchdogStep.TAKE_OVER


def test_being_woken_counts_as_a_check() -> None:
    policy = HandoverPolicy()
    policy.woken(8)
    assert policy.check(8, running=True) is WatchdogStep.TAKE_OVER


def test_short_callbacks_never_make_it_take_over() -> None:
    policy = HandoverPolicy()
    assert {policy.check(slices, running=True) for slices in range(1000)} == {WatchdogStep.CHECK_AGAIN}


def test_the_watchdog_sleeps_after_a_while_without_callbacks_and_never_during_one() -> None:
    policy = HandoverPolicy()
    policy.woken(1)
    looks = [policy.check(1, running=False) for _ in range(IDLE_CHECKS)]
    assert looks == [WatchdogStep.CHECK_AGAIN] * (IDLE_CHECKS - 1) + [WatchdogStep.SLEEP]
    policy.woken(2)
    assert WatchdogStep.SLEEP not in [policy.check(2, running=True) for _ in range(2 * IDLE_CHECKS)]
    assert policy.check(3, running=False) is WatchdogStep.CHECK_AGAIN


def test_a_slice_of_callbacks_is_over_after_its_time() -> None:
    assert not HandoverPolicy.slice_is_over(100, 100 + SLICE_NS - 1)
    assert HandoverPolicy.slice_is_over(100, 100 + SLICE_NS)


# --- what a round costs ---------------------------------------------------------------------------------------------

class OneRound:
    """What an I/O thread needs of a host and a dispatcher for one round in which one output arrives."""

    class Loop:
        ended = False

        def wake(self) -> None:
            """No thread sleeps in it."""

    class Inbox:
        pass

    def __init__(self) -> None:
        self.loop, self.inbox = self.Loop(), self.Inbox()
        self.waiting = ["an output"]
        self.stopping = False

    def any_waiting(self) -> bool:
        return bool(self.waiting)

    def next(self, timeout: float) -> str | None:
        return self.waiting.pop() if self.waiting else None

    def handle(self, output: str) -> None:
        assert output == "an output"


def test_taking_rounds_and_calling_back_costs_five_calls_of_python_and_none_for_a_hash() -> None:
    """The hash of an Enum is a function of Python, and the tables of transitions are asked in every round."""
    one = OneRound()
    io = IoThread("A", one, one)                             # type: ignore[arg-type]
    io._asleep = False                                       # the watchdog looks already, as it does under load
    called: list[str] = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and not frame.f_code.co_qualname.startswith("OneRound"):
            called.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        taken, delivered = io._take_rounds(), io._deliver()
    finally:
        sys.setprofile(None)
    assert (taken, delivered, io.state) == (True, True, IoState.OWNED)
    assert called == ["_take_rounds", "_deliver", "transition", "slice_is_over", "transition"]
