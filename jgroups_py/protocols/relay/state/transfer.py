"""A state of another site, while all members go on sending (relay rule 16): the side of the requesting site's members.

    member --REQUEST--> its relay --PAUSE--> all members: each keeps its multicasts back and answers PAUSED
                    its relay --FETCH(vector of the site)--> other relay --> provider: waits until it has that, too
    all members <--START-- its relay <--FIXED(vector of the state)-- other relay <-- provider: fixes the state there
    all members <--PIECE-- ...        as far as MORE of all members allows
    all members <--INSTALL-- its relay: the state is complete; every member continues above its vector

All members of the site install the state, since all have missed the same messages. The state must contain exactly what
is not delivered besides it. So from PAUSE to INSTALL the relay disseminates nothing and the members multicast nothing,
and a member passes the state up only after it has delivered what was multicast in its site before the pause.

Only INSTALL changes vectors. So a failed attempt changes nothing, and what was kept back follows. An attempt fails when
the view of either site changes, a relay leaves the bridge, a member refuses, or time runs out. Then the requesting
member starts another attempt, until its timeout is over.
"""
from __future__ import annotations

import attrs

from jgroups_py.model.address import Address, ProxyUUID
from jgroups_py.model.batch import Batch
from jgroups_py.model.events import Disconnect, GetState, OutputInOrder, StateBusy, ViewChange
from jgroups_py.model.outputs import StateBegin, StateEnd, StatePart
from jgroups_py.model.units import millis, seconds
from jgroups_py.protocols.relay.announcements import PrefixDelivered
from jgroups_py.protocols.relay.group import LocalGroup
from jgroups_py.protocols.relay.headers import Numbers
from jgroups_py.protocols.relay.headers.state import (
    Key,
    SiteStateRequestHeader,
    StateFailed,
    StateInstall,
    StateMore,
    StatePause,
    StatePaused,
    StatePiece,
    StateStart,
)
from jgroups_py.protocols.relay.part import RELIABLE, RelayPart, RelayPort, on_announcement
from jgroups_py.protocols.relay.ports import (
    DeliveryPort,
    GatePort,
    NumberingPort,
    SiteNewsPort,
    StateForwarderPort,
    StateProviderPort,
    StateTransferPort,
)
from jgroups_py.stack.component import needs
from jgroups_py.stack.protocol import STOP, on, receives, timer

WINDOW_BYTES = 1 << 20                       # on their way to the members of the requesting site
RETRY_NS = millis(300)
UNANSWERED_NS = seconds(2)                   # then the next attempt starts: not even a failure was reported
MAX_BEGUN = 5                                # attempts that may fail while the state arrives
GATE = "state"


@attrs.define(eq=False)
class StateRequest:
    """The request of this member's application.

    moved_ns: when it last made progress; attempt: the number of the current attempt (0: none yet); begun: how many
    attempts got as far as a state; why: the last failure.
    """

    site: str
    target: Address
    timeout_ns: int
    moved_ns: int
    attempt: int = 0
    begun: int = 0
    why: str = ""


@attrs.define(eq=False)
class StateInstallAttempt:
    """The attempt in which this member takes part.

    cut: what this member must have delivered before it passes the state up (None: not known yet); begun: the state is
    being passed up; received: its bytes so far; stop: the byte up to which the last MORE requested it.
    """

    key: Key
    cut: Numbers | None = None
    begun: bool = False
    received: int = 0
    stop: int = 0


