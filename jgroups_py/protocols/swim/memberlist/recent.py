"""What SERF remembers so that it believes and passes on everything once: Lamport clocks, intents, events, queries."""
from __future__ import annotations

import attrs

from jgroups_py.protocols.swim.memberlist.serf import Event, Join, Leave, Query

MAX_INTENTS = 10_000                        # of nodes that are not known
MOST_OF_ONE_TIME = 100                      # events or queries with one Lamport time


class Clock:
    """A Lamport clock; 0 is before everything."""

    def __init__(self) -> None:
        self.time = 1

    def tick(self) -> int:
        """Something of ours happens: its time."""
        self.time += 1
        return self.time

    def witness(self, time: int) -> None:
        """Something happened at `time`; what happens from now on is later."""
        self.time = max(self.time, time + 1)


@attrs.define
class Standing:
    """When a node joined or left last; leaving: it said so."""

    ltime: int = 0
    leaving: bool = False


class Intents:
    """Of all nodes, by name, known to SWIM or not yet (or not any more)."""

    def __init__(self) -> None:
        self.of: dict[str, Standing] = {}

    def take(self, intent: Join | Leave) -> bool:
        """Whether it is news."""
        standing = self.of.get(intent.node)
        if standing is None:
            if len(self.of) >= MAX_INTENTS:
                return False
            standing = self.of[intent.node] = Standing()
        elif intent.ltime <= standing.ltime:
            return False
        standing.ltime, standing.leaving = intent.ltime, isinstance(intent, Leave)
        return True


class Window:
    """Events or queries of the newest `size` Lamport times, each once."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.clock = Clock()
        self.least = 0                                       # what is older happened before our time
        self.times: dict[int, list[Event | Query]] = {}      # Lamport time -> what happened

    def take(self, item: Event | Query) -> bool:
        """Whether it is news."""
        self.clock.witness(item.ltime)
        if item.ltime < self.least or item.ltime + self.size < self.clock.time:
            return False
        known = self.times.setdefault(item.ltime, [])
        if item in known or len(known) >= MOST_OF_ONE_TIME:
            return False
        known.append(item)
        if len(self.times) > self.size:
            del self.times[min(self.times)]
        return True
