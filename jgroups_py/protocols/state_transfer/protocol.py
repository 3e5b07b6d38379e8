"""STATE_TRANSFER: a member gets the application's state from another, while messages go on flowing.

Problem: a state taken at one member and set at another must fit the messages around it: what the state holds must not
be delivered after it, what it does not hold must. Idea: inside a view, every member delivers the same multicasts of
each sender in the same order, so counting them per sender names a place in the stream exactly. The requester keeps
multicasts back and says how many of each sender it has delivered (Ask). The provider waits until it has delivered at
least those, says its own counts (Cut), and lets the application write its state right there in its stream. The
requester delivers what lies below the cut, then the state begins, then the rest follows, which the channel gives to
the application when the state is set. So every member delivers every message; none is dropped or repeated.

The state travels in Parts, as reliable unicasts, as far as the requester asks for (More), so no more than `window` of
it is under way, and nobody keeps a whole state. Unicasts are not kept back: they have no order towards multicasts;
those that arrive after StateBegin wait in the channel like everything else.

Views: a cut means something inside its view only. If the view changes before the cut is known and reached, what was
kept back is delivered (it belongs to the old view) and the requester asks again. Once the state is arriving a view
change matters only if it takes the provider away: then the next member is asked, and StateBegin comes again. A
provider refuses if it cannot catch up or is itself getting a state; the requester then asks the other members, again
and again until nothing arrived for the timeout.

Place: above FRAG, so that it counts whole messages, below RELAY, which therefore sees every message, too.
Source: JGroups STATE_TRANSFER. Deviations: no BARRIER, no digest of NAKACK's; streaming; retry at other members.
"""
from __future__ import annotations

from jgroups_py.address import Address
from jgroups_py.batch import NO_FC, NO_RELAY, NO_RELIABILITY, Batch, Header
from jgroups_py.events import Disconnect, GetState, Left, StateBusy, StateChunk, Tell, ViewChange
from jgroups_py.outputs import ProvideState, StateBegin, StateEnd, StatePart
from jgroups_py.protocol import MULTICASTS, Protocol, on, only, receives, timer
from jgroups_py.protocols.state_transfer.config import StateTransferConfig
from jgroups_py.protocols.state_transfer.headers import Ask, Cut, Enough, More, Part, Refused
from jgroups_py.protocols.state_transfer.parties import Phase, Session, Transfer, Waiting, covers
from jgroups_py.view import View

# Reliable, but past flow control: an application that sets a state has all its credits withheld, and the state must
# still come. `window` paces it instead.
STATE_FLAGS = NO_FC | NO_RELAY
MAX_ERROR_CHARS = 1000


