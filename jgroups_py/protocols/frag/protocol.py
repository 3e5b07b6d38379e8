"""FRAG: takes messages larger than `frag_size` apart and puts them together again.

Problem: a frame has a limit, a message should not. Idea: a large message becomes a run of pieces under one header;
the reliable layers below keep the pieces in order, so a receiver appends them until the last one is there.

A large multicast must not break virtual synchrony: members that were here before must not deliver, in a view, what
somebody who joined with that view cannot have, because the first pieces came before. So a sender keeps at most
`window` bytes of a large multicast on their way through its own stack, and later multicasts wait behind it. A message
is done when its last piece has looped back to its sender: then every member that stays has all pieces in this view.
When a view with joiners comes sooner, all members drop the multicasts they have in part, and the sender begins again
under a new number; pieces of the old number that are still under way find no beginning and are dropped. If none of
its pieces had looped back, all of them will come in the new view, and it simply goes on. A view that only loses
members changes nothing: all who are left have the same pieces.

Unicasts are sent in one go; UFC paces them. What a member that left sent in part is dropped. What is announced is not
believed: room is taken by pieces that came. Strangers to the view share a small room of their own, for a short time, or
they would take the members' room; but while the view changes they have more, as they may be in the next one already.
Pieces of OOB messages travel in order. Place: above flow control (so that it sees small messages), below state transfer
and RELAY.
Source: JGroups FRAG2; the pacing and the restart are ours (JGroups has no virtual synchrony).
"""
from __future__ import annotations

from collections import deque

from jgroups_py import wire
from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_RELIABILITY, Batch
from jgroups_py.model.counters import counter, declare, drop, figure
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import Frozen, ViewChange
from jgroups_py.model.outputs import LogEntry
from jgroups_py.model.ports import FrameRoom
from jgroups_py.protocols.frag.config import FragConfig
from jgroups_py.protocols.frag.headers import Fragment
from jgroups_py.protocols.frag.pieces import FragmentedMessage, Partial
from jgroups_py.stack.protocol import Protocol, on, receives, timer

HEADROOM_BYTES = 512             # in a frame, for the headers of this layer and those below
NUMBERS = 1 << 32                # message numbers are u32 on the wire
OVERHEAD_PART = 4                # of max_reassembly_size, that pieces may take beside their payloads

Stream = tuple[Address, bool, int]
"""Pieces come in order within: sender, whether a multicast, NO_RELIABILITY or 0."""


