"""Starts, controls and ends the member processes of a command (demo, bench), so that none is left behind.

A worker module is run with its options as a JSON argument; commands go to its stdin, events come from its stdout, one
JSON object per line each.
"""
from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import attrs

MAX_STDERR_LINES = 40
END_SECONDS = 3.0


@attrs.define(eq=False)
class WorkerProcess:
    """One member process. `tag` names the incarnation: "A", then "A#2"; `site`: the group that it belongs to."""

    tag: str
    site: str
    process: subprocess.Popen[str]
    state: str = "starting"             # starting, up, killed, left, failed
    errors: list[str] = attrs.Factory(list)

    @property
    def name(self) -> str:
        """The logical name."""
        return self.tag.partition("#")[0]

    @property
    def up(self) -> bool:
        """Whether it is connected and runs."""
        return self.state == "up"

    def command(self, do: str, **fields: Any) -> None:
        """Send a command. If the process has ended, that has no effect: the event `ended` reports it."""
        assert self.process.stdin is not None, "the process has a pipe for commands"
        try:
            self.process.stdin.write(json.dumps({"do": do, **fields}) + "\n")
            self.process.stdin.flush()
        except (BrokenPipeError, ValueError):
            self.errors.append(f"the command {do} could not be sent: the input of the process is closed")


P = TypeVar("P", bound=WorkerProcess)


class ProcessGroup(Generic[P]):
    """All processes of one command; their events arrive in one queue as (worker, event)."""

    def __init__(self, worker: str, kind: type[P]) -> None:
        self.workers: list[P] = []
        self.events: queue.SimpleQueue[tuple[P, dict[str, Any]]] = queue.SimpleQueue()
        self._worker = worker
        self._kind = kind

    def start(self, tag: str, site: str, options: dict[str, Any]) -> P:
        """Start one member."""
        with interrupted_later():
            process = subprocess.Popen(
                self.command_line(options),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                start_new_session=True)         # a Ctrl-C at the terminal reaches only this process
            worker = self._kind(tag, site, process)
            self.workers.append(worker)
        threading.Thread(target=self._listen, args=(worker,), daemon=True).start()
        threading.Thread(target=self._read_stderr, args=(worker,), daemon=True).start()
        return worker

    def command_line(self, options: dict[str, Any]) -> list[str]:
        """The command line of a worker with these options."""
        return [sys.executable, "-m", self._worker, json.dumps(options)]

    def _listen(self, worker: P) -> None:
        assert worker.process.stdout is not None, "the process has a pipe for events"
        for line in worker.process.stdout:
            try:
                self.events.put((worker, json.loads(line)))
            except ValueError:
                self.events.put((worker, {"event": "error", "message": f"not an event: {line.strip()}"}))
        self.events.put((worker, {"event": "ended"}))

    def _read_stderr(self, worker: P) -> None:
        assert worker.process.stderr is not None, "the process has a pipe for error output"
        for line in worker.process.stderr:
            if len(worker.errors) < MAX_STDERR_LINES:
                worker.errors.append(line.rstrip())

    def kill(self, worker: P) -> float:
        """Send SIGKILL; returns the time of it."""
        worker.state = "killed"
        os.kill(worker.process.pid, signal.SIGKILL)
        return time.time()

    def up(self, site: str | None = None) -> list[P]:
        """The processes that are up, of one site or all."""
        return [worker for worker in self.workers if worker.up and site in (None, worker.site)]

    def end(self) -> None:
        """End every process that still runs: close its input, then kill it."""
        running = [worker for worker in self.workers if worker.process.poll() is None]
        for worker in running:
            if worker.process.stdin is not None:
                try:
                    worker.process.stdin.close()
                except OSError:
                    worker.errors.append("the input of the process was closed already")
        deadline = time.monotonic() + END_SECONDS
        for worker in running:
            try:
                worker.process.wait(max(0.05, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()


@contextmanager
def interrupted_later() -> Iterator[None]:
    """Delay a Ctrl-C to the end of the block, so that a process which is started in it is known and can be ended."""
    if threading.current_thread() is not threading.main_thread():
        yield                                   # only the main thread is interrupted
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)
