"""What waits for real, or reaches outside, is refused with file and line (Z2); a seed is one run everywhere (Z1)."""
from __future__ import annotations

import asyncio
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jgroups_py import aio
from jgroups_py.testing.simulation import Simulation, SimulationError, Trial
from jgroups_py.testing.simulation.refusals import RUNNING
from tests.simulator.accounts import add, open_account

pytest_plugins = ("pytester",)
OUTSIDE: list[Callable[[], Any]] = [
    lambda: time.sleep(1),
    lambda: threading.Thread(target=print).start(),
    lambda: threading.Event().wait(1),
    lambda: queue.Queue[int]().get(timeout=1),
    lambda: socket.socket(),
    lambda: subprocess.run(["true"]),
    lambda: os.system("true"),
    lambda: Path(__file__).read_text(),
    lambda: open(__file__),                                  # noqa: SIM115  it is refused
    lambda: asyncio.to_thread(print),
    lambda: asyncio.get_running_loop().run_in_executor(None, print),
    lambda: asyncio.open_connection("127.0.0.1", 1),
    lambda: asyncio.get_running_loop().getaddrinfo("localhost", 1),
    lambda: asyncio.create_subprocess_exec("true"),
    lambda: asyncio.get_running_loop().add_signal_handler(15, print),
]
NAMES = ["time.sleep", "Thread.start", "waiting in a thread", "waiting in a thread", "a socket",
         "a subprocess", "os.system", "a file", "a file", "loop.run_in_executor", "loop.run_in_executor",
         "loop.create_connection", "loop.getaddrinfo", "loop.subprocess_exec", "loop.add_signal_handler"]


@pytest.mark.parametrize(("call", "name"), [*zip(OUTSIDE, NAMES, strict=True)], ids=map(str, range(len(NAMES))))
def test_it_is_refused_with_file_and_line_even_if_it_is_caught(call: Callable[[], Any], name: str) -> None:
    async def app(ch: aio.AsyncChannel) -> None:
        await ch.connect("x")
        try:
            found = call()
            if asyncio.iscoroutine(found):
                await found
        except Exception:                                    # noqa: BLE001  as an application may do it
            pass
    with pytest.raises(SimulationError) as error:
        Trial("group", app).run(2)
    path, line, *_ = error.value.where.rpartition(":")[0], int(error.value.where.rpartition(":")[2])
    assert path == __file__
    assert line > 20
    assert f"{name}" in str(error.value)
    assert " is refused in a simulation: " in str(error.value)


def test_it_is_not_shrunk_and_what_it_does_outside_of_a_run_works_again() -> None:
    async def app(ch: aio.AsyncChannel) -> None:
        time.sleep(0.001)
    simulation = Simulation("group", 1, "pytest ...")
    with pytest.raises(SimulationError, match=r"test_refused_in_simulations.py:\d+: time.sleep is refused"):
        simulation.run(app)
    assert simulation.shrink_s == 30.0
    assert simulation.refusal is not None
    time.sleep(0)
    threading.Thread(target=int).start()
    assert Path(__file__).read_text()
    assert RUNNING.code is None


def test_other_threads_wait_as_ever_while_a_simulation_runs() -> None:
    slept: list[int] = []
    over = threading.Event()

    def sleeps() -> None:
        while not over.is_set():
            time.sleep(0.001)
            slept.append(1)
    thread = threading.Thread(target=sleeps)
    thread.start()
    try:
        assert Trial("group", open_account, add).run(2).violations == ()
    finally:
        over.set()
        thread.join()
    assert slept


def test_a_simulation_inside_an_event_loop_is_an_error() -> None:
    async def test() -> None:
        Trial("group", open_account, add).run(2)
    with pytest.raises(RuntimeError, match="a plain function"):
        asyncio.run(test())


def test_pytest_reports_it_once(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_sleepy="""
        import time
        import pytest

        async def app(ch):
            time.sleep(1)

        @pytest.mark.jgroups_sim(seeds=5)
        def test_sleepy(simulation):
            simulation.run(app)
    """)
    result = pytester.runpytest_inprocess("-p", "no:jgroups", "-p", "jgroups_py.testing.pytest_plugin", "-p",
                                          "no:cacheprovider", "-p", "no:timeout")
    result.assert_outcomes(failed=1, skipped=4)
    assert "test_sleepy.py:5: time.sleep is refused in a simulation: await asyncio.sleep" in result.stdout.str()


DIGESTS = """
import random, sys
noise = random.Random(sys.argv[1])                   # holes in the memory, so that objects get other addresses
junk = [bytes(noise.randrange(16, 500)) for _ in range(int(sys.argv[1]))]
junk = noise.sample(junk, len(junk) // 2)
import importlib
run = importlib.import_module(f"tests.simulator.{sys.argv[2]}").run
print(*[run(seed) for seed in (0, 1, 2, 5)])
"""


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("application", ["busy", "busy_threads"])
def test_a_seed_is_one_run_whatever_hashes_and_addresses_are(application: str) -> None:
    found = {subprocess.run([sys.executable, "-c", DIGESTS, junk, application], capture_output=True, text=True,
                            check=True, env={**os.environ, "PYTHONHASHSEED": hashes}).stdout
             for hashes, junk in (("0", "0"), ("1", "37"), ("2", "1000"), ("3", "30000"))}
    assert len(found) == 1
    assert len(set(found.pop().split())) == 4
