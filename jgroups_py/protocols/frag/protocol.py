"""FRAG: cuts messages larger than `frag_size` into fragments and reassembles them.

Problem: a frame has a limit, a message should not. Idea: a large message becomes a batch of fragments under one header;
the reliable layers below keep the fragments in order, so a receiver appends them until it has the last one.

Large multicasts and virtual synchrony: members that were in the view before a join must not deliver, in the new view, a
message that the joiner cannot have, because its first fragments were delivered before it joined. So a sender keeps at
most `window` bytes of a large multicast under way through its own stack, and later multicasts wait behind it. The
message is complete when its last fragment has looped back to its sender: then every member that stays has all fragments
in this view. If a view with joiners comes sooner, all members drop their incomplete multicasts, and the sender begins
again under a new number; fragments of the old number that are still under way find no first fragment and are dropped.
They are marked when they get their numbers (`with_attempt`), as the message counts once, with the attempt that is
delivered (S9). If no fragment had looped back, all of them will be delivered in the new view, and the sender simply
continues. A view that only loses members changes nothing: all that are left have the same fragments.

Unicasts are sent at once; UFC limits their pace. Incomplete messages of a member that left are dropped. Memory is taken
by fragments that arrived, never by what a header announces. Non-members share a small room of their own, for a short
time, as they would take the members' room otherwise; while the view changes they have more, since they may be in the
next view already. Fragments of OOB messages travel in order.

Place: above flow control (which therefore gets small messages), below state transfer and RELAY. Source: JGroups FRAG2.
Deviation: the window and the restart (JGroups has no virtual synchrony).
"""
from __future__ import annotations

from collections import deque

from jgroups_py import wire
from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_RELIABILITY, NO_TOTAL_ORDER, Batch
from jgroups_py.model.counters import counter, declare, drop, figure
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import Frozen, MessageDropped, ViewChange
from jgroups_py.model.outputs import LogEntry
from jgroups_py.model.ports import FrameRoom, LargeMulticasts
from jgroups_py.protocols.frag.config import FragConfig
from jgroups_py.protocols.frag.headers import Fragment
from jgroups_py.protocols.frag.messages import FragmentedMessage, Reassembly
from jgroups_py.stack.protocol import Protocol, on, receives, timer

HEADROOM_BYTES = 512             # in a frame, for the headers of this layer and those below
NUMBERS = 1 << 32                # message numbers are u32 on the wire
OVERHEAD_PART = 4                # 1/4 of max_reassembly_size is for what fragments take beside their payloads

Stream = tuple[Address, bool, int]
"""Within a stream fragments are in order: (sender, whether multicasts, NO_RELIABILITY or 0)."""


