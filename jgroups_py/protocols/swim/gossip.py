"""What has yet to be told: news ride on frames that go out anyway, newest first, each so many times.

Every news is sent `mult * ceil(log10(n + 1))` times by each node that has heard it, which reaches everybody with high
probability; newer news of a node replaces older. Source: memberlist's queue.go; SWIM, section 4.1 (where the factor is
lambda log n). Frames have room for few news, so those that were sent least often go first.
"""
from __future__ import annotations

import math
from collections.abc import Hashable

import attrs

from jgroups_py.batch import Header
from jgroups_py.wire import encode_headers

MAX_TOPICS = 8192
"""Bound of the queue: more news than that are about nodes or messages that push-pull will bring."""


def transmit_limit(mult: int, nodes: int) -> int:
    """How often each node sends a news in a group of `nodes`.

    >>> transmit_limit(4, 1), transmit_limit(4, 50), transmit_limit(4, 1000)
    (4, 8, 16)
    """
    return mult * math.ceil(math.log10(nodes + 1))


@attrs.frozen
class Item:
    """A news; topic: what it is about (newer news about the same replaces it), nbytes: of its header on the wire."""

    topic: Hashable
    header: Header
    nbytes: int


class Gossip:
    """News by how often they were sent: `levels[n]` has those that were sent n times, topic -> item, oldest first."""

    def __init__(self) -> None:
        self.levels: list[dict[Hashable, Item]] = [{}]
        self.level_of: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self.level_of)

    def put(self, topic: Hashable, header: Header) -> None:
        """Queue a news in place of what was queued about `topic`."""
        self.drop(topic)
        if len(self.level_of) >= MAX_TOPICS:
            self.drop(self._most_told())
        out = bytearray()
        encode_headers((header,), out)
        self.levels[0][topic] = Item(topic, header, len(out))
        self.level_of[topic] = 0

    def drop(self, topic: Hashable) -> None:
        """Tell no more about it."""
        level = self.level_of.pop(topic, None)
        if level is not None:
            del self.levels[level][topic]

    def _most_told(self) -> Hashable:
        return next(topic for level in reversed(self.levels) for topic in level)

    def take(self, room: int, limit: int) -> list[Header]:
        """News of `room` bytes at most for one frame; each counts as sent once more, and is dropped after `limit`."""
        taken: list[tuple[int, Item]] = []
        for level, items in enumerate(self.levels):
            for item in reversed(items.values()):
                if item.nbytes <= room:
                    room -= item.nbytes
                    taken.append((level, item))
                elif room < SMALLEST_NEWS_BYTES:
                    break
        for level, item in taken:
            self._sent(level, item, limit)
        return [item.header for _, item in taken]

    def _sent(self, level: int, item: Item, limit: int) -> None:
        del self.levels[level][item.topic]
        if level + 1 >= limit:
            del self.level_of[item.topic]
            return
        while len(self.levels) < level + 2:
            self.levels.append({})
        self.levels[level + 1][item.topic] = item
        self.level_of[item.topic] = level + 1


SMALLEST_NEWS_BYTES = 7 + 4 + 2 + 2
"""A header, an incarnation, two names."""
