"""SERF: what Serf's members expect of each other beyond memberlist: intents to join and leave, and user events.

Above SWIM on MEMBERLIST. A member that goes says so first by an intent, which its peers must hear before it is gone, or
they take it for failed. Intents are ordered by a Lamport clock: who hears that it has left, and has not, joins again.
User events are spread as news are, remembered for a while, and handed over once. On reception of

    Join, Leave     newer than what is known of the node: remember, pass on; Leave about us: refute it by a Join;
                    about a node that failed, or fails later: it has left
    Event           not known yet: remember, hand over, pass on
    Query           not known yet: pass on; we do not answer
    a state         in an exchange: the same for all that is in it; what is in the first one happened before our time

Source: Serf's serf.go and delegate.go. Deviations: no queries of our own and no answers, no network coordinates.
"""
from __future__ import annotations

import attrs

from jgroups_py.errors import WireError
from jgroups_py.events import Connect, Disconnect, Tell
from jgroups_py.members import FAILED, JOINED
from jgroups_py.outputs import MemberChanged
from jgroups_py.ports import UserState
from jgroups_py.protocol import STOP, Protocol, on, timer
from jgroups_py.protocols.swim.memberlist.recent import Clock, Intents, Window
from jgroups_py.protocols.swim.memberlist.serf import (
    Event,
    Join,
    Leave,
    Message,
    Query,
    State,
    read_message,
    read_state,
    write_message,
    write_state,
)
from jgroups_py.protocols.swim.protocol import Swim
from jgroups_py.swim_events import UserGossip, UserHeard, UserStateHeard
from jgroups_py.units import count, duration, millis
from jgroups_py.userevents import SendUserEvent, UserEvent

LOOK_NS = millis(50)                        # how often we look whether our goodbye was sent often enough


@attrs.frozen
class SerfConfig:
    """How long to remember, how long to say goodbye."""

    leave_timeout_ns: int = duration("5s", also=("broadcast_timeout",), doc="How long a leaving member may take to "
                                     "tell others that it will; then it goes, and counts as failed where that was not "
                                     "heard.")
    event_buffer: int = count(512, least=1, most=10_000, also=("event_buffer_size",), doc="Of how many Lamport times "
                              "events are remembered. More tells older events to members that missed them, and costs "
                              "bytes in each exchange.")
    query_buffer: int = count(512, least=1, most=10_000, also=("query_buffer_size",), doc="Likewise for queries, which "
                              "are only passed on.")


