"""NAKACK: every member delivers every multicast of every sender once, in the sender's order, or reports a loss.

Problem: multicasts get lost, duplicated and reordered. Idea: each sender numbers its multicasts from 1 in each view and
keeps them; a receiver delivers batches in order, requests the holes (negative acknowledgements), and keeps what it
delivered, too, so that any member can retransmit anything until it is stable. The data header names the view, so that a
batch is delivered in the view in which it was numbered or not at all (S4).

Virtual synchrony: GMS freezes NAKACK (Freeze -> Frozen), collects the reach of every survivor, and computes the cut;
NAKACK then requests what is missing below the cut from a member that holds it (FlushTo -> Filled). After that GMS
installs the next view, in which numbers begin at 1 again. While frozen the application's multicasts wait here, and
nothing is delivered but what FlushTo allows. A freeze may be repeated at any time, with other survivors and a new cut.

Place: above the failure detectors, below UNICAST, STABLE and GMS. Own multicasts loop back here, above every layer
that may lose them; those marked NO_RELIABILITY loop back if they have payloads, but are neither numbered nor kept.
Source: JGroups NAKACK2 and, for the flush, the virtual synchrony of Chockler, Keidar, Vitenberg (2001), section 5.
Deviations: numbering per view; retransmission by any holder; requests repeated at an adaptive pace; OOB multicasts are
delivered in their order, because one that overtakes earlier messages could not be undone (S5) when its sender crashes
and the survivors agree on a cut below it.
"""
from __future__ import annotations

from collections import deque

from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_RELIABILITY, Batch, Header, joined
from jgroups_py.model.counters import counter, declare, drop, figure, histogram, observe
from jgroups_py.model.digest import Digest
from jgroups_py.model.events import (
    ExcludedHint,
    Filled,
    FlushTo,
    Freeze,
    Frozen,
    MessagesKnown,
    MessagesStable,
    ViewChange,
)
from jgroups_py.model.non_members import NonMembers
from jgroups_py.model.ports import DigestSource, FrameRoom, LargeMulticasts, MulticastCounts
from jgroups_py.protocols.nakack.config import NakackConfig
from jgroups_py.protocols.nakack.future_views import FutureViews
from jgroups_py.protocols.nakack.headers import (
    LastSeqno,
    MulticastData,
    NoLongerKept,
    Retransmission,
    RetransmitRequest,
)
from jgroups_py.protocols.nakack.last_seqno_announcer import LastSeqnoAnnouncer
from jgroups_py.protocols.nakack.nak_schedule import NakPacing, NakSchedule
from jgroups_py.protocols.nakack.nak_sender import NakSender
from jgroups_py.protocols.nakack.retransmit_queue import Between, RetransmitQueue
from jgroups_py.stack.protocol import MULTICASTS, on, only, receives, timer
from jgroups_py.windows.budget import make_room
from jgroups_py.windows.receive import ReceiveWindow
from jgroups_py.windows.send import SendWindow

COUNTER_BYTES = 8                    # a ViewId's counter stands first in its raw bytes
MAX_AHEAD = 1 << 24                  # further ahead than flow control lets any sender get: a forged or damaged number


