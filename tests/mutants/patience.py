"""Limits of CPU time inside a process, so that a hang is noticed after seconds; as a plugin of pytest
(`-p tests.mutants.patience`) for each test.
"""
from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

TEST_S = 10.0
"""CPU seconds of a test; without a mutant none takes one."""


class Overrun(BaseException):
    """Something goes on and on. No Exception: the runner of the simulator takes those for findings of the core."""


@contextmanager
def at_most(cpu_s: float) -> Iterator[None]:
    """Raises Overrun if the block takes more CPU time."""
    def over(number: int, frame: object) -> None:
        raise Overrun
    before = signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Around the call of one test."""
    with at_most(TEST_S):
        return (yield)
