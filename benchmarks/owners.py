"""`python -m benchmarks.owners`: how long partitions are without an owner when members come, go, and are killed.

Four processes share a set of partitions; three of them have the store, in memory. In each round the fourth one

  comes    and gets its share: until it has all of that, and the gap of each partition, between the return of `lost` at
           the old owner and `gained` at the new one
  closes   gives all back, and the others get it: the same
  dies     (kill -9), after it came again: from the kill to `gained` at the others, of each of its partitions

Times are by the clock that all processes of a machine share; partitions a second are those that moved, by the time
from the first cause to the last `gained`. There is no peer beside it: a consumer group of Kafka is the nearest, and
writes to disks. Sessions live for a minute, so nothing is taken because a session has expired.
"""
from __future__ import annotations

import os
import queue
import random
import subprocess
import sys
import threading
import time
from argparse import ArgumentParser
from pathlib import Path
from statistics import median

import attrs

from jgroups_py import JChannel
from jgroups_py.blocks.coordination import Coordination
from jgroups_py.blocks.owners import OwnerGrant, Owners

ROOT = Path(__file__).parents[1]
FOUNDERS = ("A", "B", "C")
GUEST = "D"
TTL = "60s"
SETTLED_S = 1.0                            # before a kill: until the ring of FD_SOCK is complete
LIMIT_S = 60.0


def member(name: str, cluster: str, mcast_port: str, partitions: int) -> None:
    """A process: says what it gains and loses, with the time; "join" and "close" on its input."""
    lock = threading.Lock()

    def say(*words: object) -> None:
        with lock:
            sys.stdout.write(" ".join(map(str, words)) + "\n")
            sys.stdout.flush()

    def gained(partition: int, grant: OwnerGrant) -> None:
        say("gained", partition, time.monotonic())

    def lost(partition: int, grant: OwnerGrant) -> None:
        say("lost", partition, time.monotonic())
    channel = JChannel("udp", name=name, properties={"mcast_port": mcast_port})
    co = Coordination(channel, founders=FOUNDERS, ttl=TTL)
    owners: Owners | None = None
    with channel:
        channel.connect(cluster)
        co.wait_for_store(LIMIT_S)
        say("ready", 0, time.monotonic())
        for line in sys.stdin:
            if line == "join\n":
                say("joins", 0, time.monotonic())
                owners = Owners(co, "set", partitions, gained=gained, lost=lost)
            elif owners is not None:
                say("closes", 0, time.monotonic())
                owners.close(LIMIT_S)


@attrs.frozen
class News:
    """A line of a process."""

    name: str
    word: str
    partition: int
    at_s: float


