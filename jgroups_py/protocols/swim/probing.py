"""Probing: one node an interval, directly, then through helpers and by a connection; and helping others to probe.

A probe is over when an Ack comes, from the node itself or through a helper, or when the interval is over, which our own
bad health stretches. On the way: after `probe_timeout` helpers are asked (PingFor) and a connection is tried. Sources:
SWIM, section 3; Lifeguard, section IV; memberlist's state.go (probeNode) and net.go. Deviations: a connection is one
of the links that FD_SOCK uses, or a stream where the transport has these; one that is refused tells that the process
is gone; a probe that was late because we did not run ourselves accuses nobody.
"""
from __future__ import annotations

import attrs

from jgroups_py.address import Address, PhysicalAddress
from jgroups_py.batch import Batch
from jgroups_py.events import Connect, LinkDown, LinkUp, Listening
from jgroups_py.members import BY_DATAGRAM, BY_HELPERS, BY_LINK, REFUSED, Accusation
from jgroups_py.outputs import CloseLink, Listen, OpenLink
from jgroups_py.ports import Streams
from jgroups_py.protocol import CONTROL, on, timer
from jgroups_py.protocols.swim.awareness import after_failed_probe
from jgroups_py.protocols.swim.config import ALL
from jgroups_py.protocols.swim.headers import ALIVE, SUSPECT, Ack, Dead, Nack, Ping, PingFor, Suspected
from jgroups_py.protocols.swim.rumours import Rumours
from jgroups_py.protocols.swim.table import Node
from jgroups_py.streams import StreamTo

NUMBERS = 1 << 32                # probe numbers start again after so many
LOOKS = 3                        # so many pings look for the old start of a name before it counts as gone
LINK_PORTS = 50                  # so many more ports are tried above link_port


@attrs.define(eq=False)
class Probe:
    """One probe of ours. member: the start of the node that is meant; helpers: how many were asked; nacks: by whom.

    tried: the paths taken so far; stream: its number on a stream, link: of its link (0: none).
    """

    number: int
    name: str
    member: Address
    sent_ns: int
    tried: int = BY_DATAGRAM
    helpers: int = 0
    nacks: dict[Address, None] = attrs.Factory(dict)
    stream: int = 0
    link: int = 0


@attrs.frozen(eq=False)
class Errand:
    """A ping on behalf of somebody who receives at `place` (None: where it asked from), under its `number`."""

    asker: Address
    place: PhysicalAddress | None
    number: int
    nack: bool


@attrs.define(eq=False)
class Look:
    """Pings to find out whether the old start of a node is there."""

    name: str
    left: int


