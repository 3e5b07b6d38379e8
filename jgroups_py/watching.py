"""Looking at a member while it runs: what it knows now, and what changes from now on. For control.py; any thread."""
from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from jgroups_py.address import Address
from jgroups_py.block import Block
from jgroups_py.config.check import alone
from jgroups_py.config.spec import StackSpec
from jgroups_py.errors import NotConnectedError
from jgroups_py.node import Node
from jgroups_py.outputs import Output
from jgroups_py.reports import Changes, Facts, members_report
from jgroups_py.session import BaseChannel

ANSWER_SECONDS = 5.0                        # for the loop thread to look at its node
MOST_WAITING = 1000                         # facts for one follower that does not take them

Watcher = Callable[[Output], None]


class Watched(Protocol):
    """A member that can be looked at: a Membership is one, a ChannelWatch makes one of a channel."""

    name: str
    spec: StackSpec

    def report(self) -> Facts:
        """What it knows of members. Raises ChannelError: it is in no group."""

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Call `watcher` with all its outputs, inside rounds; returns what ends that."""


def ask_node(channel: BaseChannel, question: Callable[[Node, int], Any]) -> Any:
    """Have the loop thread look at the node; not queued behind what is to be sent, which may be blocked.

    Raises:
        NotConnectedError: the channel is in no group, or leaving it.
    """
    session = channel._ready()
    found: list[Any] = []
    done = threading.Event()

    def answered(answer: Any) -> None:
        found.append(answer)
        done.set()

    host = session.host
    host.ask(lambda node: (question(node, host.loop.now_ns),), answered)
    if not done.wait(ANSWER_SECONDS) or found[0] is None:
        raise NotConnectedError("the channel is leaving its group, or its loop does not run")
    return found[0][0]


class ChannelWatch(Block):
    """A channel that can be looked at."""

    def __init__(self, channel: BaseChannel) -> None:
        self.name = channel.name
        self.spec = channel.spec
        self._channel = channel
        self._watchers: tuple[Watcher, ...] = ()
        channel.attach(self)

    def report(self) -> Facts:
        """See Watched."""
        report: Facts = ask_node(self._channel, lambda node, now_ns: members_report(node))
        return report

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """See Watched."""
        self._watchers = (*self._watchers, watcher)
        return lambda: self._unwatch(watcher)

    def _unwatch(self, watcher: Watcher) -> None:
        self._watchers = tuple(other for other in self._watchers if other is not watcher)

    def early(self, outputs: Sequence[Output]) -> Sequence[Output]:
        """Show them to the watchers."""
        for watcher in self._watchers:
            for output in outputs:
                watcher(output)
        return outputs


class Follower:
    """Facts for one who follows; those that it does not take in time are counted and lost."""

    def __init__(self) -> None:
        self._facts: queue.Queue[Facts] = queue.Queue(MOST_WAITING)
        self._missed = 0

    def put(self, facts: Facts) -> None:
        """From the loop."""
        try:
            self._facts.put_nowait(facts)
        except queue.Full:
            self._missed += 1

    def take(self, seconds: float) -> Facts | None:
        """The next, None if there was none for so long."""
        if self._missed and self._facts.empty():
            missed, self._missed = self._missed, 0
            return {"event": "missed", "count": missed}
        try:
            return self._facts.get(timeout=seconds)
        except queue.Empty:
            return None


class Feed:
    """What a member tells, as facts, to all who follow it; members: those of its view now."""

    def __init__(self, watched: Watched, members: tuple[Address, ...]) -> None:
        self._changes = Changes(not alone(watched.spec.layers), members)
        self._followers: tuple[Follower, ...] = ()
        self.close = watched.watch(self._put)

    def follow(self) -> Follower:
        """Facts from now on."""
        follower = Follower()
        self._followers = (*self._followers, follower)
        return follower

    def end(self, follower: Follower) -> None:
        """No more for this one."""
        self._followers = tuple(other for other in self._followers if other is not follower)

    def _put(self, output: Output) -> None:
        for facts in self._changes.of(output):
            for follower in self._followers:
                follower.put({"at": round(time.time(), 3), **facts})
