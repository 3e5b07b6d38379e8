"""Watches a running member, from any thread: reports of its state, and a feed of changes.

The control socket (control.py) is its user.
"""
from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from jgroups_py.channel.base import BaseChannel
from jgroups_py.channel.block import Block
from jgroups_py.config.check import has_no_views
from jgroups_py.config.spec import StackSpec
from jgroups_py.model.address import Address
from jgroups_py.model.errors import NotConnectedError
from jgroups_py.model.outputs import Output
from jgroups_py.node.node import Node
from jgroups_py.node.reports import members_report
from jgroups_py.ops.reports import Changes, Facts

ANSWER_SECONDS = 5.0                        # timeout of a question to the loop thread
MOST_WAITING = 1000                         # facts queued for one slow follower

Watcher = Callable[[Output], None]


class WatchedMember(Protocol):
    """A member that can be watched: a Membership is one, a ChannelWatch makes one of a channel."""

    name: str
    spec: StackSpec

    def report(self) -> Facts:
        """The members known to it. Raises ChannelError if it is in no group."""

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Call `watcher` with each output from now on, on the loop thread; returns a function that ends that."""


def ask_node(channel: BaseChannel, question: Callable[[Node, int], Any]) -> Any:
    """Run `question(node, now_ns)` on the loop thread and return its result.

    It is not queued behind messages to be sent, which may be blocked.

    Raises:
        NotConnectedError: the channel is in no group, or leaving it.
    """
    connection = channel.connection()
    found: list[Any] = []
    done = threading.Event()

    def answered(answer: Any) -> None:
        found.append(answer)
        done.set()

    connection.ask(lambda node: (question(node, connection.now_ns),), answered)
    if not done.wait(ANSWER_SECONDS) or found[0] is None:
        raise NotConnectedError("the channel is leaving its group, or its loop does not run")
    return found[0][0]


class ChannelWatch(Block):
    """Makes a WatchedMember of a channel."""

    def __init__(self, channel: BaseChannel) -> None:
        self.name = channel.name
        self.spec = channel.spec
        self._channel = channel
        self._watchers: tuple[Watcher, ...] = ()
        channel.attach(self)

    def report(self) -> Facts:
        """See WatchedMember."""
        report: Facts = ask_node(self._channel, lambda node, now_ns: members_report(node))
        return report

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """See WatchedMember."""
        self._watchers = (*self._watchers, watcher)
        return lambda: self._unwatch(watcher)

    def _unwatch(self, watcher: Watcher) -> None:
        self._watchers = tuple(other for other in self._watchers if other is not watcher)

    def early(self, outputs: Sequence[Output]) -> Sequence[Output]:
        """Pass the outputs to all watchers."""
        for watcher in self._watchers:
            for output in outputs:
                watcher(output)
        return outputs


class WatchFollower:
    """A bounded queue of facts for one client; facts that find it full are counted and dropped."""

    def __init__(self) -> None:
        self._facts: queue.Queue[Facts] = queue.Queue(MOST_WAITING)
        self._missed = 0

    def put(self, facts: Facts) -> None:
        """Queue facts; called on the loop thread, so it never waits."""
        try:
            self._facts.put_nowait(facts)
        except queue.Full:
            self._missed += 1

    def take(self, seconds: float) -> Facts | None:
        """The next facts; None if there were none for so long. A `missed` event has the number that were dropped."""
        if self._missed and self._facts.empty():
            missed, self._missed = self._missed, 0
            return {"event": "missed", "count": missed}
        try:
            return self._facts.get(timeout=seconds)
        except queue.Empty:
            return None


class Feed:
    """Distributes the events of a member to all its followers; members: those of its view now."""

    def __init__(self, watched: WatchedMember, members: tuple[Address, ...]) -> None:
        self._changes = Changes(not has_no_views(watched.spec.layers), members)
        self._followers: tuple[WatchFollower, ...] = ()
        self.close = watched.watch(self._put)

    def follow(self) -> WatchFollower:
        """Begin to collect facts."""
        follower = WatchFollower()
        self._followers = (*self._followers, follower)
        return follower

    def end(self, follower: WatchFollower) -> None:
        """Collect no more facts for `follower`."""
        self._followers = tuple(other for other in self._followers if other is not follower)

    def _put(self, output: Output) -> None:
        for facts in self._changes.of(output):
            for follower in self._followers:
                follower.put({"at": round(time.time(), 3), **facts})
