"""MEMBERLIST: the transport with which SWIM exchanges frames with members of memberlist and Serf.

Below SWIM in a stack of its own, in place of UDP or TCP. Datagrams carry probes and updates; exchanges of the table
(push-pull), and the pings that follow an unanswered datagram, go over streams, on the same port. Frames of memberlist
do not name their sender: it is taken to be the node whose physical address the frame came from. A request over a stream
gets a source address made for that stream, so that the answer, sent like any other message, goes back over it. A
request has one answer, then the stream is closed. Source: HashiCorp's memberlist, net.go and its protocol version 5
(announced as 2, the default of its members). Deviations: no labels.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.counters import counter, declare, drop
from jgroups_py.model.errors import WireError
from jgroups_py.model.events import AddressesKnown, Left, SendTo, StreamClosed, StreamData, StreamOpened, StreamTo
from jgroups_py.model.outputs import CloseStream, Frame, LogEntry, OpenStream, WriteStream
from jgroups_py.model.ports import Streams, UserState
from jgroups_py.model.text import place as place_text
from jgroups_py.protocols.swim.headers import Alive, PingHeader, PushPull
from jgroups_py.protocols.swim.memberlist.config import MemberlistConfig
from jgroups_py.protocols.swim.memberlist.messages import (
    CHECKED_SINCE,
    MEMBERLIST_VERSIONS,
    PLAIN_VERSIONS,
    SERF_VERSIONS,
    WRITABLE,
    CodecContext,
    NodeRecord,
    StreamFailure,
    address_of,
    write_message,
)
from jgroups_py.protocols.swim.memberlist.packet import CHECK_BYTES, fitting, read_packet, write_packet
from jgroups_py.protocols.swim.memberlist.sealing import NONCE_BYTES, SEAL_BYTES, Keyring
from jgroups_py.protocols.swim.memberlist.stream import StreamReader, write_stream
from jgroups_py.stack.base_transport import BaseTransport
from jgroups_py.stack.protocol import CONTROL, STOP, on, timer

MAX_KNOWN = 100_000                         # nodes and physical addresses; beyond it the tables start again, empty
MAX_STREAMS = 256                           # at once, opened by either side
REQUESTS = (PingHeader, PushPull)           # anything else over a stream has no answer


@attrs.define(eq=False)
class StreamExchange:
    """One stream. place: of the other end; peer: its address for the layers above.

    request: sent by this member, None if the other end opened the stream.
    """

    place: PhysicalAddress
    peer: Address
    reader: StreamReader
    request: Header | None = None


class Memberlist(BaseTransport, Streams):
    """The layer: datagrams, streams, and the addresses of nodes."""

    Config = MemberlistConfig
    config: MemberlistConfig
    COUNTERS = declare(
        counter("frames_sent", "Datagrams sent."),
        counter("bytes_sent", "Their bytes."),
        counter("messages_sent", "Messages in them."),
        counter("frames_received", "Datagrams received."),
        counter("bytes_received", "Their bytes."),
        counter("messages_received", "Messages in them."),
        counter("stream_bytes_sent", "Bytes sent over streams."),
        counter("stream_bytes_received", "Bytes received over streams."),
        counter("refused_by_peer", "Requests over streams that the other end refused."),
        counter("streams_failed", "Streams that broke."),
        counter("streams_unanswered", "Streams that the other end closed without an answer."),
        counter("streams_timed_out", "Streams that exceeded `stream_timeout`."),
        drop("streams_refused", "Streams not opened or not accepted, since there are too many."),
        drop("no_physical_address", "Messages to a member whose physical address is not known."),
        drop("not_memberlist_dropped", "Headers and payloads for which memberlist has no message."),
        drop("malformed_dropped", "Datagrams and streams that cannot be decoded."),
    )

    def start(self) -> None:
        super().start()
        keys = self.config.keys
        keyring = Keyring(keys, lambda: self.rng.randbytes(NONCE_BYTES)) if keys else None
        self.context = CodecContext(self.address_for, self.versions_of, keyring)
        with_serf = self.stack.find(UserState) is not None
        self.own_versions = MEMBERLIST_VERSIONS + (SERF_VERSIONS if with_serf else PLAIN_VERSIONS)
        self.own_alive: Alive | None = None                  # the latest that SWIM sent for this member
        self.versions: dict[str, bytes] = {}                 # node -> the protocol versions that it announced
        self.at: dict[PhysicalAddress, Address] = {}         # physical address -> address of the node there
        self.exchanges: dict[int, StreamExchange] = {}       # stream -> its exchange
        self.opened = 0                                      # streams that this member ever opened
        self.waiting: dict[Address, int] = {}                # peer -> the stream on which it awaits an answer

    # --- ports --------------------------------------------------------------------------------------------------------

    def max_frame_bytes(self) -> int:
        return self.config.packet_bytes - CHECK_BYTES - (SEAL_BYTES if self.config.keys else 0)

    def has_streams(self) -> bool:
        return self.physical is not None

    # --- addresses of nodes -------------------------------------------------------------------------------------------

    def address_for(self, node: NodeRecord) -> Address:
        """The address of a node named in a message; its versions and physical address are stored."""
        if self.own_alive is not None and self.is_this_start(node, self.own_alive):
            return self.me
        address = address_of(node.name, node.place)
        if node.versions:
            if len(self.versions) >= MAX_KNOWN:
                self.versions.clear()
            self.versions[node.name] = node.versions
        if node.place is not None:
            self.store(address, node.place)
        return address

    def is_this_start(self, node: NodeRecord, mine: Alive) -> bool:
        """Whether a record with this member's name and physical address is of this start, not of an earlier one.

        memberlist has no field for that: an earlier start had a higher incarnation, or the same with other metadata.
        """
        if node.name != mine.node or node.place != self.physical:
            return False
        return node.incarnation < mine.incarnation or (node.incarnation, node.meta) == (mine.incarnation, mine.meta)

    def store(self, address: Address, place: PhysicalAddress) -> None:
        """Store where a node receives. The tables are bounded, since frames can name any number of nodes."""
        if len(self.book) >= MAX_KNOWN:
            self.book.clear()
            self.at.clear()
            self.last_frames.clear()
        self.at[place] = address
        self.book[address] = place

    def address_at(self, place: PhysicalAddress) -> Address:
        """The address of the node whose frames come from `place`; one made of the place if no node is known there."""
        address = self.at.get(place)
        if address is None:
            address = address_of("", place)
            self.store(address, place)
        return address

    def versions_of(self, alive: Alive) -> bytes:
        """The protocol versions of a node, to be written into its Alive: those that it announced, or this member's."""
        if alive.member == self.me:
            self.own_alive = alive
            return self.own_versions
        return self.versions.get(alive.node, self.own_versions)

    def reads_checksums(self, dest: Address | None) -> bool:
        """Whether the receiver's announced version has checksums; without an announcement it may not."""
        versions = self.versions.get(dest.name) if dest is not None else None
        return versions is not None and versions[1] >= CHECKED_SINCE

    @on(AddressesKnown)
    def on_addresses_known(self, event: AddressesKnown) -> None:
        for member, place in event.book.items():
            if member != self.me:
                self.store(member, place)

    # --- datagrams ----------------------------------------------------------------------------------------------------

    def down(self, batch: Batch) -> None:
        dest = batch.dest
        stream = None if dest is None else self.waiting.get(dest)
        place = None if dest is None else self.book.get(dest)
        if dest == self.me:
            self.pass_up(batch)
        elif stream is not None:
            self.answer(stream, batch)
        elif place is None:
            self.drop("no_physical_address", batch, "its physical address is not known", number=1)
        else:
            self.send_datagrams(place, batch)

    @on(SendTo)
    def on_send_to(self, event: SendTo) -> None:
        self.send_datagrams(event.physical, event.batch)

    def send_datagrams(self, place: PhysicalAddress, batch: Batch) -> None:
        """Send a batch, a message for each header, the lowest first, in as few datagrams as hold them."""
        headers = [header for header in reversed(batch.headers) if header.__class__ in WRITABLE]
        if len(headers) < len(batch.headers) or batch.payloads:
            self.drop("not_memberlist_dropped", batch, "memberlist has no message for it", number=1)
        messages = [write_message(header, self.context) for header in headers]
        check = self.reads_checksums(batch.dest or self.at.get(place))
        for some in fitting(messages, self.max_frame_bytes()):
            data = write_packet(some, compress=self.config.compress, check=check)
            if self.context.keyring is not None:
                data = self.context.keyring.sealed(data)
            self.count("frames_sent")
            self.count("bytes_sent", len(data))
            self.count("messages_sent", len(some))
            self.emit(Frame(self.stack.net, place, [data]))

    def receive(self, frames: Iterable[tuple[bytes, PhysicalAddress | None]]) -> None:
        for data, place in frames:
            assert place is not None, "datagrams have senders"
            self.count("frames_received")
            self.count("bytes_received", len(data))
            try:
                headers = read_packet(data, self.context)
            except WireError as error:
                self.malformed(place, error)
                continue
            self.count("messages_received", len(headers))
            self.pass_up_from(self.address_at(place), headers)

    def pass_up_from(self, src: Address, headers: Sequence[Header]) -> None:
        """Pass messages up as one batch, the first message as its lowest header."""
        self.last_frames[src] = self.now_ns
        if headers:
            self.pass_up(Batch(src, self.me, (), tuple(reversed(headers)), CONTROL))

    def malformed(self, place: PhysicalAddress, error: WireError) -> None:
        """Count bytes that cannot be decoded, and log a warning, at most one a minute."""
        self.drop("malformed_dropped", None, f"{error}; from {place_text(*place)}")
        self.warn(f"bytes from {place_text(*place)} are not memberlist's: {error}")

    # --- streams ------------------------------------------------------------------------------------------------------

    @on(StreamTo)
    def on_stream_to(self, event: StreamTo) -> None:
        """Send a request, or a message without an answer, over a new stream."""
        if len(self.exchanges) >= MAX_STREAMS:
            return self.drop("streams_refused", None, "there are too many streams")
        self.opened += 1
        (request,) = event.batch.headers
        place = event.place
        self.begin(self.opened, StreamExchange(place, self.address_at(place), StreamReader(self.context), request))
        self.emit(OpenStream(self.stack.net, self.opened, place))
        self.write(self.opened, request)
        if not isinstance(request, REQUESTS):
            self.end(self.opened)
        return None

    def begin(self, stream: int, exchange: StreamExchange) -> None:
        self.exchanges[stream] = exchange
        self.set_timer("stream", self.config.stream_timeout_ns, stream)

    def write(self, stream: int, header: Header) -> None:
        data = write_stream(header, self.context, compress=self.config.compress)
        self.count("stream_bytes_sent", len(data))
        self.emit(WriteStream(self.stack.net, stream, data))

    def answer(self, stream: int, batch: Batch) -> None:
        """Write a layer's answer to the waiting stream; it holds one message, so piggybacked updates are left out."""
        self.write(stream, batch.headers[-1])
        self.end(stream)

    def end(self, stream: int, *, at_once: bool = False) -> None:
        """Forget the stream and close it; at_once: without sending what is still queued."""
        exchange = self.exchanges.pop(stream)
        self.waiting.pop(exchange.peer, None)
        self.cancel_timer("stream", stream)
        self.emit(CloseStream(self.stack.net, stream, at_once))

    @on(StreamOpened)
    def on_stream_opened(self, event: StreamOpened) -> object:
        """Another node opened a stream."""
        if len(self.exchanges) >= MAX_STREAMS:
            self.drop("streams_refused", None, "there are too many streams")
            self.emit(CloseStream(self.stack.net, event.stream, at_once=True))
        else:
            peer = address_of(f"stream {event.stream}", event.place)
            self.begin(event.stream, StreamExchange(event.place, peer, StreamReader(self.context)))
        return STOP

    @on(StreamData)
    def on_stream_data(self, event: StreamData) -> object:
        exchange = self.exchanges.get(event.stream)
        if exchange is not None:
            self.count("stream_bytes_received", len(event.data))
            try:
                message = exchange.reader.feed(event.data)
            except WireError as error:
                self.malformed(exchange.place, error)
                self.write(event.stream, StreamFailure(str(error)))
                self.end(event.stream)
            else:
                if message is not None:
                    self.on_stream_message(event.stream, exchange, message)
        return STOP

    def on_stream_message(self, stream: int, exchange: StreamExchange, message: Header) -> None:
        """A whole message came over a stream: a request, which keeps it open, or the last message on it."""
        if exchange.request is None and isinstance(message, REQUESTS):
            self.waiting[exchange.peer] = stream
            # Without its reply address, to which SWIM would send a datagram: the answer belongs on the stream.
            if isinstance(message, PingHeader):
                message = PingHeader(message.number, message.node, message.source, None)
            self.pass_up_from(exchange.peer, (message,))
            return
        self.end(stream)
        if isinstance(message, StreamFailure):
            self.count("refused_by_peer")
            self.emit(LogEntry("warning", f"{place_text(*exchange.place)} refuses: {message.reason}"))
        elif isinstance(message, PushPull) and isinstance(exchange.request, PushPull):
            # Looked up only now: reading the answer may have stored the name of the node at that physical address.
            answer = PushPull(exchange.request.exchange, True, exchange.request.join, message.states, message.user)
            self.pass_up_from(self.address_at(exchange.place), (answer,))
        else:
            src = self.address_at(exchange.place) if exchange.request is not None else exchange.peer
            self.pass_up_from(src, (message,))

    @on(StreamClosed)
    def on_stream_closed(self, event: StreamClosed) -> object:
        exchange = self.exchanges.get(event.stream)
        if exchange is not None:
            self.count("streams_failed" if event.error else "streams_unanswered")
            self.end(event.stream, at_once=True)
        return STOP

    @timer("stream")
    def stream_timed_out(self, stream: int) -> None:
        self.count("streams_timed_out")
        self.end(stream, at_once=True)

    @on(Left)
    def on_left(self, event: Left) -> None:
        for stream in list(self.exchanges):
            self.end(stream)
