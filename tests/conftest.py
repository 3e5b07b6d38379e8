"""What holds for all tests."""
from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest
from xdist.scheduler import LoadScopeScheduling

REAL = ("real", "chaos", "netns", "spark", "gmqtt", "ops", "browser", "release", "site")
HERE = Path(__file__).parent
PLACES_OF_REAL = ("tests/integration", "tests/runtime", "tests/security", "tests/chaos", "tests/documents",
                  "tests/test_examples.py", "tests/test_limits_of_tests.py")
"""Where tests marked `real` are: .ci/checks collects only these for its run of them, which saves each worker 15 s."""
PAGES = HERE / "documents"
"""Its tests have networks of their own."""
SPARK = HERE / "integration" / "test_pipeline.py"
"""Its tests wait for Spark, not for members, so they run with the pages."""
SEVERAL_MEMBERS = (HERE / "integration", HERE / "chaos")
"""Groups of processes under faults."""
GARBAGE = 20_000
"""New objects between two collections; Python's 700 cost a tenth of the time of a test that computes."""
CPU_SECONDS = 300
"""What a test that only computes may take of the processor, however long it waits for that on a busy machine."""
CEILING_SECONDS = 900
"""After so long (by the clock on the wall) a test with real processes hangs; each of its waits is for an event."""

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
"""A test that has used gRPC leaves its handlers of fork behind; they abort the next process that a test forks while a
thread of gRPC is busy."""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:        # a script's `&` does that; a process of a test
    signal.signal(signal.SIGINT, signal.default_int_handler)  # would inherit it and ignore the signal

os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
"""Jobs of tests are over before code that was compiled with more care, or a collector on all processors, pays off."""


class OneAtATime(LoadScopeScheduling):  # type: ignore[misc]
    """Real tests, in four workers. What belongs together stays in one of them, in which tests run one at a time: the
    pages; those of one process, or of a broker and its clients; and each file of those with groups of processes.

    They wait most of their time. With four tests at most under way none of them waits long for the processors.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::")[0]
        path = self.config.rootpath / file
        if PAGES in path.parents or path == SPARK:
            return "pages"
        return file if any(folder in path.parents for folder in SEVERAL_MEMBERS) else "one member"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling | None:
    """`--dist loadgroup` means OneAtATime."""
    return OneAtATime(config, log) if config.getvalue("dist") == "loadgroup" else None


def is_real(item: pytest.Item) -> bool:
    """Whether a test waits for sockets or processes."""
    return any(item.get_closest_marker(name) is not None for name in REAL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = tuple(HERE.parent / place for place in PLACES_OF_REAL)
    for item in items:
        if item.get_closest_marker("real") and not any(item.path.is_relative_to(place) for place in places):
            raise pytest.UsageError(
                f"{item.nodeid} is marked real, and ./test looks for such tests only in {', '.join(PLACES_OF_REAL)} "
                f"(PLACES_OF_REAL in tests/conftest.py, and .ci/checks)")
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(CEILING_SECONDS if is_real(item) else 0))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep what was imported and collected out of garbage collections: tests make few cycles, and this is much."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE, *gc.get_threshold()[1:])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    if is_real(item):
        return (yield)
    with cpu_limit(CPU_SECONDS):
        return (yield)


@contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """Fail what takes more of the processor, in all threads of this process; waiting costs nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield                                                # signals are the main thread's
        return

    def over(number: int, frame: FrameType | None) -> None:
        pytest.fail(f"took more than {seconds:g} s of the processor")

    before = signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
