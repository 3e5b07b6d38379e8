"""Waiting for something that real sockets and threads do soon, without sleeping longer than needed."""
from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic, sleep

import jgroups_py as jg
from jgroups_py.channel.io_thread import LoopThread
from jgroups_py.runtime.loop import Loop

PATIENCE_SECONDS = 120.0                    # a ceiling, for a machine that is busy with other things


def eventually(holds: Callable[[], object], what: str = "it") -> None:
    """Wait until `holds()` is true; fails after PATIENCE_SECONDS."""
    until = monotonic() + PATIENCE_SECONDS
    while not holds():
        assert monotonic() < until, f"{what} did not happen within {PATIENCE_SECONDS:g} s"
        sleep(0.002)


class LoopHost:
    """The least a loop runs: it records why it failed."""

    needs_round = False

    def __init__(self) -> None:
        self.errors: list[Exception] = []

    def step(self, now_ns: int) -> int | None:
        return None

    def send_queued(self, now_ns: int) -> int | None:
        return None

    def fail(self, error: Exception) -> None:
        self.errors.append(error)


class OnLoop:
    """A loop of a test's own; `run` calls a function on its thread and returns what it returns."""

    def __init__(self) -> None:
        self.host = LoopHost()
        self.loop = Loop(self.host)
        LoopThread("test", self.loop).start()

    def run(self, function: Callable[[], object]) -> object:
        done = threading.Event()
        results: list[object] = []

        def call() -> None:
            try:
                results.append(function())
            except BaseException as error:                   # noqa: BLE001  raised again by the caller
                results.append(error)
            finally:
                done.set()

        self.loop.call(call)
        assert done.wait(PATIENCE_SECONDS), "the loop did not come round"
        if isinstance(results[0], BaseException):
            raise results[0]
        return results[0]

    def close(self) -> None:
        self.loop.stop()
        self.loop.join()


class Recorder(jg.Receiver):
    """Remembers what it was called with, in order."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    def receive(self, message: jg.Message) -> None:
        self.calls.append(message.payload)

    def view_accepted(self, view: jg.View) -> None:
        self.calls.append("view")

    def channel_closed(self, reason: str) -> None:
        self.calls.append(reason)


def calls(channel: jg.JChannel) -> list[object]:
    assert isinstance(channel.receiver, Recorder)
    return channel.receiver.calls
