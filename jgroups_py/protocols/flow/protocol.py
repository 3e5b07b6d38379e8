"""MFC and UFC: flow control by credits, so that a slow receiver slows its senders down instead of filling memory.

Problem: the reliable layers below keep what a receiver has not taken yet, at both ends, without bound. Idea: a sender
may have `max_credits` payload bytes under way to a receiver. It counts the bytes that it sends (`position`), and puts a
Mark(position) into the stream at fixed distances and whenever it has to stop. Marks travel in order with the messages,
so a receiver that passes one up has passed up everything before it; it answers Grant(position). The sender may send up
to `max_credits` above the lowest position that its receivers granted; what exceeds that is cut off and queued. While
its application is behind (AppBusy) a receiver defers its grants. A sender that is blocked for `max_block_time` without
a grant requests it again (CreditRequest), since grants are unreliable.

MFC does this for multicasts (every other member of the view is a receiver), UFC for unicasts (one SendState for each
receiver). Both sit above the reliable layers and below FRAG, so that batches consist of messages of at most frag_size.
NO_FC messages pass. A message larger than `max_credits` passes once everything before it is granted.

View changes: a member that left no longer counts, which frees senders that waited for it; a member that joined has
granted the sender's present position. Positions are absolute and only grow, so a mark that is still under way when a
view is installed does no harm, nor does a grant that arrives late or twice: no credit can be lost at a view change.

Source: JGroups FlowControl, MFC, UFC. Deviation: there receivers count bytes and send them back as increments, which
both ends have to keep in step over view changes and resets; here only the sender counts.
"""
from __future__ import annotations

from typing import Any, ClassVar

from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_FC, Batch
from jgroups_py.model.counters import counter, declare, drop
from jgroups_py.model.events import OutputInOrder, ViewChange
from jgroups_py.model.outputs import MessagesLost
from jgroups_py.protocols.flow.config import FlowConfig
from jgroups_py.protocols.flow.headers import (
    MulticastCreditRequest,
    MulticastGrant,
    MulticastMark,
    UnicastCreditRequest,
    UnicastGrant,
    UnicastMark,
)
from jgroups_py.protocols.flow.limited_sender import LimitedSender
from jgroups_py.protocols.flow.mark_receiver import MAX_SENDERS, MarkReceiver
from jgroups_py.protocols.flow.send_state import SendState
from jgroups_py.stack.protocol import MULTICASTS, UNICASTS, on, only, receives, timer


