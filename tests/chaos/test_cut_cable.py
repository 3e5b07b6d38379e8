"""The cable of a process that holds a lock is cut (case 15 of the blocks): the next one has the lock once the session
has expired, and not before the first one knows that it has lost it. Members are in namespaces, joined by a switch.

The holder has no copy of the store, or leads it: then it is excluded first, and the next leader ends its session."""
from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Self

import pytest

from jgroups_py.blocks.placement import Candidate, Placement
from tests.chaos.netns import do
from tests.integration.coordination_member import FOUNDERS

pytestmark = [pytest.mark.netns, pytest.mark.usefixtures("namespaces")]
ROOT = Path(__file__).parents[2]
TTL_S = 10.0                               # FD_ALL excludes the holder before that, which frees nothing
BOUND_S = TTL_S * 1.05 + 1
WAIT_S = 60.0
ADDRESSES = {name: f"10.95.0.{number}" for number, name in enumerate((*FOUNDERS, "D", "E"), 1)}


class Switch:
    """A namespace for each member, and one with a bridge; a veth between is the cable."""

    def __init__(self) -> None:
        self.tag = f"jgcable{os.getpid()}"
        self.made: list[str] = []
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self.said: list[tuple[str, list[str]]] = []
        self.changed = threading.Condition()

    def namespace(self, name: str) -> str:
        return f"{self.tag}-{name}"

    def add(self, name: str) -> str:
        do("ip", "netns", "add", self.namespace(name))
        self.made.append(self.namespace(name))
        do("ip", "-n", self.namespace(name), "link", "set", "lo", "up")
        return self.namespace(name)

    def __enter__(self) -> Self:
        switch = self.add("switch")
        do("ip", "-n", switch, "link", "add", "br0", "type", "bridge", "mcast_snooping", "0")
        do("ip", "-n", switch, "link", "set", "br0", "up")
        for name, address in ADDRESSES.items():
            member = self.add(name)
            do("ip", "link", "add", "eth0", "netns", member, "type", "veth", "peer", "name", name, "netns", switch)
            do("ip", "-n", member, "addr", "add", f"{address}/24", "dev", "eth0")
            do("ip", "-n", member, "link", "set", "eth0", "up")
            do("ip", "-n", switch, "link", "set", name, "master", "br0", "up")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        for process in self.processes.values():
            process.kill()
            process.communicate()
        for name in self.made:
            do("ip", "netns", "del", name)

    def start(self, name: str, work: str) -> None:
        self.processes[name] = subprocess.Popen(
            ["ip", "netns", "exec", self.namespace(name), sys.executable, "-m",
             "tests.integration.coordination_member", name, self.tag, "45588", f"{TTL_S:g}s", work, ADDRESSES[name]],
            cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        threading.Thread(target=self.listen, args=(name,), daemon=True).start()

    def listen(self, name: str) -> None:
        output = self.processes[name].stdout
        assert output is not None
        for line in output:
            with self.changed:
                self.said.append((name, line.split()))
                self.changed.notify_all()

    def heard(self, name: str, word: str) -> list[str]:
        """What a process says with this word."""
        def lines() -> list[list[str]]:
            return [words for who, words in self.said if who == name and words[0] == word]
        with self.changed:
            assert self.changed.wait_for(lines, WAIT_S), f"{name} has not said {word!r}: {self.said}"
            return lines()[-1]

    def cut(self, name: str) -> None:
        """Take the end of the cable out of the switch."""
        do("ip", "-n", self.namespace("switch"), "link", "set", name, "down")


LEADER = Placement(map(Candidate, FOUNDERS)).place("0", len(FOUNDERS), spread=True).ids[0]
"""Of the store, while it runs."""


@pytest.mark.parametrize("holder", ["D", LEADER])
def test_accept_15_the_lock_of_a_holder_whose_cable_is_cut_goes_to_the_next_one_once_it_has_expired(
    holder: str,
) -> None:
    with Switch() as switch:
        for name in FOUNDERS:
            switch.start(name, "holder" if name == holder else "idle")
        for name in FOUNDERS:
            switch.heard(name, "ready")
        if holder not in FOUNDERS:
            switch.start(holder, "client")
        first = switch.heard(holder, "held")
        switch.start("E", "client")                              # it waits
        switch.heard("E", "ready")
        switch.cut(holder)
        cut_s = monotonic()
        held = switch.heard("E", "held")
        lost = switch.heard(holder, "lost")
    assert int(held[1]) > int(first[1]), "the fence has not grown"
    assert float(lost[1]) < float(held[2]), "two held it at a time"
    assert float(held[2]) - cut_s <= BOUND_S, f"it took {float(held[2]) - cut_s:.1f} s"
