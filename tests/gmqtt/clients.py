"""Clients of brokers that are not ours: mosquitto_sub and mosquitto_pub."""
from __future__ import annotations

import shutil
import subprocess
import threading
from types import TracebackType
from typing import Self

from jgroups_py.system.child_processes import end_with_parent
from tests.gmqtt.gmqttd import HOST
from tests.integration.serf_agent import until

HOW_TO_GET_IT = "mosquitto_pub and mosquitto_sub are needed: apt-get install mosquitto-clients"
PUBLISH_SECONDS = 60.0


def program(name: str) -> str:
    """Where a client is. Raises RuntimeError: not there; says how to get it."""
    found = shutil.which(name)
    if found is None:
        raise RuntimeError(HOW_TO_GET_IT)
    return found


def publish(port: int, topic: str, message: str | None, *options: str) -> None:
    """Publish one message; None: an empty one. Returns when the broker has acknowledged it (QoS 1 or 2)."""
    content = ["-n"] if message is None else ["-m", message]
    done = subprocess.run([program("mosquitto_pub"), "-h", HOST, "-p", str(port), "-t", topic, *content, *options],
                          text=True, capture_output=True, timeout=PUBLISH_SECONDS)
    assert done.returncode == 0, done.stderr


def publish_lines(port: int, topic: str, lines: list[str], *options: str) -> None:
    """Publish each line, by one client."""
    done = subprocess.run([program("mosquitto_pub"), "-h", HOST, "-p", str(port), "-t", topic, "-l", *options],
                          input="".join(f"{line}\n" for line in lines), text=True, capture_output=True,
                          timeout=PUBLISH_SECONDS)
    assert done.returncode == 0, done.stderr


class Subscriber:
    """mosquitto_sub; what it gets stands in `lines`: "topic payload", with `-F` of the options as that says."""

    def __init__(self, port: int, filter: str, *options: str) -> None:
        self._arguments = ["-h", HOST, "-p", str(port), "-t", filter, "-d", *(options or ("-v",))]
        self.lines: list[str] = []
        self.is_subscribed = False

    def __enter__(self) -> Self:
        # Of its two streams the one with -d's remarks is read as the other: "Client ..." lines are not messages.
        self.process = subprocess.Popen(
            ["stdbuf", "-oL", program("mosquitto_sub"), *self._arguments], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=end_with_parent)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        until(lambda: self.is_subscribed or self.process.poll() is not None, "SUBACK")
        assert self.is_subscribed, self.lines
        return self

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("Subscribed "):
                self.is_subscribed = True
            elif not line.startswith("Client "):
                self.lines.append(line.rstrip("\n"))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        self.kill()

    def kill(self) -> None:
        """As kill -9; with a will that is published."""
        self.process.kill()
        self.process.wait()
        self._reader.join()

    def wait_for(self, number: int) -> list[str]:
        """The lines, once there are so many."""
        until(lambda: len(self.lines) >= number, f"{number} messages, {len(self.lines)} are here")
        return self.lines
