"""FLOW: flow control of multicasts by strategy: the fastest receiver, the slowest, or the slowest of a tagged group.

Problem: with credits (MFC) the slowest member of a view limits every sender. Some receivers may rather lose messages
than slow the others down (a gateway), others may not (an archive), and a sender may require that a minimum number of
the latter are there. Idea: receivers answer marks with their progress (flow_receiver.py), a strategy (strategies.py)
computes a limit from the answers of those that count, and a sender with too few of them is not connected.

With any strategy, a sender stays within `rrwm` windows of what every member's *stack* has received: NAKACK keeps all of
that for retransmission. So only an application may lose messages, never the stack below it
(design/decisions/0008-slow-receivers-lose-at-the-top.md). A member that does not answer for `receiver_timeout` no
longer counts, is notified of that, and counts again once it answers from near enough.

Used in place of MFC. Receivers are the members of the local view, so members of other sites are never tracked. Source:
Aeron (multicast flow control; `fc=`, `gtag=`). Deviations: answers follow marks in the stream, and are requested only
while some are outstanding, so that an idle group sends nothing; with min, a member counts from its first view on.
"""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_FC, Batch
from jgroups_py.model.counters import counter, declare, drop, figure
from jgroups_py.model.events import OutputInOrder, ViewChange
from jgroups_py.model.outputs import GroupConnected
from jgroups_py.protocols.flow.flow_config import FlowControlConfig
from jgroups_py.protocols.flow.flow_receiver import FlowReceiver
from jgroups_py.protocols.flow.headers import (
    CountedAsReceiverHeader,
    FlowMark,
    ReceiverLeaving,
    ReceiverTag,
    StatusHeader,
    StatusRequest,
)
from jgroups_py.protocols.flow.limited_sender import IN_STREAM, LimitedSender
from jgroups_py.protocols.flow.mark_receiver import MAX_SENDERS
from jgroups_py.protocols.flow.send_state import SendState
from jgroups_py.protocols.flow.strategies import Strategy
from jgroups_py.stack.protocol import MULTICASTS, on, only, receives, timer

NOTHING = -1                             # a limit behind which even an empty message waits