class CreditFlowControl(LimitedSender, MarkReceiver):
    """What MFC and UFC share: marks, grants and requests for credit. A subclass chooses the SendState of a batch."""

    Config = FlowConfig
    config: FlowConfig
    COUNTERS = declare(
        counter("credit_requests_sent", "Requests to receivers that had not answered while a sender was blocked."),
        counter("grants_sent", "Answers to marks of senders."),
        drop("stale_grants", "Answers about marks that were never set, or of a member to which nothing was sent."),
    )
    Mark: ClassVar[type[Any]]                # the three headers, made with a position
    Grant: ClassVar[type[Any]]
    CreditRequest: ClassVar[type[Any]]

    def start(self) -> None:
        super().start()
        self.marks_passed: dict[Address, int] = {}   # sender -> position of its last mark that was passed up
        self.deferred: dict[Address, int] = {}       # sender -> position to grant when the application has caught up

    # --- sending ----------------------------------------------------------------------------------------------------

    def on_blocked(self, state: SendState, dest: Address | None) -> None:
        """Out of credit: a mark at the very end makes the receivers answer, and a timer requests lost answers."""
        if state.marked < state.position:
            self.send_mark(state, dest)
        if not self.timer_is_set("blocked", dest):
            self.count("blocked")
            self.set_timer("blocked", self.config.max_block_time_ns, dest)

    def on_free(self, dest: Address | None) -> None:
        self.cancel_timer("blocked", dest)

    @timer("blocked")
    def request_credit(self, dest: Address | None = None) -> None:
        """Still blocked: request the grants that have not arrived."""
        state = self.state_of(dest)
        if state is None or not state.queue:
            return
        for member, granted in state.granted.items():
            if granted < state.marked:
                self.count("credit_requests_sent")
                self.send(self.CreditRequest(state.marked), member)
        self.set_timer("blocked", self.config.max_block_time_ns, dest)

    def state_of(self, dest: Address | None) -> SendState | None:
        """The state of the messages to `dest`, if there is one."""
        raise NotImplementedError

    def add_grant(self, state: SendState, dest: Address | None, batch: Batch, position: int) -> None:
        """The source of `batch` has passed up everything that this member sent below `position`."""
        member = batch.src
        granted = state.granted.get(member)
        if granted is None or not granted <= position <= state.position:
            # Lower: overtaken on its way. Higher: damaged or forged, or of an earlier incarnation of this stream.
            return self.drop("stale_grants", batch, f"it answers {position}, where this member has set no mark")
        state.granted[member] = position
        self.measure(state)
        self.update_limit(state)
        return self.send_queued(state, dest)

    def send_mark(self, state: SendState, dest: Address | None) -> None:
        if state.granted:
            state.timed.append((state.position, self.now_ns, min(state.granted.values())))
        super().send_mark(state, dest)

    def measure(self, state: SendState) -> None:
        """Tell the window how long the last mark took that all have granted by now."""
        lowest, timed, last = min(state.granted.values()), state.timed, None
        while timed and timed[0][0] <= lowest:
            last = timed.popleft()
        if last is not None:
            _, sent_ns, before = last
            state.window.acknowledged(self.now_ns, sent_ns, lowest - before)

    def update_limit(self, state: SendState) -> None:
        """The slowest receiver limits the stream; without receivers nothing does."""
        lowest = min(state.granted.values(), default=None)
        if lowest is None:
            state.timed.clear()
        state.limit = None if lowest is None else lowest + state.window.nbytes

    # --- receiving --------------------------------------------------------------------------------------------------

    def mark_passed(self, src: Address, position: int) -> None:
        """Everything that `src` sent before `position` was passed up: grant it, once the application keeps up."""
        if src == self.me or (src not in self.marks_passed and len(self.marks_passed) >= MAX_SENDERS):
            return
        self.marks_passed[src] = position
        if self.busy:
            self.deferred[src] = position
        else:
            self.send_grant(src, position)

    def send_grant(self, src: Address, position: int) -> None:
        self.count("grants_sent")
        self.send(self.Grant(position), src)

    def repeat_grant(self, src: Address) -> None:
        """The sender is blocked: the grant may be lost. A deferred one is sent when the application has caught up."""
        position = self.marks_passed.get(src)
        if position is not None and not self.busy:
            self.send_grant(src, position)

    def on_caught_up(self) -> None:
        deferred, self.deferred = self.deferred, {}
        for src, position in deferred.items():
            self.send_grant(src, position)

    def forget_senders(self, left: tuple[Address, ...]) -> None:
        for member in left:
            self.marks_passed.pop(member, None)
            self.deferred.pop(member, None)


