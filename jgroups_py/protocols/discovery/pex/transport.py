"""INFLUX: the transport with which PEX exchanges frames with peers of InfluxDB's gossip, in their format.

Below PEX in a stack of its own, in place of UDP. A frame carries its sender's identity, which is its address here, and
no cluster: every process that reaches the port is a peer. What the format has no field for is left out: this side
chooses the pages, a leave is not sent, an interest has only its numbered topics, and a broadcast without a numbered
topic is counted and not sent. Source: the crate's protobuf schema (influx.py).
"""
from __future__ import annotations

from collections.abc import Iterable

import attrs

from jgroups_py.model.address import ADDRESS_BYTES, Address, PhysicalAddress
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.counters import counter, declare, drop
from jgroups_py.model.errors import WireError
from jgroups_py.model.events import AddressesKnown, SendTo
from jgroups_py.model.outputs import Frame
from jgroups_py.model.topics import EVERYTHING
from jgroups_py.model.units import count, flag
from jgroups_py.protocols.discovery.pex.headers import PeerBroadcast, PeerPing, PeerPong
from jgroups_py.protocols.discovery.pex.influx import (
    MAX_FRAME_BYTES,
    InfluxFrame,
    InfluxMessage,
    InfluxPayload,
    InfluxPeer,
    InfluxPing,
    InfluxPong,
    pongs,
    read_frame,
    write_frame,
)
from jgroups_py.stack.base_transport import BaseTransport
from jgroups_py.stack.datagrams import Datagrams
from jgroups_py.stack.protocol import CONTROL, STOP, on
from jgroups_py.wire.topic_headers import TopicNumber, topic_header

MAX_KNOWN = 100_000                    # identities with an address; beyond it the book starts again, empty


@attrs.frozen
class InfluxConfig(Datagrams):
    """The socket."""

    bind_port: int = count(8082, most=65535, doc="First port to try; 0: any free one.")
    trusted_network: bool = flag(False, doc="Whether only trusted machines reach its port. Frames of this format are "
                                "not sealed: in a process with ENCRYPT the stack is refused unless this is true.")


class InfluxUdp(BaseTransport):
    """The layer; its `book` and `last_frames` have identities as keys."""

    Config = InfluxConfig
    config: InfluxConfig
    COUNTERS = declare(
        counter("frames_sent", "Frames sent."),
        counter("bytes_sent", "Their bytes."),
        counter("frames_received", "Frames received."),
        counter("bytes_received", "Their bytes."),
        drop("too_large_dropped", "Messages larger than a frame of InfluxDB Edge."),
        drop("no_frame_for_it", "Messages for which that protocol has no frame."),
        drop("malformed_dropped", "Frames that cannot be decoded."),
    )

    def max_frame_bytes(self) -> int:
        return MAX_FRAME_BYTES

    @on(AddressesKnown)
    def addresses_known(self, event: AddressesKnown) -> object:
        return STOP                                          # PEX has them from this layer's own book

    # --- sending ------------------------------------------------------------------------------------------------------

    @on(SendTo)
    def send_to(self, event: SendTo) -> object:
        try:
            frames = self.frames_of(event.batch)
        except ValueError as error:
            self.drop("too_large_dropped", event.batch, str(error), number=1)
            self.warn(str(error))
            return STOP
        if not frames:
            self.drop("no_frame_for_it", event.batch, "the protocol has no frame for it", number=1)
        for data in frames:
            self.count("frames_sent")
            self.count("bytes_sent", len(data))
            self.emit(Frame(self.stack.net, event.physical, [data]))
        return STOP

    def frames_of(self, batch: Batch) -> list[bytes]:
        """The frames of a batch of PEX; none if the protocol has no frame for it.

        Raises:
            ValueError: it exceeds the largest frame.
        """
        match batch.headers:
            case (*_, PeerPing(interest)):
                return [write_frame(InfluxFrame(self.me, (InfluxPing(interest),)))]
            case (*_, PeerPong(interest, _, peers)):
                listed = tuple(InfluxPeer(peer, place, EVERYTHING) for peer, place in peers)
                return list(pongs(listed, interest, self.me))
            case (*_, TopicNumber(number), PeerBroadcast()):
                return [write_frame(InfluxFrame(self.me, (InfluxPayload(batch.payloads[0], number),)))]
        return []

    # --- receiving ----------------------------------------------------------------------------------------------------

    def receive(self, frames: Iterable[tuple[bytes, PhysicalAddress | None]]) -> None:
        for data, place in frames:
            self.count("frames_received")
            self.count("bytes_received", len(data))
            try:
                frame = read_frame(data)
            except WireError as error:
                self.drop("malformed_dropped", None, f"{error}; from {place}")
                self.warn(f"dropped a frame: {error}")
                continue
            if frame.identity != self.me and place is not None:
                self.store(frame.identity, place)
                for message in frame.messages:
                    self.pass_up(self.batch_of(message, frame.identity, place))

    def store(self, identity: Address, place: PhysicalAddress) -> None:
        if len(self.book) >= MAX_KNOWN:
            self.book.clear()
            self.last_frames.clear()
        self.book[identity], self.last_frames[identity] = place, self.now_ns

    def batch_of(self, message: InfluxMessage, identity: Address, place: PhysicalAddress) -> Batch:
        """A received message as a batch of PEX."""
        headers: tuple[Header, ...]
        payloads: tuple[bytes, ...] = ()
        match message:
            case InfluxPing(interest):
                # Their ping requests all peers; each answer is a page from a random identity on, in time all of them.
                headers = (PeerPing(interest, place, Address(self.rng.randbytes(ADDRESS_BYTES)), False),)
            case InfluxPong(peers, interest):
                listed = tuple((peer.identity, peer.place) for peer in peers)
                headers = (PeerPong(interest, place, listed, False, False),)
            case InfluxPayload(payload, topic):
                headers, payloads = (topic_header(topic), PeerBroadcast()), (payload,)
        return Batch(identity, self.me, payloads, headers, CONTROL)
