"""What simulated code may not do: wait for real, or reach outside of the simulation. It is refused with file and line.

While the code of an application runs, the functions below raise SimulationError instead of waiting. The same code may
call the clock and random functions of the standard library: it gets the time of its process, and numbers of the seed.
Everything is replaced for one run and in its thread only, and put back afterwards. What C code does by itself (a Lock
that is held, `from time import monotonic` in a module of the application) is not seen.
"""
from __future__ import annotations

import builtins
import contextlib
import io
import logging
import os
import random
import socket
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NoReturn, Protocol

from jgroups_py.model.units import NS_PER_S

log = logging.getLogger("jgroups_py")

LIBRARY = tuple([os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib")])
HERE = os.path.realpath(__file__)
PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))) + os.sep
SITE = os.sep + "site-packages" + os.sep
MAY_READ = ("linecache", "tokenize", "traceback", "inspect", "importlib", "pkgutil", "zipimport", "logging", "zoneinfo")
"""Modules of the standard library that read files for a traceback, an import, a log: that harms no run."""


class SimulationError(Exception):
    """An application does what the simulation cannot simulate. It is the same in every seed, so it is reported once.

    where: "file:line" of the application.
    """

    def __init__(self, text: str, where: str) -> None:
        self.where = where
        super().__init__(f"{where}: {text}")


class SimulatedCode(Protocol):
    """The process whose code runs."""

    @property
    def clock_ns(self) -> int:
        """Its monotonic time."""

    @property
    def wall_ns(self) -> int:
        """Its wall clock, ns since 1970."""

    def refused(self, error: SimulationError) -> None:
        """Its code did what is refused; the error is raised there too, but may be caught."""


class _Running:
    """Whose code runs in the thread of the simulation; None: the simulator's own."""

    code: SimulatedCode | None = None
    thread = 0


RUNNING = _Running()


def current() -> SimulatedCode | None:
    """The process whose code runs now, if this is the thread of the simulation."""
    code = RUNNING.code
    return code if code is not None and threading.get_ident() == RUNNING.thread else None


def refuse(what: str, instead: str) -> NoReturn:
    """Refuse what the application does.

    Raises:
        SimulationError: always, with the place in the application's code.
    """
    error = SimulationError(f"{what} is refused in a simulation: {instead}", calling_line())
    code = current()
    if code is not None:
        code.refused(error)
    raise error


def calling_line() -> str:
    """ "file:line" of the innermost frame that is neither of Python's library nor of this package."""
    frame = sys._getframe(1)
    found = frame
    while frame is not None:
        path = os.path.realpath(frame.f_code.co_filename)
        if not is_library(path) and not path.startswith(PACKAGE):
            found = frame
            break
        frame = frame.f_back                                 # type: ignore[assignment]
    return f"{found.f_code.co_filename}:{found.f_lineno}"


def innermost_frame_is_ours() -> bool:
    """Whether the innermost frame outside of Python's library is this package's, which reads stack files."""
    frame = sys._getframe(1)
    while frame is not None:
        path = os.path.realpath(frame.f_code.co_filename)
        if not is_library(path) and path != HERE:
            return path.startswith(PACKAGE)
        frame = frame.f_back                                 # type: ignore[assignment]
    return False


def is_library(path: str) -> bool:
    """Whether a file is of Python's own library."""
    return (path.startswith(LIBRARY) and SITE not in path) or path.startswith("<")


@contextlib.contextmanager
def code_of(process: SimulatedCode) -> Iterator[None]:
    """Inside, the code of this process runs."""
    before, RUNNING.code = RUNNING.code, process
    try:
        yield
    finally:
        RUNNING.code = before


@contextlib.contextmanager
def simulated(seed: str) -> Iterator[None]:
    """Inside, what processes run gets virtual time and seeded chance, and what would wait for real is refused."""
    entropy = Random(f"{seed}/entropy")
    state, thread = random.getstate(), RUNNING.thread
    random.seed(f"{seed}/random")
    RUNNING.thread = threading.get_ident()
    log.addFilter(_is_real)
    undo: list[tuple[Any, str, Any]] = []
    try:
        for owner, name, made in _replacements(entropy):
            real = getattr(owner, name)
            undo.append((owner, name, real))
            setattr(owner, name, made(real))
        yield
    finally:
        for owner, name, real in reversed(undo):
            setattr(owner, name, real)
        log.removeFilter(_is_real)
        RUNNING.thread = thread
        random.setstate(state)


def _is_real(record: logging.LogRecord) -> bool:
    """Whether a record of this package is not that of a simulated channel: a run has a history and a picture."""
    return current() is None


Replacement = tuple[Any, str, Callable[[Callable[..., Any]], Callable[..., Any]]]


def _replacements(entropy: Random) -> list[Replacement]:
    def virtual(read: Callable[[SimulatedCode], float]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def made(real: Callable[..., Any]) -> Callable[..., Any]:
            def clock() -> Any:
                code = current()
                return real() if code is None else read(code)
            return clock
        return made

    def drawn(real: Callable[..., Any]) -> Callable[..., Any]:
        def urandom(size: int) -> bytes:
            return real(size) if current() is None else entropy.randbytes(size)
        return urandom

    def refused(what: str, instead: str, allowed: Callable[..., bool] = lambda *_: False) -> Callable[
            [Callable[..., Any]], Callable[..., Any]]:
        def made(real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **options: Any) -> Any:
                if current() is None or allowed(*arguments):
                    return real(*arguments, **options)
                return refuse(what, instead)
            return call
        return made

    def may_open(*_: Any) -> bool:
        name = sys._getframe(2).f_globals.get("__name__", "")
        return name.partition(".")[0].lstrip("_") in MAY_READ or innermost_frame_is_ours()

    wait = "await an asyncio primitive; virtual time does not pass while a thread waits"
    files = "keep what is tested apart from files, and give the simulation another store"
    clocks: list[tuple[str, Callable[[SimulatedCode], float]]] = [
        ("monotonic", lambda code: code.clock_ns / NS_PER_S), ("monotonic_ns", lambda code: code.clock_ns),
        ("perf_counter", lambda code: code.clock_ns / NS_PER_S), ("perf_counter_ns", lambda code: code.clock_ns),
        ("time", lambda code: code.wall_ns / NS_PER_S), ("time_ns", lambda code: code.wall_ns)]
    return [
        *((time, name, virtual(read)) for name, read in clocks),
        (os, "urandom", drawn), (random, "_urandom", drawn),
        (time, "sleep", refused("time.sleep", "await asyncio.sleep, which takes virtual time")),
        (threading.Thread, "start", refused("Thread.start", "start a task; a simulated process has one thread")),
        (threading.Condition, "wait", refused("waiting in a thread (Event, Condition, Queue, Future.result)", wait)),
        (socket.socket, "__init__", refused(
            "a socket", "hide it behind a function of yours, and give the simulation another one")),
        (subprocess.Popen, "__init__", refused("a subprocess", "simulated processes start none")),
        (os, "system", refused("os.system", "simulated processes start none")),
        (builtins, "open", refused("a file", files, may_open)), (io, "open", refused("a file", files, may_open)),
        *(((os, "fork", refused("os.fork", "simulated processes start none")),) if hasattr(os, "fork") else ()),
    ]
