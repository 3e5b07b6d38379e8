"""The parts of tests/chaos that can be tried alone: the forwarder, the trends of the soak, getting toxiproxy."""
from __future__ import annotations

import functools
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import pytest
import requests

from jgroups_py.cli.process_group import ProcessGroup
from tests import programs
from tests.chaos import toxiproxy
from tests.chaos.forwarder import HEADER_BYTES, Direction, Weather
from tests.chaos.sites import ROOT, WORKER, Crew, MemberProcess
from tests.chaos.soak import trend

FRAME = bytes(range(200))
FRAMES = 4000


class Elsewhere:
    """A place whose members run in it."""

    def properties(self, name: str, site: str) -> dict[str, str]:
        return {}

    def prefix(self, name: str) -> list[str]:
        return ["in", name]

    def heal(self) -> None:
        """Nothing is broken."""


def test_members_run_in_their_place_and_import_the_tests():
    started = Crew(Elsewhere()).command_line({"tag": "A#2"})
    assert started[:4] == ["in", "A", "env", f"PYTHONPATH={ROOT}"]
    assert started[4:7] == [sys.executable, "-m", WORKER]
    assert ProcessGroup(WORKER, MemberProcess).command_line({"tag": "A#2"}) == started[4:]


def through(weather: Weather, seed: str = "x") -> list[list[tuple[float, bytes]]]:
    """What becomes of many frames."""
    direction = Direction(seed, 0)
    direction.weather = weather
    return [direction.fate(FRAME) for _ in range(FRAMES)]


def test_frames_get_through_at_once_in_good_weather():
    assert through(Weather()) == [[(0.0, FRAME)]] * FRAMES


def test_the_same_seed_means_the_same_fate():
    storm = Weather(60, 40, 0.1, 0.1, 0.2, 0.05)
    assert through(storm) == through(storm)
    assert through(storm) != through(storm, "y")


@pytest.mark.parametrize("ratio", [0.01, 0.2])
def test_ratios_are_as_configured(ratio: float):
    lost = sum(not copies for copies in through(Weather(loss=ratio)))
    doubled = sum(len(copies) == 2 for copies in through(Weather(duplicate=ratio)))
    early = sum(delay_s == 0 for [(delay_s, _)] in through(Weather(delay_ms=10, reorder=ratio)))
    damaged = sum(frame != FRAME for [(_, frame)] in through(Weather(corrupt=ratio)))
    for number in (lost, doubled, early, damaged):
        assert number == pytest.approx(FRAMES * ratio, rel=0.4)


def test_delays_lie_within_the_jitter():
    delays = [delay_s for [(delay_s, _)] in through(Weather(delay_ms=200, jitter_ms=100))]
    assert 0.1 <= min(delays) < 0.12
    assert 0.28 < max(delays) <= 0.3


def test_damage_is_one_bit_behind_the_headers():
    for [(_, frame)] in through(Weather(corrupt=1.0)):
        changed = [at for at in range(len(FRAME)) if frame[at] != FRAME[at]]
        assert len(changed) == 1
        assert changed[0] >= HEADER_BYTES
        assert (frame[changed[0]] ^ FRAME[changed[0]]).bit_count() == 1


def test_growth_is_found_and_noise_is_not():
    noisy = [(float(at), 50 + at % 7 / 10, 30 + at % 3) for at in range(0, 900, 5)]
    growing = [(at, mb + at / 400, number) for at, mb, number in noisy]                    # 1.5 MB in 10 minutes
    leaking = [(at, mb, number + int(at / 60)) for at, mb, number in noisy]                # a descriptor a minute
    assert trend("A", noisy).flat
    assert not trend("A", growing).flat
    assert trend("A", growing).mb_per_10_min == pytest.approx(1.5, abs=0.1)
    assert not trend("A", leaking).flat


CHILD = """
import time
from jgroups_py.system.child_processes import end_with_parent
end_with_parent()
print("ready", flush=True)
time.sleep(60)
"""
PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
child.wait()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux's prctl")
def test_a_process_that_stands_still_ends_with_its_killed_parent():
    with subprocess.Popen([sys.executable, "-c", PARENT, CHILD], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        os.kill(child, signal.SIGSTOP)
        parent.kill()
    until = monotonic() + 10
    while runs(child):
        assert monotonic() < until, f"{child} outlives its parent"
        sleep(0.01)


POOL = """
import time
from jgroups_py.system.child_processes import workers
with workers(2) as pool:
    print(*[process.pid for process in pool._pool], flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux's prctl")
def test_workers_end_with_their_killed_parent():
    with subprocess.Popen([sys.executable, "-c", POOL], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        parent.kill()
    assert len(pids) == 2
    until = monotonic() + 10
    while any(runs(pid) for pid in pids):
        assert monotonic() < until, f"one of {pids} outlives its parent"
        sleep(0.01)


def runs(pid: int) -> bool:
    """Whether a process runs (an ended one that was not waited for does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_missing_toxiproxy_is_an_error_with_the_way_to_get_it(monkeypatch, tmp_path: Path):
    monkeypatch.setattr(toxiproxy, "server_path", lambda: tmp_path / "bin" / "toxiproxy")
    monkeypatch.setattr(programs, "find_go", lambda: "/nonexistent/go")
    with pytest.raises(RuntimeError, match=r"GOBIN=DIR go install github.com/Shopify/toxiproxy.*v2\.12\.0"):
        toxiproxy.ensure_server()


def test_a_toxiproxy_that_is_there_is_not_built_again(monkeypatch, tmp_path: Path):
    there = tmp_path / "toxiproxy"
    there.touch()
    monkeypatch.setattr(toxiproxy, "server_path", lambda: there)
    monkeypatch.setattr(programs, "find_go", lambda: "/nonexistent/go")
    assert toxiproxy.ensure_server() == there


@pytest.mark.real
def test_a_toxiproxy_that_locked_itself_is_replaced_with_its_proxies(monkeypatch: pytest.MonkeyPatch):
    for verb in ("get", "post", "delete"):
        impatient = functools.partial(getattr(requests, verb), timeout=0.3)
        monkeypatch.setattr(toxiproxy.Requests, verb, staticmethod(impatient))
    with toxiproxy.Server() as server, socket.create_server(("127.0.0.1", 0)) as upstream:
        proxy = server.proxy("one", upstream.getsockname()[1])
        toxiproxy.add_toxic(proxy, "timeout", "upstream", {"timeout": 0})
        server.process.send_signal(signal.SIGSTOP)           # as silent as one that waits for its own lock
        server.reset()
        assert server.replaced == 1
        with socket.create_connection(("127.0.0.1", toxiproxy.port_of(proxy)), 5) as link:
            link.sendall(b"through")
            taken, _ = upstream.accept()
            with taken:
                taken.settimeout(5)
                assert taken.recv(16) == b"through", "the new server's proxy has no toxic"
