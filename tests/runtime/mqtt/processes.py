"""A broker as a process, and clients that are not ours: mosquitto_pub and mosquitto_sub."""
from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest

from jgroups_py.system.child_processes import end_with_parent

HOW_TO_GET_IT = "is needed. On Debian and Ubuntu: apt-get install mosquitto mosquitto-clients"
END_SECONDS = 60
NOTES = ("Client ", "Received ", "Sending ", "Subscribed ")
"""What mosquitto_sub prints with -d besides messages."""


def tool(name: str) -> str:
    """A program of mosquitto; without it the test fails."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    if found is None:
        pytest.fail(f"{name} {HOW_TO_GET_IT}")
    return found


@attrs.define
class BrokerProcess:
    """A running `jgroups mqtt serve`. listeners: what it printed, without "listening at "."""

    process: subprocess.Popen[str]
    listeners: list[str]

    @property
    def port(self) -> int:
        """Of the first listener."""
        return self.port_of(0)

    def port_of(self, number: int) -> int:
        """Of any."""
        return int(self.listeners[number].rpartition("://")[2].partition("/")[0].rpartition(":")[2])

    @property
    def rss_bytes(self) -> int:
        """Memory."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal; exit code, and what it printed since the listeners."""
        self.process.send_signal(number)
        said, _ = self.process.communicate(timeout=END_SECONDS)
        return self.process.returncode, said


@contextmanager
def serving(*arguments: str, listeners: int = 1) -> Iterator[BrokerProcess]:
    """`jgroups mqtt serve` with these arguments, until it listens."""
    process = subprocess.Popen([sys.executable, "-m", "jgroups_py", "mqtt", "serve", *arguments], text=True,
                               stdout=subprocess.PIPE, preexec_fn=end_with_parent)
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(listeners)]
        assert all(line.startswith("listening at ") for line in lines), f"{lines}, exit code {process.poll()}"
        yield BrokerProcess(process, [line.removeprefix("listening at ").strip() for line in lines])
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def publish(port: int, topic: str, message: str, *options: str) -> None:
    """mosquitto_pub."""
    done = subprocess.run([tool("mosquitto_pub"), "-h", "127.0.0.1", "-p", str(port), "-t", topic, "-m", message,
                           *options], capture_output=True, text=True, timeout=END_SECONDS)
    assert done.returncode == 0, done.stderr


class Subscriber:
    """mosquitto_sub, once it is subscribed: `with Subscriber(port, "a/#", "-C", "1") as sub: ... sub.lines()`.

    waits False: at once. A session that has messages may end before the subscription is answered.
    """

    def __init__(self, port: int, topic: str, *options: str, waits: bool = True) -> None:
        self._waits = waits
        self._command = [tool("mosquitto_sub"), "-h", "127.0.0.1", "-p", str(port), "-t", topic, "-d", *options]

    def __enter__(self) -> Subscriber:
        self.process = subprocess.Popen(["stdbuf", "-oL", *self._command], stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True)
        assert self.process.stdout is not None
        self._before: list[str] = []                     # lines before the subscription was answered
        if not self._waits:
            return self
        for line in self.process.stdout:
            self._before.append(line)
            if line.startswith("Subscribed"):
                return self
        raise AssertionError(f"not subscribed: {self._before}")

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def lines(self) -> list[str]:
        """What it printed until it ended (`-C`), without its log."""
        assert self.process.stdout is not None
        said = [line.rstrip("\n") for line in (*self._before, *self.process.stdout)]
        assert self.process.wait(END_SECONDS) == 0, said
        return [line for line in said if not line.startswith(NOTES)]
