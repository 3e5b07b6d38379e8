"""INFLUX: the transport that lets PEX speak with peers of InfluxDB's gossip, in their frames.

Below PEX in a stack of its own, in place of UDP. Their frames carry their sender's identity, which is its address here,
and no cluster: whoever reaches the port is a peer. What they have no words for is left out: pages are those that we
choose, a leave is not told, interests are the numbered topics in them, and a broadcast without a numbered topic is not
sent, but counted. Source: the crate's protobuf schema (influx.py).
"""
from __future__ import annotations

from collections.abc import Iterable

import attrs

from jgroups_py.address import ADDRESS_BYTES, Address, PhysicalAddress
from jgroups_py.base_transport import BaseTransport
from jgroups_py.batch import Batch, Header
from jgroups_py.errors import WireError
from jgroups_py.events import AddressesKnown, SendTo
from jgroups_py.outputs import Frame
from jgroups_py.protocol import CONTROL, STOP, on
from jgroups_py.protocols.discovery.pex.headers import PeerPing, PeerPong, PeerSaid
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
from jgroups_py.streams import Datagrams
from jgroups_py.topics import EVERYTHING, TopicNumber, topic_header
from jgroups_py.units import count

MAX_KNOWN = 100_000                    # identities whose places are remembered; beyond it they are learnt anew


@attrs.frozen
class InfluxConfig(Datagrams):
    """Where to receive."""

    bind_port: int = count(8082, most=65535, doc="First port to try; 0: any free one.")


class InfluxUdp(BaseTransport):
    """See the module. Here `book` and `heard` are by identity."""

    Config = InfluxConfig
    config: InfluxConfig

    def max_frame_bytes(self) -> int:
        return MAX_FRAME_BYTES

    @on(AddressesKnown)
    def known(self, event: AddressesKnown) -> object:
        return STOP                                          # they come from us

    # --- sending ------------------------------------------------------------------------------------------------------

    @on(SendTo)
    def send_to(self, event: SendTo) -> object:
        try:
            frames = self.said(event.batch)
        except ValueError as error:
            self.count("too_large_dropped")
            self.warn(str(error))
            return STOP
        if not frames:
            self.count("not_sayable")
        for data in frames:
            self.count("frames_sent")
            self.count("bytes_sent", len(data))
            self.emit(Frame(self.stack.net, event.physical, [data]))
        return STOP

    def said(self, batch: Batch) -> list[bytes]:
        """What PEX says, in their words; none: they have none for it.

        Raises:
            ValueError: it is too large for them.
        """
        match batch.headers:
            case (*_, PeerPing(interest)):
                return [write_frame(InfluxFrame(self.me, (InfluxPing(interest),)))]
            case (*_, PeerPong(interest, _, peers)):
                return list(pongs(tuple(InfluxPeer(who, place, EVERYTHING) for who, place in peers), interest, self.me))
            case (*_, TopicNumber(number), PeerSaid()):
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
                self.count("malformed_dropped")
                self.warn(f"dropped a frame: {error}")
                continue
            if frame.identity != self.me and place is not None:
                self.learn(frame.identity, place)
                for message in frame.messages:
                    self.pass_up(self.heard_as(message, frame.identity, place))

    def learn(self, identity: Address, place: PhysicalAddress) -> None:
        if len(self.book) >= MAX_KNOWN:
            self.book.clear()
            self.heard.clear()
        self.book[identity], self.heard[identity] = place, self.now_ns

    def heard_as(self, message: InfluxMessage, identity: Address, place: PhysicalAddress) -> Batch:
        """What they say, in PEX's words."""
        headers: tuple[Header, ...]
        payloads: tuple[bytes, ...] = ()
        match message:
            case InfluxPing(interest):
                # They ask for all; each time they get a page that begins anywhere, so in time they hear of everybody.
                headers = (PeerPing(interest, place, Address(self.rng.randbytes(ADDRESS_BYTES)), False),)
            case InfluxPong(peers, interest):
                listed = tuple((peer.identity, peer.place) for peer in peers)
                headers = (PeerPong(interest, place, listed, False, False),)
            case InfluxPayload(payload, topic):
                headers, payloads = (topic_header(topic), PeerSaid()), (payload,)
        return Batch(identity, self.me, payloads, headers, CONTROL)
