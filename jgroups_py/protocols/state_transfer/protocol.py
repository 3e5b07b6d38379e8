"""STATE_TRANSFER: a member gets the application's state from another, while messages go on flowing.

Problem: a state taken at one member and set at another must fit the messages around it: a message that the state holds
must not be delivered after it, and a message that it does not hold must be. Idea: inside a view every member delivers
the same multicasts of each sender in the same order (F, S5), so a count per sender names a place in the stream exactly.
The requester keeps multicasts back and sends its counts (StateRequestHeader). The provider waits until its own counts
cover them, sends these (StateCutHeader), and lets the application write its state at that place of its stream. The
requester delivers the multicasts below the cut, then the state, then the others, which the channel gives to the
application when the state is set. So every member delivers every message; none is dropped or repeated.

The state travels as reliable unicasts (StatePartHeader) as far as the requester allows (More): at most `window` bytes
are under way, and no member keeps a whole state. Unicasts are not kept back, since they have no order relative to
multicasts; those that arrive after StateBegin wait in the channel like all other messages.

Views: a cut is valid only in its view. If the view changes before the cut is reached, the multicasts kept back are
delivered (they belong to the old view) and the requester asks again. While the state is arriving, a view change matters
only if the provider is not in the new view: then the next member is asked, and StateBegin comes again. A provider
refuses if it cannot catch up or is itself getting a state; the requester then asks the other members, in rounds, until
nothing has arrived for the timeout.

Place: above FRAG, so that it counts whole messages; below RELAY, which therefore sees every message, too.
Source: JGroups STATE_TRANSFER. Deviations: no BARRIER, no digest of NAKACK; streaming; retry at other members.
"""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_FC, NO_RELAY, NO_RELIABILITY, Batch, Header
from jgroups_py.model.counters import counter, declare, drop
from jgroups_py.model.events import Disconnect, GetState, Left, OutputInOrder, StateBusy, StateChunk, ViewChange
from jgroups_py.model.outputs import ProvideState, StateBegin, StateEnd, StatePart
from jgroups_py.model.view import View
from jgroups_py.protocols.state_transfer.config import StateTransferConfig
from jgroups_py.protocols.state_transfer.headers import (
    Enough,
    More,
    StateCutHeader,
    StatePartHeader,
    StateRefusedHeader,
    StateRequestHeader,
)
from jgroups_py.protocols.state_transfer.parties import (
    PendingRequest,
    Phase,
    ProvidedState,
    RequestedState,
    covers,
)
from jgroups_py.stack.protocol import MULTICASTS, Protocol, on, only, receives, timer

# Reliable, but exempt from flow control: an application that sets a state grants no credits, and the state must arrive
# all the same. `window` paces it instead.
STATE_FLAGS = NO_FC | NO_RELAY
MAX_ERROR_CHARS = 1000