class SiteStateTransfer(RelayPart, StateTransferPort):
    """See the module."""

    group: LocalGroup = needs(LocalGroup)
    numbering: NumberingPort = needs(NumberingPort)
    delivery: DeliveryPort = needs(DeliveryPort)
    send_gate: GatePort = needs(GatePort)
    site_news: SiteNewsPort = needs(SiteNewsPort)
    provider: StateProviderPort = needs(StateProviderPort)
    forwarder: StateForwarderPort = needs(StateForwarderPort)

    def __init__(self, layer: RelayPort) -> None:
        super().__init__(layer)
        self.request: StateRequest | None = None
        self.attempt_count = 0               # over all requests, so that late answers to earlier ones are recognized
        self.attempt: StateInstallAttempt | None = None
        self.open = False                    # StateBegin was passed up and StateEnd not yet
        self.local = False                   # STATE_TRANSFER passes a state of this site up now
        self.app_behind = False              # the application has not read what was passed up

    @property
    def busy(self) -> bool:
        return self.attempt is not None or self.request is not None or self.local

    @property
    def installing(self) -> bool:
        return self.attempt is not None

    @on(OutputInOrder)
    def state_of_own_site(self, event: OutputInOrder) -> None:
        """STATE_TRANSFER passes a state of this site up: until its end no other state may be provided or installed."""
        if isinstance(event.output, StateBegin | StateEnd):
            self.local = isinstance(event.output, StateBegin)
            self.later(self.provider.fix_covered_states)

    # --- the requesting member ---------------------------------------------------------------------------------------

    @on(GetState)
    def get(self, event: GetState) -> object:
        """The application requests a state; STOP if it is that of another site."""
        target = event.target
        if self.open:
            return STOP                      # the state that arrives now answers this request, too
        if target is None or not self.group.has_view or target in self.group.view:
            return None
        site = target.site if isinstance(target, ProxyUUID) else self.site_news.site_of_member.get(target)
        if site is None or site == self.config.site:
            return None
        if self.busy:
            self.pass_up(OutputInOrder(StateEnd("a state of another site is on its way")))
            return STOP
        target = target.original if isinstance(target, ProxyUUID) else target
        self.request = StateRequest(site, target, event.timeout_ns, self.now_ns)
        self.set_timer("state_give_up", event.timeout_ns)
        self.set_timer("state_attempt", 0)
        return STOP

    @timer("state_attempt")
    def start_attempt(self) -> None:
        """On a timer while a request waits and no attempt of it runs."""
        request = self.request
        if request is not None and self.attempt is None:
            self.attempt_count += 1
            request.attempt = self.attempt_count
            header = SiteStateRequestHeader(self.me, request.attempt, request.site, request.target, request.timeout_ns)
            self.send(header, self.group.view.coordinator, flags=RELIABLE)
            self.set_timer("state_attempt", UNANSWERED_NS)

    @timer("state_give_up")
    def give_up(self) -> None:
        """On a timer: the request made no progress for its whole timeout."""
        request = self.request
        if request is None:
            return
        if self.app_behind:
            request.moved_ns = self.now_ns    # the application reads slowly; that is no failure
        left_ns = request.moved_ns + request.timeout_ns - self.now_ns
        if left_ns > 0:
            return self.set_timer("state_give_up", left_ns)
        return self.fail_request(request.why or f"no state from site {request.site}")

    @on(Disconnect)
    def member_leaves(self, event: Disconnect) -> None:
        self.fail_request("the member leaves")

    def fail_request(self, reason: str) -> None:
        """End the request: report it to the application and to the participants."""
        request, self.request = self.request, None
        if request is None:
            return
        self.cancel_timer("state_attempt")
        self.cancel_timer("state_give_up")
        failed = StateFailed(self.me, request.attempt, reason, True)
        self.send(failed, self.group.view.coordinator, flags=RELIABLE)
        if not self.open:
            self.pass_up(OutputInOrder(StateEnd(reason)))
        elif self.attempt is None:
            self.close(reason)
        # Otherwise the relay multicasts StateFailed, or its StateInstall is under way: either ends the attempt here.

    # --- every member of the requesting site ------------------------------------------------------------------------

    @receives(StatePause)
    def pause(self, header: StatePause, batch: Batch) -> None:
        """Keep multicasts back, and answer with the number of the next one."""
        if header.view_id != self.group.view.id:
            return self.drop("pause_of_other_view", batch, f"this view is {self.group.view.id}", header)
        refusal = "it is getting a state already" if self.local or self.attempt is not None else ""
        if not refusal:
            self.attempt = StateInstallAttempt(header.key)
            self.send_gate.shut(True, GATE)
        paused = StatePaused(*header.key, self.numbering.next_number, refusal)
        return self.send(paused, self.group.view.coordinator, flags=RELIABLE)

    @receives(StateStart)
    def state_starts(self, header: StateStart, batch: Batch) -> None:
        """The state follows: pass it up once everything below `cut` is delivered."""
        if self.attempt is not None and self.attempt.key == header.key:
            self.attempt.cut = header.cut
            self.begin()

    def begin(self) -> None:
        """Pass the state up from now on, if this member has delivered what its own site multicast before the pause.

        Otherwise a message could be in the state and be delivered after it.
        """
        attempt, numbers = self.attempt, self.numbering.numbers
        if attempt is None or attempt.cut is None or attempt.begun:
            return
        if any(numbers.get(member, 1) < attempt.cut.get(member, 1) for member in self.group.view.members):
            return
        attempt.begun = self.open = True
        if self.request is not None:
            self.request.begun += 1
        self.pass_up(OutputInOrder(StateBegin()))
        self.ask_more(attempt)

    @on_announcement(PrefixDelivered)
    def delivered(self, event: PrefixDelivered) -> None:
        """More of this site's messages were delivered: perhaps all that must be delivered before the state."""
        if self.attempt is not None and event.site == self.config.site:
            self.begin()

    @receives(StatePiece)
    def piece(self, header: StatePiece, batch: Batch) -> None:
        """The next bytes of a state. A multicast of the relay is for this member. A unicast is from a provider in this
        site, and this member, its relay, forwards it to the other site.
        """
        if batch.dest is not None:
            return self.forwarder.to_requesting_site(header, batch.payloads)
        attempt = self.attempt
        if attempt is None or attempt.key != header.key or not attempt.begun:
            return self.drop("stale_state_dropped", batch, "this member does not wait for that state", header)
        self.note_progress()
        for data in batch.payloads:
            attempt.received += len(data)
            self.pass_up(OutputInOrder(StatePart(data)))
        if not self.app_behind:
            self.ask_more(attempt)
        return None

    def ask_more(self, attempt: StateInstallAttempt) -> None:
        """Send MORE when half of a window is used up."""
        stop = attempt.received + WINDOW_BYTES
        if stop - attempt.stop >= WINDOW_BYTES // 2:
            attempt.stop = stop
            self.send(StateMore(*attempt.key, stop), self.group.view.coordinator, flags=RELIABLE)

    @on(StateBusy)
    def app_busy(self, event: StateBusy) -> None:
        """Backpressure: the application has enough unread bytes, or has read them."""
        self.app_behind = event.on
        if not event.on and self.attempt is not None and self.attempt.begun:
            self.note_progress()
            self.ask_more(self.attempt)

    def note_progress(self) -> None:
        """The state makes progress: the timeout of the request counts from now on."""
        if self.request is not None:
            self.request.moved_ns = self.now_ns

    @receives(StateInstall)
    def install(self, header: StateInstall, batch: Batch) -> None:
        """The state is complete, and holds everything below the vector: continue above it."""
        attempt = self.attempt
        if attempt is None or attempt.key != header.key or not attempt.begun:
            return
        own = header.vector.get(self.config.site, {})
        for origin, number in own.items():
            self.numbering.expect(origin, max(number, self.numbering.numbers.get(origin, 1)))
        others = {site: numbers for site, numbers in header.vector.items() if site != self.config.site}
        skipped = self.delivery.skip_to(others)
        self.count("states_installed")
        self.attempt = self.request = None
        self.open = False
        self.cancel_timer("state_attempt")
        self.cancel_timer("state_give_up")
        self.pass_up(OutputInOrder(StateEnd("", skipped)))
        self.provider.fix_covered_states()
        if self.group.is_relay:
            self.forwarder.installed(header.vector)
        self.send_gate.shut(False, GATE)

    @receives(StateFailed)
    def failed_received(self, header: StateFailed, batch: Batch) -> None:
        """An attempt has failed: the relay reports it to one member or to all, a member reports it to its relay."""
        if batch.dest is None or batch.src == self.group.view.coordinator:
            self.attempt_failed(header)
        if batch.dest is not None:
            self.forwarder.failed_received(header, batch.src)

    def attempt_failed(self, header: StateFailed) -> None:
        """End the attempt here, whether this member provides the state, installs it, or has requested it."""
        self.provider.end_attempt(header.key)
        if self.attempt is not None and self.attempt.key == header.key:
            self.leave_attempt(header.reason)
        if self.request is not None and header.key == (self.me, self.request.attempt):
            self.request.why = header.reason
            if header.final or self.request.begun >= MAX_BEGUN:
                return self.fail_request(header.reason)
            self.set_timer("state_attempt", RETRY_NS)
        return None

    def leave_attempt(self, reason: str) -> None:
        """Take no further part, and let multicasts go on. At the requesting member the application goes on waiting, for
        the next attempt."""
        if self.attempt is not None:
            self.attempt = None
            self.send_gate.shut(False, GATE)
            if self.request is None:
                self.close(reason)
            self.provider.fix_covered_states()

    def close(self, reason: str) -> None:
        """If StateBegin was passed up: report that the state will not be complete."""
        if self.open:
            self.open = False
            self.pass_up(OutputInOrder(StateEnd(reason)))

    # --- views ------------------------------------------------------------------------------------------------------

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        """A new view ends the attempt: joiners take no part in it, and members that left will not answer."""
        self.leave_attempt("the group's view changed while a state of another site was on its way")
        if self.request is not None:
            self.set_timer("state_attempt", RETRY_NS)
