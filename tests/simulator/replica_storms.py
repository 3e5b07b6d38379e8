"""Partitions with replicas on a network without any guarantees: views that members get at different times or never,
messages that are lost, doubled, late and overtake each other. What blocks/replication promises must hold on that too,
and a seed takes a third of what it takes on the whole stack. One thing is as in groups: a message of a view that the
receiver does not have yet waits for it.

    python -m tests.simulator.replica_storms --seeds 0:1000
"""
from __future__ import annotations

import heapq
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable
from hashlib import blake2b
from random import Random
from typing import Any

import attrs

import jgroups_py as jg
from jgroups_py.model.address import Address
from jgroups_py.model.errors import NotConnectedError
from jgroups_py.model.units import NS_PER_S, millis, seconds
from jgroups_py.model.view import View, ViewId
from jgroups_py.testing.simulation.ledger import Broken
from jgroups_py.testing.simulation.replicas import Holder, StoreRun

LONG_S = 5.0                               # of faults
REST_S = 4.0                               # until all must be well
EVENTS = 14
AFTERMATH_NS = seconds(2.5)                # of the last events
KINDS = ("crash", "crash", "restart", "restart", "split", "heal", "heal", "one_way", "one_way", "weather", "pause",
         "only_views", "lonely_death", "island", "sleeper")
ACTS = 40


class Channel:
    """What Holder needs of a channel: one incarnation of a member."""

    def __init__(self, storm: Storm, name: str, number: int) -> None:
        self.storm = storm
        self.name = name
        self.address = Address(blake2b(f"{storm.seed}/{name}#{number}".encode(), digest_size=16).digest(), name)
        self.state = jg.ChannelState.CONNECTING
        self.receiver: Any = None
        self.members: tuple[Address, ...] = ()
        self.early: list[tuple[Address, bytes, int | None]] = []     # what is of a later view
        self.latest = 0                                    # the number of the latest view
        self.awake_ns = 0                                  # paused until then

    @property
    def now(self) -> float:
        return self.storm.now_ns / NS_PER_S

    @property
    def alive(self) -> bool:
        return self.storm.channels.get(self.name) is self

    def later(self, delay: float, call: Callable[..., object], *arguments: Any) -> None:
        self.storm.after(seconds(delay), self.call, call, *arguments)

    def call(self, call: Callable[..., object], *arguments: Any) -> None:
        """In this process, when it is awake."""
        if self.awake_ns > self.storm.now_ns:
            self.storm.after(self.awake_ns - self.storm.now_ns, self.call, call, *arguments)
        elif self.alive:
            call(*arguments)

    def send(self, dest: Address | None, data: bytes) -> None:
        if dest is not None and dest not in self.members:
            raise NotConnectedError(f"{dest} is not in the view")
        for member in self.members if dest is None else (dest,):
            self.storm.carry(self, member, data, self.latest if dest is None else None)

    def view(self, view: View) -> None:
        if view.id.counter < self.latest:
            return
        self.latest = view.id.counter
        self.state = jg.ChannelState.CONNECTED
        self.members = view.members
        self.receiver.view_accepted(view)
        early, self.early = self.early, []
        for src, data, number in early:
            self.message(src, data, number)

    def message(self, src: Address, data: bytes, view: int | None) -> None:
        """view: of a multicast, which is delivered in the view that it was sent in or not at all."""
        if src not in self.members or (view is not None and view > self.latest):
            self.early.append((src, data, view))
        elif view is None or view == self.latest:
            self.receiver.receive(jg.Message(self.address, data, src=src))


