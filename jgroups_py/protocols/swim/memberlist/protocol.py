"""MEMBERLIST: the transport that lets SWIM speak with members of memberlist and Serf, in their frames.

Below SWIM in a stack of its own, in place of UDP or TCP. Datagrams carry probes and news; pushes and pulls of all that
is known, and pings of last resort, go over streams, on the same port. Frames of memberlist do not name their sender:
it is the node that receives where the frame came from. What comes over a stream has an address made for that stream,
so that an answer, sent like any other, goes back over it. A question has one answer, then the stream is closed.
Source: HashiCorp's memberlist, net.go and its protocol version 5 (spoken as 2, which is what its members default to).
Deviations: no labels.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from jgroups_py.address import Address, PhysicalAddress
from jgroups_py.base_transport import BaseTransport
from jgroups_py.batch import Batch, Header
from jgroups_py.errors import WireError
from jgroups_py.events import AddressesKnown, Left, SendTo
from jgroups_py.outputs import Frame, Note
from jgroups_py.ports import Streams, UserState
from jgroups_py.protocol import CONTROL, STOP, on, timer
from jgroups_py.protocols.swim.headers import Alive, Ping, PushPull
from jgroups_py.protocols.swim.memberlist.config import MemberlistConfig
from jgroups_py.protocols.swim.memberlist.messages import (
    CHECKED_SINCE,
    MEMBERLIST_VERSIONS,
    PLAIN_VERSIONS,
    SERF_VERSIONS,
    WRITABLE,
    Dialect,
    Failure,
    Node,
    address_of,
    write_message,
)
from jgroups_py.protocols.swim.memberlist.packet import CHECK_BYTES, fitting, read_packet, write_packet
from jgroups_py.protocols.swim.memberlist.sealing import NONCE_BYTES, SEAL_BYTES, Keyring
from jgroups_py.protocols.swim.memberlist.stream import StreamReader, write_stream
from jgroups_py.streams import CloseStream, OpenStream, StreamClosed, StreamData, StreamOpened, StreamTo, WriteStream

MAX_KNOWN = 100_000                         # nodes, places: beyond it they are learnt anew
MAX_STREAMS = 256                           # at once, theirs and ours
ANSWERED = (Ping, PushPull)                 # the questions; anything else over a stream has no answer


@attrs.define(eq=False)
class Talk:
    """One stream. place: of the other end; peer: who that is to layers above; asked: our question, None: theirs."""

    place: PhysicalAddress
    peer: Address
    reader: StreamReader
    asked: Header | None = None


class Memberlist(BaseTransport, Streams):
    """See the module."""

    Config = MemberlistConfig
    config: MemberlistConfig

    def start(self) -> None:
        super().start()
        keys = self.config.keys
        keyring = Keyring(keys, lambda: self.rng.randbytes(NONCE_BYTES)) if keys else None
        self.dialect = Dialect(self.met, self.versions_of, keyring)
        self.ours = MEMBERLIST_VERSIONS + (PLAIN_VERSIONS if self.stack.find(UserState) is None else SERF_VERSIONS)
        self.mine: Alive | None = None                       # the latest that we said of ourselves
        self.versions: dict[str, bytes] = {}                 # node -> what it speaks, as told
        self.at: dict[PhysicalAddress, Address] = {}         # place -> who receives there
        self.talks: dict[int, Talk] = {}                     # stream -> what is said there
        self.opened = 0                                      # streams of ours, ever
        self.waiting: dict[Address, int] = {}                # who asks -> the stream on which it waits

    # --- ports --------------------------------------------------------------------------------------------------------

    def max_frame_bytes(self) -> int:
        return self.config.packet_bytes - CHECK_BYTES - (SEAL_BYTES if self.config.keys else 0)

    def has_streams(self) -> bool:
        return self.physical is not None

    # --- who is who ---------------------------------------------------------------------------------------------------

    def met(self, node: Node) -> Address:
        """A message speaks of a node: the address that it has here."""
        if self.mine is not None and self.is_us(node, self.mine):
            return self.me
        address = address_of(node.name, node.place)
        if node.versions:
            if len(self.versions) >= MAX_KNOWN:
                self.versions.clear()
            self.versions[node.name] = node.versions
        if node.place is not None:
            self.learn(address, node.place)
        return address

    def is_us(self, node: Node, mine: Alive) -> bool:
        """Whether it is this start of ours; an earlier one under the same name and place went further, or was other."""
        if node.name != mine.node or node.place != self.physical:
            return False
        return node.incarnation < mine.incarnation or (node.incarnation, node.meta) == (mine.incarnation, mine.meta)

    def learn(self, address: Address, place: PhysicalAddress) -> None:
        """Who receives where."""
        if len(self.book) >= MAX_KNOWN:
            self.book.clear()
            self.at.clear()
            self.heard.clear()
        self.at[place] = address
        self.book[address] = place

    def who_is_at(self, place: PhysicalAddress) -> Address:
        """The sender of a frame that came from `place`."""
        address = self.at.get(place)
        if address is None:
            address = address_of("", place)
            self.learn(address, place)
        return address

    def versions_of(self, alive: Alive) -> bytes:
        """What a node speaks, to be told to others."""
        if alive.member == self.me:
            self.mine = alive
            return self.ours
        return self.versions.get(alive.node, self.ours)

    def reads_checksums(self, dest: Address | None) -> bool:
        """Whether a checksum would be understood there."""
        versions = self.versions.get(dest.name) if dest is not None else None
        return versions is not None and versions[1] >= CHECKED_SINCE

    @on(AddressesKnown)
    def addresses_known(self, event: AddressesKnown) -> None:
        for member, place in event.book.items():
            if member != self.me:
                self.learn(member, place)

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
            self.count("no_physical_address")
        else:
            self.put(place, batch)

    @on(SendTo)
    def send_to(self, event: SendTo) -> None:
        self.put(event.physical, event.batch)

    def put(self, place: PhysicalAddress, batch: Batch) -> None:
        """Send to a place, the lowest header first, in as many datagrams as it takes."""
        headers = [header for header in reversed(batch.headers) if header.__class__ in WRITABLE]
        if len(headers) < len(batch.headers) or batch.payloads:
            self.count("not_memberlist_dropped")
        messages = [write_message(header, self.dialect) for header in headers]
        check = self.reads_checksums(batch.dest or self.at.get(place))
        for some in fitting(messages, self.max_frame_bytes()):
            data = write_packet(some, compress=self.config.compress, check=check)
            if self.dialect.keyring is not None:
                data = self.dialect.keyring.sealed(data)
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
                headers = read_packet(data, self.dialect)
            except WireError as error:
                self.malformed(place, error)
                continue
            self.count("messages_received", len(headers))
            self.heard_from(self.who_is_at(place), headers)

    def heard_from(self, src: Address, headers: Sequence[Header]) -> None:
        """Pass it up as one batch, the first message lowest."""
        self.heard[src] = self.now_ns
        if headers:
            self.pass_up(Batch(src, self.me, (), tuple(reversed(headers)), CONTROL))

    def malformed(self, place: PhysicalAddress, error: WireError) -> None:
        """Count, and say so once in a while."""
        self.count("malformed_dropped")
        self.warn(f"what {place[0]}:{place[1]} sent is not memberlist's: {error}")

    # --- streams ------------------------------------------------------------------------------------------------------

    @on(StreamTo)
    def ask(self, event: StreamTo) -> None:
        """Ask over a stream of its own."""
        if len(self.talks) >= MAX_STREAMS:
            return self.count("streams_refused")
        self.opened += 1
        (question,) = event.batch.headers
        place = event.place
        self.begin(self.opened, Talk(place, self.who_is_at(place), StreamReader(self.dialect), question))
        self.emit(OpenStream(self.stack.net, self.opened, place))
        self.say(self.opened, question)
        if not isinstance(question, ANSWERED):
            self.end(self.opened)
        return None

    def begin(self, stream: int, talk: Talk) -> None:
        self.talks[stream] = talk
        self.set_timer("stream", self.config.stream_timeout_ns, stream)

    def say(self, stream: int, header: Header) -> None:
        data = write_stream(header, self.dialect, compress=self.config.compress)
        self.count("stream_bytes_sent", len(data))
        self.emit(WriteStream(self.stack.net, stream, data))

    def answer(self, stream: int, batch: Batch) -> None:
        """What a layer above says to somebody who waits on a stream; news that ride along have no room there."""
        self.say(stream, batch.headers[-1])
        self.end(stream)

    def end(self, stream: int, *, at_once: bool = False) -> None:
        """All is said."""
        talk = self.talks.pop(stream)
        self.waiting.pop(talk.peer, None)
        self.cancel_timer("stream", stream)
        self.emit(CloseStream(self.stack.net, stream, at_once))

    @on(StreamOpened)
    def stream_opened(self, event: StreamOpened) -> object:
        """Somebody wants to ask us something."""
        if len(self.talks) >= MAX_STREAMS:
            self.count("streams_refused")
            self.emit(CloseStream(self.stack.net, event.stream, at_once=True))
        else:
            peer = address_of(f"stream {event.stream}", event.place)
            self.begin(event.stream, Talk(event.place, peer, StreamReader(self.dialect)))
        return STOP

    @on(StreamData)
    def stream_data(self, event: StreamData) -> object:
        talk = self.talks.get(event.stream)
        if talk is not None:
            self.count("stream_bytes_received", len(event.data))
            try:
                message = talk.reader.feed(event.data)
            except WireError as error:
                self.malformed(talk.place, error)
                self.say(event.stream, Failure(str(error)))
                self.end(event.stream)
            else:
                if message is not None:
                    self.understood(event.stream, talk, message)
        return STOP

    def understood(self, stream: int, talk: Talk, message: Header) -> None:
        """A whole message came over a stream."""
        if talk.asked is None and isinstance(message, ANSWERED):
            self.waiting[talk.peer] = stream
            # The answer goes over the stream, wherever datagrams to the asker would go.
            if isinstance(message, Ping):
                message = Ping(message.number, message.node, message.source, None)
            self.heard_from(talk.peer, (message,))
            return
        self.end(stream)
        if isinstance(message, Failure):
            self.count("refused_by_peer")
            self.emit(Note("warning", f"{talk.place[0]}:{talk.place[1]} refuses: {message.reason}"))
        elif isinstance(message, PushPull) and isinstance(talk.asked, PushPull):
            # Who receives there may have become known by this very message.
            answer = PushPull(talk.asked.exchange, True, talk.asked.join, message.states, message.user)
            self.heard_from(self.who_is_at(talk.place), (answer,))
        else:
            self.heard_from(self.who_is_at(talk.place) if talk.asked is not None else talk.peer, (message,))

    @on(StreamClosed)
    def stream_closed(self, event: StreamClosed) -> object:
        talk = self.talks.get(event.stream)
        if talk is not None:
            self.count("streams_failed" if event.error else "streams_unanswered")
            self.end(event.stream, at_once=True)
        return STOP

    @timer("stream")
    def too_slow(self, stream: int) -> None:
        self.count("streams_timed_out")
        self.end(stream, at_once=True)

    @on(Left)
    def left(self, event: Left) -> None:
        for stream in list(self.talks):
            self.end(stream)
