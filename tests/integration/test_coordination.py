"""Locks between processes: holders that are killed or stopped, and what the fence is for."""
from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import jgroups_py as jg
from jgroups_py.blocks.coordination import Coordination, Fence, LockTimeoutError, LostError, StaleFenceError
from jgroups_py.blocks.replication import Options
from tests.integration.coordination_member import FOUNDERS
from tests.integration.lock_test import LockTest

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]
TTL = "60s"                                # what is taken sooner was not taken because a session expired
WAIT_S = 45.0
SHORT_TTL = "1s"
STOPS = 3                                  # leaders that are stopped at most, until one has a late line


class Members:
    """Processes A, B, C, of which C holds a lock, and a member here that waits for it and has no copy."""

    def __init__(self) -> None:
        port = str(random.SystemRandom().randrange(20_000, 60_000))
        cluster = f"coordination-{os.getpid()}-{port}"
        self.processes = {
            name: subprocess.Popen(
                [sys.executable, "-m", "tests.integration.coordination_member", name, cluster, port, TTL,
                 "holder" if name == "C" else "idle"],
                cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for name in FOUNDERS}
        for process in self.processes.values():
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        holder = self.processes["C"].stdout
        assert holder is not None
        self.fence = int(holder.readline().split()[1])
        self.channel = jg.JChannel("udp", name="W", properties={"mcast_port": port})
        self.co = Coordination(self.channel, ttl=TTL, options=Options(weight=0))
        self.channel.connect(cluster)
        self.co.wait_for_store(WAIT_S)

    def close(self) -> None:
        self.channel.close()
        for process in self.processes.values():
            process.kill()
            process.communicate()


@pytest.fixture
def members() -> Iterator[Members]:
    found = Members()
    yield found
    found.close()


def test_a_lock_of_a_process_that_is_killed_goes_to_the_next_long_before_its_session_expires(members: Members) -> None:
    with pytest.raises(LockTimeoutError):
        members.co.lock("held").acquire(timeout=0.2)
    members.processes["C"].kill()
    killed_s = time.monotonic()
    grant = members.co.lock("held").acquire(timeout=WAIT_S)
    assert grant.fence > members.fence
    assert time.monotonic() - killed_s < WAIT_S
    grant.check()
    assert grant.release()
    assert not grant.release()
    assert members.co.counter("n").add(5) == 5
    assert members.co.counter("n").take(3) == range(5, 8)
    assert members.co.cell("c", str).compare_and_set(None, "x")
    queue = members.co.queue("q", str)
    queue.put("item")
    with pytest.raises(ValueError, match="work fails"), queue.take(5):
        raise ValueError("work fails")
    with queue.take(5) as item:
        assert (item.value, item.attempt) == ("item", 2)


def test_a_re_entrant_lock_is_taken_again_by_its_thread_alone_and_once_lost_not_at_all(members: Members) -> None:
    co = members.co
    with co.lock("twice", 5, reentrant=True) as outer:
        with co.lock("twice", 5, reentrant=True) as inner:
            assert inner is outer
        assert outer.valid, "the inner block has released it"
        errors: list[Exception] = []

        def other() -> None:
            try:
                with co.lock("twice", 0.1, reentrant=True):
                    raise AssertionError("two threads have it")
            except LockTimeoutError as error:
                errors.append(error)
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert len(errors) == 1
        with pytest.raises(LockTimeoutError), co.lock("twice", 0.1):
            raise AssertionError("a lock that is not re-entrant was taken twice")
    assert not outer.valid
    with co.lock("twice", 5, reentrant=True) as again:
        assert again.fence > outer.fence
        assert again.release()
        with pytest.raises(LostError), co.lock("twice", 5, reentrant=True):
            raise AssertionError("it was taken anew inside a block that has lost it")


def test_updates_under_a_lock_with_a_fence_are_not_lost_though_holders_are_stopped() -> None:
    test = LockTest()
    try:
        test.run(4.0, least_stops=2)
    finally:
        test.close()
    assert test.stopped >= 2, test
    assert test.number.admitted == test.number.value > 0, test


class Leaders:
    """Three processes of which one leads and writes lines, and the resource with its fence.

    said: (process, words) of all but lines; lines: (process, fence, whether the fence admitted it).
    """

    def __init__(self, work: str) -> None:
        self.fence = Fence()
        self.said: list[tuple[str, list[str]]] = []
        self.lines: list[tuple[str, int, bool]] = []
        self.changed = threading.Condition()
        port = str(random.SystemRandom().randrange(20_000, 60_000))
        self.processes = {
            name: subprocess.Popen(
                [sys.executable, "-m", "tests.integration.coordination_member", name, f"leaders-{os.getpid()}-{port}",
                 port, SHORT_TTL, work], cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            for name in FOUNDERS}
        for name in FOUNDERS:
            threading.Thread(target=self.listen, args=(name,), daemon=True).start()

    def listen(self, name: str) -> None:
        output = self.processes[name].stdout
        assert output is not None
        for line in output:
            words = line.split()
            with self.changed:
                if words[0] == "write":
                    self.lines.append((name, int(words[1]), self.admits(int(words[1]))))
                else:
                    self.said.append((name, words))
                self.changed.notify_all()

    def admits(self, fence: int) -> bool:
        try:
            self.fence.admit(fence)
        except StaleFenceError:
            return False
        return True

    def wait(self, what: str, holds: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(holds, WAIT_S), f"not in {WAIT_S:g} s: {what}; {self.said}"

    def writer(self) -> tuple[str, int]:
        """The process that has written last, and its fence."""
        name, fence, _ = self.lines[-1]
        return name, fence

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.communicate()


@pytest.mark.parametrize("work", ["leader", "coroutine"])
def test_accept_19_a_leader_that_is_stopped_learns_that_it_has_lost_and_its_late_lines_are_refused(work: str) -> None:
    leaders = Leaders(work)
    try:
        leaders.wait("a leader writes", lambda: len(leaders.lines) > 10)
        for _ in range(STOPS):
            name, old = leaders.writer()
            leaders.processes[name].send_signal(signal.SIGSTOP)
            leaders.wait("another one leads and writes", lambda: leaders.writer()[1] > old)    # noqa: B023  awaited here
            leaders.processes[name].send_signal(signal.SIGCONT)
            leaders.wait("the former leader sees it", lambda: (name, ["ends", str(old)]) in leaders.said)  # noqa: B023
            fences = [fence for _, fence, admitted in leaders.lines if admitted]
            assert fences == sorted(fences), "a line of a former leader was admitted after one of the next"
            late = [line for line in leaders.lines if line[:2] == (name, old) and not line[2]]
            assert len(late) <= 1, "it went on writing though it had lost"
            if late or work == "coroutine":                      # whose task is cancelled before it writes again
                break
        else:
            raise AssertionError(f"of {STOPS} leaders that were stopped in a pause none has written a line after it")
    finally:
        leaders.close()
