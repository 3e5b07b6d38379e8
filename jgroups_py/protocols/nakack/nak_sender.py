"""Negative acknowledgements: requests for missing messages, and what happens where no member keeps them any more.

A request goes to the sender; in a flush, to the member that GMS names as holder; after some turns without an answer,
to other members in between.

A member drops only what every member voted to have delivered (STABLE). So a request for a dropped message means that a
vote was false: this member's own, or one forged in its name. The answer is NoLongerKept. Then the request goes to each
other member, since one of them may still have the message. If none has, it is lost here: MessagesLost goes to the
application in order with the deliveries, and the window continues behind the hole. Waiting instead would stop delivery
from this sender for ever (F: no hole that is not declared).
"""
from __future__ import annotations

from abc import ABC, abstractmethod

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.digest import Digest
from jgroups_py.model.events import OutputInOrder
from jgroups_py.model.outputs import MessagesLost
from jgroups_py.model.ports import FrameRoom
from jgroups_py.protocols.nakack.config import NakackConfig
from jgroups_py.protocols.nakack.headers import NoLongerKept, RetransmitRequest
from jgroups_py.protocols.nakack.nak_schedule import NakPacing, NakSchedule
from jgroups_py.stack.protocol import Protocol, receives, timer
from jgroups_py.windows.receive import ReceiveWindow

RANGE_BYTES = 16                     # of a request, on the wire
REQUEST_BYTES = 256                  # the rest of its frame, generously
FAILS_BEFORE_OTHERS = 2              # unanswered turns after which requests go to other members too
TRIES = 3                            # requests to a member that does not answer, for what another has dropped


class NakSender(Protocol, ABC):
    """The part of NAKACK that sends requests; `Nakack.start` sets its state up."""

    config: NakackConfig
    frames: FrameRoom
    view: bytes
    receive_windows: dict[Address, ReceiveWindow]
    held: bool
    cut: Digest | None
    holders: dict[Address, Address]
    naks: dict[Address, NakSchedule]
    pacing: NakPacing

    @abstractmethod
    def settle(self, sender: Address, window: ReceiveWindow) -> None:
        """Deliver what may be delivered; schedule a request for what is missing."""

    @abstractmethod
    def deliver(self, batches: list[Batch]) -> None:
        """Pass them up."""

    def schedule_of(self, sender: Address) -> NakSchedule:
        """The schedule of requests for messages of `sender`; a new one if none was missing."""
        found = self.naks.get(sender)
        if found is None:
            found = self.naks[sender] = NakSchedule(self.pacing)
        return found

    def schedule_nak(self, sender: Address, window: ReceiveWindow) -> None:
        """Something is missing: request it if it still is after the reordering delay."""
        if not self.timer_is_set("ask", sender):
            self.schedule_of(sender).seen = window.stop
            self.set_timer("ask", self.pacing.delay_ns, sender)

    @timer("ask")
    def ask(self, sender: Address) -> None:
        """A round: request what was missing in the previous one too, and note what is missing now."""
        window = self.receive_windows[sender]
        schedule = self.schedule_of(sender)
        stop = self.needed_stop(sender, window)
        self.request(sender, window, schedule)
        if window.reach >= stop:
            # `reach`, not `next`: while frozen, complete messages wait undelivered and need no request.
            self.naks.pop(sender, None)
            return self.cancel_timer("ask", sender)
        news = schedule.seen < window.stop
        schedule.seen = window.stop
        delay_ns = self.pacing.delay_ns
        # New holes get their reordering delay; without any, nothing is due before the turn ends.
        wait_ns = delay_ns if news else max(delay_ns, schedule.ends_ns - self.now_ns)
        return self.set_timer("ask", wait_ns, sender)

    def needed_stop(self, sender: Address, window: ReceiveWindow) -> int:
        """The messages of `sender` below this number are needed: all known to exist; in a flush, those below the cut.

        Nothing above the cut is delivered in this view (S5), so requesting it would only delay the view change.
        """
        return window.stop if self.cut is None else self.cut.get(sender, window.next)

    def request(self, sender: Address, window: ReceiveWindow, schedule: NakSchedule) -> None:
        """Send requests for what is due; each fits a frame."""
        due = schedule.due(window.holes(min(schedule.seen, self.needed_stop(sender, window))), self.now_ns)
        if not due:
            return
        source = self.source(sender, schedule)
        most = max(1, (self.frames.max_frame_bytes() - REQUEST_BYTES) // RANGE_BYTES)
        for at in range(0, len(due), most):
            self.count("requests_sent")
            self.send(RetransmitRequest(self.view, sender, tuple(due[at:at + most])), source)

    def source(self, sender: Address, schedule: NakSchedule) -> Address:
        """The member that gets the request: the sender (in a flush: the holder), now and then another one."""
        likely = sender if self.cut is None else self.holders.get(sender, sender)
        others = [member for member in self.receive_windows if member != likely]
        relieve = self.config.xmit_from_random_member and self.cut is None and schedule.fails == 0
        # Every second failed turn goes to another member: the likely one may have crashed, or only be slow.
        if others and (relieve or (schedule.fails > FAILS_BEFORE_OTHERS and schedule.fails % 2)):
            return self.rng.choice(others)
        # Never to this member itself, although GMS may have named it as holder.
        return likely if likely != self.me else sender

    # --- what no member keeps any more --------------------------------------------------------------------------------

    @receives(NoLongerKept)
    def no_longer_kept(self, header: NoLongerKept, batch: Batch) -> None:
        """A member has dropped the requested messages: request them from another, or declare them lost.

        Accepted from members of the view only, and only for what was requested: otherwise any frame could make this
        member skip messages (F).
        """
        sender, src = header.sender, batch.src
        window, schedule = self.receive_windows.get(sender), self.naks.get(sender)
        if header.view != self.view or src not in self.receive_windows or window is None or schedule is None:
            return self.drop("stale_no_longer_kept_dropped", batch, "another view, or nothing is missing", header)
        stop = min(header.stop, window.stop if self.cut is None else self.cut.get(sender, window.next))
        missing = window.reach
        # Frozen: the reach was reported to GMS, and a cut computed from it must stay valid until FlushTo (S5).
        stopped = self.held and self.cut is None
        if not header.first <= missing < stop or not schedule.is_asked(missing) or stopped:
            return self.drop("stale_no_longer_kept_dropped", batch, f"{missing} is missing, and not of these", header)
        schedule.not_kept[src] = stop
        other = schedule.next_to_try(missing, self.receive_windows, TRIES)
        if other is not None:
            self.count("requests_sent")
            return self.send(RetransmitRequest(self.view, sender, ((missing, stop),)), other)
        return self.declare_lost(sender, window, stop)

    def declare_lost(self, sender: Address, window: ReceiveWindow, stop: int) -> None:
        """What is missing of `sender` below `stop` will never come: report each hole in order with the deliveries."""
        origin = next(member for member in self.receive_windows if member == sender)          # with its name
        for first, end in window.holes(stop):
            self.deliver(window.skip(first))
            window.skip(end)
            self.count("lost", end - first)
            self.pass_up(OutputInOrder(MessagesLost("", origin, first, end)))
        self.naks.pop(sender, None)
        self.settle(sender, window)
