"""Partitions with replicas in processes: the leader's is killed in the middle of writes (acceptance case 12)."""
from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import jgroups_py as jg
from jgroups_py.blocks.replication import Options, Replicas
from jgroups_py.testing.simulation.ledger import Records, values_of

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]
WRITERS = 4
BEFORE = 200                               # writes before the kill
RESUME_S = 2.0                             # after the kill was noticed; on a busy machine some slow writes more
SLOW_WRITES = 20
WAIT_S = 240.0


def wait_until(holds: Callable[[], bool]) -> None:
    stop_s = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < stop_s, "not in time"
        time.sleep(0.005)


class Group:
    """Three processes with partitions, and a client here."""

    def __init__(self) -> None:
        self.port = str(random.SystemRandom().randrange(20_000, 60_000))
        self.cluster = f"replicas-{os.getpid()}-{self.port}"
        self.processes = {name: self.start(name) for name in "ABC"}
        for process in self.processes.values():
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        self.channel = jg.JChannel("udp", name="client", properties={"mcast_port": self.port})
        self.store = Replicas(self.channel, lambda partition: Records(), Options(weight=0))
        self.channel.connect(self.cluster)

    def start(self, name: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.integration.replica_member", name, self.cluster, self.port],
            cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def replicas_at(self, name: str) -> int:
        """How many replicas partition 0 has, as this member knows."""
        process = self.processes[name]
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        return int(process.stdout.readline())

    def close(self) -> None:
        self.store.close()
        self.channel.close()
        for process in self.processes.values():
            process.kill()
            process.communicate()


@pytest.fixture
def group() -> Iterator[Group]:
    made = Group()
    yield made
    made.close()


class Writer(threading.Thread):
    """Writes as fast as it is answered. times: when each was."""

    def __init__(self, group: Group, number: int) -> None:
        super().__init__()
        self.group, self.number = group, number
        self.places: dict[bytes, int] = {}
        self.times: list[float] = []
        self.stop = False

    def run(self) -> None:
        while not self.stop:
            value = f"{self.number}/{len(self.times)}".encode()
            self.places[value] = int.from_bytes(self.group.store.write(0, value), "big")
            self.times.append(time.monotonic())


def test_accept_3_12_kill_9_of_the_leader_loses_no_acknowledged_write(group: Group) -> None:
    group.store.create(partitions=1, replicas=3, hosts=3)
    writers = [Writer(group, number) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    wait_until(lambda: sum(len(writer.times) for writer in writers) >= BEFORE)
    leader = group.store.leaders()[0]
    # All have to know that there are three: a configuration counts where it has come, and a majority of two is both.
    wait_until(lambda: [group.replicas_at(name) for name in group.processes] == [3, 3, 3])
    killed_s = time.monotonic()
    group.processes[leader.name].kill()
    wait_until(lambda: group.channel.view is not None and leader not in group.channel.view)
    detected_s = time.monotonic()
    wait_until(lambda: any(writer.times[-1] > detected_s for writer in writers))
    slowest_s = max(after - at for writer in writers for at, after in pairwise(writer.times) if after < killed_s)
    resumed_s = min(moment for writer in writers for moment in writer.times if moment > detected_s)
    assert resumed_s <= detected_s + RESUME_S + SLOW_WRITES * slowest_s
    for writer in writers:
        writer.stop = True
        writer.join()
    places = {value: place for writer in writers for value, place in writer.places.items()}
    values = values_of(group.store.read(0, strong=True))
    assert len(places) > BEFORE
    assert [value for value, place in places.items() if values[place:place + 1] != [value]] == []
    assert len(set(values)) == len(values), "a write happened twice"