class Frag(Protocol, LargeMulticasts):
    """See the module."""

    Config = FragConfig
    config: FragConfig
    needs = {"frames": FrameRoom}
    frames: FrameRoom
    COUNTERS = declare(
        counter("fragmented", "Large messages that were cut into fragments."),
        counter("restarted", "Large multicasts that were begun again because a member joined."),
        drop("too_large_dropped", "Messages larger than max_message_size; they were not sent."),
        drop("abandoned_fragments_dropped", "Fragments of an own multicast that looped back after it was begun again."),
        drop("headless_fragments_dropped", "Fragments of a message whose first fragment is missing."),
        drop("inconsistent_messages_dropped", "Messages whose fragments do not continue each other, or do not have the "
                                              "announced size."),
        drop("incomplete_messages_dropped", "Messages that their sender did not complete: it left, or began another "
                                            "one."),
        drop("implausible_dropped", "First fragments that announce an impossible number or size."),
        drop("no_room_dropped", "Incomplete messages dropped because max_reassembly_size was reached."),
        drop("no_room_for_non_members_dropped", "Incomplete messages of non-members dropped because "
                                                "max_non_member_size was reached."),
        drop("timed_out_messages_dropped", "Messages of non-members that were not complete within "
                                           "non_member_timeout."),
        figure("queued_bytes", "Payload bytes that wait behind a large multicast."),
        figure("reassembly_bytes", "Bytes of messages that are not complete yet."),
    )

    def start(self) -> None:
        most = self.frames.max_frame_bytes() - HEADROOM_BYTES
        if self.config.frag_size_bytes > most:
            raise ConfigError(f"frag_size ({self.config.frag_size_bytes}) must be at most {most}, which is the "
                              f"transport's max_bundle_size less {HEADROOM_BYTES} for headers")
        # A message of this size fits a frame with any usual headers, so their size need not be computed.
        self.surely_fits_bytes = self.config.frag_size_bytes // 2
        # Sending.
        self.number = 0                                      # of the last message that was fragmented
        self.large: FragmentedMessage | None = None          # the large multicast under way
        self.queue: deque[Batch] = deque()                   # multicasts behind it
        self.queued_bytes = 0
        # Receiving.
        self.reassemblies: dict[Stream, Reassembly] = {}
        self.dropped_here: dict[Stream, int] = {}            # multicasts that only this member had no room for
        self.kept_bytes = 0                                  # payload bytes of all of them
        self.memory_bytes = 0                                # the memory that they take
        self.members: dict[Address, None] = {}               # of the view
        self.view = b""                                      # its ViewId.raw, empty before the first
        self.view_changing = False                           # between Frozen and ViewChange
        self.non_member_streams: dict[Stream, None] = {}     # reassemblies of non-members, oldest first
        self.non_member_bytes = 0                            # the memory that these take

    def pending_bytes(self) -> int:
        return self.queued_bytes + (self.large.waiting_bytes if self.large is not None else 0)

    def stats(self) -> dict[str, float]:
        return {**self.counters, "queued_bytes": self.pending_bytes(), "reassembly_bytes": self.kept_bytes}

    # --- sending ----------------------------------------------------------------------------------------------------

    def down(self, batch: Batch) -> None:
        if self.large is not None and batch.dest is None and not batch.flags & NO_RELIABILITY and (
                batch.payloads or not batch.flags & NO_TOTAL_ORDER):
            # Multicasts are delivered in their sender's order, and the large one is complete only when it looped back.
            # What TOTAL tells about the order does not wait for it: the large one may wait for credits, which members
            # do not grant while too much waits for that order.
            self.queue.append(batch)
            self.queued_bytes += batch.nbytes
            return None
        payloads = batch.payloads
        if not payloads:
            return self.pass_down(batch)
        longest = len(payloads[0]) if len(payloads) == 1 else batch.length
        if longest < 0:
            longest = max(map(len, payloads))
        if longest <= self.surely_fits_bytes or longest <= self.fragment_bytes(batch):
            return self.pass_down(batch)
        if batch.dest == self.me:
            return self.pass_down(batch)                     # it never becomes a frame
        return self.fragment(batch)

    def fragment_bytes(self, batch: Batch) -> int:
        """The largest fragment that fits a frame together with these headers, at most `frag_size`."""
        if not batch.headers:
            return self.config.frag_size_bytes
        room = self.frames.max_frame_bytes() - HEADROOM_BYTES - wire.headers_nbytes(batch)
        return min(self.config.frag_size_bytes, room)

    def fragment(self, batch: Batch) -> None:
        """Send a batch that contains large messages; the small ones between them pass whole, in order."""
        fragment_bytes = self.fragment_bytes(batch)
        start = 0
        for index, payload in enumerate(batch.payloads):      # rare: only batches that contain a large message
            if len(payload) <= fragment_bytes:
                continue
            if start < index:
                self.pass_down(batch.cut(start, index))
            start = index + 1
            if self.is_too_large(batch.cut(index, start), payload, fragment_bytes):
                continue
            self.number = (self.number + 1) % NUMBERS
            large = FragmentedMessage(batch.cut(index, start), self.number, fragment_bytes)
            self.count("fragmented")
            if batch.dest is None and not batch.flags & NO_RELIABILITY:
                return self.begin_multicast(large, batch.cut(start, batch.count) if start < batch.count else None)
            self.pass_down(large.next_batch(large.total))
        if start < batch.count:
            self.pass_down(batch.cut(start, batch.count))
        return None

    def is_too_large(self, batch: Batch, payload: bytes, fragment_bytes: int) -> bool:
        """Whether a message cannot be sent at all; then it is dropped, with an error in the log."""
        if len(payload) <= self.config.max_message_bytes and fragment_bytes > 0:
            return False
        self.drop("too_large_dropped", batch, f"{len(payload)} bytes are more than max_message_size, or leave no room")
        why = (f"exceeds max_message_size ({self.config.max_message_bytes})" if fragment_bytes > 0
               else "has headers that fill a frame")
        self.emit(LogEntry("error", f"a message of {len(payload)} bytes {why}; it was not sent"))
        return True

    def begin_multicast(self, large: FragmentedMessage, behind: Batch | None) -> None:
        """Multicast a large message; `behind` is what follows it in its batch."""
        assert self.large is None, "one large multicast at a time"
        self.large = large
        if behind is not None:
            self.queue.appendleft(behind)
            self.queued_bytes += behind.nbytes
        self.send_fragments(large)

    def send_fragments(self, large: FragmentedMessage) -> None:
        """Pass fragments down if at least half of the window is free: fewer would make short batches."""
        window = max(1, self.config.window_bytes // large.fragment_bytes)
        room = window - (large.passed - large.looped)
        if large.passed < large.total and 2 * room >= window:
            self.pass_down(large.next_batch(room))

    def on_looped_back(self, header: Fragment, batch: Batch) -> None:
        """Fragments of this member's large multicast looped back: they belong to this view (virtual synchrony)."""
        large = self.large
        if large is None or header.number != large.number:
            return self.drop("abandoned_fragments_dropped", batch, "the message was begun again", header)
        large.looped = header.index + batch.count
        assert large.looped <= large.passed, "only what was passed down loops back"
        if large.looped < large.total:
            return self.send_fragments(large)
        self.large = None
        self.pass_up(large.batch)
        while self.queue and self.large is None:
            waiting = self.queue.popleft()
            self.queued_bytes -= waiting.nbytes
            self.down(waiting)
        return None

    def with_attempt(self, batch: Batch, view: bytes, joined: bool) -> Batch:
        """See LargeMulticasts. What was numbered in an earlier view has looped back, so `large` knows of it."""
        large = self.large
        if large is not None and joined and large.looped and view != self.view:
            large = None                                     # it is begun again as soon as the view is here
        number = large.number if large is not None else None
        if not any(isinstance(header, Fragment) and header.number != number for header in batch.headers):
            return batch
        return batch.replaced(headers=tuple([header.abandoned() if isinstance(header, Fragment) else header
                                             for header in batch.headers]))

    # --- receiving --------------------------------------------------------------------------------------------------

    @receives(Fragment)
    def on_fragment(self, header: Fragment, batch: Batch) -> None:
        src, unreliable = batch.src, batch.flags & NO_RELIABILITY
        if src == self.me and batch.dest is None and not unreliable:
            return self.on_looped_back(header, batch)
        stream = (src, batch.dest is None, unreliable)
        if header.index == 0 and not self.begin_reassembly(stream, header, batch):
            return None
        reassembly = self.reassemblies.get(stream)
        if reassembly is None:
            # Begun before this member joined, begun again since, dropped here, or (if unreliable) lost.
            self.drop("headless_fragments_dropped", batch, "the first fragment is missing", header)
            return self.report_dropped(stream, header, batch)
        if not reassembly.is_continued_by(header) or not self.add(stream, reassembly, batch):
            self.drop("inconsistent_messages_dropped", batch, "the fragment does not continue those before", header,
                      number=1)
            return self.remove(stream)
        if self.has_no_room(stream, reassembly):
            self.remove(stream)
            if batch.dest is None and not unreliable:
                self.dropped_here[stream] = header.number
                self.report_dropped(stream, header, batch)
            return None
        if reassembly.is_complete:
            self.remove(stream)
            if reassembly.kept_bytes != header.nbytes:
                return self.drop("inconsistent_messages_dropped", batch, "the message does not have the announced size",
                                 header, number=1)
            return self.pass_up(reassembly.message())
        return None

    def report_dropped(self, stream: Stream, header: Fragment, batch: Batch) -> None:
        """The last fragment of a multicast that was dropped here arrived: other members deliver it now.

        TOTAL, which counts the messages of each sender, leaves its place empty.
        """
        if self.dropped_here.get(stream) == header.number and header.index + batch.count == header.total:
            del self.dropped_here[stream]
            self.pass_up(MessageDropped(batch.src))

    def begin_reassembly(self, stream: Stream, header: Fragment, batch: Batch) -> bool:
        """A first fragment arrived; False: it announces what no sender can send, and is dropped."""
        if stream in self.reassemblies:
            self.drop_reassembly("incomplete_messages_dropped", stream, "its sender began another message")
        if not 0 < header.total <= header.nbytes <= self.config.max_message_bytes:
            self.drop("implausible_dropped", batch, "an impossible number or size", header, number=1)
            return False
        reassembly = self.reassemblies[stream] = Reassembly(header, batch, self.now_ns)
        self.memory_bytes += reassembly.memory_bytes
        if batch.src not in self.members:
            self.non_member_streams[stream] = None
            self.non_member_bytes += reassembly.memory_bytes
            if not self.timer_is_set("non_members"):
                self.set_timer("non_members", self.config.non_member_timeout_ns)
        return True

    def add(self, stream: Stream, reassembly: Reassembly, batch: Batch) -> bool:
        """Keep fragments, and account for their memory; False: more than the first one announced."""
        kept, memory = reassembly.kept_bytes, reassembly.memory_bytes
        plausible = reassembly.add(batch)
        self.kept_bytes += reassembly.kept_bytes - kept
        self.memory_bytes += reassembly.memory_bytes - memory
        if stream in self.non_member_streams:
            self.non_member_bytes += reassembly.memory_bytes - memory
        return plausible

    def has_no_room(self, stream: Stream, reassembly: Reassembly) -> bool:
        """Whether a limit of memory is exceeded by what has arrived of this message, which is then dropped."""
        most = self.config.max_non_member_bytes
        if stream in self.non_member_streams and not self.view_changing and self.non_member_bytes > most:
            # No log entry: a non-member could fill the log.
            self.drop("no_room_for_non_members_dropped", reassembly.incomplete(), "max_non_member_size is reached",
                      number=1)
            return True
        most = self.config.max_reassembly_bytes
        if self.kept_bytes <= most and self.memory_bytes - self.kept_bytes <= most // OVERHEAD_PART:
            return False
        self.drop("no_room_dropped", reassembly.incomplete(), "max_reassembly_size is reached", number=1)
        self.emit(LogEntry("error", f"a message of {reassembly.first.nbytes} bytes from {reassembly.src} was dropped: "
                           f"max_reassembly_size ({most}) is reached"))
        return True

    def drop_reassembly(self, name: str, stream: Stream, why: str) -> None:
        self.drop(name, self.reassemblies[stream].incomplete(), why, number=1)
        self.remove(stream)

    def remove(self, stream: Stream) -> None:
        reassembly = self.reassemblies.pop(stream)
        self.kept_bytes -= reassembly.kept_bytes
        self.memory_bytes -= reassembly.memory_bytes
        self.remove_from_non_members(stream, reassembly)

    def remove_from_non_members(self, stream: Stream, reassembly: Reassembly) -> None:
        """The message is dropped or complete, or its source is a member now: it takes no room of non-members."""
        if stream in self.non_member_streams:
            del self.non_member_streams[stream]
            self.non_member_bytes -= reassembly.memory_bytes

    @timer("non_members")
    def drop_timed_out(self) -> None:
        """Drop messages of non-members that are incomplete for too long."""
        timeout_ns = self.config.non_member_timeout_ns
        for stream in [stream for stream in self.non_member_streams
                       if self.reassemblies[stream].since_ns + timeout_ns <= self.now_ns]:
            self.drop_reassembly("timed_out_messages_dropped", stream, "it was not complete in time")
        oldest = next(iter(self.non_member_streams), None)
        if oldest is not None:
            self.set_timer("non_members", self.reassemblies[oldest].since_ns + timeout_ns - self.now_ns)

    # --- views ------------------------------------------------------------------------------------------------------

    @on(Frozen)
    def on_frozen(self, event: Frozen) -> None:
        """A view change began; it ends with a view."""
        self.view_changing = True

    @on(ViewChange)
    def on_view_change(self, event: ViewChange) -> None:
        self.members, self.view_changing = dict.fromkeys(event.view.members), False
        self.view = event.view.id.raw
        for stream in [stream for stream in self.non_member_streams if stream[0] in self.members]:
            self.remove_from_non_members(stream, self.reassemblies[stream])
        left = dict.fromkeys(event.left)
        for stream in [stream for stream in self.reassemblies if stream[0] in left or (event.joined and stream[1])]:
            # With a joiner all members drop incomplete multicasts: the joiner could not complete them (see the module).
            self.drop_reassembly("incomplete_messages_dropped", stream, "the view changed")
        self.dropped_here = {stream: number for stream, number in self.dropped_here.items()
                             if stream[0] not in left and not event.joined}
        while self.non_member_bytes > self.config.max_non_member_bytes:
            # While the view changed they were allowed more; the latest goes first.
            self.drop_reassembly("no_room_for_non_members_dropped", next(reversed(self.non_member_streams)),
                                 "max_non_member_size is reached")
        large = self.large
        if event.joined and large is not None and large.looped:
            self.count("restarted")
            self.number = (self.number + 1) % NUMBERS
            large.restart(self.number)
            self.send_fragments(large)
