"""The receiving half of FLOW: says how far this member is, and gives up what its application cannot take.

Every mark that comes up is answered with a StatusHeader: `received` is the mark, `consumed` too unless the application
is behind (AppBusy), which leaves it where it was. A sender with strategy min waits then. One that does not (max, or we
are not in its group) goes on, and once it is more than a window beyond `consumed`, this member's application loses its
multicasts until it has caught up. They are dropped at the very top, in the node, so that all layers see whole streams:
a fragment, a relayed message or a state is never cut in two, and NAKACK's view of who has what stays true. The
application is told how many it lost, in order with what it got.
"""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.counters import counter, declare
from jgroups_py.model.events import Disconnect, OutputInOrder
from jgroups_py.model.outputs import CountedAsReceiver, MessagesLost, SkipMulticasts
from jgroups_py.protocols.flow.answering import MAX_SENDERS, Answering
from jgroups_py.protocols.flow.flow_config import FlowControlConfig
from jgroups_py.protocols.flow.headers import (
    ClosingHeader,
    Counted,
    FlowMark,
    ReceivingHeader,
    StatusHeader,
    StatusWanted,
)
from jgroups_py.protocols.flow.spending import IN_STREAM
from jgroups_py.stack.protocol import on, receives


class Consuming(Answering):
    """See the module."""

    config: FlowControlConfig

    COUNTERS = declare(
        counter("statuses_sent", "Answers to marks of senders, and changes of what can be taken."),
        counter("overruns", "Senders of which the application takes more than a window too slowly; their multicasts "
                            "are skipped."),
    )

    def start(self) -> None:
        super().start()
        self.received: dict[Address, int] = {}       # sender -> its last mark that came up
        self.consumed: dict[Address, int] = {}       # sender -> the last one before the application fell behind
        self.shedding: dict[Address, None] = {}      # senders whose multicasts the application loses now
        self.lossy: dict[Address, None] = {}         # senders of whom messages are lost here, and perhaps marks

    def introduce(self, strangers: list[Address]) -> None:
        """Tell new members our tag; without one there is nothing that their own settings do not say."""
        if self.config.gtag is not None:
            for member in strangers:
                self.send(ReceivingHeader(self.config.window_bytes, self.config.gtag), member, flags=IN_STREAM)

    @receives(FlowMark)
    def marked(self, mark: FlowMark, batch: Batch) -> None:
        self.passed_mark(batch.src, mark.position)

    def passed_mark(self, src: Address, position: int) -> None:
        """Everything that `src` sent before `position` has come up, or is lost."""
        if src == self.me or (src not in self.received and len(self.received) >= MAX_SENDERS):
            return
        self.received[src] = position
        if not self.busy or src not in self.consumed:
            self.consumed[src] = position
        elif position - self.consumed[src] > self.config.window_bytes and src not in self.shedding:
            self.count("overruns")
            self.shedding[src] = None
            self.pass_up(OutputInOrder(SkipMulticasts(src, True)))
        self.tell_status(src)

    @receives(StatusWanted)
    def status_wanted(self, wanted: StatusWanted, batch: Batch) -> None:
        if batch.src in self.lossy and wanted.position > self.received.get(batch.src, 0):
            self.passed_mark(batch.src, wanted.position)       # its mark may be lost: take the sender's word
        else:
            self.tell_status(batch.src)

    @on(OutputInOrder)
    def messages_lost(self, event: OutputInOrder) -> None:
        """NAKACK goes on without some messages of a sender: marks among them will never pass."""
        if isinstance(event.output, MessagesLost) and self.is_sender(event.output.origin):
            self.lossy[event.output.origin] = None

    def is_sender(self, member: Address) -> bool:
        """Whether it is another member of the view."""
        raise NotImplementedError

    def tell_status(self, sender: Address) -> None:
        self.count("statuses_sent")
        self.send(StatusHeader(self.consumed.get(sender, 0), self.received.get(sender, 0), self.config.window_bytes,
                               self.config.gtag), sender)

    @receives(Counted)
    def counted(self, counted: Counted, batch: Batch) -> None:
        self.pass_up(OutputInOrder(CountedAsReceiver(batch.src, counted.in_group)))

    def caught_up(self) -> None:
        """What was received is consumed."""
        self.stop_skipping(tuple(self.shedding))
        for sender, position in self.received.items():
            if self.consumed[sender] < position:
                self.consumed[sender] = position
                self.tell_status(sender)

    def stop_skipping(self, senders: tuple[Address, ...]) -> None:
        for sender in senders:
            if sender in self.shedding:
                del self.shedding[sender]
                self.pass_up(OutputInOrder(SkipMulticasts(sender, False)))

    def forget_senders(self, left: tuple[Address, ...]) -> None:
        self.stop_skipping(left)
        for member in left:
            self.lossy.pop(member, None)
            self.received.pop(member, None)
            self.consumed.pop(member, None)

    @on(Disconnect)
    def leaving(self, event: Disconnect) -> None:
        """Nobody needs to wait for us while the group agrees on a view without us."""
        self.send(ClosingHeader(), None)
