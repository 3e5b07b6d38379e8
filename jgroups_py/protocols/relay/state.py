"""A state from another site, with everybody sending all the while (rule 16): the side of every asking member.

    member --ASK--> its relay --PAUSE--> all members; each keeps its multicasts back and says PAUSED
                    its relay --FETCH(what the site has)--> other relay --> provider: waits until it has that, too
    all members <--START-- its relay <--COVER(what the state holds)-- other relay <-- provider: cuts the state there
    all members <--PIECE-- ...        as far as all members say MORE
    all members <--INSTALL-- its relay: the state is complete; every member goes on above what it holds

All members of the site take the state, since all have missed the same. From PAUSE to INSTALL nothing else is delivered
that the state may hold: the relay disseminates nothing, the members multicast nothing, and each begins to take the
state when it has delivered what the others multicast before. Only INSTALL moves vectors: a try that fails changes
nothing, and what was held back follows. It fails when the view of either site changes, a relay goes, somebody refuses,
or time passes; then the member that asked tries again, until its own time is over.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from jgroups_py.address import Address, ProxyUUID
from jgroups_py.batch import Batch
from jgroups_py.events import Disconnect, GetState, StateBusy, StateChunk, Tell
from jgroups_py.outputs import MessagesLost, StateBegin, StateEnd, StatePart
from jgroups_py.protocol import STOP, Protocol, on, receives, timer
from jgroups_py.protocols.relay.headers import Numbers, Vector
from jgroups_py.protocols.relay.receiving import RELIABLE
from jgroups_py.protocols.relay.state_headers import (
    Key,
    StateAsk,
    StateCover,
    StateFetch,
    StateInstall,
    StateMore,
    StateOver,
    StatePause,
    StatePaused,
    StatePiece,
    StateStart,
)
from jgroups_py.protocols.relay.state_provider import FIRST_REQUEST, Provider
from jgroups_py.protocols.relay.state_relay import StateRelay
from jgroups_py.units import millis, seconds

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.relay import Relay

WINDOW_BYTES = 1 << 20                       # on its way to the members of the asking site
RETRY_NS = millis(300)
AGAIN_NS = seconds(2)                        # when nobody even said that the try failed
MOST_BEGUN = 5                               # tries that may break off while the state arrives
GATE = "state"


@attrs.define(eq=False)
class Quest:
    """What our application asked for.

    moved_ns: when something last came of it; attempt: the present try (0: none yet); begun: how many tries came as far
    as a state; why: the last failure.
    """

    site: str
    target: Address
    timeout_ns: int
    moved_ns: int
    attempt: int = 0
    begun: int = 0
    why: str = ""


@attrs.define(eq=False)
class Taking:
    """A try that we take part in. cut: what is to be delivered before the state (None: not known yet)."""

    key: Key
    cut: Numbers | None = None
    begun: bool = False
    received: int = 0
    stop: int = 0


class States:
    """See the module."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.provider = Provider(relay)
        self.carrier = StateRelay(relay)
        self.quest: Quest | None = None
        self.attempts = 0                    # of all requests: a late answer to an earlier one is none to the next
        self.taking: Taking | None = None
        self.open = False                    # the application was told StateBegin and not yet StateEnd
        self.local = False                   # STATE_TRANSFER is bringing a state just now
        self.app_behind = False

    @property
    def busy(self) -> bool:
        """Whether a state is on its way to our application."""
        return self.taking is not None or self.quest is not None or self.local

    # --- the member that asks ---------------------------------------------------------------------------------------

    def get(self, event: GetState) -> object:
        """The application asks; STOP if it asks for the state of another site."""
        relay, target = self.relay, event.target
        if self.open:
            return STOP                      # the state that is arriving is its answer
        if target is None or not relay.has_view or target in relay.view:
            return None
        site = target.site if isinstance(target, ProxyUUID) else relay.site_of_member.get(target)
        if site is None or site == relay.config.site:
            return None
        if self.busy:
            relay.pass_up(Tell(StateEnd("a state of another site is on its way")))
            return STOP
        target = target.original if isinstance(target, ProxyUUID) else target
        self.quest = Quest(site, target, event.timeout_ns, relay.now_ns)
        relay.set_timer("state_give_up", event.timeout_ns)
        relay.set_timer("state_ask", 0)
        return STOP

    def ask(self) -> None:
        """Try (again)."""
        quest, relay = self.quest, self.relay
        if quest is not None and self.taking is None:
            self.attempts += 1
            quest.attempt = self.attempts
            header = StateAsk(relay.me, quest.attempt, quest.site, quest.target, quest.timeout_ns)
            relay.send(header, relay.view.coordinator, flags=RELIABLE)
            relay.set_timer("state_ask", AGAIN_NS)

    def give_up(self) -> None:
        """On a timer: nothing came for the whole timeout."""
        quest, relay = self.quest, self.relay
        if quest is None:
            return
        if self.app_behind:
            quest.moved_ns = relay.now_ns    # it is the application that takes its time
        left_ns = quest.moved_ns + quest.timeout_ns - relay.now_ns
        if left_ns > 0:
            return relay.set_timer("state_give_up", left_ns)
        return self.fail_quest(quest.why or f"no state from site {quest.site}")

    def fail_quest(self, reason: str) -> None:
        """Tell the application, and those who take part."""
        quest, self.quest = self.quest, None
        if quest is None:
            return
        self.relay.cancel_timer("state_ask")
        self.relay.cancel_timer("state_give_up")
        over = StateOver(self.relay.me, quest.attempt, reason, True)
        self.relay.send(over, self.relay.view.coordinator, flags=RELIABLE)
        if not self.open:
            self.relay.pass_up(Tell(StateEnd(reason)))
        elif self.taking is None:
            self.close(reason)               # else when the relay says Over to all; or INSTALL, if that is on its way

    # --- every member of the asking site ----------------------------------------------------------------------------

    def pause(self, header: StatePause) -> None:
        """Keep our multicasts back, and say so."""
        relay = self.relay
        if header.view_id != relay.view.id:
            return relay.count("pause_of_other_view")
        refusal = "it is getting a state already" if self.local or self.taking is not None else ""
        if not refusal:
            self.taking = Taking(header.key)
            relay.gate.shut(True, GATE)
        return relay.send(StatePaused(*header.key, relay.next_number, refusal), relay.view.coordinator, flags=RELIABLE)

    def start(self, header: StateStart) -> None:
        """The state may come."""
        if self.taking is not None and self.taking.key == header.key:
            self.taking.cut = header.cut
            self.begin()

    def begin(self) -> None:
        """Take it, once we have all that our own site multicast before."""
        taking, numbers = self.taking, self.relay.numbers
        if taking is None or taking.cut is None or taking.begun:
            return
        if any(numbers.get(member, 1) < taking.cut.get(member, 1) for member in self.relay.view.members):
            return
        taking.begun = self.open = True
        if self.quest is not None:
            self.quest.begun += 1
        self.relay.pass_up(Tell(StateBegin()))
        self.ask_more(taking)

    def delivered(self) -> None:
        """More of our own site was delivered."""
        if self.taking is not None:
            self.begin()
        if self.provider.waiting:
            self.provider.delivered()

    def piece(self, header: StatePiece, payloads: tuple[bytes, ...]) -> None:
        """The next bytes."""
        taking = self.taking
        if taking is None or taking.key != header.key or not taking.begun:
            return
        self.moved()
        for data in payloads:
            taking.received += len(data)
            self.relay.pass_up(Tell(StatePart(data)))
        if not self.app_behind:
            self.ask_more(taking)

    def ask_more(self, taking: Taking) -> None:
        """Half a window is used up: ask for more."""
        stop = taking.received + WINDOW_BYTES
        if stop - taking.stop >= WINDOW_BYTES // 2:
            taking.stop = stop
            self.relay.send(StateMore(*taking.key, stop), self.relay.view.coordinator, flags=RELIABLE)

    def app_busy(self, on: bool) -> None:
        """The application has enough unread state, or wants more."""
        self.app_behind = on
        if not on and self.taking is not None and self.taking.begun:
            self.moved()
            self.ask_more(self.taking)

    def moved(self) -> None:
        """The state makes progress."""
        if self.quest is not None:
            self.quest.moved_ns = self.relay.now_ns

    def install(self, header: StateInstall) -> None:
        """The state is complete: everything below the vector is in it."""
        taking, relay = self.taking, self.relay
        if taking is None or taking.key != header.key or not taking.begun:
            return
        own = header.vector.get(relay.config.site, {})
        for origin, number in own.items():
            relay.numbers[origin] = max(number, relay.numbers.get(origin, 1))
        skipped = self.skip({site: numbers for site, numbers in header.vector.items() if site != relay.config.site})
        relay.count("states_installed")
        self.taking = self.quest = None
        self.open = False
        relay.cancel_timer("state_ask")
        relay.cancel_timer("state_give_up")
        relay.pass_up(Tell(StateEnd("", skipped)))
        self.provider.delivered()
        if relay.is_relay:
            self.carrier.installed(header.vector)
        relay.gate.shut(False, GATE)

    def skip(self, vector: Vector) -> tuple[tuple[str, Address, int, int], ...]:
        """Go on above the vector in the messages of other sites; what the state holds of them."""
        receiving, skipped = self.relay.receiving, []
        for site, numbers in vector.items():
            seen = receiving.seen.setdefault(site, {})
            for origin, number in numbers.items():
                before = seen.get(origin, 1)
                if number > before:
                    skipped.append((site, origin, before, number))
                    seen[origin] = number
                    receiving.delivered(site, origin, number)
        receiving.met.update(dict.fromkeys(vector))
        return tuple(skipped)

    def over(self, header: StateOver) -> None:
        """A try has failed, at whatever part of it we are."""
        self.provider.drop(header.key)
        if self.taking is not None and self.taking.key == header.key:
            self.end_taking(header.reason)
        if self.quest is not None and header.key == (self.relay.me, self.quest.attempt):
            self.quest.why = header.reason
            if header.final or self.quest.begun >= MOST_BEGUN:
                return self.fail_quest(header.reason)
            self.relay.set_timer("state_ask", RETRY_NS)
        return None

    def end_taking(self, reason: str) -> None:
        """We take no part any more: our multicasts go on. Who asked keeps the application waiting for the next try."""
        if self.taking is not None:
            self.taking = None
            self.relay.gate.shut(False, GATE)
            if self.quest is None:
                self.close(reason)
            self.provider.delivered()

    def close(self, reason: str) -> None:
        """Tell an application that began to take a state that it will not be complete."""
        if self.open:
            self.open = False
            self.relay.pass_up(Tell(StateEnd(reason)))

    # --- views ------------------------------------------------------------------------------------------------------

    def view_changed(self, relay_changed: bool) -> None:
        """Tries end with the view."""
        self.carrier.view_changed()
        self.end_taking("the group's view changed while a state of another site was on its way")
        if relay_changed:
            self.provider.relay_changed()
        if self.quest is not None:
            self.relay.set_timer("state_ask", RETRY_NS)


