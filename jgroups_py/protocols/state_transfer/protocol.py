"""STATE_TRANSFER: a member gets the application's state from another one, while messages continue to flow.

Problem: a state written at one member and read at another must fit the messages around it: a message that the state
contains must not be delivered after it, and a message that it does not contain must be. Idea: inside a view every
member delivers the same multicasts of each sender in the same order (F, S5), so a count per sender names a position in
the stream exactly. The requester keeps multicasts back and sends its counts (StateRequestHeader). The provider waits
until its own counts cover them, sends its own (StateCutHeader), and lets the application write its state at that
position of its stream. The requester delivers the multicasts below the cut, then the state, then the others, which the
channel gives to the application when the state is set. So every member delivers every message; none is dropped or
repeated.

The state is sent as reliable unicasts (StatePartHeader) as far as the requester allows (StateWindowHeader): at most
`window` bytes are under way, and no member keeps a whole state. Unicasts are not kept back, since they have no order
relative to multicasts; those that arrive after StateBegin wait in the channel like all other messages.

Views: a cut is valid only in its view, and not in the rest of it, which TOTAL places at the end in the order of each
part of the group. If the view changes before the cut is reached, the multicasts kept back are delivered (they belong
to the old view) and the requester sends a new request. While the state arrives, a view change
matters only if the provider is not in the new view: then the next member gets a request, and StateBegin comes again. A
provider refuses if it cannot catch up or is itself getting a state; the requester then tries the other members, in
rounds, until nothing has arrived for the timeout.

Place: above FRAG, so that it counts whole messages; below RELAY, so that RELAY gets every message, too. Source: JGroups
STATE_TRANSFER. Deviations: no BARRIER, no digest of NAKACK; streaming; retries at other members.
"""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_FC, NO_RELAY, NO_RELIABILITY, NO_TOTAL_ORDER, Batch, Header
from jgroups_py.model.counters import counter, declare, drop
from jgroups_py.model.events import Disconnect, GetState, Left, OutputInOrder, StateBusy, StateChunk, ViewChange
from jgroups_py.model.outputs import OrderUncertain, ProvideState, StateBegin, StateEnd, StatePart
from jgroups_py.model.ports import MulticastOrder
from jgroups_py.model.view import View
from jgroups_py.protocols.state_transfer.config import StateTransferConfig
from jgroups_py.protocols.state_transfer.headers import (
    StateCancelHeader,
    StateCutHeader,
    StatePartHeader,
    StateRefusedHeader,
    StateRequestHeader,
    StateWindowHeader,
)
from jgroups_py.protocols.state_transfer.transfers import (
    PendingRequest,
    Phase,
    Position,
    ProvidedState,
    RequestedState,
)
from jgroups_py.stack.protocol import MULTICASTS, Protocol, on, only, receives, timer

# Reliable, but exempt from flow control: while an application sets a state its member grants no credit, and the state
# must arrive all the same. `window` limits what is under way instead.
STATE_FLAGS = NO_FC | NO_RELAY
MAX_ERROR_CHARS = 1000


