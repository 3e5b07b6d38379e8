"""A message on its way through the broker: one object, however many subscribers it has.

It carries what is encoded once: the packets of one version with the message's own properties differ in the first byte
and the packet id alone, so subscribers share them (`frames_for`). What is only one subscriber's (subscription
identifiers, a topic alias, less time to live) needs frames of its own (`frames_with`).
"""
from __future__ import annotations

import attrs

from jgroups_py.blocks.mqtt.codec.encoder import VERSION_5, PublishFrames
from jgroups_py.blocks.mqtt.codec.packets import NO_PROPERTIES, Properties, ProtocolVersion

SECOND = 1_000_000_000
NEVER = 0
OVERHEAD_BYTES = 200
"""What a queued message costs besides topic and payload; so that empty messages cannot fill memory uncounted."""


@attrs.define(eq=False, weakref_slot=False)
class Publication:
    """A message that was accepted for delivery.

    properties: those that are forwarded (3.3.2.3), without topic alias and subscription identifiers; publisher: the
    client id that "no local" compares, "" for the broker's own; expires_ns: when it is no longer to be delivered, NEVER
    for not at all; wants_retain: RETAIN was set in the packet that brought it; origin, number: the life of the broker
    that got it from its client, and how many it had got then (set by a federation).
    """

    topic: str
    payload: bytes
    qos: int = 0
    wants_retain: bool = False
    properties: Properties = NO_PROPERTIES
    publisher: str = ""
    expires_ns: int = NEVER
    origin: int = 0
    number: int = 0
    _frames_3: PublishFrames | None = attrs.field(default=None, init=False, repr=False)
    _frames_5: PublishFrames | None = attrs.field(default=None, init=False, repr=False)

    @property
    def size(self) -> int:
        """Bytes that it is counted with in a queue."""
        return len(self.topic) + len(self.payload) + OVERHEAD_BYTES

    def frames_for(self, version: ProtocolVersion) -> PublishFrames:
        """Its packets of a version, encoded once."""
        if version is VERSION_5:
            if self._frames_5 is None:
                self._frames_5 = PublishFrames(self.topic, self.payload, version, self.properties)
            return self._frames_5
        if self._frames_3 is None:
            self._frames_3 = PublishFrames(self.topic, self.payload, version)
        return self._frames_3

    def frames_with(
        self, now_ns: int, identifiers: tuple[int, ...], alias: int = 0, with_topic: bool = True,
    ) -> PublishFrames:
        """Packets of version 5 for one subscriber: its identifiers, an alias, and the time that is left to live."""
        properties = attrs.evolve(
            self.properties, subscription_identifiers=identifiers, topic_alias=alias or None,
            message_expiry_interval=self.seconds_left(now_ns))
        return PublishFrames(self.topic if with_topic else "", self.payload, ProtocolVersion.MQTT_5, properties)

    def seconds_left(self, now_ns: int) -> int | None:
        """What the property Message Expiry Interval says when it is sent now [MQTT-3.3.2-6]; None: no expiry."""
        if self.expires_ns == NEVER:
            return None
        return max(0, -((now_ns - self.expires_ns) // SECOND))

    def is_expired(self, now_ns: int) -> bool:
        """Whether its delivery must not begin any more [MQTT-3.3.2-5]."""
        return self.expires_ns != NEVER and now_ns >= self.expires_ns


def expiry_ns(properties: Properties, now_ns: int) -> int:
    """When a message with these properties expires that arrived now."""
    seconds = properties.message_expiry_interval
    return NEVER if seconds is None else now_ns + seconds * SECOND
