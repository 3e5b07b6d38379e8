"""Asking for missing messages, and what becomes of those that nobody keeps any more.

The sender is asked, in a flush who is said to hold them, and after some turns without an answer others in between.
A member that is asked for what it has forgotten says so (Gone): it forgets only what every member said to have, so if
we lack it, somebody spoke falsely in our name, or in that of others. Then each other member is asked, and if none of
them has it either, the messages are lost here: that is told, in order with the deliveries, and we go on behind them.
"""
from __future__ import annotations

from abc import ABC, abstractmethod

from jgroups_py.address import Address
from jgroups_py.batch import Batch
from jgroups_py.events import Digest, Tell
from jgroups_py.outputs import MessagesLost
from jgroups_py.ports import FrameRoom
from jgroups_py.protocol import Protocol, receives, timer
from jgroups_py.protocols.nakack.config import NakackConfig
from jgroups_py.protocols.nakack.gaps import Gaps, Pace
from jgroups_py.protocols.nakack.headers import Gone, Missing
from jgroups_py.windows.receive import ReceiveWindow

RANGE_BYTES = 16                     # of a request, on the wire
REQUEST_BYTES = 256                  # the rest of its frame, generously
FAILS_BEFORE_OTHERS = 2              # unanswered turns after which somebody else is asked too
TRIES = 3                            # how often a member that does not answer is asked for what another has forgotten


class Asking(Protocol, ABC):
    """The part of NAKACK that asks; its state is set up by the whole."""

    config: NakackConfig
    frames: FrameRoom
    view: bytes
    theirs: dict[Address, ReceiveWindow]
    held: bool
    cut: Digest | None
    holders: dict[Address, Address]
    gaps: dict[Address, Gaps]
    pace: Pace

    @abstractmethod
    def settle(self, sender: Address, window: ReceiveWindow) -> None:
        """Deliver what may be delivered; look after what is missing."""

    @abstractmethod
    def deliver(self, runs: list[Batch]) -> None:
        """Pass them up."""

    def gaps_of(self, sender: Address) -> Gaps:
        found = self.gaps.get(sender)
        if found is None:
            found = self.gaps[sender] = Gaps(self.pace)
        return found

    def look_after(self, sender: Address, window: ReceiveWindow) -> None:
        """Something is missing; ask for it if it still is in a while."""
        if not self.timer_is_set("ask", sender):
            self.gaps_of(sender).seen = window.stop
            self.set_timer("ask", self.pace.patience_ns, sender)

    @timer("ask")
    def ask(self, sender: Address) -> None:
        """A round: ask for what was missing in the previous one too, and note what is missing now."""
        window = self.theirs[sender]
        gaps = self.gaps_of(sender)
        below = self.wanted(sender, window)
        self.request(sender, window, gaps)
        if window.reach >= below:
            self.gaps.pop(sender, None)
            return self.cancel_timer("ask", sender)
        news = gaps.seen < window.stop
        gaps.seen = window.stop
        patience_ns = self.pace.patience_ns
        wait_ns = patience_ns if news else max(patience_ns, gaps.ends_ns - self.now_ns)
        return self.set_timer("ask", wait_ns, sender)

    def wanted(self, sender: Address, window: ReceiveWindow) -> int:
        """Up to where we want the messages of `sender`."""
        return window.stop if self.cut is None else self.cut.get(sender, window.next)

    def request(self, sender: Address, window: ReceiveWindow, gaps: Gaps) -> None:
        due = gaps.due(window.holes(min(gaps.seen, self.wanted(sender, window))), self.now_ns)
        if not due:
            return
        source = self.source(sender, gaps)
        most = max(1, (self.frames.max_frame_bytes() - REQUEST_BYTES) // RANGE_BYTES)
        for at in range(0, len(due), most):
            self.count("requests_sent")
            self.send(Missing(self.view, sender, tuple(due[at:at + most])), source)

    def source(self, sender: Address, gaps: Gaps) -> Address:
        """Whom to ask: the sender (in a flush: who is said to hold it), now and then another member."""
        likely = sender if self.cut is None else self.holders.get(sender, sender)
        others = [member for member in self.theirs if member != likely]
        elsewhere = gaps.fails == 0 if self.config.xmit_from_random_member and self.cut is None else False
        if others and (elsewhere or (gaps.fails > FAILS_BEFORE_OTHERS and gaps.fails % 2)):
            return self.rng.choice(others)
        return likely if likely != self.me else sender

    # --- what nobody keeps any more -----------------------------------------------------------------------------------

    @receives(Gone)
    def told_gone(self, header: Gone, batch: Batch) -> None:
        """Whom we asked has forgotten what we asked for: ask another, or there is nobody left to ask."""
        sender, src = header.sender, batch.src
        window, gaps = self.theirs.get(sender), self.gaps.get(sender)
        if header.view != self.view or src not in self.theirs or window is None or gaps is None:
            return self.count("stale_gone_dropped")
        stop = min(header.stop, window.stop if self.cut is None else self.cut.get(sender, window.next))
        missing = window.reach
        if not header.first <= missing < stop or not gaps.is_asked(missing) or (self.held and self.cut is None):
            return self.count("stale_gone_dropped")
        gaps.gone[src] = stop
        other = gaps.next_to_try(missing, self.theirs, TRIES)
        if other is not None:
            self.count("requests_sent")
            return self.send(Missing(self.view, sender, ((missing, stop),)), other)
        return self.lose(sender, window, stop)

    def lose(self, sender: Address, window: ReceiveWindow, stop: int) -> None:
        """What is missing of `sender` below `stop` will never come."""
        origin = next(member for member in self.theirs if member == sender)          # with its name
        for first, end in window.holes(stop):
            self.deliver(window.skip(first))
            window.skip(end)
            self.count("lost", end - first)
            self.pass_up(Tell(MessagesLost("", origin, first, end)))
        self.gaps.pop(sender, None)
        self.settle(sender, window)