class StateTalk(Protocol):
    """A base of Relay that receives what concerns states of other sites."""

    states: States

    @on(GetState)
    def on_get_state(self, event: GetState) -> object:
        return self.states.get(event)

    @on(StateChunk)
    def on_state_chunk(self, event: StateChunk) -> object:
        if event.request <= FIRST_REQUEST:
            return None
        self.states.provider.chunk(event)
        return STOP

    @on(StateBusy)
    def on_state_busy(self, event: StateBusy) -> None:
        self.states.app_busy(event.on)

    @on(Disconnect)
    def on_disconnect(self, event: Disconnect) -> None:
        self.states.fail_quest("the member leaves")

    @on(Tell)
    def on_tell(self, event: Tell) -> object:
        """A state that STATE_TRANSFER brings; what NAKACK lost, which RELAY tells by its own numbers."""
        if isinstance(event.output, StateBegin | StateEnd):
            self.states.local = isinstance(event.output, StateBegin)
            self.later(self.states.provider.delivered)
        elif isinstance(event.output, MessagesLost):
            self.states.relay.divergence.forget(event, event.output.origin)
            return STOP
        return None

    @receives(StateAsk)
    def on_state_ask(self, header: StateAsk, batch: Batch) -> None:
        self.states.carrier.ask(header)

    @receives(StatePause)
    def on_state_pause(self, header: StatePause, batch: Batch) -> None:
        self.states.pause(header)

    @receives(StatePaused)
    def on_state_paused(self, header: StatePaused, batch: Batch) -> None:
        self.states.carrier.paused(header, batch.src)

    @receives(StateFetch)
    def on_state_fetch(self, header: StateFetch, batch: Batch) -> None:
        self.states.provider.asked(header)

    @receives(StateCover)
    def on_state_cover(self, header: StateCover, batch: Batch) -> None:
        self.states.carrier.onward(header)

    @receives(StateStart)
    def on_state_start(self, header: StateStart, batch: Batch) -> None:
        self.states.start(header)

    @receives(StateMore)
    def on_state_more(self, header: StateMore, batch: Batch) -> None:
        self.states.provider.more(header)
        self.states.carrier.more(header, batch.src)

    @receives(StatePiece)
    def on_state_piece(self, header: StatePiece, batch: Batch) -> None:
        if batch.dest is None:
            self.states.piece(header, batch.payloads)
        else:
            self.states.carrier.onward(header, batch.payloads)

    @receives(StateInstall)
    def on_state_install(self, header: StateInstall, batch: Batch) -> None:
        self.states.install(header)

    @receives(StateOver)
    def on_state_over(self, header: StateOver, batch: Batch) -> None:
        if batch.dest is None or batch.src == self.states.relay.view.coordinator:
            self.states.over(header)
        if batch.dest is not None:
            self.states.carrier.over_heard(header, batch.src)

    @timer("state_ask")
    def ask_for_state(self) -> None:
        self.states.ask()

    @timer("state_give_up")
    def give_up_state(self) -> None:
        self.states.give_up()

    @timer("state_refuse")
    def refuse_state(self, key: Key) -> None:
        self.states.provider.refuse(key)

    @timer("state_idle")
    def drop_state(self, key: Key) -> None:
        self.states.provider.drop(key)

    @timer("state_alive")
    def keep_state_alive(self) -> None:
        self.states.carrier.alive()

    @timer("state_stall")
    def state_stalls(self) -> None:
        self.states.carrier.abandon("the other site does not send the state")