class Storm:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = Random(f"{seed}/storm")
        self.network = Random(f"{seed}/network")
        self.now_ns = 0
        self.run = StoreRun(seed)
        self.channels: dict[str, Channel] = {}
        self.by_address: dict[Address, Channel] = {}
        self.names = "ABCDEF"[:self.rng.randint(3, 6)]
        self.cut: dict[tuple[str, str], None] = {}
        self.loss = self.doubled = 0.0
        self.slow_ns = millis(1)
        self._starts: Counter[str] = Counter()
        self._views = 0
        self._due: list[tuple[int, int, Callable[..., object], tuple[Any, ...]]] = []
        self._order = 0

    # --- the world --------------------------------------------------------------------------------------------------

    def after(self, delay_ns: int, call: Callable[..., object], *arguments: Any) -> None:
        self._order += 1
        heapq.heappush(self._due, (self.now_ns + max(delay_ns, 1), self._order, call, arguments))

    def run_until(self, at_ns: int) -> None:
        while self._due and self._due[0][0] <= at_ns:
            self.now_ns, _, call, arguments = heapq.heappop(self._due)
            call(*arguments)
        self.now_ns = at_ns

    def carry(self, src: Channel, dest: Address, data: bytes, view: int | None) -> None:
        """A message may come late, twice or not at all; to oneself it does come."""
        to, rng = self.by_address[dest], self.network
        if to is src:
            return self.after(1, to.call, to.message, src.address, data, view)
        for _ in range(2 if rng.random() < self.doubled else 1):
            if (src.name, to.name) not in self.cut and rng.random() >= self.loss:
                delay_ns = rng.randrange(millis(1) // 10, self.slow_ns)
                self.after(delay_ns if rng.random() < 0.98 else 20 * delay_ns, to.call, to.message, src.address,
                           data, view)
        return None

    def start(self, name: str) -> None:
        if name not in self.channels:
            self._starts[name] += 1
            channel = self.channels[name] = Channel(self, name, self._starts[name])
            self.by_address[channel.address] = channel
            self.run.start(channel)
            self.tell_view([name], 0)

    def tell_view(self, names: list[str], latest_ns: int) -> None:
        """Each gets the view some time, if it is not given a later one before."""
        self._views += 1
        members = tuple(self.channels[name].address for name in names)
        for name in names:
            self.after(self.rng.randrange(latest_ns + 1), self.install, self.channels[name],
                       View(ViewId(self._views, members[0]), members))

    def install(self, channel: Channel, view: View) -> None:
        channel.call(channel.view, view)

    # --- faults -----------------------------------------------------------------------------------------------------

    def event(self) -> None:
        """Something happens."""
        kind = self.rng.choice(KINDS)
        getattr(self, kind)(self.rng.choice([*self.channels] or ["A"]))

    def crash(self, name: str) -> None:
        self.channels.pop(name, None)
        self.after(self.rng.randrange(seconds(1)), self.regroup)

    def restart(self, name: str) -> None:
        gone = [other for other in self.names if other not in self.channels]
        if gone:
            self.start(self.rng.choice(gone))
            self.after(self.rng.randrange(seconds(1)), self.regroup)

    def split(self, name: str) -> None:
        side = {other: self.rng.random() < 0.5 for other in self.names}
        self.cut = {(one, other): None for one in self.names for other in self.names if side[one] != side[other]}
        self.after(self.rng.randrange(seconds(1)), self.regroup)

    def heal(self, name: str) -> None:
        self.cut, self.loss, self.doubled, self.slow_ns = {}, 0.0, 0.0, millis(1)
        self.after(self.rng.randrange(millis(500)), self.regroup)

    def one_way(self, name: str) -> None:
        for other in self.rng.sample(self.names, 2):
            self.cut[name, other] = None

    def weather(self, name: str) -> None:
        self.loss, self.doubled = self.rng.choice((0.0, 0.05, 0.3)), self.rng.choice((0.0, 0.2))
        self.slow_ns = self.rng.choice((millis(1), millis(10), millis(100)))

    def pause(self, name: str) -> None:
        if name in self.channels:
            self.channels[name].awake_ns = self.now_ns + self.rng.randrange(seconds(2))
            self.after(self.rng.randrange(seconds(1)), self.regroup)

    def only_views(self, name: str) -> None:
        """The group falls apart though nothing is cut."""
        names = self.rng.sample([*self.channels], len(self.channels))
        at = self.rng.randint(0, len(names))
        for group in (names[:at], names[at:]):
            if group:
                self.tell_view(group, millis(300))

    def lonely_death(self, name: str) -> None:
        """As in profile replicas."""
        self.one_way(name)
        self.after(self.rng.randrange(millis(20), seconds(1)), self.crash, name)

    def island(self, name: str) -> None:
        """A member is about to give its replicas to others; just then two are cut off, and have not noticed it yet."""
        channel = self.channels.get(name)
        if channel is not None:
            channel.call(channel.receiver.vacate)
        self.after(self.rng.randrange(millis(1), millis(200)), self.cut_off, self.rng.sample(self.names, 2))
        self.after(self.rng.randrange(millis(500), millis(1500)), self.regroup)

    def sleeper(self, name: str) -> None:
        """A member receives nothing while another one's replicas move; then others crash, and those two meet."""
        other, *rest = self.rng.sample([one for one in self.names if one != name], len(self.names) - 1)
        for one in self.names:
            self.cut[one, name] = None
        if other in self.channels:
            self.channels[other].call(self.channels[other].receiver.vacate)
        later_ns = self.rng.randrange(millis(800), millis(2200))
        for one in rest[:2]:
            self.after(later_ns, self.crash, one)
        self.after(later_ns, self.heal, name)

    def cut_off(self, names: list[str]) -> None:
        """These receive only from each other."""
        self.cut.update({(one, other): None for one in self.names for other in self.names
                         if (one in names) != (other in names)})

    def regroup(self) -> None:
        """The views of members that receive from each other."""
        left = [*self.channels]
        while left:
            one = left[0]
            group = [one, *(other for other in left[1:]
                            if (one, other) not in self.cut and (other, one) not in self.cut)]
            self.tell_view(group, self.rng.choice((millis(300), millis(300), millis(1500))))
            left = [name for name in left if name not in group]

    # --- the run ----------------------------------------------------------------------------------------------------

    def act(self, number: int) -> None:
        if self.channels:
            channel = self.channels[self.rng.choice([*self.channels])]
            channel.call(channel.receiver.act, Random(f"{self.seed}/act/{number}"))

    def holders(self) -> list[Holder]:
        return [channel.receiver for channel in self.channels.values()]

    def whole(self) -> None:
        """From the first start to the end."""
        for name in self.names:
            self.start(name)
        self.regroup()
        stop_ns = seconds(LONG_S)
        for _ in range(EVENTS):
            at_ns = self.rng.randrange(millis(800), stop_ns)
            self.after(at_ns, self.event)
            for _ in range(self.rng.choice((0, 1, 2))):
                self.after(at_ns + self.rng.randrange(millis(600)), self.act, self.rng.getrandbits(32))
        for number in range(ACTS):
            self.after(self.rng.randrange(millis(350), stop_ns), self.act, number)
        self.run_until(stop_ns + AFTERMATH_NS)
        if not self.channels:
            self.start("A")
        self.heal("")
        for channel in self.channels.values():
            channel.awake_ns = 0
        for _ in range(8):
            self.run_until(self.now_ns + seconds(REST_S))
            try:
                self.run.at_end(self.holders())
            except Broken as broken:
                last = broken
            else:
                return
        raise last


@attrs.frozen
class Result:
    """What came of a seed: "" and "" if all is well."""

    seed: int
    guarantee: str
    text: str
    reached: dict[str, int]


def run_storm(seed: int) -> Result:
    """One seed."""
    storm = Storm(seed)
    try:
        storm.whole()
    except Broken as broken:
        return Result(seed, broken.guarantee, str(broken), storm.run.reached())
    except AssertionError as error:
        return Result(seed, "core", str(error), storm.run.reached())
    return Result(seed, "", "", storm.run.reached())


def main(words: list[str]) -> int:
    """The command."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:1000", help="half-open (default: 0:1000)")
    first, _, stop = parser.parse_args(words).seeds.partition(":")
    reached: Counter[str] = Counter()
    failed = 0
    for seed in range(int(first), int(stop)):
        result = run_storm(seed)
        reached.update(result.reached)
        if result.guarantee:
            failed += 1
            sys.stdout.write(f"seed {seed} breaks {result.guarantee}: {result.text}\n")
            sys.stdout.flush()
    sys.stdout.write(", ".join(f"{name} {number}" for name, number in sorted(reached.items())) + "\n")
    sys.stdout.write(f"{int(stop) - int(first)} seeds, {failed} failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
