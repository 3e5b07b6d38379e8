"""NAKACK: every member gets every multicast of every sender, once, in the sender's order, or learns that it did not.

Problem: multicasts get lost, doubled and reordered. Idea: each sender numbers its multicasts from 1 in each view and
keeps them; a receiver delivers runs in order, asks for the holes, and keeps what it delivered, too, so that anybody
can resend anything until STABLE says that all have it. The data header names the view, so that a run is delivered in
the view it was numbered in or not at all.

Virtual synchrony: GMS freezes us (Freeze -> Frozen), learns from all survivors how far they got, and has us fetch what
we lack from whoever holds it (FillTo -> Filled); then it installs the next view, in which numbers begin at 1 again.
While frozen the application's multicasts wait here and nothing is delivered but what FillTo allows. A freeze may be
repeated at any time, with other survivors and another cut.

Place: above the failure detectors, below UNICAST, STABLE and GMS. Own multicasts loop back here, above every layer
that may lose them; those marked NO_RELIABILITY loop back if they have payloads, but are neither numbered nor kept.
Source: JGroups NAKACK2 and, for the flush, the virtual synchrony of Chockler, Keidar, Vitenberg (2001), section 5.
Deviations: numbering per view; resending by any holder; requests repeated at an adaptive pace; OOB multicasts are
delivered in their order, because one that overtakes what precedes it could not be taken back (S5) when its sender
crashes and the survivors agree on a cut below it.
"""
from __future__ import annotations

from collections import deque

from jgroups_py.address import Address
from jgroups_py.batch import NO_RELIABILITY, Batch, joined
from jgroups_py.events import (
    Digest,
    ExcludedHint,
    Filled,
    FillTo,
    Freeze,
    Frozen,
    MessagesKnown,
    MessagesStable,
    ViewChange,
)
from jgroups_py.ports import DigestSource, FrameRoom, MulticastCounts
from jgroups_py.protocol import MULTICASTS, on, only, receives, timer
from jgroups_py.protocols.nakack.asking import Asking
from jgroups_py.protocols.nakack.config import NakackConfig
from jgroups_py.protocols.nakack.early import Early
from jgroups_py.protocols.nakack.gaps import Gaps, Pace
from jgroups_py.protocols.nakack.headers import Data, Gone, Missing, Resent, SentSoFar
from jgroups_py.protocols.nakack.resending import Between, Debts
from jgroups_py.protocols.nakack.silence import Silence
from jgroups_py.strangers import Strangers
from jgroups_py.windows.receive import ReceiveWindow
from jgroups_py.windows.send import SendWindow
from jgroups_py.windows.sharing import make_room

COUNTER_BYTES = 8                    # a ViewId's counter stands first in its raw bytes
MAX_AHEAD = 1 << 24                  # numbers further ahead than flow control allows anybody to send are no numbers


