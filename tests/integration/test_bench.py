"""`jgroups bench` as people run it: documents, faults, usage errors, and no process left behind by Ctrl-C."""
from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

pytestmark = [pytest.mark.real, pytest.mark.slow]
SPREAD = {"median", "min", "max", "runs"}


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A finished benchmark."""
    return subprocess.run([sys.executable, "-m", "jgroups_py", "bench", *arguments], capture_output=True, text=True,
                          check=False)


def document(*arguments: str) -> dict[str, Any]:
    """What it printed."""
    done = bench(*arguments, "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_multicast_prints_the_promised_figures():
    found = document("multicast", "--members", "2", "--count", "500", "--repeat", "2", "--senders", "all",
                     "--size", "100", "--piece", "1", "--singly")
    for name in ("msgs_per_s", "mb_per_s", "cpu_us_per_msg", "rss_mb"):
        assert set(found[name]) == SPREAD
    assert len(found["msgs_per_s"]["runs"]) == 2
    assert found["messages_per_round"] == 1000
    assert found["parameters"]["members"] == 2
    assert found["faults"] == []


@pytest.mark.parametrize("mode", ["threads", "asyncio", "uvloop"])
def test_request_prints_the_promised_figures(mode):
    found = document("request", "--members", "2", "--seconds", "0.2", "--repeat", "1", "--requesters", "4",
                     "--mode", mode, "--stack", "tcp")
    for name in ("requests_per_s", "p50_us", "p99_us", "cpu_us_per_request", "rss_mb"):
        assert set(found[name]) == SPREAD
    assert found["requests_per_s"]["min"] > 0


def test_wrong_use_is_an_error_and_exits_with_2():
    for arguments in (("multicast", "--size", "3"), ("multicast", "--stack", "no-such.xml"), ("nothing",)):
        done = bench(*arguments)
        assert done.returncode == 2
        assert done.stderr.strip()


def test_an_interrupt_ends_all_members():
    running = subprocess.Popen([sys.executable, "-m", "jgroups_py", "bench", "membership", "--repeat", "1000"],
                               stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    assert running.stderr.readline().startswith("round 1")
    children = _children(running.pid)
    running.send_signal(signal.SIGINT)
    assert running.wait(120) == 130
    until = time.monotonic() + 120
    while any(_lives(pid) for pid in children):
        assert time.monotonic() < until, f"of {children} some live on"
        time.sleep(0.02)


def _children(pid: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()]


def _lives(pid: int) -> bool:
    return subprocess.run(["ps", "-p", str(pid)], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("how", ["kill", pytest.param("freeze", marks=pytest.mark.long)])
def test_failover_prints_the_gap_and_nothing_is_lost_at_stock_settings(how):
    found = document("failover", "--members", "2", "--repeat", "1", "--how", how, "--delay", "20ms", "--size", "100")
    assert set(found["gap_s"]) == SPREAD
    assert found["faults"] == []
    assert 0.04 < found["gap_s"]["max"] < 4.0, "a relay that ends is noticed within 1.1 s and replaced by its standby"
    assert 0 < found["gap_before_s"]["max"] < 4.0, "without a failure; on a busy machine it may be the longer one"


@pytest.mark.long
def test_wan_prints_the_ratio_to_a_path_without_delay():
    found = document("wan", "--members", "2", "--seconds", "0.3", "--repeat", "1", "--delay", "10ms", "--size", "1000")
    for name in ("msgs_per_s", "msgs_per_s_without_delay", "ratio"):
        assert set(found[name]) == SPREAD
        assert found[name]["min"] > 0
    assert found["faults"] == []
