"""SERF: what Serf adds to memberlist: intents to join and leave, and user events.

Above SWIM on MEMBERLIST. A leaving member spreads an intent first; a peer that gets it only after the member is gone
takes the member for failed. Intents are ordered by a Lamport clock: a member that gets a leave intent about itself, and
is not leaving, refutes it by joining again. User events are spread in the same way as updates, remembered for a while,
and delivered once. On reception of

    Join, Leave     newer than the latest intent of the node: remember, pass on; Leave about this member: refute it by
                    a Join; about a node that failed, or fails later: it has left
    Event           not received before: remember, deliver, pass on
    Query           not received before: pass on; queries are not answered here
    a state         in an exchange: the same for each item in it; the first state fixes which events are too old for
                    this member

Source: Serf's serf.go and delegate.go. Deviations: no queries and no answers to them, no network coordinates.
"""
from __future__ import annotations

import attrs

from jgroups_py.model.counters import counter, declare, drop
from jgroups_py.model.errors import WireError
from jgroups_py.model.events import (
    Connect,
    Disconnect,
    ForceLeave,
    OutputInOrder,
    SendUserEvent,
    UserGossip,
    UserHeard,
    UserStateHeard,
)
from jgroups_py.model.outputs import MemberChanged, UserEvent
from jgroups_py.model.ports import UserState
from jgroups_py.model.swim_member import FAILED, JOINED
from jgroups_py.model.units import count, duration, millis
from jgroups_py.protocols.swim.memberlist.recent import Intents, LamportClock, Window
from jgroups_py.protocols.swim.memberlist.serf import (
    Message,
    Query,
    SerfEvent,
    SerfJoin,
    SerfLeave,
    SerfState,
    read_message,
    read_state,
    write_message,
    write_state,
)
from jgroups_py.protocols.swim.protocol import Swim
from jgroups_py.stack.protocol import STOP, Protocol, on, timer

CHECK_NS = millis(50)                       # between two checks whether the leave intent was sent often enough


@attrs.frozen
class SerfConfig:
    """How much is remembered, and how long leaving may take."""

    leave_timeout_ns: int = duration("5s", also=("broadcast_timeout",), doc="How long a leaving member may take to "
                                     "announce it; then it ends, and counts as failed where that was not received.")
    event_buffer: int = count(512, least=1, most=10_000, also=("event_buffer_size",), doc="For how many Lamport "
                              "times events are remembered. More brings older events to members that missed them, and "
                              "costs bytes in each exchange.")
    query_buffer: int = count(512, least=1, most=10_000, also=("query_buffer_size",), doc="The same for queries, which "
                              "are only passed on.")