class FlowControl(LimitedSender, FlowReceiver):
    """The sending half; see the module.

    `state.granted`: receiver that counts -> position up to which its stack has received.
    """

    Config = FlowControlConfig
    config: FlowControlConfig
    COUNTERS = declare(
        counter("receivers_silent", "Receivers that are no longer waited for: they did not answer within "
                                    "receiver_timeout."),
        counter("receivers_back", "Of these, how many count again because they caught up."),
        counter("disconnected", "How often fewer receivers than group_min_size were left."),
        counter("connected_again", "How often there were enough of them again."),
        drop("non_member_statuses", "Answers of a process outside the view."),
        drop("stale_statuses", "Answers older than one that came before, or about what was never sent."),
        figure("receivers", "Receivers that count now."),
        figure("connected", "1 while there are as many as group_min_size."),
        figure("limit", "Position up to which may be sent now."),
    )
    Mark = FlowMark

    def start(self) -> None:
        super().start()
        self.state = self.new_state()
        self.strategy: Strategy = self.config.strategy_class()(self.config.settings)
        self.members: dict[Address, None] = {}       # of the view, without this member
        self.taken: dict[Address, int] = {}          # receiver that counts -> what its application has consumed
        self.answered_ns: dict[Address, int] = {}    # member -> when it last answered, or polling began
        self.silent: dict[Address, None] = {}        # members that no longer count: they did not answer in time
        self.early_tags: dict[Address, ReceiverTag] = {}   # non-member -> its tag: it may be in the next view
        self.polling = False                         # answers are outstanding
        self.reported = GroupConnected(True, 0, 0)   # what the application was last notified of

    def stats(self) -> dict[str, float]:
        return {**super().stats(), "receivers": self.strategy.receivers(), "connected": int(self.connected),
                "limit": self.strategy.limit or 0}

    # --- sending ------------------------------------------------------------------------------------------------------

    @only(MULTICASTS)
    def down(self, batch: Batch) -> None:
        if batch.flags & NO_FC:
            return self.pass_down(batch)
        self.send_limited(self.state, None, batch)
        if not self.polling and self.state.granted:
            self.begin_polling()
        return None

    @property
    def connected(self) -> bool:
        """Whether there are as many receivers as group_min_size requires."""
        return self.strategy.connected

    def has_receivers(self, state: SendState) -> bool:
        """Silent members get marks as well: their answers are how they come back."""
        return bool(state.granted or self.silent)

    def on_blocked(self, state: SendState, dest: Address | None) -> None:
        if state.marked < state.position:
            self.send_mark(state, dest)
        self.count("blocked")

    def on_free(self, dest: Address | None) -> None:
        """Nothing to do: polling ends when no answer is outstanding."""

    def update_limit(self) -> None:
        """Compute the limit, send what it allows, and report when the sender becomes connected or disconnected."""
        state = self.state
        if not self.connected:
            state.limit = NOTHING
        else:
            bounds = [received + self.config.ahead_bytes for received in state.granted.values()]
            if self.strategy.limit is not None:
                bounds.append(self.strategy.limit)
            state.limit = min(bounds, default=None)
        self.send_queued(state, None)
        report = GroupConnected(self.connected, self.strategy.receivers(), self.strategy.wanted,
                                self.config.when_disconnected == "raise")
        if report.connected != self.reported.connected:
            self.reported = report
            self.count("connected_again" if report.connected else "disconnected")
            self.later(lambda: self.pass_up(OutputInOrder(report)))

    def is_sender(self, member: Address) -> bool:
        return member in self.members

    # --- polling: requesting outstanding answers ----------------------------------------------------------------------

    def begin_polling(self) -> None:
        """Nothing was requested for a while, so the time of silence begins now for every receiver."""
        self.polling = True
        self.answered_ns = dict.fromkeys(self.state.granted, self.now_ns)
        self.set_timer("poll", self.config.status_interval_ns)

    @timer("poll")
    def poll(self) -> None:
        """Request outstanding answers, and stop waiting for receivers that are silent for too long."""
        state, interval_ns = self.state, self.config.status_interval_ns
        if state.marked < state.position:
            self.send_mark(state, None)                # the end of what was sent is to be acknowledged, too
        timeout_ns, wait_ns = self.config.timeout_ns, interval_ns
        for member in [member for member in state.granted if self.is_outstanding(member)]:
            silence_ns = self.now_ns - self.answered_ns.setdefault(member, self.now_ns)
            if silence_ns >= timeout_ns:
                self.stop_waiting_for(member)
                continue
            wait_ns = min(wait_ns, timeout_ns - silence_ns)
            if silence_ns >= interval_ns:
                self.send(StatusRequest(state.marked), member)
        for member in self.silent:                     # its answer to the last mark may have been lost
            self.send(StatusRequest(state.marked), member)
        if state.queue or self.silent or any(map(self.is_outstanding, state.granted)):
            self.set_timer("poll", wait_ns)
        else:
            self.polling = False

    def is_outstanding(self, member: Address) -> bool:
        """Whether the member has not yet reported that it has consumed all that was sent."""
        return self.taken.get(member, 0) < self.state.position

    def stop_waiting_for(self, member: Address) -> None:
        """The member was silent for too long. It is notified in the stream, so before the messages that it missed."""
        self.count("receivers_silent")
        self.remove_receiver(member)
        self.silent[member] = None
        self.send(CountedAsReceiverHeader(False), member, flags=IN_STREAM)
        self.update_limit()

    def remove_receiver(self, member: Address) -> None:
        self.state.granted.pop(member, None)
        self.taken.pop(member, None)
        self.strategy.gone(member)

    # --- answers ------------------------------------------------------------------------------------------------------

    @receives(StatusHeader)
    def on_status(self, header: StatusHeader, batch: Batch) -> None:
        member = batch.src
        if member not in self.members:
            return self.drop("non_member_statuses", batch, "its source is not in the view", header)
        self.answered_ns[member] = self.now_ns
        if not header.consumed <= header.received <= self.state.position:
            return self.drop("stale_statuses", batch, "this member has not sent so much", header)
        if member in self.silent:
            return self.readmit(member, header)
        if header.received < self.state.granted.get(member, header.received + 1):
            return self.drop("stale_statuses", batch, "a later answer of this member arrived before", header)
        return self.record_status(member, header)

    def record_status(self, member: Address, status: StatusHeader) -> None:
        self.state.granted[member] = status.received
        self.taken[member] = max(status.consumed, self.taken.get(member, 0))
        self.strategy.status(member, status.consumed, status.window, status.tag)
        self.update_limit()

    def readmit(self, member: Address, status: StatusHeader) -> None:
        """Count a silent member again if it is near enough; otherwise the limit would fall back to where it stands.

        Until then it catches up, and answers each mark that it passes.
        """
        if status.received + self.config.ahead_bytes < self.state.position:
            return
        self.strategy.status(member, status.consumed, status.window, status.tag)
        if self.strategy.admits(member):
            self.count("receivers_back")
            del self.silent[member]
            self.send(CountedAsReceiverHeader(True), member, flags=IN_STREAM)
            self.record_status(member, status)

    @receives(ReceiverTag)
    def on_receiver_tag(self, header: ReceiverTag, batch: Batch) -> None:
        """A new member's tag. It starts at the present position, as it gets nothing that was sent before its view."""
        member = batch.src
        if member in self.state.granted:
            self.strategy.status(member, self.taken[member], header.window, header.tag)
            self.update_limit()
        elif member not in self.members and len(self.early_tags) < MAX_SENDERS:
            self.early_tags[member] = header           # it has installed the next view before this member

    @receives(ReceiverLeaving)
    def on_receiver_leaving(self, header: ReceiverLeaving, batch: Batch) -> None:
        if batch.src in self.state.granted:
            self.remove_receiver(batch.src)
            self.update_limit()

    # --- views --------------------------------------------------------------------------------------------------------

    @on(ViewChange)
    def on_view_change(self, event: ViewChange) -> None:
        """Survivors keep what they reported; joiners start at our position, as they get nothing sent before."""
        members = {member: None for member in event.view.members if member != self.me}
        for member in [member for member in self.members if member not in members]:
            self.remove_receiver(member)
            self.silent.pop(member, None)
            self.answered_ns.pop(member, None)
        joiners = [member for member in members if member not in self.members]
        self.members = members
        for member in joiners:
            self.state.granted[member] = self.taken[member] = self.state.position
            self.strategy.setup(member, self.state.position)
            tag = self.early_tags.pop(member, None)
            if tag is not None:
                self.strategy.status(member, self.state.position, tag.window, tag.tag)
        self.forget_senders(event.left)
        self.announce_tag(joiners)
        self.update_limit()
