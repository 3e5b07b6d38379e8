"""Partitions between processes: an owner that is killed, stopped, or gives all back, and what fences are for."""
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

from jgroups_py.blocks.coordination import Fence, StaleFenceError
from tests.integration.coordination_member import FOUNDERS
from tests.integration.owners_member import PARTITIONS

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]
WAIT_S = 45.0
NEVER = "600s"                             # a ttl: what is taken sooner was not taken because a session expired


class Shards:
    """Three processes, and the resource that they write to. owned: name -> partition -> fence, as they say."""

    def __init__(self, ttl: str) -> None:
        self.owned: dict[str, dict[int, int]] = {name: {} for name in FOUNDERS}
        self.said: list[tuple[str, list[str]]] = []
        self.refused: dict[str, int] = dict.fromkeys(FOUNDERS, 0)
        self.fences = [Fence() for _ in range(PARTITIONS)]
        self.changed = threading.Condition()
        port = str(random.SystemRandom().randrange(20_000, 60_000))
        self.processes = {
            name: subprocess.Popen([sys.executable, "-m", "tests.integration.owners_member", name,
                                    f"owners-{os.getpid()}-{port}", port, ttl],
                                   cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            for name in FOUNDERS}
        self.threads = [threading.Thread(target=self.listen, args=(name,), daemon=True) for name in FOUNDERS]
        for thread in self.threads:
            thread.start()

    def listen(self, name: str) -> None:
        output = self.processes[name].stdout
        assert output is not None
        for line in output:
            words = line.split()
            with self.changed:
                self.hear(name, words)
                self.changed.notify_all()

    def hear(self, name: str, words: list[str]) -> None:
        if words[0] == "write":
            try:
                self.fences[int(words[1])].admit(int(words[2]))
            except StaleFenceError:
                self.refused[name] += 1
            return
        self.said.append((name, words))
        if words[0] == "gained":
            self.owned[name][int(words[1])] = int(words[2])
        elif words[0] == "lost":
            del self.owned[name][int(words[1])]

    def wait(self, what: str, holds: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(holds, WAIT_S), f"not in {WAIT_S:g} s: {what}; owners: {self.owned}"

    def loads(self, *names: str) -> list[int]:
        return [len(self.owned[name]) for name in names]

    def tell(self, name: str, line: str) -> None:
        pipe = self.processes[name].stdin
        assert pipe is not None
        pipe.write(line + "\n")
        pipe.flush()

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
        for thread in self.threads:
            thread.join()
        for process in self.processes.values():
            process.communicate()


@pytest.fixture
def shards(request: pytest.FixtureRequest) -> Iterator[Shards]:
    found = Shards(request.param)
    yield found
    found.close()


@pytest.mark.parametrize("shards", [NEVER], indirect=True)
def test_partitions_of_a_process_that_is_killed_go_to_the_others_and_theirs_stay(shards: Shards) -> None:
    shards.wait("two partitions each", lambda: shards.loads(*FOUNDERS) == [2, 2, 2])
    before, left = dict(shards.owned["A"]), dict(shards.owned["C"])
    started = len(shards.said)
    shards.processes["C"].kill()
    killed_s = time.monotonic()
    shards.wait("three partitions each", lambda: shards.loads("A", "B") == [3, 3])
    assert time.monotonic() - killed_s < WAIT_S
    assert before.items() <= shards.owned["A"].items(), "what A owned has moved"
    assert not [words for _, words in shards.said[started:] if words[0] == "lost"]
    for partition, fence in left.items():
        owner = "A" if partition in shards.owned["A"] else "B"
        assert shards.owned[owner][partition] > fence

    shards.tell("B", "close")
    shards.wait("B is done", lambda: ("B", ["closed"]) in shards.said)
    assert shards.owned["B"] == {}
    shards.wait("A has all", lambda: shards.loads("A") == [PARTITIONS])
    given_back = [words for name, words in shards.said[started:] if words[0] == "lost"]
    assert [words[3] for words in given_back] == ["1"] * 3, "B was told of a loss only after the fact"


@pytest.mark.parametrize("shards", ["1s"], indirect=True)
def test_a_process_that_is_stopped_has_lost_its_partitions_and_its_late_writes_are_refused(shards: Shards) -> None:
    shards.wait("two partitions each", lambda: shards.loads(*FOUNDERS) == [2, 2, 2])
    shards.wait("C writes to its two", lambda: len(shards.owned["C"]) == 2 and all(
        shards.fences[partition].highest >= fence for partition, fence in shards.owned["C"].items()))
    old, started = dict(shards.owned["C"]), len(shards.said)
    shards.processes["C"].send_signal(signal.SIGSTOP)
    try:
        shards.wait("the others have all", lambda: sum(shards.loads("A", "B")) == PARTITIONS)
        taken = {**shards.owned["A"], **shards.owned["B"]}
        assert all(taken[partition] > fence for partition, fence in old.items())
        shards.wait("the new owners have written",
                    lambda: all(shards.fences[partition].highest >= taken[partition] for partition in old))
        refused = shards.refused["C"]
    finally:
        shards.processes["C"].send_signal(signal.SIGCONT)
    shards.wait("a late write is refused", lambda: shards.refused["C"] > refused)
    shards.wait("C takes part again", lambda: shards.loads(*FOUNDERS) == [2, 2, 2])
    told = [words for name, words in shards.said[started:] if name == "C" and words[0] == "lost"][:2]
    assert [words[3] for words in told] == ["0", "0"], "it was told that it still had them"
    again = [fence for name in FOUNDERS for fence in shards.owned[name].values()]
    assert len(set(again)) == PARTITIONS
    assert all(shards.owned["C"].get(partition, fence + 1) > fence for partition, fence in old.items())