class Serf(Protocol, UserState):
    """The layer: intents, user events, and its part in exchanges."""

    Config = SerfConfig
    config: SerfConfig
    COUNTERS = declare(
        counter("user_events", "User events that were new."),
        counter("leaves_refuted", "Leave intents about this member that it refuted."),
        drop("malformed_dropped", "Messages of Serf that cannot be decoded."),
        drop("unsupported_messages", "Messages of Serf of a kind that is not handled here."),
    )

    needs = {"swim": Swim}
    swim: Swim

    def start(self) -> None:
        self.clock = LamportClock()
        self.intents = Intents()
        self.events = Window(self.config.event_buffer)
        self.queries = Window(self.config.query_buffer)
        self.has_exchanged = False                           # the state of another member was merged
        self.leave_by_ns: int | None = None                  # once leaving: when it ends at the latest

    @on(Connect)
    def on_connect(self, event: Connect) -> None:
        self.start()

    # --- members ------------------------------------------------------------------------------------------------------

    @on(OutputInOrder)
    def on_member_changed(self, event: OutputInOrder) -> None:
        """Join when the first other member appears; a member that fails after its leave intent has left."""
        output = event.output
        if not isinstance(output, MemberChanged):
            return
        if output.change == JOINED and self.swim.up_count == 1:
            self.later(self.join)
        elif output.change == FAILED:
            latest = self.intents.of.get(output.member.name)
            if latest is not None and latest.leaving:
                self.later(lambda: self.swim.mark_left(output.member.name))

    def join(self) -> None:
        """Spread a join intent, unless this member is leaving."""
        if self.leave_by_ns is None:
            self.spread(SerfJoin(self.clock.time, self.swim.my_name))

    def spread(self, message: SerfJoin | SerfLeave | SerfEvent) -> None:
        """Spread a message of this member's own, and take it as if received."""
        self.take(message)
        self.pass_down(UserGossip(write_message(message)))

    @on(Disconnect)
    def on_disconnect(self, event: Disconnect) -> object:
        """Hold the event back and spread a leave intent; SWIM leaves once that was sent often enough."""
        if not self.swim.up_count or self.leave_by_ns is not None:
            return None
        self.leave_by_ns = self.now_ns + self.config.leave_timeout_ns
        self.spread(SerfLeave(self.clock.tick(), self.swim.my_name))
        self.set_timer("intent_spread", CHECK_NS)
        return STOP

    @timer("intent_spread")
    def check_intent_spread(self) -> None:
        assert self.leave_by_ns is not None, "the timer is set only while leaving"
        # In SWIM's queue the topics of updates are names, those of messages from layers above are numbers.
        waiting = any(isinstance(topic, int) for topic in self.swim.gossip.level_of)
        if waiting and self.now_ns < self.leave_by_ns and self.swim.up_count:
            self.set_timer("intent_spread", CHECK_NS)
        else:
            self.pass_down(Disconnect())

    # --- receiving ----------------------------------------------------------------------------------------------------

    @on(UserHeard)
    def on_gossip(self, event: UserHeard) -> object:
        """A message that came by gossip; a new one is passed on with the bytes that it came with."""
        try:
            message = read_message(event.payload)
        except WireError as error:
            self.drop("malformed_dropped", None, str(error))
            return STOP
        if message is None:
            self.drop("unsupported_messages", None, "of a kind that is not handled here")
        elif self.take(message):
            self.pass_down(UserGossip(event.payload))
        return STOP

    def take(self, message: Message) -> bool:
        """Handle a message; True if it is new, to be passed on."""
        match message:
            case SerfJoin() | SerfLeave():
                self.clock.witness(message.ltime)
                if isinstance(message, SerfLeave) and message.node == self.swim.my_name and self.leave_by_ns is None:
                    self.refute(message)
                    return False
                return self.take_intent(message)
            case SerfEvent():
                return self.take_event(message)
            case Query():
                return self.queries.take(message)

    def take_intent(self, intent: SerfJoin | SerfLeave) -> bool:
        """Remember an intent; a leave about a node that counts as failed means that it left (serf force-leave)."""
        if not self.intents.take(intent):
            return False
        if isinstance(intent, SerfLeave):
            self.later(lambda: self.swim.mark_left(intent.node))
        return True

    def refute(self, leave: SerfLeave) -> None:
        """A leave intent about this member, which is not leaving: join again, with a later time, if it is new."""
        latest = self.intents.of.get(leave.node)
        if latest is None or leave.ltime > latest.ltime:
            self.count("leaves_refuted")
            self.later(self.join)

    def take_event(self, event: SerfEvent) -> bool:
        # Exchanges do not carry `coalesce`; with it the same event would count as new again.
        if not self.events.take(attrs.evolve(event, coalesce=False)):
            return False
        self.count("user_events")
        self.pass_up(OutputInOrder(UserEvent(event.name, event.payload, event.ltime)))
        return True

    @on(ForceLeave)
    def on_force_leave(self, event: ForceLeave) -> None:
        """An operator declares that a failed member will not come back; a live one refutes by joining again."""
        if event.name != self.swim.my_name:
            self.spread(SerfLeave(self.clock.tick(), event.name))

    @on(SendUserEvent)
    def on_send_user_event(self, event: SendUserEvent) -> None:
        self.spread(SerfEvent(self.events.clock.tick(), event.name, event.payload, event.coalesce))

    # --- exchanges ----------------------------------------------------------------------------------------------------

    @on(UserStateHeard)
    def on_state(self, event: UserStateHeard) -> object:
        try:
            state = read_state(event.state)
        except WireError as error:
            self.drop("malformed_dropped", None, str(error))
        else:
            self.merge(state)
        return STOP

    def merge(self, state: SerfState) -> None:
        """Apply another member's state; its items are not passed on, since exchanges bring them to all members."""
        if not self.has_exchanged:
            self.has_exchanged = True
            self.events.least = state.event_ltime
        for clock, time in ((self.clock, state.ltime), (self.events.clock, state.event_ltime),
                            (self.queries.clock, state.query_ltime)):
            clock.witness(time - 1)                          # no item has the clock's present time yet
        left = dict.fromkeys(state.left)
        for node, ltime in state.joined.items():
            # A state has the time of a node's join even if the node left after it.
            self.take(SerfLeave(ltime + 1, node) if node in left else SerfJoin(ltime, node))
        for event in state.events:
            self.take(event)

    def user_state(self, join: bool) -> bytes:
        known = {node: latest for node, latest in self.intents.of.items()
                 if node == self.swim.my_name or node in self.swim.nodes}
        events = tuple(item for ltime in sorted(self.events.times) for item in self.events.times[ltime]
                       if isinstance(item, SerfEvent))
        return write_state(SerfState(
            self.clock.time, {node: latest.ltime for node, latest in known.items()},
            tuple(node for node, latest in known.items() if latest.leaving), self.events.clock.time, events,
            self.queries.clock.time))
