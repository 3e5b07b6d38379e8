"""mosquittos that are not ours, as processes, and `jgroups mqtt sidecar` beside them."""
from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import attrs

from jgroups_py.system.child_processes import end_with_parent
from jgroups_py.system.free_ports import free_range
from tests.integration.members import free_ports
from tests.runtime.mqtt.processes import END_SECONDS, tool

REPORTS = "log_dest topic\nlog_type subscribe\nlog_type unsubscribe\nlog_type notice\n"


@attrs.define
class Mosquitto:
    """A running mosquitto. It is stopped and started again at the same port."""

    port: int
    file: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Until it listens."""
        self.process = subprocess.Popen([tool("mosquitto"), "-c", str(self.file)], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, preexec_fn=end_with_parent)
        until = time.monotonic() + END_SECONDS
        while time.monotonic() < until:
            done = subprocess.run([tool("mosquitto_pub"), "-p", str(self.port), "-t", "started", "-n"],
                                  capture_output=True, check=False)
            if not done.returncode:
                return
            assert self.process.poll() is None, f"mosquitto has ended with {self.process.returncode}"
            time.sleep(0.05)
        raise AssertionError("mosquitto does not start")

    def end(self, number: int = signal.SIGTERM) -> None:
        """Send a signal and wait."""
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(END_SECONDS)


@contextmanager
def mosquitto(folder: Path, configuration: str = REPORTS) -> Iterator[Mosquitto]:
    """One at a free port."""
    port = free_range(1)
    file = folder / f"mosquitto-{port}.conf"
    file.write_text(f"user root\nlistener {port} 127.0.0.1\nallow_anonymous true\n{configuration}")
    made = Mosquitto(port, file)
    try:
        made.start()
        yield made
    finally:
        if made.process is not None and made.process.poll() is None:
            made.process.kill()
            made.process.wait()


class Sidecar:
    """A running `jgroups mqtt sidecar`. group: properties of the stack."""

    def __init__(self, name: str, broker_port: int, group: dict[str, object], *options: str) -> None:
        properties = [word for key, value in group.items() for word in ("-p", f"{key}={value}")]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "jgroups_py", "mqtt", "sidecar", "--broker", f"127.0.0.1:{broker_port}",
             "--name", name, "-p", "bind_addr=127.0.0.1", *properties, *options], text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, preexec_fn=end_with_parent)

    def wait_for_link(self) -> None:
        """Until it has printed that it is linked."""
        assert self.process.stdout is not None
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if line.startswith("linked to mosquitto"):
                return
        raise AssertionError(f"{lines}, exit code {self.process.wait()}: {self.errors()}")

    def errors(self) -> str:
        """What it wrote to stderr until its end."""
        return self.process.communicate(timeout=END_SECONDS)[1]

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal; the exit code."""
        self.process.send_signal(number)
        self.errors()
        return self.process.returncode


@contextmanager
def sidecars(*mosquittos: Mosquitto) -> Iterator[list[Sidecar]]:
    """One beside each of these, in one group, once all are linked."""
    group = free_ports("tcp")
    made: list[Sidecar] = []
    try:
        for number, each in enumerate(mosquittos):
            made.append(Sidecar(f"side{number}", each.port, group))
            made[-1].wait_for_link()
        yield made
    finally:
        for sidecar in made:
            if sidecar.process.poll() is None:
                sidecar.process.kill()
            with suppress(ValueError):
                sidecar.process.communicate()


def eventually(holds: object, what: str) -> None:
    """Wait until a call gives True."""
    until = time.monotonic() + END_SECONDS
    while not holds():                                   # type: ignore[operator]
        assert time.monotonic() < until, f"{what}: not in {END_SECONDS} s"
        time.sleep(0.05)