class Serf(Protocol, UserState):
    """See the module."""

    Config = SerfConfig
    config: SerfConfig
    needs = {"swim": Swim}
    swim: Swim

    def start(self) -> None:
        self.clock = Clock()
        self.intents = Intents()
        self.events = Window(self.config.event_buffer)
        self.queries = Window(self.config.query_buffer)
        self.met_anybody = False                             # an exchange took place
        self.leave_by_ns: int | None = None                  # we said that we leave, and do so then at the latest

    @on(Connect)
    def connecting(self, event: Connect) -> None:
        self.start()

    # --- members ------------------------------------------------------------------------------------------------------

    @on(Tell)
    def told(self, event: Tell) -> None:
        """The first member that we meet hears that we join; who said that it leaves and then failed has left."""
        output = event.output
        if not isinstance(output, MemberChanged):
            return
        if output.change == JOINED and self.swim.up_count == 1:
            self.later(self.join)
        elif output.change == FAILED:
            standing = self.intents.of.get(output.member.name)
            if standing is not None and standing.leaving:
                self.later(lambda: self.swim.has_left(output.member.name))

    def join(self) -> None:
        """Say that we are in."""
        if self.leave_by_ns is None:
            self.spread(Join(self.clock.time, self.swim.my_name))

    def spread(self, message: Join | Leave | Event) -> None:
        """Something of ours: take it ourselves, tell everybody."""
        self.take(message)
        self.pass_down(UserGossip(write_message(message)))

    @on(Disconnect)
    def leave(self, event: Disconnect) -> object:
        """Say so first; the goodbye itself follows once that was sent often enough."""
        if not self.swim.up_count or self.leave_by_ns is not None:
            return None
        self.leave_by_ns = self.now_ns + self.config.leave_timeout_ns
        self.spread(Leave(self.clock.tick(), self.swim.my_name))
        self.set_timer("said", LOOK_NS)
        return STOP

    @timer("said")
    def look_whether_said(self) -> None:
        assert self.leave_by_ns is not None, "the timer runs once we leave"
        # What layers above SWIM spread is queued there under numbers.
        waiting = any(isinstance(topic, int) for topic in self.swim.gossip.level_of)
        if waiting and self.now_ns < self.leave_by_ns and self.swim.up_count:
            self.set_timer("said", LOOK_NS)
        else:
            self.pass_down(Disconnect())

    # --- what is heard ------------------------------------------------------------------------------------------------

    @on(UserHeard)
    def user_heard(self, event: UserHeard) -> object:
        """Gossip: what is news goes on as it came."""
        try:
            message = read_message(event.payload)
        except WireError:
            self.count("malformed_dropped")
            return STOP
        if message is None:
            self.count("not_for_us")
        elif self.take(message):
            self.pass_down(UserGossip(event.payload))
        return STOP

    def take(self, message: Message) -> bool:
        """Whether it is news, to be passed on."""
        match message:
            case Join() | Leave():
                self.clock.witness(message.ltime)
                if isinstance(message, Leave) and message.node == self.swim.my_name and self.leave_by_ns is None:
                    self.refute(message)
                    return False
                return self.intended(message)
            case Event():
                return self.happened(message)
            case Query():
                return self.queries.take(message)

    def intended(self, intent: Join | Leave) -> bool:
        """A leave of a node that failed is an operator's word that it will not be back."""
        if not self.intents.take(intent):
            return False
        if isinstance(intent, Leave):
            self.later(lambda: self.swim.has_left(intent.node))
        return True

    def refute(self, leave: Leave) -> None:
        """We have not left."""
        standing = self.intents.of.get(leave.node)
        if standing is None or leave.ltime > standing.ltime:
            self.count("leaves_refuted")
            self.later(self.join)

    def happened(self, event: Event) -> bool:
        if not self.events.take(attrs.evolve(event, coalesce=False)):
            return False
        self.count("user_events")
        self.pass_up(Tell(UserEvent(event.name, event.payload, event.ltime)))
        return True

    @on(SendUserEvent)
    def send_event(self, event: SendUserEvent) -> None:
        self.spread(Event(self.events.clock.tick(), event.name, event.payload, event.coalesce))

    # --- exchanges ----------------------------------------------------------------------------------------------------

    @on(UserStateHeard)
    def state_heard(self, event: UserStateHeard) -> object:
        try:
            state = read_state(event.state)
        except WireError:
            self.count("malformed_dropped")
        else:
            self.merge(state)
        return STOP

    def merge(self, state: State) -> None:
        """All that somebody knows; none of it needs to be passed on."""
        if not self.met_anybody:
            self.met_anybody = True
            self.events.least = state.event_ltime
        for clock, time in ((self.clock, state.ltime), (self.events.clock, state.event_ltime),
                            (self.queries.clock, state.query_ltime)):
            clock.witness(time - 1)                          # nothing has this time yet
        left = dict.fromkeys(state.left)
        for node, ltime in state.joined.items():
            # A state has the time of the join beside who left; the leave came after it.
            self.take(Leave(ltime + 1, node) if node in left else Join(ltime, node))
        for happened in state.events:
            self.take(happened)

    def user_state(self, join: bool) -> bytes:
        known = {node: standing for node, standing in self.intents.of.items()
                 if node == self.swim.my_name or node in self.swim.nodes}
        events = tuple(item for ltime in sorted(self.events.times) for item in self.events.times[ltime]
                       if isinstance(item, Event))
        return write_state(State(
            self.clock.time, {node: standing.ltime for node, standing in known.items()},
            tuple(node for node, standing in known.items() if standing.leaving), self.events.clock.time, events,
            self.queries.clock.time))