class Members:
    """The processes. owners: partition -> name; lost_s: when its last `lost` returned."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.port = str(random.SystemRandom().randrange(20_000, 60_000))
        self.cluster = f"bench-owners-{os.getpid()}"
        self.news: queue.SimpleQueue[News] = queue.SimpleQueue()
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self.owners: dict[int, str] = {}
        self.lost_s: dict[int, float] = {}

    def start(self, name: str) -> None:
        """Start a process, and wait until it has the store."""
        process = self.processes[name] = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.owners", "--member", name, self.cluster, self.port,
             str(self.partitions)], cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        threading.Thread(target=self.listen, args=(name, process), daemon=True).start()

    def listen(self, name: str, process: subprocess.Popen[str]) -> None:
        """Its lines."""
        assert process.stdout is not None, "a pipe"
        for line in process.stdout:
            word, partition, at_s = line.split()
            self.news.put(News(name, word, int(partition), float(at_s)))

    def tell(self, name: str, word: str) -> None:
        """A line for a process."""
        pipe = self.processes[name].stdin
        assert pipe is not None, "a pipe"
        pipe.write(word + "\n")
        pipe.flush()

    def next(self) -> News:
        """What happened next; follows it."""
        news = self.news.get(timeout=LIMIT_S)
        if news.word == "lost":
            self.lost_s[news.partition] = news.at_s
            if self.owners.get(news.partition) == news.name:
                del self.owners[news.partition]
        elif news.word == "gained":
            self.owners[news.partition] = news.name
        return news

    def hear(self, name: str, word: str) -> float:
        """Until a process has said that; when."""
        while (news := self.next()).name != name or news.word != word:
            pass
        return news.at_s

    def balanced(self, *names: str) -> bool:
        """Whether these have all partitions, evenly."""
        loads = [list(self.owners.values()).count(name) for name in names]
        return sum(loads) == self.partitions and max(loads) - min(loads) <= 1

    def moves(self, *names: str) -> list[News]:
        """What was gained until these have all, evenly."""
        found = []
        while not self.balanced(*names):
            news = self.next()
            if news.word == "gained":
                found.append(news)
        return found

    def close(self) -> None:
        """End all."""
        for process in self.processes.values():
            process.kill()
            process.wait()


@attrs.define
class Figures:
    """Of a kind of change: partitions moved, seconds until the last was, gaps of each (or since the kill), in ms."""

    moved: list[int] = attrs.Factory(list)
    took_s: list[float] = attrs.Factory(list)
    gaps_ms: list[float] = attrs.Factory(list)

    def add(self, began_s: float, moves: list[News], since_s: dict[int, float] | None) -> None:
        """A change. since_s: partition -> since when it was without an owner; None: since it began."""
        self.moved.append(len(moves))
        self.took_s.append(max(news.at_s for news in moves) - began_s)
        self.gaps_ms += [1e3 * (news.at_s - (began_s if since_s is None else since_s[news.partition]))
                         for news in moves]

    def __str__(self) -> str:
        rate = median(moved / took_s for moved, took_s in zip(self.moved, self.took_s, strict=True))
        return (f"{median(self.moved):6.0f} {1e3 * median(self.took_s):9.1f} {rate:12,.0f} "
                f"{median(self.gaps_ms):9.2f} {max(self.gaps_ms):9.1f}")


def measure(members: Members, rounds: int) -> dict[str, Figures]:
    """Kind of change -> figures."""
    found = {"comes": Figures(), "closes": Figures(), "dies": Figures()}
    for name in FOUNDERS:
        members.start(name)
    ready: set[str] = set()
    while len(ready) < len(FOUNDERS):
        news = members.next()
        ready |= {news.name} if news.word == "ready" else set()
    for name in FOUNDERS:
        members.tell(name, "join")
    members.moves(*FOUNDERS)
    for _ in range(rounds):
        members.start(GUEST)
        members.hear(GUEST, "ready")
        for kind in ("closes", "dies"):
            members.tell(GUEST, "join")
            began_s = members.hear(GUEST, "joins")
            found["comes"].add(began_s, members.moves(*FOUNDERS, GUEST), members.lost_s)
            if kind == "closes":
                members.tell(GUEST, "close")
                began_s = members.hear(GUEST, "closes")
                found[kind].add(began_s, members.moves(*FOUNDERS), members.lost_s)
            else:
                time.sleep(SETTLED_S)
                began_s = time.monotonic()
                members.processes[GUEST].kill()
                members.owners = {partition: name for partition, name in members.owners.items() if name != GUEST}
                found[kind].add(began_s, members.moves(*FOUNDERS), None)
                members.processes[GUEST].wait()
    return found


def main(words: list[str]) -> None:
    """The command."""
    if words[:1] == ["--member"]:
        member(words[1], words[2], words[3], int(words[4]))
        return
    parser = ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--partitions", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(words)
    members = Members(options.partitions)
    try:
        found = measure(members, options.rounds)
    finally:
        members.close()
    print(f"load {os.getloadavg()[0]:.1f}; {options.partitions} partitions, {len(FOUNDERS)} members and one that\n"
          f"{'':8} {'moved':>6} {'all, ms':>9} {'partitions/s':>12} {'gap p50':>9} {'max, ms':>9}")
    for kind, figures in found.items():
        print(f"{kind:8} {figures}")


if __name__ == "__main__":
    main(sys.argv[1:])
