"""Retained messages (3.3.1.3): the last one of each topic, for those that subscribe later.

`RetainedStore` is what the broker needs; `RetainedTable` is one in memory. A table that the brokers of a federation
share by last writer wins (`SharedTable` of blocks/anti_entropy) stands behind the same interface: its changes come in
by `put` and `clear` here, and the broker's go out by `Federation.retained`.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from jgroups_py.blocks.mqtt.broker.publication import Publication
from jgroups_py.blocks.mqtt.broker.subscription_tree import TopicTrie


class RetainedStore(Protocol):
    """Topic -> message. Expired messages are as good as none."""

    def __len__(self) -> int:
        ...

    def put(self, publication: Publication) -> bool:
        """Set the message of its topic; an empty payload clears it [MQTT-3.3.1-6]. False: there is no room."""
        ...

    def get(self, topic: str, now_ns: int) -> Publication | None:
        """The message of a topic."""
        ...

    def matching(self, filter: str, now_ns: int) -> Iterator[Publication]:
        """The messages of all topics that a filter matches."""
        ...


class RetainedTable:
    """In memory. most: topics; to replace and clear needs no room."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._messages: TopicTrie[Publication] = TopicTrie()

    def __len__(self) -> int:
        return len(self._messages)

    def put(self, publication: Publication) -> bool:
        if not publication.payload:
            self._messages.pop(publication.topic)
            return True
        if len(self._messages) >= self.most and publication.topic not in self._messages:
            return False
        self._messages.put(publication.topic, publication)
        return True

    def get(self, topic: str, now_ns: int) -> Publication | None:
        found = self._messages.get(topic)
        if found is not None and found.is_expired(now_ns):
            self._messages.pop(topic)
            return None
        return found

    def matching(self, filter: str, now_ns: int) -> Iterator[Publication]:
        found = list(self._messages.matching(filter))
        for topic, publication in found:
            if publication.is_expired(now_ns):
                self._messages.pop(topic)
            else:
                yield publication
