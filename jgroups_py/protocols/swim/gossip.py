"""The queue of updates to be spread: piggybacked on frames that are sent anyway, each a limited number of times.

Each node that gets an update sends it `mult * ceil(log10(n + 1))` times, which reaches all nodes with high probability;
a newer update about a node replaces an older one. Frames have room for few updates, so those that were sent least often
go first, the newest of these before older ones. Source: memberlist's queue.go; SWIM, section 4.1 (where the factor is
lambda log n).
"""
from __future__ import annotations

import math
from collections.abc import Hashable

import attrs

from jgroups_py.model.batch import Header
from jgroups_py.wire import encode_headers

MAX_TOPICS = 8192
"""Bound of the queue; what it drops of updates, push-pull brings later."""


def transmit_limit(mult: int, nodes: int) -> int:
    """How often each node sends an update in a group of `nodes`.

    >>> transmit_limit(4, 1), transmit_limit(4, 50), transmit_limit(4, 1000)
    (4, 8, 16)
    """
    return mult * math.ceil(math.log10(nodes + 1))


@attrs.frozen
class QueuedUpdate:
    """An update. topic: what it is about (a newer one replaces this one); nbytes: of its header on the wire."""

    topic: Hashable
    header: Header
    nbytes: int


class GossipQueue:
    """Updates by how often they were sent: `levels[n]` has those sent n times, topic -> update, oldest first."""

    def __init__(self) -> None:
        self.levels: list[dict[Hashable, QueuedUpdate]] = [{}]
        self.level_of: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self.level_of)

    def put(self, topic: Hashable, header: Header) -> None:
        """Queue an update in place of an earlier one about `topic`; a full queue drops one that was sent most often."""
        self.drop(topic)
        if len(self.level_of) >= MAX_TOPICS:
            self.drop(self._most_sent())
        out = bytearray()
        encode_headers((header,), out)
        self.levels[0][topic] = QueuedUpdate(topic, header, len(out))
        self.level_of[topic] = 0

    def drop(self, topic: Hashable) -> None:
        """Take the update about `topic` out, if there is one."""
        level = self.level_of.pop(topic, None)
        if level is not None:
            del self.levels[level][topic]

    def _most_sent(self) -> Hashable:
        return next(topic for level in reversed(self.levels) for topic in level)

    def take(self, room: int, limit: int) -> list[Header]:
        """Updates of at most `room` bytes for a frame; each counts as sent once more, and is dropped after `limit`."""
        taken: list[tuple[int, QueuedUpdate]] = []
        for level, updates in enumerate(self.levels):
            for update in reversed(updates.values()):
                if update.nbytes <= room:
                    room -= update.nbytes
                    taken.append((level, update))
                elif room < SMALLEST_UPDATE_BYTES:
                    break
        for level, update in taken:
            self._sent(level, update, limit)
        return [update.header for _, update in taken]

    def _sent(self, level: int, update: QueuedUpdate, limit: int) -> None:
        del self.levels[level][update.topic]
        if level + 1 >= limit:
            del self.level_of[update.topic]
            return
        while len(self.levels) < level + 2:
            self.levels.append({})
        self.levels[level + 1][update.topic] = update
        self.level_of[update.topic] = level + 1


SMALLEST_UPDATE_BYTES = 7 + 4 + 2 + 2
"""A header, an incarnation, two names."""