class StateTransfer(Protocol):
    """The protocol: a member is requester of one transfer at most, and provider of any number."""

    Config = StateTransferConfig
    config: StateTransferConfig
    COUNTERS = declare(
        counter("transfers", "States asked for."),
        counter("transfers_failed", "States asked for that were not received."),
        counter("asked_again", "How often a transfer was begun anew because the group changed."),
        counter("states_provided", "States of the application given to others."),
        counter("refused", "Requests for a state that were refused: we do not have what the requester has."),
        counter("state_bytes_received", "Bytes of states received."),
        drop("stale_dropped", "Parts of a state, cuts and refusals of an attempt that is over."),
        drop("unwanted_chunks_dropped", "Parts of a state that our application wrote for a request that is over."),
    )

    def start(self) -> None:
        self.view: View | None = None
        self.view_raw = b""
        self.delivered: dict[Address, int] = {}        # sender -> multicasts passed up in this view
        # As a requester.
        self.transfer: RequestedState | None = None
        self.attempts = 0
        self.app_behind = False                        # the application has not read the state that came
        # As a provider.
        self.waiting: dict[Address, PendingRequest] = {}  # requester -> its request
        self.sessions: dict[int, ProvidedState] = {}  # request number of ProvideState -> the transfer
        self.requests = 0

    def pending_bytes(self) -> int:
        return sum([session.queued_bytes for session in self.sessions.values()])

    def send_reliably(self, header: Header, dest: Address, payloads: tuple[bytes, ...] = ()) -> None:
        """Send to the other party. UNICAST is reliable, so nothing is repeated while `dest` is in the view."""
        self.send(header, dest, payloads, STATE_FLAGS)

    # --- the stream of messages -------------------------------------------------------------------------------------

    @only(MULTICASTS)
    def up(self, batch: Batch) -> None:
        if batch.flags & NO_RELIABILITY:
            return self.pass_up(batch)
        if self.transfer is not None and self.transfer.holding:
            return self.keep_back(self.transfer, batch)
        self.deliver(batch)
        return self.serve_waiting() if self.waiting else None

    def deliver(self, batch: Batch) -> None:
        src = batch.src
        self.delivered[src] = self.delivered.get(src, 0) + (len(batch.payloads) or 1)
        self.pass_up(batch)

    def keep_back(self, transfer: RequestedState, batch: Batch) -> None:
        rest = self.deliver_below(transfer, batch) if transfer.phase is Phase.CATCHING_UP else batch
        if rest is not None:
            transfer.hold(rest)
            if transfer.held_bytes > self.config.max_buffer_bytes:
                # Memory is bounded: the multicasts are delivered, and the application learns that it has no state.
                return self.fail(transfer, f"more than max_buffer ({self.config.max_buffer_bytes} bytes) of messages "
                                 "came before the state")
        return self.begin_if_reached(transfer) if transfer.phase is Phase.CATCHING_UP else None

    def deliver_below(self, transfer: RequestedState, batch: Batch) -> Batch | None:
        """Deliver the part of a batch that the state will hold; returns the rest, None if there is none."""
        number = transfer.cut.get(batch.src, 0) - self.delivered.get(batch.src, 0)
        if number <= 0:
            return batch
        if number >= batch.count:
            self.deliver(batch)
            return None
        self.deliver(batch.cut(0, number))
        return batch.cut(number, batch.count)

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        transfer = self.transfer
        if transfer is not None and transfer.holding:
            for batch in transfer.release():           # they belong to the view that ends (virtual synchrony)
                self.deliver(batch)
        self.view, self.view_raw = event.view, event.view.id.raw
        self.delivered = {}
        for number in [number for number, session in self.sessions.items() if session.requester not in event.view]:
            del self.sessions[number]
        for requester in [requester for requester in self.waiting if requester in event.left]:
            self.forget_waiting(requester)
        if transfer is not None and (transfer.holding or transfer.provider not in event.view):
            self.cancel_timer("next_round")
            self.count("asked_again")
            self.ask(transfer)
        self.later(self.serve_waiting)                 # layers above must install the view before a cut in it

    # --- as a requester ---------------------------------------------------------------------------------------------

    @on(GetState)
    def get_state(self, event: GetState) -> None:
        if self.transfer is not None:
            self.fail(self.transfer, "another state was asked for")
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
        return self.ask(self.transfer)

    def ask(self, transfer: RequestedState) -> None:
        """Ask the next provider; multicasts are kept back until its cut is known."""
        assert self.view is not None, "asked for inside a view"
        transfer.phase = Phase.ASKING
        self.attempts += 1
        transfer.attempt = self.attempts
        transfer.provider = transfer.next_provider(self.view.members, self.me)
        if transfer.provider is None:
            return self.wait_for_next_round(transfer)
        header = StateRequestHeader(transfer.attempt, self.view_raw, dict(self.delivered))
        return self.send_reliably(header, transfer.provider)

    def wait_for_next_round(self, transfer: RequestedState) -> None:
        """All members refused: deliver messages as they come until all are asked again."""
        for batch in transfer.release():
            self.deliver(batch)
        transfer.phase = Phase.RESTING
        self.set_timer("next_round", self.config.retry_interval_ns)

    @timer("next_round")
    def next_round(self) -> None:
        transfer = self.transfer
        if transfer is not None and transfer.phase is Phase.RESTING:
            transfer.refused.clear()
            self.ask(transfer)

    def from_provider(self, attempt: int, batch: Batch) -> RequestedState | None:
        """The transfer, if this message comes from its provider and belongs to its current attempt."""
        transfer = self.transfer
        if transfer is None or attempt != transfer.attempt or batch.src != transfer.provider:
            self.drop("stale_dropped", batch, "the attempt is over")
            return None
        return transfer

    def unwanted(self, attempt: int, provider: Address) -> None:
        """Send Enough to a member that provides for a stale attempt; otherwise it would keep that state."""
        if self.view is not None and provider in self.view and provider != self.me:
            self.send_reliably(Enough(attempt), provider)

    @receives(StateRefusedHeader)
    def refused(self, refused: StateRefusedHeader, batch: Batch) -> None:
        transfer = self.from_provider(refused.attempt, batch)
        if transfer is not None:
            transfer.refused[batch.src] = None
            transfer.why = f"{batch.src} refused: {refused.reason}"
            self.ask(transfer)

    @receives(StateCutHeader)
    def cut(self, cut: StateCutHeader, batch: Batch) -> None:
        transfer = self.from_provider(cut.attempt, batch)
        if transfer is None:
            return self.unwanted(cut.attempt, batch.src)
        if transfer.phase is not Phase.ASKING:
            return None
        transfer.phase, transfer.cut, transfer.moved_ns = Phase.CATCHING_UP, cut.delivered, self.now_ns
        for held in transfer.release():
            rest = self.deliver_below(transfer, held)
            if rest is not None:
                transfer.hold(rest)
        return self.begin_if_reached(transfer)

    def begin_if_reached(self, transfer: RequestedState) -> None:
        """If every multicast below the cut is delivered, begin the state and release the multicasts above it."""
        if not covers(self.delivered, transfer.cut):
            return
        assert transfer.provider is not None, "the cut came from a provider"
        transfer.phase, transfer.received = Phase.RECEIVING, 0
        self.pass_up(OutputInOrder(StateBegin()))
        for batch in transfer.release():
            self.deliver(batch)
        transfer.stop = self.config.window_bytes
        self.send_reliably(More(transfer.attempt, transfer.stop), transfer.provider)

    @receives(StatePartHeader)
    def part(self, part: StatePartHeader, batch: Batch) -> None:
        transfer = self.from_provider(part.attempt, batch)
        if transfer is None:
            return None if part.last else self.unwanted(part.attempt, batch.src)
        if transfer.phase is not Phase.RECEIVING or not (part.last or batch.payloads):
            return None                                # without payload: the provider probes whether we still want it
        transfer.moved_ns = self.now_ns
        for data in batch.payloads:
            transfer.received += len(data)
            self.pass_up(OutputInOrder(StatePart(data)))
        self.count("state_bytes_received", batch.nbytes)
        if part.last:
            self.end(part.error)
        elif not self.app_behind:
            self.ask_more(transfer)
        return None

    def ask_more(self, transfer: RequestedState) -> None:
        stop = transfer.received + self.config.window_bytes
        # Half a window at least, so that there is not one More per part.
        if transfer.provider is not None and stop - transfer.stop >= self.config.window_bytes // 2:
            transfer.stop = stop
            self.send_reliably(More(transfer.attempt, stop), transfer.provider)

    @on(StateBusy)
    def state_busy(self, event: StateBusy) -> None:
        self.app_behind = event.on
        transfer = self.transfer
        if transfer is not None and not event.on and transfer.phase is Phase.RECEIVING:
            transfer.moved_ns = self.now_ns
            self.ask_more(transfer)

    @timer("give_up")
    def give_up(self) -> None:
        """Fail the transfer if nothing arrived for the whole timeout."""
        transfer = self.transfer
        if transfer is None:
            return
        if self.app_behind:
            transfer.moved_ns = self.now_ns            # the wait is for the application, not for the provider
        left_ns = transfer.moved_ns + transfer.timeout_ns - self.now_ns
        if left_ns > 0:
            return self.set_timer("give_up", left_ns)
        return self.fail(transfer, transfer.why or f"no answer from {transfer.provider}")

    @on(Disconnect)
    def disconnecting(self, event: Disconnect) -> None:
        if self.transfer is not None:
            self.fail(self.transfer, "the member leaves")

    @on(Left)
    def left(self, event: Left) -> None:
        if self.transfer is not None:
            self.fail(self.transfer, "the member left")

    def fail(self, transfer: RequestedState, error: str) -> None:
        self.count("transfers_failed")
        if transfer.provider is not None:
            self.send_reliably(Enough(transfer.attempt), transfer.provider)
        self.end(error)

    def end(self, error: str) -> None:
        """Pass up StateEnd, then the multicasts kept back. error: empty if the state is complete."""
        transfer, self.transfer = self.transfer, None
        self.cancel_timer("give_up")
        self.cancel_timer("next_round")
        self.pass_up(OutputInOrder(StateEnd(error)))
        if transfer is not None:
            for batch in transfer.release():
                self.deliver(batch)

    # --- as a provider ----------------------------------------------------------------------------------------------

    @receives(StateRequestHeader)
    def asked(self, ask: StateRequestHeader, batch: Batch) -> None:
        requester = batch.src
        self.drop_sessions(requester)
        if self.transfer is not None:
            # What a member delivers while it gets a state is not in its application yet: its state would have holes.
            return self.send_reliably(StateRefusedHeader(ask.attempt, "it is getting a state itself"), requester)
        self.waiting[requester] = PendingRequest(ask.attempt, ask.view, ask.delivered)
        self.set_timer("refuse", self.config.provide_timeout_ns, requester)
        return self.serve_waiting()

    def serve_waiting(self) -> None:
        """Provide to the requesters, members of this view, whose counts are covered by what was delivered here."""
        for requester, waiting in list(self.waiting.items()):
            if (waiting.view == self.view_raw and self.view is not None and requester in self.view
                    and covers(self.delivered, waiting.delivered)):
                self.forget_waiting(requester)
                self.provide(requester, waiting)

    def provide(self, requester: Address, waiting: PendingRequest) -> None:
        """Cut the state here: after everything delivered so far, before everything else."""
        self.count("states_provided")
        self.requests += 1
        self.sessions[self.requests] = ProvidedState(requester, waiting.attempt)
        self.send_reliably(StateCutHeader(waiting.attempt, dict(self.delivered)), requester)
        if not self.timer_is_set("still_wanted"):
            self.set_timer("still_wanted", self.config.provide_timeout_ns)
        self.pass_up(OutputInOrder(ProvideState(self.requests)))

    @timer("still_wanted")
    def still_wanted(self) -> None:
        """Probe every requester; one that gave up answers Enough.

        Its first Enough may be lost: a requester that gave up while it shared no view with this member sent none.
        """
        for session in self.sessions.values():
            self.send_reliably(StatePartHeader(session.attempt, False, ""), session.requester)
        if self.sessions:
            self.set_timer("still_wanted", self.config.provide_timeout_ns)

    @timer("refuse")
    def refuse(self, requester: Address) -> None:
        waiting = self.waiting.pop(requester, None)
        if waiting is not None:
            self.count("refused")
            why = "it lacks messages that the requester has delivered"
            self.send_reliably(StateRefusedHeader(waiting.attempt, why), requester)

    def forget_waiting(self, requester: Address) -> None:
        if self.waiting.pop(requester, None) is not None:
            self.cancel_timer("refuse", requester)

    @on(StateChunk)
    def chunk(self, event: StateChunk) -> None:
        session = self.sessions.get(event.request)
        if session is None:
            return self.drop("unwanted_chunks_dropped", Batch(self.me, self.me), "the request is over")
        session.write(event.data)
        if event.last:
            session.ended, session.error = True, event.error[:MAX_ERROR_CHARS]
        return self.pump(event.request, session)

    @receives(More)
    def more(self, more: More, batch: Batch) -> None:
        for number, session in list(self.sessions.items()):
            if session.requester == batch.src and session.attempt == more.attempt:
                session.stop = max(session.stop, more.stop)
                self.pump(number, session)

    def pump(self, number: int, session: ProvidedState) -> None:
        """Send what the requester allows and the application has written."""
        while (data := session.read()) is not None:
            self.send_reliably(StatePartHeader(session.attempt, False, ""), session.requester, (data,))
        if session.ended and (session.error or not session.queue) and session.stop:
            del self.sessions[number]
            self.send_reliably(StatePartHeader(session.attempt, True, session.error), session.requester)

    @receives(Enough)
    def enough(self, enough: Enough, batch: Batch) -> None:
        waiting = self.waiting.get(batch.src)
        if waiting is not None and waiting.attempt == enough.attempt:
            self.forget_waiting(batch.src)
        self.drop_sessions(batch.src, enough.attempt)

    def drop_sessions(self, requester: Address, attempt: int | None = None) -> None:
        """Drop what is kept for `requester`; attempt: only what is kept for that attempt."""
        for number in [number for number, session in self.sessions.items()
                       if session.requester == requester and attempt in (None, session.attempt)]:
            del self.sessions[number]