class StateTransfer(Protocol):
    """See the module. A member is the requester of at most one transfer, and the provider of any number."""

    Config = StateTransferConfig
    config: StateTransferConfig
    COUNTERS = declare(
        counter("transfers", "States requested."),
        counter("transfers_failed", "States requested that were not received."),
        counter("requested_again", "How often a state was requested again because the group changed."),
        counter("states_provided", "States of the application provided to other members."),
        counter("refused", "Requests for a state that were refused: messages that the requester has are missing here."),
        counter("state_bytes_received", "Bytes of states received."),
        drop("stale_dropped", "Parts of a state, cuts and refusals of an attempt that is over."),
        drop("unwanted_chunks_dropped", "Parts of a state that the application wrote for a request that is over."),
    )

    def start(self) -> None:
        self.view: View | None = None
        self.view_raw = b""
        self.order: MulticastOrder | None = self.stack.find(MulticastOrder)
        self.position = Position()                     # the multicasts passed up in this view
        # As a requester.
        self.transfer: RequestedState | None = None
        self.attempts = 0
        self.app_behind = False                        # the application has not read the state that came
        # As a provider.
        self.pending: dict[Address, PendingRequest] = {}     # requester -> its request
        self.provided: dict[int, ProvidedState] = {}   # request number of ProvideState -> the transfer
        self.requests = 0                              # the last request number

    def pending_bytes(self) -> int:
        return sum([state.queued_bytes for state in self.provided.values()])

    def send_reliably(self, header: Header, dest: Address, payloads: tuple[bytes, ...] = ()) -> None:
        """Send to the requester or provider. UNICAST is reliable to members of the view, so nothing is repeated."""
        self.send(header, dest, payloads, STATE_FLAGS)

    # --- the stream of messages -------------------------------------------------------------------------------------

    @only(MULTICASTS)
    def up(self, batch: Batch) -> None:
        if batch.flags & NO_RELIABILITY:
            return self.pass_up(batch)
        if self.transfer is not None and self.transfer.keeps_back:
            return self.keep_back(self.transfer, batch)
        self.deliver(batch)
        return self.serve_pending() if self.pending else None

    def is_ordered(self, flags: int) -> bool:
        """Whether a multicast with these flags comes in one order with all others of its sender.

        NO_TOTAL_ORDER alone does not tell: what a layer above numbers has a place nevertheless.
        """
        return not flags & NO_TOTAL_ORDER or (self.order is not None and self.order.is_ordered(flags))

    def deliver(self, batch: Batch) -> None:
        src, delivered = batch.src, self.position.counts(is_ordered=self.is_ordered(batch.flags))
        delivered[src] = delivered.get(src, 0) + (len(batch.payloads) or 1)
        self.pass_up(batch)

    def keep_back(self, transfer: RequestedState, batch: Batch) -> None:
        rest = self.deliver_below(transfer, batch) if transfer.phase is Phase.CATCHING_UP else batch
        if rest is not None:
            transfer.keep(rest)
            if transfer.kept_bytes > self.config.max_buffer_bytes:
                # Memory is bounded: the multicasts are delivered, and the application gets an error instead of a state.
                return self.fail(transfer, f"more than max_buffer ({self.config.max_buffer_bytes} bytes) of messages "
                                 "arrived before the state")
        return self.begin_if_reached(transfer) if transfer.phase is Phase.CATCHING_UP else None

    def deliver_kept(self, transfer: RequestedState) -> None:
        """Deliver all that is kept back."""
        for batch in transfer.release():
            self.deliver(batch)

    def deliver_below(self, transfer: RequestedState, batch: Batch) -> Batch | None:
        """Deliver the part of a batch that the state will contain; returns the rest, None if there is none."""
        is_ordered = self.is_ordered(batch.flags)
        there = self.position.counts(is_ordered=is_ordered).get(batch.src, 0)
        number = transfer.cut.counts(is_ordered=is_ordered).get(batch.src, 0) - there
        if number <= 0:
            return batch
        if number >= batch.count:
            self.deliver(batch)
            return None
        self.deliver(batch.cut(0, number))
        return batch.cut(number, batch.count)

    @on(OutputInOrder)
    def on_uncertain_order(self, event: OutputInOrder) -> None:
        """TOTAL places the rest of a view, each part of a group that splits in its own order: a position of another
        member is none in that. The view ends with it, and the next one gets a request (seed 601296 of order)."""
        transfer = self.transfer
        if isinstance(event.output, OrderUncertain) and transfer is not None and transfer.keeps_back:
            self.deliver_kept(transfer)
            transfer.phase, transfer.provider = Phase.WAITING, None

    @on(ViewChange)
    def on_view_change(self, event: ViewChange) -> None:
        transfer = self.transfer
        if transfer is not None and transfer.keeps_back:
            self.deliver_kept(transfer)                # it belongs to the view that ends (virtual synchrony)
        self.view, self.view_raw = event.view, event.view.id.raw
        self.position = Position()
        for number in [number for number, state in self.provided.items() if state.requester not in event.view]:
            del self.provided[number]
        for requester in [requester for requester in self.pending if requester in event.left]:
            self.remove_pending(requester)
        if transfer is not None and (transfer.keeps_back or transfer.provider not in event.view):
            # Its counts were of the old view, or its provider is gone.
            self.cancel_timer("next_round")
            self.count("requested_again")
            self.request(transfer)
        self.later(self.serve_pending)                 # layers above must install the view before a cut in it

    # --- as a requester ---------------------------------------------------------------------------------------------

    @on(GetState)
    def on_get_state(self, event: GetState) -> None:
        if self.transfer is not None:
            self.fail(self.transfer, "another state was requested")
        if self.view is None:
            return self.end("the member is not in a group")
        target = self.view.coordinator if event.target is None else event.target
        if target == self.me:
            return self.end("")
        if target not in self.view:
            return self.end(f"{target} is not a member of the group")
        self.count("transfers")
        self.transfer = RequestedState(target, event.timeout_ns, self.now_ns)
        self.set_timer("give_up", event.timeout_ns)
        return self.request(self.transfer)

    def request(self, transfer: RequestedState) -> None:
        """Send a request to the next provider; multicasts are kept back until its cut is known."""
        assert self.view is not None, "requested inside a view"
        transfer.phase = Phase.REQUESTING
        self.attempts += 1
        transfer.attempt = self.attempts
        transfer.provider = transfer.next_provider(self.view.members, self.me)
        if transfer.provider is None:
            return self.wait_for_next_round(transfer)
        here = self.position.copied()
        header = StateRequestHeader(transfer.attempt, self.view_raw, here.delivered, here.unordered)
        return self.send_reliably(header, transfer.provider)

    def wait_for_next_round(self, transfer: RequestedState) -> None:
        """All members refused: until they get requests again, messages are delivered as they arrive."""
        self.deliver_kept(transfer)
        transfer.phase = Phase.WAITING
        self.set_timer("next_round", self.config.retry_interval_ns)

    @timer("next_round")
    def next_round(self) -> None:
        transfer = self.transfer
        if transfer is not None and transfer.phase is Phase.WAITING:
            transfer.refused.clear()
            self.request(transfer)

    def from_provider(self, attempt: int, batch: Batch) -> RequestedState | None:
        """The transfer, if this message is from its provider and belongs to its present attempt; else it is stale."""
        transfer = self.transfer
        if transfer is None or attempt != transfer.attempt or batch.src != transfer.provider:
            self.drop("stale_dropped", batch, "the attempt is over")
            return None
        return transfer

    def cancel_stale(self, attempt: int, provider: Address) -> None:
        """Cancel a stale attempt at a member that provides for it: otherwise it would keep that state."""
        if self.view is not None and provider in self.view and provider != self.me:
            self.send_reliably(StateCancelHeader(attempt), provider)

    @receives(StateRefusedHeader)
    def on_refused(self, header: StateRefusedHeader, batch: Batch) -> None:
        transfer = self.from_provider(header.attempt, batch)
        if transfer is not None:
            transfer.refused[batch.src] = None
            transfer.why = f"{batch.src} refused: {header.reason}"
            self.request(transfer)

    @receives(StateCutHeader)
    def on_cut(self, header: StateCutHeader, batch: Batch) -> None:
        transfer = self.from_provider(header.attempt, batch)
        if transfer is None:
            return self.cancel_stale(header.attempt, batch.src)
        if transfer.phase is not Phase.REQUESTING:
            return None
        transfer.phase, transfer.progress_ns = Phase.CATCHING_UP, self.now_ns
        transfer.cut = Position(header.delivered, header.unordered)
        for kept in transfer.release():
            rest = self.deliver_below(transfer, kept)
            if rest is not None:
                transfer.keep(rest)
        return self.begin_if_reached(transfer)

    def begin_if_reached(self, transfer: RequestedState) -> None:
        """If every multicast below the cut is delivered, begin the state and release the multicasts above it."""
        if not self.position.covers(transfer.cut):
            return
        assert transfer.provider is not None, "the cut came from a provider"
        transfer.phase, transfer.received = Phase.RECEIVING, 0
        self.pass_up(OutputInOrder(StateBegin()))
        self.deliver_kept(transfer)
        transfer.stop = self.config.window_bytes
        self.send_reliably(StateWindowHeader(transfer.attempt, transfer.stop), transfer.provider)

    @receives(StatePartHeader)
    def on_part(self, header: StatePartHeader, batch: Batch) -> None:
        transfer = self.from_provider(header.attempt, batch)
        if transfer is None:
            return None if header.last else self.cancel_stale(header.attempt, batch.src)
        if transfer.phase is not Phase.RECEIVING or not (header.last or batch.payloads):
            return None                                # without payload: a probe, and the transfer is under way
        transfer.progress_ns = self.now_ns
        for data in batch.payloads:
            transfer.received += len(data)
            self.pass_up(OutputInOrder(StatePart(data)))
        self.count("state_bytes_received", batch.nbytes)
        if header.last:
            self.end(header.error)
        elif not self.app_behind:
            self.advance_window(transfer)
        return None

    def advance_window(self, transfer: RequestedState) -> None:
        """Allow the provider to send further."""
        stop = transfer.received + self.config.window_bytes
        # Half a window at least, so that not every part costs a StateWindowHeader.
        if transfer.provider is not None and stop - transfer.stop >= self.config.window_bytes // 2:
            transfer.stop = stop
            self.send_reliably(StateWindowHeader(transfer.attempt, stop), transfer.provider)

    @on(StateBusy)
    def on_state_busy(self, event: StateBusy) -> None:
        """The application reads the state more slowly than it arrives, or has caught up."""
        self.app_behind = event.on
        transfer = self.transfer
        if transfer is not None and not event.on and transfer.phase is Phase.RECEIVING:
            transfer.progress_ns = self.now_ns
            self.advance_window(transfer)

    @timer("give_up")
    def give_up(self) -> None:
        """Fail the transfer if nothing arrived for the whole timeout."""
        transfer = self.transfer
        if transfer is None:
            return
        if self.app_behind:
            transfer.progress_ns = self.now_ns         # the provider is not late: the application is
        left_ns = transfer.progress_ns + transfer.timeout_ns - self.now_ns
        if left_ns > 0:
            return self.set_timer("give_up", left_ns)
        return self.fail(transfer, transfer.why or f"no answer from {transfer.provider}")

    @on(Disconnect)
    def on_disconnect(self, event: Disconnect) -> None:
        if self.transfer is not None:
            self.fail(self.transfer, "the member leaves")

    @on(Left)
    def on_left(self, event: Left) -> None:
        if self.transfer is not None:
            self.fail(self.transfer, "the member left")

    def fail(self, transfer: RequestedState, error: str) -> None:
        self.count("transfers_failed")
        if transfer.provider is not None:
            self.send_reliably(StateCancelHeader(transfer.attempt), transfer.provider)
        self.end(error)

    def end(self, error: str) -> None:
        """Pass up StateEnd, then the multicasts kept back. error: empty if the state is complete."""
        transfer, self.transfer = self.transfer, None
        self.cancel_timer("give_up")
        self.cancel_timer("next_round")
        self.pass_up(OutputInOrder(StateEnd(error)))
        if transfer is not None:
            self.deliver_kept(transfer)

    # --- as a provider ----------------------------------------------------------------------------------------------

    @receives(StateRequestHeader)
    def on_request(self, header: StateRequestHeader, batch: Batch) -> None:
        requester = batch.src
        self.remove_provided(requester)                # a requester has one attempt at a time: earlier ones are over
        if self.transfer is not None:
            # What a member delivers while it gets a state is not in its application yet: its state would have holes.
            return self.send_reliably(StateRefusedHeader(header.attempt, "it is getting a state itself"), requester)
        self.pending[requester] = PendingRequest(header.attempt, header.view,
                                                  Position(header.delivered, header.unordered))
        self.set_timer("refuse", self.config.provide_timeout_ns, requester)
        return self.serve_pending()

    def serve_pending(self) -> None:
        """Provide to the requesters, members of this view, whose counts are covered by what was delivered here."""
        for requester, pending in list(self.pending.items()):
            if (pending.view == self.view_raw and self.view is not None and requester in self.view
                    and self.position.covers(pending.position)):
                self.remove_pending(requester)
                self.provide(requester, pending)

    def provide(self, requester: Address, pending: PendingRequest) -> None:
        """Cut the state here: after everything delivered so far, before everything else."""
        self.count("states_provided")
        self.requests += 1
        self.provided[self.requests] = ProvidedState(requester, pending.attempt)
        cut = self.position.copied()
        self.send_reliably(StateCutHeader(pending.attempt, cut.delivered, cut.unordered), requester)
        if not self.timer_is_set("still_wanted"):
            self.set_timer("still_wanted", self.config.provide_timeout_ns)
        self.pass_up(OutputInOrder(ProvideState(self.requests)))

    @timer("still_wanted")
    def probe_requesters(self) -> None:
        """Send a part without payload to every requester; one whose transfer is over answers StateCancelHeader.

        A requester that gave up while it shared no view with this member could not cancel, and the state would be
        kept for ever.
        """
        for state in self.provided.values():
            self.send_reliably(StatePartHeader(state.attempt, False, ""), state.requester)
        if self.provided:
            self.set_timer("still_wanted", self.config.provide_timeout_ns)

    @timer("refuse")
    def refuse(self, requester: Address) -> None:
        pending = self.pending.pop(requester, None)
        if pending is not None:
            self.count("refused")
            why = "it lacks messages that the requester has delivered"
            self.send_reliably(StateRefusedHeader(pending.attempt, why), requester)

    def remove_pending(self, requester: Address) -> None:
        if self.pending.pop(requester, None) is not None:
            self.cancel_timer("refuse", requester)

    @on(StateChunk)
    def on_chunk(self, event: StateChunk) -> None:
        """The application wrote a part of its state."""
        state = self.provided.get(event.request)
        if state is None:
            return self.drop("unwanted_chunks_dropped", Batch(self.me, self.me), "the request is over")
        state.write(event.data)
        if event.last:
            state.ended, state.error = True, event.error[:MAX_ERROR_CHARS]
        return self.send_parts(event.request, state)

    @receives(StateWindowHeader)
    def on_window(self, header: StateWindowHeader, batch: Batch) -> None:
        for number, state in list(self.provided.items()):
            if state.requester == batch.src and state.attempt == header.attempt:
                state.stop = max(state.stop, header.stop)
                self.send_parts(number, state)

    def send_parts(self, number: int, state: ProvidedState) -> None:
        """Send what the requester allows and the application has written."""
        while (data := state.read()) is not None:
            self.send_reliably(StatePartHeader(state.attempt, False, ""), state.requester, (data,))
        if state.ended and (state.error or not state.queue) and state.stop:
            del self.provided[number]
            self.send_reliably(StatePartHeader(state.attempt, True, state.error), state.requester)

    @receives(StateCancelHeader)
    def on_cancel(self, header: StateCancelHeader, batch: Batch) -> None:
        pending = self.pending.get(batch.src)
        if pending is not None and pending.attempt == header.attempt:
            self.remove_pending(batch.src)
        self.remove_provided(batch.src, header.attempt)

    def remove_provided(self, requester: Address, attempt: int | None = None) -> None:
        """Drop the states provided to `requester`; attempt: only that of this attempt."""
        for number in [number for number, state in self.provided.items()
                       if state.requester == requester and attempt in (None, state.attempt)]:
            del self.provided[number]