class Probing(Rumours):
    """Failure detection."""

    def start(self) -> None:
        super().start()
        self.number = 0                                # of the latest ping
        self.probe: Probe | None = None                # the one under way
        self.asked: dict[int, Probe | Errand | Look] = {}    # number of a ping -> what it is for
        self.links = 0                                 # how many were opened
        self.streams: Streams | None = self.stack.find(Streams)
        self.talk.update({Ping: self.pinged, PingFor: self.sent_on_errand, Ack: self.acked, Nack: self.nacked})

    def ask(self, purpose: Probe | Errand | Look) -> int:
        """A new number under which an Ack may come."""
        self.number = (self.number + 1) % NUMBERS
        self.asked[self.number] = purpose
        return self.number

    def ping(self, number: int, node: str) -> Ping:
        place = None if self.views else self.addresses.my_physical()
        return Ping(number, node, self.my_name, place)

    # --- our own probes -----------------------------------------------------------------------------------------------

    @timer("probe")
    def begin(self) -> None:
        """Probe the next node."""
        name = self.ring.next(self.is_up)
        if name is None:
            self.set_timer("probe", self.config.probe_interval_ns)
            return
        node = self.nodes[name]
        self.probe = Probe(0, name, node.member, self.now_ns)
        self.probe.number = self.ask(self.probe)
        self.count("probes")
        ping = self.ping(self.probe.number, name)
        if node.state == SUSPECT and self.config.lifeguard:
            # Lifeguard's buddy; the lowest header is read first, so that the refutation comes with the answer.
            self.post(node, ping, Suspected(node.incarnation, name, self.my_name, 0))
        else:
            self.post(node, ping)
        self.set_timer("late", self.config.probe_timeout_ns)
        self.set_timer("verdict", self.awareness.scaled(self.config.probe_interval_ns))

    def target(self, probe: Probe) -> Node | None:
        """The node of a probe, if it still is what was probed and there is something to find out."""
        node = self.nodes.get(probe.name)
        return node if node is not None and node.is_up and node.member == probe.member else None

    @timer("late")
    def try_other_paths(self) -> None:
        """No answer: ask helpers, try a connection."""
        probe = self.probe
        node = self.target(probe) if probe is not None else None
        if probe is None or node is None:
            return
        wanted = self.config.indirect_checks
        number = len(self.ring) if wanted == ALL else int(wanted)
        helpers = self.ring.pick(number, lambda name: name != node.name and self.nodes[name].state == ALIVE)
        probe.helpers = len(helpers)
        probe.tried |= BY_HELPERS if helpers else 0
        place = None if self.views else self.addresses.my_physical()
        errand = PingFor(probe.number, node.name, node.place, node.member, self.config.lifeguard, self.my_name, place)
        for helper in helpers:
            self.post(self.nodes[helper], errand)
        if self.config.link_pings:
            self.try_connection(probe, node)

    def try_connection(self, probe: Probe, node: Node) -> None:
        """A path that a filter for datagrams does not close."""
        if self.streams is not None and node.place is not None:
            if self.streams.has_streams():
                probe.stream = self.ask(probe)
                probe.tried |= BY_LINK
                ping = self.ping(probe.stream, node.name)
                self.pass_down(StreamTo(node.place, Batch(self.me, node.member, (), (ping,), CONTROL)))
        elif node.listener is not None:
            self.links += 1
            probe.link = self.links
            probe.tried |= BY_LINK
            timeout_ns = self.awareness.scaled(self.config.probe_interval_ns) - self.config.probe_timeout_ns
            self.emit(OpenLink(self.stack.net, probe.link, node.listener, timeout_ns))

    def answered(self, probe: Probe, path: str) -> None:
        """The node lives."""
        self.count(f"answered_by_{path}")
        if path == "link":
            self.warn(f"{self.known_as(probe.name)} answers on a connection, but no datagrams")
        self.awareness.change(-1)
        self.end(probe)
        self.set_timer("probe", max(0, probe.sent_ns + self.config.probe_interval_ns - self.now_ns))

    def end(self, probe: Probe) -> None:
        """Nothing more is expected of it."""
        self.asked.pop(probe.number, None)
        self.asked.pop(probe.stream, None)
        self.cancel_timer("late")
        self.cancel_timer("verdict")
        if probe.link:
            self.emit(CloseLink(self.stack.net, probe.link))
        self.probe = None

    @timer("verdict")
    def no_answer(self) -> None:
        """The interval is over."""
        probe = self.probe
        assert probe is not None, "the timer runs while a probe does"
        self.end(probe)
        node = self.target(probe)
        took_ns, allowed_ns = self.now_ns - probe.sent_ns, self.awareness.scaled(self.config.probe_interval_ns)
        if self.config.lifeguard and took_ns >= allowed_ns + self.config.probe_timeout_ns:
            self.count("overslept")                    # the answer may have come and gone: we did not run ourselves
            self.awareness.change(1)
        elif node is not None:
            self.accuse(node, probe)
        self.begin()

    def accuse(self, node: Node, probe: Probe) -> None:
        """Say so to everybody."""
        self.count("unanswered")
        self.awareness.change(after_failed_probe(probe.helpers if self.config.lifeguard else 0, len(probe.nacks)))
        self.hear_suspected(Suspected(node.incarnation, node.name, self.my_name, probe.tried))

    # --- what comes back ----------------------------------------------------------------------------------------------

    def pinged(self, ping: Ping, batch: Batch) -> None:
        """Are we there?"""
        if not self.my_name or (ping.node and ping.node != self.my_name):
            self.count("pings_for_others")
            return
        self.post_to(batch.src, ping.place, Ack(ping.number, b""))

    def acked(self, ack: Ack, batch: Batch) -> None:
        """Somebody is there."""
        purpose = self.asked.pop(ack.number, None)
        match purpose:
            case Probe():
                direct = batch.src == purpose.member
                node = self.target(purpose)
                if node is not None and direct and ack.number == purpose.number:
                    node.rtt_ns = self.now_ns - purpose.sent_ns
                path = "link" if ack.number == purpose.stream else "datagram" if direct else "helpers"
                self.answered(purpose, path)
            case Errand():
                self.cancel_timer("errand", ack.number)
                self.post_to(purpose.asker, purpose.place, Ack(purpose.number, ack.payload))
            case Look():
                self.cancel_timer("look", ack.number)
                self.looked(purpose, batch.src)
            case None:
                self.count("late_acks")

    def nacked(self, nack: Nack, batch: Batch) -> None:
        """A helper is there, though the node does not answer it either."""
        probe = self.asked.get(nack.number)
        if isinstance(probe, Probe):
            probe.nacks[batch.src] = None

    # --- errands ------------------------------------------------------------------------------------------------------

    def sent_on_errand(self, wish: PingFor, batch: Batch) -> None:
        """Ping a node for somebody."""
        if not self.my_name:
            return
        self.count("errands")
        node = self.nodes.get(wish.node)
        if node is not None and node.is_up and node.member != wish.member:
            self.post_to(batch.src, wish.place, node.says())      # it probes an earlier start
        number = self.ask(Errand(batch.src, wish.place, wish.number, wish.nack))
        self.post_to(wish.member, wish.target, self.ping(number, wish.node))
        self.set_timer("errand", self.config.probe_timeout_ns, number)

    @timer("errand")
    def in_vain(self, number: int) -> None:
        """No answer in time."""
        errand = self.asked.pop(number)
        assert isinstance(errand, Errand), "only errands have this timer"
        if errand.nack:
            self.post_to(errand.asker, errand.place, Nack(errand.number))

    # --- links --------------------------------------------------------------------------------------------------------

    @on(Connect)
    def connecting(self, event: Connect) -> None:
        """Where others may try a connection; transports with streams have their own."""
        mine = self.addresses.my_physical()
        if self.config.link_pings and self.streams is None and mine is not None:
            self.emit(Listen(self.stack.net, mine[0], self.config.link_port, LINK_PORTS))

    @on(Listening)
    def listening(self, event: Listening) -> None:
        self.listener = event.physical
        if self.my_name:
            self.renew()

    @on(LinkUp)
    def link_up(self, event: LinkUp) -> None:
        probe = self.probe
        if probe is None or event.link != probe.link:
            return
        if event.peer == probe.member.raw:
            self.answered(probe, "link")
        else:
            self.refused(probe)                        # somebody else listens in its place

    @on(LinkDown)
    def link_down(self, event: LinkDown) -> None:
        probe = self.probe
        if probe is not None and event.link == probe.link:
            probe.link = 0
            if event.refused:
                self.refused(probe)

    def refused(self, probe: Probe) -> None:
        """Its process is gone, as far as its host can tell."""
        probe.tried |= REFUSED
        node = self.target(probe)
        if self.config.trust_refusal and node is not None:
            self.count("refused")
            self.end(probe)
            evidence = Accusation(self.my_name, probe.tried, self.now_ns)
            self.fail(node, Dead(node.incarnation, node.name, self.my_name), (evidence,))
            self.begin()

    # --- claims on a name ---------------------------------------------------------------------------------------------

    def look_for(self, node: Node) -> None:
        self.look(Look(node.name, LOOKS))

    def look(self, look: Look) -> None:
        """Ping whoever receives where the old start was: the answer tells which start that is."""
        node = self.nodes[look.name]
        look.left -= 1
        number = self.ask(look)
        self.post_to(None if node.place is not None else node.member, node.place, self.ping(number, node.name))
        self.set_timer("look", max(1, self.config.probe_timeout_ns // LOOKS), number)

    @timer("look")
    def unseen(self, number: int) -> None:
        """No answer to one of the pings."""
        look = self.asked.pop(number)
        assert isinstance(look, Look), "only looks have this timer"
        node = self.nodes.get(look.name)
        if node is None or node.challenger is None:
            return
        if look.left:
            self.look(look)
        else:
            self.is_replaced(node)

    def looked(self, look: Look, src: Address) -> None:
        """Somebody answered there."""
        node = self.nodes.get(look.name)
        if node is None or node.challenger is None:
            return
        if src == node.challenger.member:
            self.is_replaced(node)
        else:
            self.answers_still(node)
