"""MQTT messages for the archive: what clients here publish, and what this node takes over from others.

With ARCHIVE in the group's stack the archive has the frames of the federation as messages of the group. These rows have
what is in them: one of kind `sent` at the node of the publisher, whoever wants the message, and one of kind `delivered`
at each other node that takes it over, with the topic, the size of the payload, and the number that the node of the
publisher gave it. Messages of one topic with consecutive numbers are one run.
"""
from __future__ import annotations

from jgroups_py.blocks.mqtt.broker.publication import Publication
from jgroups_py.model.address import Address
from jgroups_py.model.events import MessageRun

SENT, DELIVERED = "sent", "delivered"
STREAM = "mqtt"
"""As in archive/schema.py, which needs pyarrow."""


class MessageRecord:
    """See the module. What is recorded waits here for `take`, which the link calls once for all that a turn of the
    event loop brought."""

    def __init__(self) -> None:
        self._runs: list[MessageRun] = []

    def sent(self, publication: Publication, now_ns: int) -> None:
        """A client of this broker, or the broker, publishes it."""
        self._add(SENT, publication, None, now_ns)

    def delivered(self, publication: Publication, origin: Address, now_ns: int) -> None:
        """It came from another broker. origin: where it was published."""
        self._add(DELIVERED, publication, origin, now_ns)

    def _add(self, kind: str, publication: Publication, origin: Address | None, now_ns: int) -> None:
        if self._runs:
            last = self._runs[-1]
            if (last.topic == publication.topic and last.first + len(last.sizes) == publication.number
                    and last.kind == kind and last.origin == origin and last.now_ns == now_ns):
                last.sizes.append(len(publication.payload))
                return
        self._runs.append(
            MessageRun(kind, now_ns, origin, publication.topic, publication.number, [len(publication.payload)]))

    def take(self) -> tuple[MessageRun, ...]:
        """What was recorded since the last call."""
        found, self._runs = tuple(self._runs), []
        return found
