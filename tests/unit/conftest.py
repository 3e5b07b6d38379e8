"""Unit tests are pure: one that opens a socket, or starts a process or a thread, fails with the place where it does.

tests/test_tidy.py has the rule by imports. This finds what an import does not show: a class that opens something deep
inside. Tests with one member's sockets, threads and disks stand in tests/runtime, those with several members or
processes in tests/integration.
"""
from __future__ import annotations

import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
OPENING = ("socket.__new__", "subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "os.exec")
"""Audit events of the interpreter; it has none for threads."""
_start = threading.Thread.start
_refusing = False
_listening = False


def _heard(event: str, arguments: tuple[object, ...]) -> None:
    if _refusing and event in OPENING and threading.current_thread() is threading.main_thread():
        pytest.fail(f"a unit test is pure, and this one does {event}: tests/runtime and tests/integration may")


def _no_start(thread: threading.Thread) -> None:
    if threading.current_thread() is threading.main_thread():
        pytest.fail(f"a unit test is pure, and this one starts the thread {thread.name}: tests/runtime may")
    _start(thread)


@contextmanager
def pure() -> Iterator[None]:
    """What this process may not do for a while."""
    global _listening, _refusing
    if not _listening:                                       # not before: what listens cannot be taken away again
        _listening = True
        sys.addaudithook(_heard)
    _refusing, threading.Thread.start = True, _no_start      # type: ignore[method-assign]
    try:
        yield
    finally:
        _refusing, threading.Thread.start = False, _start    # type: ignore[method-assign]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fixtures included. pytest calls this for all items of a session, those of other folders too."""
    with pure() if HERE in item.path.parents else nullcontext():
        return (yield)
