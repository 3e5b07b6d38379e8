"""What simulated code may not do: wait for real, or reach outside of the simulation. It is refused with file and line.

While the code of an application runs, the functions below raise SimulationError instead of waiting. The same code may
call the clock and random functions of the standard library: it gets the time of its process, and numbers of the seed.
Everything is replaced for one run and in its threads only, and put back afterwards, in modules of the application too
that imported a function by its name. What C code does by itself (a Lock made before the run) is not seen here; threads
that it blocks are found by baton.py.
"""
from __future__ import annotations

import builtins
import contextlib
import io
import logging
import os
import random
import select
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from random import Random
from types import FrameType, ModuleType
from typing import Any, NoReturn, Protocol

from jgroups_py.model.units import NS_PER_S

try:
    import fcntl
except ImportError:                                          # Windows
    fcntl = None                                             # type: ignore[assignment]

log = logging.getLogger("jgroups_py")

LIBRARY = tuple([os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib")])
HERE = os.path.realpath(__file__)
PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))) + os.sep
SIMULATION = os.path.dirname(HERE) + os.sep
SITE = os.sep + "site-packages" + os.sep
INHERITED = object()                        # an attribute that a class has of its base
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
    """The process whose code runs, or a check of the run. uses_threads: locks are those of simulated threads."""

    uses_threads: bool

    @property
    def scheduler(self) -> Any:
        """Its ThreadScheduler, if it has threads; None otherwise."""

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
    return place_of(sys._getframe(1))


def place_of(innermost: FrameType | None) -> str:
    """The same for the frames of any thread."""
    frame = found = innermost
    while frame is not None:
        path = os.path.realpath(frame.f_code.co_filename)
        if not is_library(path) and not path.startswith(PACKAGE):
            found = frame
            break
        frame = frame.f_back
    return "?" if found is None else f"{found.f_code.co_filename}:{found.f_lineno}"


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
def simulated(seed: str, threads: Sequence[Replacement] | None = None) -> Iterator[None]:
    """Inside, what processes run gets virtual time and seeded chance, and what would wait for real is refused.

    threads: what is replaced for simulated threads; None: waiting in a thread is refused.
    """
    entropy = Random(f"{seed}/entropy")
    state, thread = random.getstate(), RUNNING.thread
    random.seed(f"{seed}/random")
    RUNNING.thread = threading.get_ident()
    log.addFilter(_is_real)
    undo: list[tuple[Any, str, Any]] = []
    try:
        by_real: dict[int, tuple[Any, Any]] = {}             # id of the real one -> it, and ours
        for owner, name, made in (*_replacements(entropy), *(_waits() if threads is None else threads)):
            real = getattr(owner, name)
            undo.append((owner, name, real if name in vars(owner) else INHERITED))
            setattr(owner, name, made(real))
            if isinstance(owner, ModuleType):
                by_real[id(real)] = real, getattr(owner, name)
        for module, name, real in imported_by_name(by_real):
            undo.append((module, name, real))
            setattr(module, name, by_real[id(real)][1])
        yield
    finally:
        for owner, name, real in reversed(undo):
            if real is INHERITED:
                delattr(owner, name)
            else:
                setattr(owner, name, real)
        log.removeFilter(_is_real)
        RUNNING.thread = thread
        random.setstate(state)


def imported_by_name(by_real: dict[int, tuple[Any, Any]]) -> list[tuple[ModuleType, str, Any]]:
    """Where modules of the application and of this package have one of these functions under a name of their own."""
    found = []
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if not isinstance(path, str) or not _is_patched(path):
            continue
        for name, value in list(vars(module).items()):
            if id(value) in by_real:
                found.append((module, name, value))
    return found


_patched: dict[str, bool] = {}


def _is_patched(path: str) -> bool:
    found = _patched.get(path)
    if found is None:
        real = os.path.realpath(path)
        ours = real.startswith(PACKAGE)
        found = _patched[path] = not is_library(real) and not real.startswith(SIMULATION) and (ours or SITE not in real)
    return found


def _is_real(record: logging.LogRecord) -> bool:
    """Whether a record of this package is not that of a simulated channel: a run has a history and a picture."""
    return current() is None


Replacement = tuple[Any, str, Callable[[Callable[..., Any]], Callable[..., Any]]]


def _refused(what: str, instead: str, allowed: Callable[..., bool] = lambda *_: False) -> Callable[
        [Callable[..., Any]], Callable[..., Any]]:
    def made(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if current() is None or allowed(*arguments):
                return real(*arguments, **options)
            return refuse(what, instead)
        return call
    return made


def _waits() -> list[Replacement]:
    """Waiting in a thread, where the application consists of coroutines."""
    wait = "await an asyncio primitive; virtual time does not pass while a thread waits"
    return [
        (time, "sleep", _refused("time.sleep", "await asyncio.sleep, which takes virtual time")),
        (threading.Thread, "start", _refused("Thread.start", "start a task; the process of coroutines has one thread")),
        (threading.Condition, "wait", _refused("waiting in a thread (Event, Condition, Queue, Future.result)", wait)),
    ]


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

    def may_open(*_: Any) -> bool:
        name = sys._getframe(2).f_globals.get("__name__", "")
        return name.partition(".")[0].lstrip("_") in MAY_READ or innermost_frame_is_ours()

    files = "keep what is tested apart from files, and give the simulation another store"
    no_process = "simulated processes start none"
    real_wait = "nothing outside of the simulation happens while it runs"
    clocks: list[tuple[str, Callable[[SimulatedCode], float]]] = [
        ("monotonic", lambda code: code.clock_ns / NS_PER_S), ("monotonic_ns", lambda code: code.clock_ns),
        ("perf_counter", lambda code: code.clock_ns / NS_PER_S), ("perf_counter_ns", lambda code: code.clock_ns),
        ("time", lambda code: code.wall_ns / NS_PER_S), ("time_ns", lambda code: code.wall_ns)]
    found: list[Replacement] = [
        *((time, name, virtual(read)) for name, read in clocks),
        (os, "urandom", drawn), (random, "_urandom", drawn),
        (socket.socket, "__init__", _refused(
            "a socket", "hide it behind a function of yours, and give the simulation another one")),
        (subprocess.Popen, "__init__", _refused("a subprocess", no_process)),
        (builtins, "open", _refused("a file", files, may_open)), (io, "open", _refused("a file", files, may_open)),
        (select, "select", _refused("select.select", real_wait)),
    ]
    for owner, name, instead in (
            (os, "system", no_process), (os, "fork", no_process), (os, "lockf", files), (signal, "pause", real_wait),
            (signal, "sigwait", real_wait), (select, "poll", real_wait), (select, "epoll", real_wait)):
        if hasattr(owner, name):
            found.append((owner, name, _refused(f"{owner.__name__}.{name}", instead)))
    if fcntl is not None:
        found += [(fcntl, name, _refused(f"fcntl.{name}", files)) for name in ("flock", "lockf")]
    return found
