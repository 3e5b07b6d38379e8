"""What the broker wants done; a server carries it out in order.

connection: the number that the server gave with `Broker.connected`. Nothing is sent to a connection after its
CloseConnection.
"""
from __future__ import annotations

import attrs

from jgroups_py.blocks.mqtt.codec.encoder import PublishFrames
from jgroups_py.blocks.mqtt.codec.packets import Ack, Packet, ProtocolVersion, ReasonCode, acknowledgement


@attrs.define(eq=False, weakref_slot=False)
class SendPacket:
    """Encode a packet other than PUBLISH in this version and write it."""

    connection: int
    packet: Packet
    version: ProtocolVersion


@attrs.define(eq=False, weakref_slot=False)
class SendAcks:
    """Write acknowledgements of one kind without a reason, for these packet ids: `encode_acks(kind, packet_ids)`."""

    connection: int
    kind: type[Ack]
    packet_ids: list[int]

    @property
    def packets(self) -> list[Packet]:
        """One by one."""
        return [acknowledgement(self.kind, packet_id) for packet_id in self.packet_ids]


@attrs.define(eq=False, weakref_slot=False)
class SendPublish:
    """Write `frames.frame(qos, packet_id, retain, dup)`. Subscribers of one message share `frames`."""

    connection: int
    frames: PublishFrames
    qos: int
    packet_id: int
    retain: bool
    dup: bool


@attrs.frozen(eq=False)
class CloseConnection:
    """Write what was sent before, then close. reason and detail are for the log; the client has had its packet.

    `Broker.lost` need not follow: the broker knows that the connection is no more.
    """

    connection: int
    reason: ReasonCode
    detail: str


@attrs.frozen(eq=False)
class PauseReading:
    """Read nothing from this publisher: a subscriber of it is full, and the policy is to block."""

    connection: int


@attrs.frozen(eq=False)
class ResumeReading:
    """Read again."""

    connection: int


@attrs.frozen(eq=False)
class MoreToSend:
    """Much was sent, and there is more: call `Broker.write_ready` when the transport holds little of it."""

    connection: int


Output = SendPacket | SendAcks | SendPublish | CloseConnection | PauseReading | ResumeReading | MoreToSend
