"""What SERF remembers in order to handle and pass on each message once: Lamport clocks, intents, events, queries."""
from __future__ import annotations

import attrs

from jgroups_py.protocols.swim.memberlist.serf import Query, SerfEvent, SerfJoin, SerfLeave

MAX_INTENTS = 10_000                        # nodes with an intent; bounded, since messages can name any node
MOST_OF_ONE_TIME = 100                      # events or queries with the same Lamport time


class LamportClock:
    """A Lamport clock; 0 is before all events [Lamport 1978]."""

    def __init__(self) -> None:
        self.time = 1

    def tick(self) -> int:
        """The time of a new event of this member."""
        self.time += 1
        return self.time

    def witness(self, time: int) -> None:
        """An event with this time was received: all later ones of this member get a higher time."""
        self.time = max(self.time, time + 1)


@attrs.define
class LatestIntent:
    """The latest intent about a node: its time, and whether it is a leave."""

    ltime: int = 0
    leaving: bool = False


class Intents:
    """The latest intent about each node, by name; also of nodes that SWIM has not in its table (yet, or any more)."""

    def __init__(self) -> None:
        self.of: dict[str, LatestIntent] = {}

    def take(self, intent: SerfJoin | SerfLeave) -> bool:
        """Store an intent; False if it is not newer than the latest one."""
        latest = self.of.get(intent.node)
        if latest is None:
            if len(self.of) >= MAX_INTENTS:
                return False
            latest = self.of[intent.node] = LatestIntent()
        elif intent.ltime <= latest.ltime:
            return False
        latest.ltime, latest.leaving = intent.ltime, isinstance(intent, SerfLeave)
        return True


class Window:
    """Events or queries of the newest `size` Lamport times, each once."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.clock = LamportClock()
        self.least = 0                                       # earlier items precede this member's first exchange
        self.times: dict[int, list[SerfEvent | Query]] = {}      # Lamport time -> items with that time

    def take(self, item: SerfEvent | Query) -> bool:
        """Store an item; False if it is known, too old, or one of too many with the same time."""
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