class Frag(Protocol):
    """Fragmentation."""

    Config = FragConfig
    config: FragConfig
    needs = {"frames": FrameRoom}
    frames: FrameRoom
    COUNTERS = declare(
        counter("fragmented", "Large messages that were cut into pieces."),
        counter("restarted", "Large multicasts that were begun anew because a member joined."),
        drop("too_large_dropped", "Messages larger than max_message_size; they were not sent."),
        drop("abandoned_pieces_dropped", "Pieces of an own multicast that came back after it was begun anew."),
        drop("headless_pieces_dropped", "Pieces of a message whose first piece did not come."),
        drop("broken_messages_dropped", "Messages whose pieces do not continue each other, or have not the announced "
                                        "size."),
        drop("unfinished_messages_dropped", "Messages that their sender did not finish: it left, or began another "
                                            "one."),
        drop("nonsense_dropped", "First pieces that announce an impossible number or size."),
        drop("no_room_dropped", "Messages given up because max_reassembly_size was reached."),
        drop("no_room_for_strangers_dropped", "Messages of non-members given up because max_stranger_bytes was "
                                              "reached."),
        drop("late_messages_dropped", "Messages of non-members that were not finished in time."),
        figure("queued_bytes", "Payload bytes that wait behind a large multicast."),
        figure("reassembly_bytes", "Bytes of messages that are not complete yet."),
    )

    def start(self) -> None:
        most = self.frames.max_frame_bytes() - HEADROOM_BYTES
        if self.config.frag_size_bytes > most:
            raise ConfigError(f"frag_size ({self.config.frag_size_bytes}) must be at most {most}, which is the "
                              f"transport's max_bundle_size less {HEADROOM_BYTES} for headers")
        # Up to this size a message with headers of the application fits a frame without a closer look.
        self.easy_bytes = self.config.frag_size_bytes // 2
        self.number = 0
        self.large: FragmentedMessage | None = None                      # the multicast in progress
        self.queue: deque[Batch] = deque()                   # multicasts behind it
        self.queued_bytes = 0
        self.partials: dict[Stream, Partial] = {}
        self.kept_bytes = 0                                  # payload of all partials
        self.memory_bytes = 0                                # what they take
        self.members: dict[Address, None] = {}               # of the view
        self.changing = False                                # the view changes: strangers may be members already
        self.strange: dict[Stream, None] = {}                # partials of strangers, oldest first
        self.strange_bytes = 0                               # what these take

    def pending_bytes(self) -> int:
        return self.queued_bytes + (self.large.waiting_bytes if self.large is not None else 0)

    def stats(self) -> dict[str, float]:
        return {**self.counters, "queued_bytes": self.pending_bytes(), "reassembly_bytes": self.kept_bytes}

    # --- sending ----------------------------------------------------------------------------------------------------

    def down(self, batch: Batch) -> None:
        if self.large is not None and batch.dest is None and not batch.flags & NO_RELIABILITY:
            self.queue.append(batch)
            self.queued_bytes += batch.nbytes
            return None
        payloads = batch.payloads
        if not payloads:
            return self.pass_down(batch)
        longest = len(payloads[0]) if len(payloads) == 1 else batch.length
        if longest < 0:
            longest = max(map(len, payloads))
        if longest <= self.easy_bytes or longest <= self.piece_bytes(batch):
            return self.pass_down(batch)
        if batch.dest == self.me:
            return self.pass_down(batch)
        return self.take_apart(batch)

    def piece_bytes(self, batch: Batch) -> int:
        """How large a piece of a message with these headers may be."""
        if not batch.headers:
            return self.config.frag_size_bytes
        room = self.frames.max_frame_bytes() - HEADROOM_BYTES - wire.headers_nbytes(batch)
        return min(self.config.frag_size_bytes, room)

    def take_apart(self, batch: Batch) -> None:
        """A run with large messages: small neighbours pass as they are, in order."""
        piece_bytes = self.piece_bytes(batch)
        start = 0
        for index, payload in enumerate(batch.payloads):      # rare: only runs that hold a large message
            if len(payload) <= piece_bytes:
                continue
            if start < index:
                self.pass_down(batch.cut(start, index))
            start = index + 1
            if self.too_large(batch.cut(index, start), payload, piece_bytes):
                continue
            self.number = (self.number + 1) % NUMBERS
            large = FragmentedMessage(batch.cut(index, start), self.number, piece_bytes)
            self.count("fragmented")
            if batch.dest is None and not batch.flags & NO_RELIABILITY:
                return self.begin(large, batch.cut(start, batch.count) if start < batch.count else None)
            self.pass_down(large.next_batch(large.total))
        if start < batch.count:
            self.pass_down(batch.cut(start, batch.count))
        return None

    def too_large(self, batch: Batch, payload: bytes, piece_bytes: int) -> bool:
        if len(payload) <= self.config.max_message_bytes and piece_bytes > 0:
            return False
        self.drop("too_large_dropped", batch, f"{len(payload)} bytes are more than max_message_size, or leave no room")
        why = (f"exceeds max_message_size ({self.config.max_message_bytes})" if piece_bytes > 0
               else "has headers that fill a frame")
        self.emit(LogEntry("error", f"a message of {len(payload)} bytes {why}; it was not sent"))
        return True

    def begin(self, large: FragmentedMessage, behind: Batch | None) -> None:
        """Multicast a large message; `behind` is what follows it in its run."""
        assert self.large is None, "one large multicast at a time"
        self.large = large
        if behind is not None:
            self.queue.appendleft(behind)
            self.queued_bytes += behind.nbytes
        self.pump(large)

    def pump(self, large: FragmentedMessage) -> None:
        """Pass pieces down while the window has room for half of it, so that runs stay long."""
        window = max(1, self.config.window_bytes // large.piece_bytes)
        room = window - (large.passed - large.looped)
        if large.passed < large.total and 2 * room >= window:
            self.pass_down(large.next_batch(room))

    def looped_back(self, header: Fragment, batch: Batch) -> None:
        """Pieces of our own multicast came back: they are ordered in this view."""
        large = self.large
        if large is None or header.number != large.number:
            return self.drop("abandoned_pieces_dropped", batch, "the message was begun anew", header)
        large.looped = header.index + batch.count
        assert large.looped <= large.passed, "only what was passed down loops back"
        if large.looped < large.total:
            return self.pump(large)
        self.large = None
        self.pass_up(large.batch)
        while self.queue and self.large is None:
            waiting = self.queue.popleft()
            self.queued_bytes -= waiting.nbytes
            self.down(waiting)
        return None

    # --- receiving --------------------------------------------------------------------------------------------------

    @receives(Fragment)
    def fragment(self, header: Fragment, batch: Batch) -> None:
        src, unreliable = batch.src, batch.flags & NO_RELIABILITY
        if src == self.me and batch.dest is None and not unreliable:
            return self.looped_back(header, batch)
        stream = (src, batch.dest is None, unreliable)
        if header.index == 0 and not self.begins(stream, header, batch):
            return None
        partial = self.partials.get(stream)
        if partial is None:
            return self.drop("headless_pieces_dropped", batch, "the first piece is missing", header)
        if not partial.continues(header) or not self.add(stream, partial, batch):
            self.drop("broken_messages_dropped", batch, "the piece does not continue those before", header, number=1)
            return self.forget(stream)
        if self.crowded(stream, partial):
            return self.forget(stream)
        if partial.complete:
            self.forget(stream)
            if partial.kept_bytes != header.nbytes:
                return self.drop("broken_messages_dropped", batch, "the message has not the announced size", header,
                                 number=1)
            return self.pass_up(partial.whole())
        return None

    def begins(self, stream: Stream, header: Fragment, batch: Batch) -> bool:
        """A message begins; False if it makes no sense."""
        if stream in self.partials:
            self.give_up("unfinished_messages_dropped", stream, "its sender began another message")
        if not 0 < header.total <= header.nbytes <= self.config.max_message_bytes:
            self.drop("nonsense_dropped", batch, "an impossible number or size", header, number=1)
            return False
        partial = self.partials[stream] = Partial(header, batch, self.now_ns)
        self.memory_bytes += partial.memory_bytes
        if batch.src not in self.members:
            self.strange[stream] = None
            self.strange_bytes += partial.memory_bytes
            if not self.timer_is_set("strangers"):
                self.set_timer("strangers", self.config.stranger_timeout_ns)
        return True

    def add(self, stream: Stream, partial: Partial, batch: Batch) -> bool:
        """Keep pieces; False if there are more of them than the message has."""
        kept, memory = partial.kept_bytes, partial.memory_bytes
        whole = partial.add(batch)
        self.kept_bytes += partial.kept_bytes - kept
        self.memory_bytes += partial.memory_bytes - memory
        if stream in self.strange:
            self.strange_bytes += partial.memory_bytes - memory
        return whole

    def crowded(self, stream: Stream, partial: Partial) -> bool:
        """Whether there is no room for what came of this message."""
        if stream in self.strange and not self.changing and self.strange_bytes > self.config.max_stranger_bytes:
            self.drop("no_room_for_strangers_dropped", partial.so_far(), "max_stranger_bytes is reached", number=1)
            return True
        most = self.config.max_reassembly_bytes
        if self.kept_bytes <= most and self.memory_bytes - self.kept_bytes <= most // OVERHEAD_PART:
            return False
        self.drop("no_room_dropped", partial.so_far(), "max_reassembly_size is reached", number=1)
        self.emit(LogEntry("error", f"a message of {partial.first.nbytes} bytes from {partial.src} was dropped: "
                       f"max_reassembly_size ({most}) is reached"))
        return True

    def give_up(self, name: str, stream: Stream, why: str) -> None:
        self.drop(name, self.partials[stream].so_far(), why, number=1)
        self.forget(stream)

    def forget(self, stream: Stream) -> None:
        partial = self.partials.pop(stream)
        self.kept_bytes -= partial.kept_bytes
        self.memory_bytes -= partial.memory_bytes
        self.no_stranger(stream, partial)

    def no_stranger(self, stream: Stream, partial: Partial) -> None:
        """It is a member's now, or dropped."""
        if stream in self.strange:
            del self.strange[stream]
            self.strange_bytes -= partial.memory_bytes

    @timer("strangers")
    def forget_strangers(self) -> None:
        """Drop what strangers began and did not end in time."""
        timeout_ns = self.config.stranger_timeout_ns
        for stream in [one for one in self.strange if self.partials[one].since_ns + timeout_ns <= self.now_ns]:
            self.give_up("late_messages_dropped", stream, "it was not finished in time")
        oldest = next(iter(self.strange), None)
        if oldest is not None:
            self.set_timer("strangers", self.partials[oldest].since_ns + timeout_ns - self.now_ns)

    # --- views ------------------------------------------------------------------------------------------------------

    @on(Frozen)
    def frozen(self, event: Frozen) -> None:
        """A view change is under way, and ends with a view."""
        self.changing = True

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        self.members, self.changing = dict.fromkeys(event.view.members), False
        for stream in [stream for stream in self.strange if stream[0] in self.members]:
            self.no_stranger(stream, self.partials[stream])
        left = dict.fromkeys(event.left)
        for stream in [stream for stream in self.partials if stream[0] in left or (event.joined and stream[1])]:
            self.give_up("unfinished_messages_dropped", stream, "the view changed")
        while self.strange_bytes > self.config.max_stranger_bytes:       # what came while the view changed
            self.give_up("no_room_for_strangers_dropped", next(reversed(self.strange)), "max_stranger_bytes is reached")
        large = self.large
        if event.joined and large is not None and large.looped:
            self.count("restarted")
            self.number = (self.number + 1) % NUMBERS
            large.restart(self.number)
            self.pump(large)
