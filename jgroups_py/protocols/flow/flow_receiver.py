"""The receiving half of FLOW: reports how far this member is, and sheds what its application cannot take.

Every mark that is passed up is answered with a StatusHeader: `received` is the mark, and `consumed` as well, unless the
application is behind (AppBusy): then `consumed` stays where it was, and a sender with strategy min waits. A sender that
does not wait for this member (max, or another tag) goes on. Once it is more than a window beyond `consumed`, this
member's application loses its multicasts until it has caught up. They are dropped above all layers, in the node
(node/shedding.py), so that every layer receives complete streams: no fragmented message, relayed message or state is
cut in two, and NAKACK's digests stay true. The application gets the number of lost messages, in order with the others.
"""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.counters import counter, declare
from jgroups_py.model.events import Disconnect, OutputInOrder
from jgroups_py.model.outputs import CountedAsReceiver, MessagesLost, SkipMulticasts
from jgroups_py.protocols.flow.flow_config import FlowControlConfig
from jgroups_py.protocols.flow.headers import (
    CountedAsReceiverHeader,
    FlowMark,
    ReceiverLeaving,
    ReceiverTag,
    StatusHeader,
    StatusRequest,
)
from jgroups_py.protocols.flow.limited_sender import IN_STREAM
from jgroups_py.protocols.flow.mark_receiver import MAX_SENDERS, MarkReceiver
from jgroups_py.stack.protocol import on, receives


class FlowReceiver(MarkReceiver):
    """See the module."""

    config: FlowControlConfig

    COUNTERS = declare(
        counter("statuses_sent", "Answers to marks of senders, and changes of what can be taken."),
        counter("overruns", "Senders of which the application takes more than a window too slowly; their multicasts "
                            "are skipped."),
    )

    def start(self) -> None:
        super().start()
        self.received: dict[Address, int] = {}       # sender -> position of its last mark passed up
        self.consumed: dict[Address, int] = {}       # sender -> the same, of the last one while the application kept up
        self.shedding: dict[Address, None] = {}      # senders whose multicasts the application loses now
        self.lossy: dict[Address, None] = {}         # senders of which NAKACK lost messages, and so perhaps marks

    def announce_tag(self, members: list[Address]) -> None:
        """Announce our tag to new members. Without one, their own settings hold for us, so nothing is sent."""
        if self.config.gtag is not None:
            for member in members:
                self.send(ReceiverTag(self.config.window_bytes, self.config.gtag), member, flags=IN_STREAM)

    @receives(FlowMark)
    def on_mark(self, header: FlowMark, batch: Batch) -> None:
        self.mark_passed(batch.src, header.position)

    def mark_passed(self, src: Address, position: int) -> None:
        """Everything that `src` sent before `position` was passed up, or is lost: report it, and shed if needed."""
        if src == self.me or (src not in self.received and len(self.received) >= MAX_SENDERS):
            return
        self.received[src] = position
        if not self.busy or src not in self.consumed:
            self.consumed[src] = position
        elif position - self.consumed[src] > self.config.window_bytes and src not in self.shedding:
            # Its sender does not wait for this member, and would fill its memory: the application loses the messages.
            self.count("overruns")
            self.shedding[src] = None
            self.pass_up(OutputInOrder(SkipMulticasts(src, True)))
        self.send_status(src)

    @receives(StatusRequest)
    def on_status_request(self, header: StatusRequest, batch: Batch) -> None:
        """Answer; a mark that was among lost messages never arrives, so the position in the request stands for it."""
        if batch.src in self.lossy and header.position > self.received.get(batch.src, 0):
            self.mark_passed(batch.src, header.position)
        else:
            self.send_status(batch.src)

    @on(OutputInOrder)
    def on_messages_lost(self, event: OutputInOrder) -> None:
        """NAKACK continues without some messages of a sender, and marks may be among them."""
        if isinstance(event.output, MessagesLost) and self.is_sender(event.output.origin):
            self.lossy[event.output.origin] = None

    def is_sender(self, member: Address) -> bool:
        """Whether it is another member of the view."""
        raise NotImplementedError

    def send_status(self, sender: Address) -> None:
        self.count("statuses_sent")
        self.send(StatusHeader(self.consumed.get(sender, 0), self.received.get(sender, 0), self.config.window_bytes,
                               self.config.gtag), sender)

    @receives(CountedAsReceiverHeader)
    def on_counted_as_receiver(self, header: CountedAsReceiverHeader, batch: Batch) -> None:
        self.pass_up(OutputInOrder(CountedAsReceiver(batch.src, header.in_group)))

    def on_caught_up(self) -> None:
        """The application has taken everything: `consumed` rises to `received` for every sender."""
        self.stop_shedding(tuple(self.shedding))
        for sender, position in self.received.items():
            if self.consumed[sender] < position:
                self.consumed[sender] = position
                self.send_status(sender)

    def stop_shedding(self, senders: tuple[Address, ...]) -> None:
        for sender in senders:
            if sender in self.shedding:
                del self.shedding[sender]
                self.pass_up(OutputInOrder(SkipMulticasts(sender, False)))

    def forget_senders(self, left: tuple[Address, ...]) -> None:
        self.stop_shedding(left)
        for member in left:
            self.lossy.pop(member, None)
            self.received.pop(member, None)
            self.consumed.pop(member, None)

    @on(Disconnect)
    def on_disconnect(self, event: Disconnect) -> None:
        """No sender needs to wait for this member while the group agrees on a view without it."""
        self.send(ReceiverLeaving(), None)