class Mfc(CreditFlowControl):
    """Flow control of multicasts: as fast as the slowest other member of the view."""

    Mark, Grant, CreditRequest = MulticastMark, MulticastGrant, MulticastCreditRequest

    def start(self) -> None:
        super().start()
        self.state = self.new_state()
        self.lossy: dict[Address, None] = {}         # senders of which NAKACK lost messages, and so perhaps marks

    @only(MULTICASTS)
    def down(self, batch: Batch) -> None:
        if batch.flags & NO_FC:
            return self.pass_down(batch)
        return self.send_limited(self.state, None, batch)

    def state_of(self, dest: Address | None) -> SendState | None:
        return self.state

    @on(ViewChange)
    def on_view_change(self, event: ViewChange) -> None:
        """Survivors keep what they granted: otherwise repeated view changes could make memory grow without bound.

        A joiner gets nothing that was sent before it joined, so it starts with our position granted.
        """
        state = self.state
        granted, here = state.granted, state.position
        state.granted = {member: granted.get(member, here) for member in event.view.members if member != self.me}
        self.forget_senders(event.left)
        for member in event.left:
            self.lossy.pop(member, None)
        self.update_limit(state)
        self.send_queued(state, None)

    @receives(MulticastMark)
    def on_mark(self, header: MulticastMark, batch: Batch) -> None:
        self.mark_passed(batch.src, header.position)

    @receives(MulticastGrant)
    def on_grant(self, header: MulticastGrant, batch: Batch) -> None:
        self.add_grant(self.state, None, batch, header.position)

    @on(OutputInOrder)
    def on_messages_lost(self, event: OutputInOrder) -> None:
        """NAKACK continues without some messages of a member, and marks may be among them."""
        if isinstance(event.output, MessagesLost) and event.output.origin in self.state.granted:
            self.lossy[event.output.origin] = None

    @receives(MulticastCreditRequest)
    def on_credit_request(self, header: MulticastCreditRequest, batch: Batch) -> None:
        """Grant again; a mark that was among lost messages never arrives, so the position in the request stands for
        it: otherwise its sender would stay blocked."""
        if batch.src in self.lossy and header.position > self.marks_passed.get(batch.src, 0):
            self.mark_passed(batch.src, header.position)
        else:
            self.repeat_grant(batch.src)


class Ufc(CreditFlowControl):
    """Flow control of unicasts: a SendState for each member of the view to which this member sends."""

    Mark, Grant, CreditRequest = UnicastMark, UnicastGrant, UnicastCreditRequest

    def start(self) -> None:
        super().start()
        self.members: dict[Address, None] = {}       # of the view, without this member
        self.states: dict[Address, SendState] = {}   # receiver -> what was sent to it

    @only(UNICASTS)
    def down(self, batch: Batch) -> None:
        dest = batch.dest
        assert dest is not None, "only unicasts come here"
        if batch.flags & NO_FC:
            return self.pass_down(batch)
        state = self.states.get(dest)
        if state is None:
            if dest not in self.members:
                # To this member itself, or to a non-member, which may never grant anything: UNICAST bounds those.
                return self.pass_down(batch)
            state = self.open(dest)
        return self.send_limited(state, dest, batch)

    def open(self, dest: Address) -> SendState:
        state = self.states[dest] = self.new_state()
        state.granted[dest] = 0
        self.update_limit(state)
        return state

    def state_of(self, dest: Address | None) -> SendState | None:
        return None if dest is None else self.states.get(dest)

    @on(ViewChange)
    def on_view_change(self, event: ViewChange) -> None:
        """What is queued for a member that left is passed down: UNICAST decides how long it is worth keeping."""
        self.members = {member: None for member in event.view.members if member != self.me}
        self.forget_senders(event.left)
        for dest in [dest for dest in self.states if dest not in self.members]:
            state = self.states.pop(dest)
            state.granted.clear()
            self.update_limit(state)
            self.send_queued(state, dest)

    @receives(UnicastMark)
    def on_mark(self, header: UnicastMark, batch: Batch) -> None:
        self.mark_passed(batch.src, header.position)

    @receives(UnicastGrant)
    def on_grant(self, header: UnicastGrant, batch: Batch) -> None:
        state = self.states.get(batch.src)
        if state is None:
            return self.drop("stale_grants", batch, "nothing was sent to its source", header)
        return self.add_grant(state, batch.src, batch, header.position)

    @receives(UnicastCreditRequest)
    def on_credit_request(self, header: UnicastCreditRequest, batch: Batch) -> None:
        self.repeat_grant(batch.src)
