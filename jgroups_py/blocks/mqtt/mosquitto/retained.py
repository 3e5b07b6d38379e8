"""Retained messages of a node that has a link to a mosquitto; the link is notified of each change."""
from __future__ import annotations

from collections.abc import Callable

from jgroups_py.blocks.mqtt.broker.publication import Publication
from jgroups_py.blocks.mqtt.broker.retained import RetainedTable


class WatchedRetained(RetainedTable):
    """changed: is called with the topic of each change."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.changed: Callable[[str], None] = lambda topic: None

    def put(self, publication: Publication) -> bool:
        is_kept = super().put(publication)
        self.changed(publication.topic)
        return is_kept
