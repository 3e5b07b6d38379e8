"""Processes of a command: none is left behind."""
from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from jgroups_py.cli import process_group
from jgroups_py.cli.process_group import ProcessGroup, WorkerProcess

popen = subprocess.Popen


@pytest.fixture(autouse=True)
def listens_to_ctrl_c() -> Iterator[None]:
    """What a shell starts in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupted_popen(*arguments: Any, **options: Any) -> subprocess.Popen[str]:
    """Ctrl-C is pressed when the process runs, but is not in the group's list yet."""
    process: subprocess.Popen[str] = popen(*arguments, **options)
    signal.raise_signal(signal.SIGINT)
    return process


def test_a_process_that_is_being_started_at_a_ctrl_c_is_ended_too(monkeypatch: pytest.MonkeyPatch):
    group: ProcessGroup[WorkerProcess] = ProcessGroup("jgroups_py.cli.demo.worker", WorkerProcess)
    monkeypatch.setattr(process_group.subprocess, "Popen", interrupted_popen)
    with pytest.raises(KeyboardInterrupt):
        group.start("A", "NYC", {})
    assert [member.tag for member in group.workers] == ["A"]
    group.end()
    assert group.workers[0].process.returncode is not None


def test_a_ctrl_c_within_the_block_counts_at_its_end():
    steps = []

    def step() -> None:
        with process_group.interrupted_later():
            signal.raise_signal(signal.SIGINT)
            steps.append("went on")

    with pytest.raises(KeyboardInterrupt):
        step()
    assert steps == ["went on"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