class StateTransfer(Protocol):
    """See the module."""

    Config = StateTransferConfig
    config: StateTransferConfig

    def start(self) -> None:
        self.view: View | None = None
        self.view_raw = b""
        self.delivered: dict[Address, int] = {}        # sender -> multicasts passed up in this view
        # As a requester.
        self.transfer: Transfer | None = None
        self.attempts = 0
        self.app_behind = False                        # the application has enough unread state
        # As a provider.
        self.waiting: dict[Address, Waiting] = {}      # requester -> its request
        self.sessions: dict[int, Session] = {}         # request number of ProvideState -> the transfer
        self.requests = 0

    def pending_bytes(self) -> int:
        return sum([session.queued_bytes for session in self.sessions.values()])

    def say(self, header: Header, dest: Address, payloads: tuple[bytes, ...] = ()) -> None:
        """Everything of ours is reliable, so nothing needs to be repeated while `dest` is in the view."""
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

    def keep_back(self, transfer: Transfer, batch: Batch) -> None:
        rest = self.deliver_below(transfer, batch) if transfer.phase is Phase.CATCHING_UP else batch
        if rest is not None:
            transfer.hold(rest)
            if transfer.held_bytes > self.config.max_buffer_bytes:
                return self.fail(transfer, f"more than max_buffer ({self.config.max_buffer_bytes} bytes) of messages "
                                 "came before the state")
        return self.begin_if_reached(transfer) if transfer.phase is Phase.CATCHING_UP else None

    def deliver_below(self, transfer: Transfer, batch: Batch) -> Batch | None:
        """Deliver the part of a run that the state will hold; returns the rest of it."""
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
            for batch in transfer.release():           # these belong to the view that ends
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
        self.later(self.serve_waiting)                 # a cut in the new view comes behind it

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
        self.transfer = Transfer(target, event.timeout_ns, self.now_ns)
        self.set_timer("give_up", event.timeout_ns)
        return self.ask(self.transfer)

    def ask(self, transfer: Transfer) -> None:
        """Ask the next provider; multicasts are kept back until it is known what its state holds."""
        assert self.view is not None, "asked for inside a view"
        transfer.phase = Phase.ASKING
        self.attempts += 1
        transfer.attempt = self.attempts
        transfer.provider = transfer.next_provider(self.view.members, self.me)
        if transfer.provider is None:
            return self.wait_for_next_round(transfer)
        return self.say(Ask(transfer.attempt, self.view_raw, dict(self.delivered)), transfer.provider)

    def wait_for_next_round(self, transfer: Transfer) -> None:
        """Everybody refused: messages flow on until everybody is asked again."""
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

    def from_provider(self, attempt: int, batch: Batch) -> Transfer | None:
        """Our transfer, if this message belongs to its present attempt."""
        transfer = self.transfer
        if transfer is None or attempt != transfer.attempt or batch.src != transfer.provider:
            self.count("stale_dropped")
            return None
        return transfer

    def unwanted(self, attempt: int, provider: Address) -> None:
        """A member has a state for a request that is over, or never was: without an answer it would keep it."""
        if self.view is not None and provider in self.view and provider != self.me:
            self.say(Enough(attempt), provider)

    @receives(Refused)
    def refused(self, refused: Refused, batch: Batch) -> None:
        transfer = self.from_provider(refused.attempt, batch)
        if transfer is not None:
            transfer.refused[batch.src] = None
            transfer.why = f"{batch.src} refused: {refused.reason}"
            self.ask(transfer)

    @receives(Cut)
    def cut(self, cut: Cut, batch: Batch) -> None:
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

    def begin_if_reached(self, transfer: Transfer) -> None:
        """Once everything that the state holds is delivered, the state may come, and the rest after it."""
        if not covers(self.delivered, transfer.cut):
            return
        assert transfer.provider is not None, "somebody made the cut"
        transfer.phase, transfer.received = Phase.RECEIVING, 0
        self.pass_up(Tell(StateBegin()))
        for batch in transfer.release():
            self.deliver(batch)
        transfer.stop = self.config.window_bytes
        self.say(More(transfer.attempt, transfer.stop), transfer.provider)

    @receives(Part)
    def part(self, part: Part, batch: Batch) -> None:
        transfer = self.from_provider(part.attempt, batch)
        if transfer is None:
            return None if part.last else self.unwanted(part.attempt, batch.src)
        if transfer.phase is not Phase.RECEIVING or not (part.last or batch.payloads):
            return None                                # without payloads: the provider asks whether it is still wanted
        transfer.moved_ns = self.now_ns
        for data in batch.payloads:
            transfer.received += len(data)
            self.pass_up(Tell(StatePart(data)))
        self.count("state_bytes_received", batch.nbytes)
        if part.last:
            self.end(part.error)
        elif not self.app_behind:
            self.ask_more(transfer)
        return None

    def ask_more(self, transfer: Transfer) -> None:
        stop = transfer.received + self.config.window_bytes
        if transfer.provider is not None and stop - transfer.stop >= self.config.window_bytes // 2:
            transfer.stop = stop
            self.say(More(transfer.attempt, stop), transfer.provider)

    @on(StateBusy)
    def state_busy(self, event: StateBusy) -> None:
        self.app_behind = event.on
        transfer = self.transfer
        if transfer is not None and not event.on and transfer.phase is Phase.RECEIVING:
            transfer.moved_ns = self.now_ns
            self.ask_more(transfer)

    @timer("give_up")
    def give_up(self) -> None:
        """Nothing came for the whole timeout."""
        transfer = self.transfer
        if transfer is None:
            return
        if self.app_behind:
            transfer.moved_ns = self.now_ns            # it is the application that takes its time
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

    def fail(self, transfer: Transfer, error: str) -> None:
        self.count("transfers_failed")
        if transfer.provider is not None:
            self.say(Enough(transfer.attempt), transfer.provider)
        self.end(error)

    def end(self, error: str) -> None:
        """Tell the application; what was kept back follows."""
        transfer, self.transfer = self.transfer, None
        self.cancel_timer("give_up")
        self.cancel_timer("next_round")
        self.pass_up(Tell(StateEnd(error)))
        if transfer is not None:
            for batch in transfer.release():
                self.deliver(batch)

    # --- as a provider ----------------------------------------------------------------------------------------------

    @receives(Ask)
    def asked(self, ask: Ask, batch: Batch) -> None:
        requester = batch.src
        self.drop_sessions(requester)
        if self.transfer is not None:
            return self.say(Refused(ask.attempt, "it is getting a state itself"), requester)
        self.waiting[requester] = Waiting(ask.attempt, ask.view, ask.delivered)
        self.set_timer("refuse", self.config.provide_timeout_ns, requester)
        return self.serve_waiting()

    def serve_waiting(self) -> None:
        """Answer those requests of members that what was delivered here covers."""
        for requester, waiting in list(self.waiting.items()):
            if (waiting.view == self.view_raw and self.view is not None and requester in self.view
                    and covers(self.delivered, waiting.delivered)):
                self.forget_waiting(requester)
                self.provide(requester, waiting)

    def provide(self, requester: Address, waiting: Waiting) -> None:
        """The state is cut here: after everything delivered so far, before everything else."""
        self.count("states_provided")
        self.requests += 1
        self.sessions[self.requests] = Session(requester, waiting.attempt)
        self.say(Cut(waiting.attempt, dict(self.delivered)), requester)
        if not self.timer_is_set("still_wanted"):
            self.set_timer("still_wanted", self.config.provide_timeout_ns)
        self.pass_up(Tell(ProvideState(self.requests)))

    @timer("still_wanted")
    def still_wanted(self) -> None:
        """A requester that gave up, or never asked, may have been in no view with this member when it was answered."""
        for session in self.sessions.values():
            self.say(Part(session.attempt, False, ""), session.requester)
        if self.sessions:
            self.set_timer("still_wanted", self.config.provide_timeout_ns)

    @timer("refuse")
    def refuse(self, requester: Address) -> None:
        waiting = self.waiting.pop(requester, None)
        if waiting is not None:
            self.count("refused")
            self.say(Refused(waiting.attempt, "it does not get hold of the messages that the requester has"), requester)

    def forget_waiting(self, requester: Address) -> None:
        if self.waiting.pop(requester, None) is not None:
            self.cancel_timer("refuse", requester)

    @on(StateChunk)
    def chunk(self, event: StateChunk) -> None:
        session = self.sessions.get(event.request)
        if session is None:
            return self.count("unwanted_chunks_dropped")
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

    def pump(self, number: int, session: Session) -> None:
        """Send what was asked for and is there."""
        while (data := session.read()) is not None:
            self.say(Part(session.attempt, False, ""), session.requester, (data,))
        if session.ended and (session.error or not session.queue) and session.stop:
            del self.sessions[number]
            self.say(Part(session.attempt, True, session.error), session.requester)

    @receives(Enough)
    def enough(self, enough: Enough, batch: Batch) -> None:
        waiting = self.waiting.get(batch.src)
        if waiting is not None and waiting.attempt == enough.attempt:
            self.forget_waiting(batch.src)
        self.drop_sessions(batch.src, enough.attempt)

    def drop_sessions(self, requester: Address, attempt: int | None = None) -> None:
        """Forget what is kept for `requester`; attempt: only for that request of its."""
        for number in [number for number, session in self.sessions.items()
                       if session.requester == requester and attempt in (None, session.attempt)]:
            del self.sessions[number]