class Nakack(Asking, DigestSource, MulticastCounts):
    """See the module."""

    Config = NakackConfig
    needs = {"frames": FrameRoom}

    def start(self) -> None:
        self.members: tuple[Address, ...] = ()
        self.view = b""                                        # ViewId.raw of our view, empty before the first
        self.mine = SendWindow()
        self.theirs: dict[Address, ReceiveWindow] = {}         # every other member of the view -> its multicasts
        self.uncounted: dict[Address, int] = {}                # numbers passed up that are no message of an application
        self.early = Early(self.config.early_runs, self.config.early_bytes)
        # Sending and delivering. held: neither, because frozen or between a ViewChange and its resume.
        self.held = True
        self.frozen = False
        self.installing = False
        self.queue: deque[Batch] = deque()                     # the application's multicasts while held
        self.queued_bytes = 0
        # Filling up to a cut. cut: what FillTo said; lacking: senders of whom something below the cut is missing.
        self.cut: Digest | None = None
        self.holders: dict[Address, Address] = {}
        self.lacking: dict[Address, None] = {}
        # Asking and answering.
        self.gaps: dict[Address, Gaps] = {}                    # only senders of whom something is missing
        self.pace = Pace(self.config)
        self.debts = Debts()
        self.strangers = Strangers()
        self.silence = Silence(self.config.announce_ns, self.config.announce_times)

    # --- sending ----------------------------------------------------------------------------------------------------

    @only(MULTICASTS)
    def down(self, batch: Batch) -> None:
        if batch.flags & NO_RELIABILITY:
            return self.multicast_unreliably(batch)
        if self.held:
            self.queue.append(batch)
            self.queued_bytes += batch.nbytes
            return None
        return self.multicast(batch)

    def multicast(self, batch: Batch) -> None:
        first = self.mine.add(batch)
        if batch.headers:
            self.note_uncounted(batch)
        self.pass_down(batch.push(Data(self.view, first)))
        self.pass_up(batch)
        if not self.silence.fresh and self.config.resend_last_seqno:
            self.set_timer("announce", self.silence.broken())

    def multicast_unreliably(self, batch: Batch) -> None:
        if not self.view and batch.payloads:
            return self.count("sent_before_view_dropped")
        self.pass_down(batch)
        return self.pass_up(batch) if batch.payloads else None

    def pending_bytes(self) -> int:
        return self.queued_bytes

    # --- receiving --------------------------------------------------------------------------------------------------

    @only(MULTICASTS)
    def up(self, batch: Batch) -> None:
        """Multicasts without a number of ours."""
        if batch.payloads and batch.src not in self.theirs:
            return self.count("non_member_dropped")
        if not batch.flags & NO_RELIABILITY:
            return self.count("unnumbered_dropped")
        return self.pass_up(batch)

    @receives(Data)
    def data(self, header: Data, batch: Batch) -> None:
        if header.view != self.view:
            return self.data_of_other_view(header, batch)
        sender = batch.src
        window = self.theirs.get(sender)
        if window is None:
            return self.strange(sender)
        if not self.gaps and not self.held and window.straight(header.first, batch):
            if batch.headers:
                self.note_uncounted(batch)
            return self.pass_up(batch)
        if self.gaps and sender in self.gaps and self.gaps[sender].is_asked(header.first):
            self.pace.premature(self.now_ns)              # the original arrives after all
        if header.first > window.next + MAX_AHEAD:
            return self.count("implausible_dropped")
        if not self.fits(window, header.first, batch):
            window.announce(header.first + batch.count)
            return self.look_after(sender, window)
        if not window.add(header.first, batch):
            return self.count("duplicates_dropped", batch.count)
        return self.settle(sender, window)

    @receives(Resent)
    def resent(self, header: Resent, batch: Batch) -> None:
        sender = header.sender
        window = self.theirs.get(sender)
        if header.view != self.view or window is None or batch.src not in self.theirs:
            return self.count("stale_resent_dropped")
        if header.first + batch.count > window.stop:
            return self.count("unasked_resent_dropped", batch.count)       # nobody told us of such numbers
        if not self.fits(window, header.first, batch):
            return None
        if not window.add(header.first, Batch(sender, None, batch.payloads, batch.headers, batch.flags)):
            return self.count("duplicates_dropped", batch.count)
        self.count("recovered", batch.count)
        gaps = self.gaps.get(sender)
        if gaps is not None:
            gaps.answered(header.first, batch, self.now_ns)
        self.settle(sender, window)
        if gaps is not None and window.next < gaps.seen and not gaps.is_asked(window.next):
            self.request(sender, window, gaps)     # what we asked for is here, so ask for the next chunk
        return None

    def fits(self, window: ReceiveWindow, first: int, batch: Batch) -> bool:
        """Whether a run may be kept; what is further ahead makes room for it, of the greediest sender first."""
        if first <= window.next:
            return True                                        # the one that is wanted next always may
        fits, dropped = make_room(self.theirs.values(), window, first, batch.nbytes, self.config.max_ahead_bytes)
        if not fits:
            dropped += batch.count
        if dropped:
            self.count("ahead_dropped", dropped)
        return fits

    def settle(self, sender: Address, window: ReceiveWindow) -> None:
        """Deliver what may be delivered; look after what is missing."""
        if not self.held:
            self.deliver(window.take())
        elif self.cut is not None:
            self.fill_from(sender, window, self.cut)
        if window.next != window.stop:
            self.look_after(sender, window)

    def deliver(self, runs: list[Batch]) -> None:
        for run in runs:
            if run.headers:
                self.note_uncounted(run)
            self.pass_up(run)

    def note_uncounted(self, batch: Batch) -> None:
        """A run with headers may be a control message or pieces of a large one: see `multicasts`."""
        surplus = batch.count - batch.messages
        if surplus:
            self.uncounted[batch.src] = self.uncounted.get(batch.src, 0) + surplus

    def data_of_other_view(self, header: Data, batch: Batch) -> None:
        if header.view[:COUNTER_BYTES] <= self.view[:COUNTER_BYTES]:
            if batch.src in self.theirs:
                return self.count("old_view_dropped", batch.count)
            return self.strange(batch.src)
        for _ in range(self.early.put(header, batch)):
            self.count("early_dropped")
        return None

    def strange(self, stranger: Address) -> None:
        """A multicast or request of somebody outside our view, in a view not later than ours."""
        self.count("non_member_dropped")
        if self.view and self.strangers.is_news(stranger, self.now_ns):
            self.pass_up(ExcludedHint(stranger))

    # --- views ------------------------------------------------------------------------------------------------------

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        for sender in self.theirs:
            self.cancel_timer("ask", sender)
        self.cancel_timer("announce")
        self.members = event.view.members
        self.view = event.view.id.raw
        self.mine, self.uncounted = SendWindow(), {}
        self.theirs = {member: ReceiveWindow(keep=True) for member in self.members if member != self.me}
        self.frozen, self.cut, self.lacking = False, None, {}
        self.gaps.clear()
        self.debts.clear()
        self.strangers = Strangers()
        self.silence = Silence(self.config.announce_ns, self.config.announce_times)
        self.held = self.installing = True
        # Layers below must know the view before our first multicast in it.
        self.later(self.resume)

    def resume(self) -> None:
        """The view is known above and below: what waited for it goes on."""
        if not self.installing:
            return
        self.installing = False
        for header, batch in self.early.take():
            self.data(header, batch)
        self.release()

    def release(self) -> None:
        if self.frozen:
            return
        self.held = False
        for sender, window in self.theirs.items():
            self.settle(sender, window)
        queue, self.queue, self.queued_bytes = self.queue, deque(), 0
        for batch in queue:
            self.multicast(batch)

    @on(Freeze)
    def freeze(self, event: Freeze) -> None:
        self.held = self.frozen = True
        self.cut, self.lacking = None, {}
        self.pass_up(Frozen({member: self.reach(member) for member in self.members}))

    def reach(self, member: Address) -> int:
        """The number up to which we hold everything of `member` without a hole, delivered or not."""
        return self.mine.next if member == self.me else self.theirs[member].reach

    @on(FillTo)
    def fill(self, event: FillTo) -> None:
        self.held = self.frozen = True
        self.cut, self.holders = event.cut, event.holders
        if event.cut.get(self.me, self.mine.next) != self.mine.next:
            self.count("cut_differs_from_sent")
        self.lacking = dict.fromkeys(self.theirs)
        for sender, window in self.theirs.items():
            window.announce(event.cut.get(sender, window.next))
            self.gaps.pop(sender, None)                      # of these holders nothing has been asked yet
            self.fill_from(sender, window, event.cut)
            if sender in self.lacking:
                self.gaps_of(sender).seen = window.stop
                self.ask(sender)
        if not self.theirs:
            self.pass_up(Filled(event.cut))

    def fill_from(self, sender: Address, window: ReceiveWindow, cut: Digest) -> None:
        below = cut.get(sender, window.next)
        self.deliver(window.take(below))
        if sender in self.lacking and window.next >= below:
            del self.lacking[sender]
            if not self.lacking:
                self.pass_up(Filled(cut))

    # --- answering ----------------------------------------------------------------------------------------------------

    @receives(Missing)
    def asked(self, header: Missing, batch: Batch) -> None:
        if header.view != self.view or batch.src not in self.theirs:
            self.count("requests_refused")
            if batch.src not in self.theirs and header.view[:COUNTER_BYTES] <= self.view[:COUNTER_BYTES]:
                self.strange(batch.src)
            return
        window = self.mine if header.sender == self.me else self.theirs.get(header.sender)
        gone = [(first, min(stop, window.low)) for first, stop in header.ranges
                if first < window.low] if window is not None else []
        if gone:
            self.count("gone_told")
            self.send(Gone(self.view, header.sender, gone[0][0], gone[-1][1]), batch.src)
        self.debts.ask(None if self.config.use_mcast_xmit else batch.src, header.sender, header.ranges)
        if not self.timer_is_set("resend"):
            self.resend()

    @timer("resend")
    def resend(self) -> None:
        """A burst of what we owe; the rest after a pause."""
        runs = []
        for (dest, sender), first, run in self.debts.pay(self.kept, self.config.resend_bytes):
            self.count("retransmitted", run.count)
            header = Resent(self.view, sender, first)
            runs.append(Batch(self.me, dest, run.payloads, (*run.headers, header), run.flags))
        for run in joined(runs):
            self.pass_down(run)
        if self.debts:
            self.set_timer("resend", self.config.resend_pause_ns)

    def kept(self, sender: Address) -> Between | None:
        """What we hold of `sender`, by numbers."""
        window = self.mine if sender == self.me else self.theirs.get(sender)
        return None if window is None else window.between

    # --- the last message, and the stable ones ----------------------------------------------------------------------

    @timer("announce")
    def announce(self) -> None:
        tell, wait_ns = self.silence.tick(self.mine.next, self.mine.low)
        if tell and len(self.members) > 1:
            self.count("announced")
            self.send(SentSoFar(self.view, self.mine.next), None)
        if wait_ns is not None:
            self.set_timer("announce", wait_ns)

    @receives(SentSoFar)
    def sent_so_far(self, header: SentSoFar, batch: Batch) -> None:
        window = self.theirs.get(batch.src)
        if window is None and header.view[:COUNTER_BYTES] <= self.view[:COUNTER_BYTES]:
            return self.strange(batch.src)
        if header.view != self.view or window is None:
            return self.count("old_view_dropped")
        if window.reach < header.stop <= window.next + MAX_AHEAD:
            window.announce(header.stop)
            self.gaps_of(batch.src).seen = window.stop         # after that silence it is no reordering
            self.ask(batch.src)
        return None

    @on(MessagesKnown)
    def known(self, event: MessagesKnown) -> None:
        for sender, stop in event.digest.items():
            window = self.theirs.get(sender)
            if window is not None and window.stop < stop <= window.next + MAX_AHEAD:
                window.announce(stop)
                self.look_after(sender, window)

    @on(MessagesStable)
    def stable(self, event: MessagesStable) -> None:
        for sender, stop in event.digest.items():
            if sender == self.me:
                self.mine.forget(stop)
            elif sender in self.theirs:
                self.theirs[sender].forget(stop)

    # --- questions --------------------------------------------------------------------------------------------------

    def digest(self) -> Digest:
        """Member of the view -> next number wanted from it; everything below was passed up here."""
        return {member: self.mine.next if member == self.me else self.theirs[member].next for member in self.members}

    def digest_view(self) -> bytes:
        return self.view

    def multicasts(self) -> dict[Address, int]:
        return {member: number - 1 - self.uncounted.get(member, 0) for member, number in self.digest().items()}

    def stats(self) -> dict[str, float]:
        kept = [self.mine.runs, *(window.runs for window in self.theirs.values())]
        return {
            **self.counters, "sent": self.mine.next - 1, "kept_runs": sum(map(len, kept)),
            "kept_bytes": sum(runs.nbytes for runs in kept), "queued_bytes": self.queued_bytes,
        }