class Nakack(NakSender, DigestSource, MulticastCounts):
    """See the module."""

    Config = NakackConfig
    needs = {"frames": FrameRoom}
    COUNTERS = declare(
        counter("requests_sent", "Requests for missing messages sent."),
        counter("retransmitted", "Messages sent again because a member requested them."),
        counter("recovered", "Missing messages that arrived after they had been requested."),
        counter("announced", "How often the last number was multicast because nothing had been sent for some time."),
        counter("no_longer_kept_sent", "Answers that requested messages are no longer kept here."),
        counter("lost", "Messages declared lost, as no member keeps them; the application gets MessagesLost."),
        counter("cut_differs_from_sent", "View changes whose cut differs from what was sent: a late answer was used."),
        drop("sent_before_view_dropped", "Own messages without a number (NO_RELIABILITY) before the first view."),
        drop("non_member_dropped", "Messages and requests of processes outside the view."),
        drop("unnumbered_dropped", "Multicasts without a number that are not marked NO_RELIABILITY."),
        drop("implausible_dropped", "Messages whose number is far above everything sent so far."),
        drop("duplicates_dropped", "Messages that came more than once."),
        drop("old_view_dropped", "Messages of an earlier view."),
        drop("early_dropped", "Messages of a later view for which there was no room."),
        drop("ahead_dropped", "Messages behind a hole for which there was no room; they are requested again."),
        drop("stale_resent_dropped", "Retransmissions of another view, or from a process outside the view."),
        drop("unannounced_resent_dropped", "Retransmissions whose numbers their sender has not announced."),
        drop("stale_no_longer_kept_dropped", "Answers that messages are no longer kept, when they are not missing."),
        drop("requests_refused", "Requests of another view, or from a process outside the view."),
        *histogram("frozen", "View changes, from the freeze to the view"),
        figure("sent", "Multicasts numbered in this view."),
        figure("kept_batches", "Batches kept for retransmission."),
        figure("kept_bytes", "Their payload bytes."),
        figure("queued_bytes", "Payload bytes that wait for a view change to end."),
    )

    def start(self) -> None:
        # The view. The windows are made anew in each, so a number can never be taken for one of another view (S4).
        self.members: tuple[Address, ...] = ()
        self.view = b""                                        # ViewId.raw of our view, empty before the first
        self.joined = False                                    # whether members joined with it
        self.send_window = SendWindow()
        self.large_multicasts: LargeMulticasts | None = self.stack.find(LargeMulticasts)
        self.receive_windows: dict[Address, ReceiveWindow] = {}      # every other member of the view -> its multicasts
        self.uncounted: dict[Address, int] = {}                # member -> its numbers that are no application message
        self.future_views = FutureViews(self.config.early_batches, self.config.early_bytes)
        # Sending and delivering. held: neither, because frozen or between a ViewChange and its resume.
        self.held = True
        self.frozen = False
        self.frozen_ns = 0                                     # since when, while frozen
        self.installing = False
        self.queue: deque[Batch] = deque()                     # the application's multicasts while held
        self.queued_bytes = 0
        # The flush. cut, holders: of the latest FlushTo; incomplete: senders with something missing below it.
        self.cut: Digest | None = None
        self.holders: dict[Address, Address] = {}
        self.incomplete: dict[Address, None] = {}
        # Retransmission: requests of this member, and those of others.
        self.naks: dict[Address, NakSchedule] = {}             # only senders of which something is missing
        self.pacing = NakPacing(self.config)
        self.retransmits = RetransmitQueue()
        self.non_members = NonMembers()
        self.announcer = LastSeqnoAnnouncer(self.config.announce_ns, self.config.announce_times)

    # --- sending ----------------------------------------------------------------------------------------------------

    @only(MULTICASTS)
    def down(self, batch: Batch) -> None:
        if batch.flags & NO_RELIABILITY:
            return self.multicast_unreliably(batch)
        if self.held:
            # It goes into the next view: numbered now, it might lie above the cut, and be delivered nowhere.
            self.queue.append(batch)
            self.queued_bytes += batch.nbytes
            return None
        return self.multicast(batch)

    def multicast(self, batch: Batch) -> None:
        """Number a batch, keep it until it is stable, send it, and deliver it to this member at once.

        Delivered here rather than when the frame loops back: the frame may be lost, and a sender has its own messages
        in any cut (S5), so nothing could be missing before it.
        """
        if batch.headers:
            if self.large_multicasts is not None:
                batch = self.large_multicasts.with_attempt(batch, self.view, self.joined)
            self.note_uncounted(batch)
        first = self.send_window.add(batch)
        self.pass_down(batch.push(MulticastData(self.view, first)))
        self.pass_up(batch)
        if not self.announcer.fresh and self.config.resend_last_seqno:
            self.set_timer("announce", self.announcer.sent())

    def multicast_unreliably(self, batch: Batch) -> None:
        """Send a batch without a number. An application's messages are dropped before the first view (M3)."""
        if not self.view and batch.payloads:
            return self.drop("sent_before_view_dropped", batch, "there is no view yet, and it has no number")
        self.pass_down(batch)
        return self.pass_up(batch) if batch.payloads else None

    def pending_bytes(self) -> int:
        return self.queued_bytes

    # --- receiving --------------------------------------------------------------------------------------------------

    @only(MULTICASTS)
    def up(self, batch: Batch) -> None:
        """Multicasts without a header of NAKACK."""
        if batch.payloads and batch.src not in self.receive_windows:
            return self.drop("non_member_dropped", batch, "its source is not in the view")
        if not batch.flags & NO_RELIABILITY:
            # Reliable ones have a number, so the frame was forged, or its sender runs another stack.
            return self.drop("unnumbered_dropped", batch, "it has no number")
        return self.pass_up(batch)

    @receives(MulticastData)
    def on_data(self, header: MulticastData, batch: Batch) -> None:
        if header.view != self.view:
            return self.data_of_other_view(header, batch)          # numbers of another view mean nothing here (S4)
        sender = batch.src
        window = self.receive_windows.get(sender)
        if window is None:
            return self.report_non_member(header, batch)
        if not self.naks and not self.held and window.take_in_order(header.first, batch):
            # The usual case: next in order, nothing missing of any sender, no flush. Nothing else has to be looked up.
            if batch.headers:
                self.note_uncounted(batch)
            return self.pass_up(batch)
        if self.naks and sender in self.naks and self.naks[sender].is_asked(header.first):
            self.pacing.premature(self.now_ns)            # reordered, not lost: wait longer before requests
        if header.first > window.next + MAX_AHEAD:
            # Accepting it would announce up to 2^64 missing messages, and request them for ever.
            return self.drop("implausible_dropped", batch, f"far above {window.next}, the next number in order", header)
        if not self.fits(window, header, batch):
            # Dropped for lack of room, but known to exist: a hole, to be requested when there is room.
            window.announce(header.first + batch.count)
            return self.schedule_nak(sender, window)
        if not window.add(header.first, batch):
            return self.drop("duplicates_dropped", batch, "it arrived before", header)
        return self.settle(sender, window)

    @receives(Retransmission)
    def on_retransmission(self, header: Retransmission, batch: Batch) -> None:
        sender = header.sender
        window = self.receive_windows.get(sender)
        if header.view != self.view or window is None or batch.src not in self.receive_windows:
            return self.drop("stale_resent_dropped", batch, "another view, or not from a member", header)
        if header.first + batch.count > window.stop:
            # No data, LastSeqno, vote or cut announced such numbers. Only the sender may introduce new ones (S1):
            # otherwise a member could put messages into the stream of another.
            return self.drop("unannounced_resent_dropped", batch, "its source has not announced such numbers", header)
        if not self.fits(window, header, batch):
            return None
        if not window.add(header.first, Batch(sender, None, batch.payloads, batch.headers, batch.flags)):
            return self.drop("duplicates_dropped", batch, "it arrived before", header)
        self.count("recovered", batch.count)
        schedule = self.naks.get(sender)
        if schedule is not None:
            schedule.answered(header.first, batch, self.now_ns)
        self.settle(sender, window)
        if schedule is not None and window.next < schedule.seen and not schedule.is_asked(window.next):
            self.request(sender, window, schedule)     # the requested messages are here: request the next ones
        return None

    def fits(self, window: ReceiveWindow, header: MulticastData | Retransmission, batch: Batch) -> bool:
        """Whether a batch may be kept. What is further ahead is dropped for it, of the sender that takes most first.

        What lies below a sender's first hole is never dropped: it may be part of a reach that was reported to GMS (S5).
        """
        if header.first <= window.next:
            return True                        # the next one in order always may, so that delivery goes on
        fits, dropped = make_room(self.receive_windows.values(), window, header.first, batch.nbytes,
                                  self.config.max_ahead_bytes)
        if not fits:
            dropped += batch.count
        if dropped:
            why = "those furthest ahead were dropped for it" if fits else f"no room behind the hole at {window.next}"
            self.drop("ahead_dropped", batch, why, header, number=dropped)
        return fits

    def settle(self, sender: Address, window: ReceiveWindow) -> None:
        """Deliver what may be delivered; schedule a request for what is missing."""
        if not self.held:
            self.deliver(window.take())
        elif self.cut is not None:
            self.fill_from(sender, window, self.cut)
        if window.next != window.stop:
            self.schedule_nak(sender, window)

    def deliver(self, batches: list[Batch]) -> None:
        for batch in batches:
            if batch.headers:
                self.note_uncounted(batch)
            self.pass_up(batch)

    def note_uncounted(self, batch: Batch) -> None:
        """A batch with headers may be a control message or fragments of a large one: see `multicasts`."""
        surplus = batch.count - batch.messages
        if surplus:
            self.uncounted[batch.src] = self.uncounted.get(batch.src, 0) + surplus

    def data_of_other_view(self, header: MulticastData, batch: Batch) -> None:
        """Keep a batch of a later view until that view comes; drop one of an earlier view, which is over (S4)."""
        if header.view[:COUNTER_BYTES] <= self.view[:COUNTER_BYTES]:
            if batch.src in self.receive_windows:
                return self.drop("old_view_dropped", batch, "it was sent in an earlier view", header)
            return self.report_non_member(header, batch)
        for late, dropped in self.future_views.put(header, batch):
            self.drop("early_dropped", dropped, "sent in a later view, and there is no more room", late)
        return None

    def report_non_member(self, header: Header, batch: Batch) -> None:
        """A non-member multicasts or requests in a view not later than this member's: it may have missed its exclusion.

        GMS sends it the view. At most once a second for each non-member, as its messages arrive faster.
        """
        self.drop("non_member_dropped", batch, "its source is not in the view", header)
        if self.view and self.non_members.is_due(batch.src, self.now_ns):
            self.pass_up(ExcludedHint(batch.src))

    # --- views ------------------------------------------------------------------------------------------------------

    @on(ViewChange)
    def on_view_change(self, event: ViewChange) -> None:
        """Begin empty windows. What is not delivered by now belongs to no cut, so no survivor delivers it (S5)."""
        for sender in self.receive_windows:
            self.cancel_timer("ask", sender)
        self.cancel_timer("announce")
        self.members = event.view.members
        self.view, self.joined = event.view.id.raw, bool(event.joined)
        self.send_window, self.uncounted = SendWindow(), {}
        self.receive_windows = {member: ReceiveWindow(keep=True) for member in self.members if member != self.me}
        if self.frozen:
            observe(self.count, "frozen", self.now_ns - self.frozen_ns)
        self.frozen, self.cut, self.incomplete = False, None, {}
        self.naks.clear()
        self.retransmits.clear()
        self.non_members = NonMembers()
        self.announcer = LastSeqnoAnnouncer(self.config.announce_ns, self.config.announce_times)
        self.held = self.installing = True
        # The layers below must have the view before the first multicast in it; `later` runs when it has passed them.
        self.later(self.resume)

    def resume(self) -> None:
        """The view has reached all layers: take up what came early for it, then deliver and send."""
        if not self.installing:                              # another view was installed before this call came
            return
        self.installing = False
        for header, batch in self.future_views.take():
            self.on_data(header, batch)
        self.release()

    def release(self) -> None:
        """Deliver and send again, unless a next view change froze this member meanwhile."""
        if self.frozen:
            return
        self.held = False
        for sender, window in self.receive_windows.items():
            self.settle(sender, window)
        queue, self.queue, self.queued_bytes = self.queue, deque(), 0
        for batch in queue:
            self.multicast(batch)

    def freeze(self) -> None:
        """Neither send nor deliver until the next view, which may be several ballots away."""
        if not self.frozen:
            self.frozen_ns = self.now_ns
        self.held = self.frozen = True

    @on(Freeze)
    def on_freeze(self, event: Freeze) -> None:
        """Stop, and report the reach of every sender. It also ends a flush under way: a higher ballot makes a new cut.

        Frozen goes up behind everything that was delivered before (law 2).
        """
        self.freeze()
        self.cut, self.incomplete = None, {}
        self.pass_up(Frozen({member: self.reach(member) for member in self.members}))

    def reach(self, member: Address) -> int:
        """The number up to which everything of `member` is held here without a hole, delivered or not.

        Reaches only grow within a view, so a later ballot's cut is nowhere below what an earlier cut let deliver (S5).
        """
        return self.send_window.next if member == self.me else self.receive_windows[member].reach

    @on(FlushTo)
    def on_fill(self, event: FlushTo) -> None:
        """Deliver exactly up to the cut; request what is missing below it from the holders, at once.

        The cut is the maximum of the reaches, so nothing above it was delivered anywhere. Filled goes up behind the
        last message of the cut (law 2): when GMS receives it, this member has accepted.
        """
        self.freeze()
        self.cut, self.holders = event.cut, event.holders
        if event.cut.get(self.me, self.send_window.next) != self.send_window.next:
            self.count("cut_differs_from_sent")
        self.incomplete = dict.fromkeys(self.receive_windows)
        for sender, window in self.receive_windows.items():
            window.announce(event.cut.get(sender, window.next))
            self.naks.pop(sender, None)                      # requests to earlier holders do not count
            self.fill_from(sender, window, event.cut)
            if sender in self.incomplete:
                self.schedule_of(sender).seen = window.stop
                self.ask(sender)
        if not self.receive_windows:
            self.pass_up(Filled(event.cut))

    def fill_from(self, sender: Address, window: ReceiveWindow, cut: Digest) -> None:
        """Deliver what is here of `sender` below the cut; with the last sender to be complete, pass up Filled."""
        below = cut.get(sender, window.next)
        self.deliver(window.take(below))
        if sender in self.incomplete and window.next >= below:
            del self.incomplete[sender]
            if not self.incomplete:
                self.pass_up(Filled(cut))

    # --- answering ----------------------------------------------------------------------------------------------------

    @receives(RetransmitRequest)
    def on_retransmit_request(self, header: RetransmitRequest, batch: Batch) -> None:
        """Retransmit what is kept here, of any sender, frozen or not: the requester may need it for its cut.

        To members only: answers are large, and the address of a non-member may be forged (amplification).
        """
        if header.view != self.view or batch.src not in self.receive_windows:
            self.drop("requests_refused", batch, "another view, or not from a member", header)
            if batch.src not in self.receive_windows and header.view[:COUNTER_BYTES] <= self.view[:COUNTER_BYTES]:
                self.report_non_member(header, batch)
            return
        window = self.send_window if header.sender == self.me else self.receive_windows.get(header.sender)
        gone = [(first, min(stop, window.low)) for first, stop in header.ranges
                if first < window.low] if window is not None else []
        if gone:
            self.count("no_longer_kept_sent")
            self.send(NoLongerKept(self.view, header.sender, gone[0][0], gone[-1][1]), batch.src)
        self.retransmits.put(None if self.config.use_mcast_xmit else batch.src, header.sender, header.ranges)
        if not self.timer_is_set("resend"):
            self.resend()

    @timer("resend")
    def resend(self) -> None:
        """A burst of what was requested; the rest after a pause."""
        batches = []
        for (dest, sender), first, batch in self.retransmits.burst(self.kept, self.config.resend_bytes):
            self.count("retransmitted", batch.count)
            header = Retransmission(self.view, sender, first)
            batches.append(Batch(self.me, dest, batch.payloads, (*batch.headers, header), batch.flags))
        for batch in joined(batches):
            self.pass_down(batch)
        if self.retransmits:
            self.set_timer("resend", self.config.resend_pause_ns)

    def kept(self, sender: Address) -> Between | None:
        """What is kept here of `sender`, by numbers; None: it is not in the view."""
        window = self.send_window if sender == self.me else self.receive_windows.get(sender)
        return None if window is None else window.between

    # --- the last message, and the stable ones ----------------------------------------------------------------------

    @timer("announce")
    def announce(self) -> None:
        """Announce the last number, if nothing was sent since the last tick and something is not stable."""
        due, wait_ns = self.announcer.tick(self.send_window.next, self.send_window.low)
        if due and len(self.members) > 1:
            self.count("announced")
            self.send(LastSeqno(self.view, self.send_window.next), None)
        if wait_ns is not None:
            self.set_timer("announce", wait_ns)

    @receives(LastSeqno)
    def on_last_seqno(self, header: LastSeqno, batch: Batch) -> None:
        """A sender announces its last number; what is missing up to it is requested at once."""
        window = self.receive_windows.get(batch.src)
        if window is None and header.view[:COUNTER_BYTES] <= self.view[:COUNTER_BYTES]:
            return self.report_non_member(header, batch)
        if header.view != self.view or window is None:
            return self.drop("old_view_dropped", batch, "it was sent in another view", header)
        if window.reach < header.stop <= window.next + MAX_AHEAD:
            window.announce(header.stop)
            self.schedule_of(batch.src).seen = window.stop         # so late it is a loss, not reordering
            self.ask(batch.src)
        return None

    @on(MessagesKnown)
    def on_messages_known(self, event: MessagesKnown) -> None:
        """A vote (STABLE) shows messages that are missing here: their sender may crash before it announces them."""
        for sender, stop in event.digest.items():
            window = self.receive_windows.get(sender)
            if window is not None and window.stop < stop <= window.next + MAX_AHEAD:
                window.announce(stop)
                self.schedule_nak(sender, window)

    @on(MessagesStable)
    def on_messages_stable(self, event: MessagesStable) -> None:
        """All members of the view have delivered these: no member can request them any more."""
        for sender, stop in event.digest.items():
            if sender == self.me:
                self.send_window.forget(stop)
            elif sender in self.receive_windows:
                self.receive_windows[sender].forget(stop)

    # --- ports -------------------------------------------------------------------------------------------------------

    def digest(self) -> Digest:
        """Member of the view -> the next number in order; everything below was passed up here."""
        windows = self.receive_windows
        return {member: self.send_window.next if member == self.me else windows[member].next for member in self.members}

    def digest_view(self) -> bytes:
        return self.view

    def multicasts(self) -> dict[Address, int]:
        return {member: number - 1 - self.uncounted.get(member, 0) for member, number in self.digest().items()}

    def stats(self) -> dict[str, float]:
        kept = [self.send_window.kept, *(window.kept for window in self.receive_windows.values())]
        return {
            **self.counters, "sent": self.send_window.next - 1, "kept_batches": sum(map(len, kept)),
            "kept_bytes": sum(batches.nbytes for batches in kept), "queued_bytes": self.queued_bytes,
        }
