"""A member as a service: what systemd hears of it, and when it does not."""
from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from jgroups_py.cli.service import MemberService
from jgroups_py.model.errors import NotConnectedError
from jgroups_py.system.free_ports import free_range
from jgroups_py.system.service_manager import ServiceManager

pytestmark = pytest.mark.real


class Manager:
    """A socket in place of systemd's."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self.socket.settimeout(60)

    def hear(self) -> list[str]:
        return self.socket.recv(4096).decode().split("\n")

    def until(self, state: str) -> None:
        while state not in self.hear():
            pass

    def waiting(self) -> int:
        """How many messages are there already; they are taken."""
        self.socket.settimeout(0.01)
        number = 0
        try:
            while self.hear():
                number += 1
        except TimeoutError:
            return number
        finally:
            self.socket.settimeout(60)


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    made = Manager(str(tmp_path / "notify") if request.param == "path" else f"@jgroups-test-{os.getpid()}")
    with made.socket:
        yield made


def test_the_watchdog_is_fed_only_when_the_loop_ran_a_round(manager: Manager):
    running = [True]

    def ran_a_round() -> None:
        if not running[0]:
            raise NotConnectedError("its loop does not run")
    service = MemberService(ServiceManager(manager.address, 0.2))
    threading.Thread(target=service.run, args=("A", ran_a_round), daemon=True).start()
    assert manager.hear()[0] == "READY=1"
    for _ in range(3):
        assert manager.hear() == ["WATCHDOG=1"]
    running[0] = False
    time.sleep(0.1)
    manager.waiting()
    time.sleep(0.3)
    assert manager.waiting() == 0
    running[0] = True
    assert manager.hear() == ["WATCHDOG=1"]
    service.leave()
    manager.until("STOPPING=1")


def test_nobody_that_listens_is_no_error(tmp_path: Path):
    ServiceManager().tell("READY=1")
    ServiceManager(str(tmp_path / "nothing")).tell("READY=1")


def serve_until_sigterm(
    manager: Manager, stack: str, more: list[str], states: list[str], stdout: IO[str] | int,
) -> None:
    """A process that tells these states while it runs, and that it stops at SIGTERM."""
    process = subprocess.Popen(
        [sys.executable, "-m", "jgroups_py", "member", "--service", "--stack", stack, "--cluster", "chat", "--name",
         "A", *more], stdin=subprocess.DEVNULL, stdout=stdout,
        env={**os.environ, "NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "400000"})
    try:
        for state in states:
            manager.until(state)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        manager.until("STOPPING=1")
        assert process.wait(60) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


LOST = """
import os, signal, time
from jgroups_py.cli.commands import Ended, ignore_sigterm, watch_sigterm

class Trap:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)                              # the handler runs here, and Python ignores what it raises

watch_sigterm()
try:
    Trap()
    time.sleep(60)
except Ended:
    ignore_sigterm()
    time.sleep(3)
    print("left")
"""


def test_a_sigterm_whose_exception_python_ignores_is_not_lost():
    ended = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, check=True, timeout=50)
    assert ended.stdout == "left\n"
    assert "Exception ignored in" in ended.stderr


def test_a_member_without_an_input_stays_until_sigterm_and_leaves_then(manager: Manager, tmp_path: Path):
    events = tmp_path / "events"
    with events.open("w") as out:
        serve_until_sigterm(manager, "udp", ["-p", f"mcast_port={free_range()}"], ["READY=1", "WATCHDOG=1"], out)
    assert [json.loads(line)["event"] for line in events.read_text().splitlines()] == ["view", "ready", "stats"]


def test_a_member_of_a_membership_without_views_is_a_service_too(manager: Manager):
    serve_until_sigterm(manager, "membership", [], ["WATCHDOG=1"], subprocess.DEVNULL)
