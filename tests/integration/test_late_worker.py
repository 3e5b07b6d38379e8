"""A stream goes on when Spark gave up on a Python worker that was late, as on a busy machine."""
from __future__ import annotations

import logging
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from jgroups_py.pipeline import stream
from jgroups_py.pipeline.job import JobOptions
from jgroups_py.pipeline.jobs import JOBS

LATE = "[STREAM_FAILED] Query terminated with exception: Python worker failed to connect back. SQLSTATE: XXKST"


class _Query:
    """A stream that ends with an error, or without one."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error

    def awaitTermination(self) -> None:
        if self.error is not None:
            raise self.error


class _Spark:
    class dataSource:
        @staticmethod
        def register(source: Any) -> None:
            del source


def follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *ends: Exception | None, batches: bool = False) -> int:
    """Follow an archive with a stream that ends so, attempt by attempt; how often it was started."""
    starts = iter(range(len(ends)))
    started = 0

    def start(follower: stream.StreamFollower, *_: Any) -> _Query:
        nonlocal started
        started += 1
        number = next(starts)
        if batches:
            follower.keep(number, follower.job.state.empty_table())
        return _Query(ends[number])

    monkeypatch.setattr(stream.StreamFollower, "start", start)
    stream.follow(_Spark(), tmp_path, tmp_path / "out", [JOBS["lag"]], JobOptions(), once=True)  # type: ignore[arg-type]
    return started


def test_a_stream_whose_worker_was_late_is_started_again_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        assert follow(tmp_path, monkeypatch, RuntimeError(LATE), RuntimeError(LATE), None) == 3
    assert [record.getMessage() for record in caplog.records] == [
        "lag: Spark's Python worker did not start within 10 s; the stream is started again"] * 2


def test_a_stream_that_failed_otherwise_is_not_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="no space left"):
        follow(tmp_path, monkeypatch, RuntimeError("no space left on device"), None)


def test_a_worker_that_never_starts_ends_the_stream_after_a_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = count(step=stream.GIVE_UP_SECONDS / 6)    # read at the start and in each attempt
    monkeypatch.setattr(stream.time, "monotonic", lambda: next(clock))
    with pytest.raises(RuntimeError, match="connect back"):
        follow(tmp_path, monkeypatch, *[RuntimeError(LATE)] * 7, None)


def test_a_batch_in_between_allows_further_attempts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = count(step=stream.GIVE_UP_SECONDS / 6)
    monkeypatch.setattr(stream.time, "monotonic", lambda: next(clock))
    ends = [RuntimeError(LATE)] * 20
    assert follow(tmp_path, monkeypatch, *ends, None, batches=True) == len(ends) + 1
