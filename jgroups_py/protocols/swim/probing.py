"""Probing: one node each interval, directly, then through helpers and over a connection; and probing for other members.

A probe succeeds when a ProbeAck comes, from the node itself or through a helper. It fails when the interval is over,
which bad health of this member stretches. In between, after `probe_timeout`, helpers get a request (PingFor)
and a connection is tried. Sources: SWIM, section 3; Lifeguard, section IV; memberlist's state.go (probeNode), net.go.
Deviations: a connection is a link as FD_SOCK's, or a stream where the transport has these; a refused one shows that the
process is gone; a probe whose end this process reaches late, because it did not run, makes no node suspected.
"""
from __future__ import annotations

import attrs

from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.batch import Batch
from jgroups_py.model.events import Connect, LinkDown, LinkUp, Listening, StreamTo
from jgroups_py.model.outputs import CloseLink, Listen, OpenLink
from jgroups_py.model.ports import Streams
from jgroups_py.model.swim_member import BY_DATAGRAM, BY_HELPERS, BY_LINK, REFUSED, Accusation
from jgroups_py.protocols.swim.awareness import after_failed_probe
from jgroups_py.protocols.swim.config import ALL
from jgroups_py.protocols.swim.headers import ALIVE, SUSPECT, Dead, Nack, PingFor, PingHeader, ProbeAck, SuspectedHeader
from jgroups_py.protocols.swim.table import SwimNode
from jgroups_py.protocols.swim.updates import MembershipUpdates
from jgroups_py.stack.protocol import CONTROL, on, timer

NUMBERS = 1 << 32                # ping numbers wrap around here
START_PINGS = 3                  # pings without an answer until the previous start of a name counts as gone
LINK_PORTS = 50                  # ports tried above link_port


@attrs.define(eq=False)
class PendingProbe:
    """One probe of this member's own. member: the start that is probed; helpers: how many got a request.

    nacks: the helpers that answered Nack. tried: the paths taken so far (bits); stream: the number of the ping on a
    stream, link: of the link (0: none).
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
class IndirectPing:
    """A ping at the request of `requester`, which receives at `place` (None: where the request came from).

    number: the requester's, for the answer; nack: whether it expects a Nack if there is none.
    """

    requester: Address
    place: PhysicalAddress | None
    number: int
    nack: bool


@attrs.define(eq=False)
class StartCheck:
    """Pings to find out whether the previous start of the node `name` still runs; left: how many may follow."""

    name: str
    left: int


class Probing(MembershipUpdates):
    """Failure detection."""

    def start(self) -> None:
        super().start()
        self.number = 0                                # of the latest ping
        self.probe: PendingProbe | None = None         # the one under way
        # Number of a ping -> what its answer is for.
        self.pending_pings: dict[int, PendingProbe | IndirectPing | StartCheck] = {}
        self.links = 0                                 # how many were opened
        self.streams: Streams | None = self.stack.find(Streams)
        self.handlers.update({
            PingHeader: self.on_ping, PingFor: self.on_ping_request, ProbeAck: self.on_ack, Nack: self.on_nack})

    def new_number(self, purpose: PendingProbe | IndirectPing | StartCheck) -> int:
        """A ping number, under which a ProbeAck will be matched with `purpose`."""
        self.number = (self.number + 1) % NUMBERS
        self.pending_pings[self.number] = purpose
        return self.number

    def ping(self, number: int, node: str) -> PingHeader:
        place = None if self.views else self.addresses.my_physical()
        return PingHeader(number, node, self.my_name, place)

    # --- our own probes -----------------------------------------------------------------------------------------------

    @timer("probe")
    def probe_next(self) -> None:
        """Probe the next node of the ring."""
        name = self.ring.next(self.is_up)
        if name is None:
            self.set_timer("probe", self.config.probe_interval_ns)
            return
        node = self.nodes[name]
        self.probe = PendingProbe(0, name, node.member, self.now_ns)
        self.probe.number = self.new_number(self.probe)
        self.count("probes")
        ping = self.ping(self.probe.number, name)
        if node.state == SUSPECT and self.config.lifeguard:
            # Lifeguard's buddy system: the ping brings the suspicion. The lowest header is handled first, so that the
            # refutation travels with the answer.
            self.send_to_node(node, ping, SuspectedHeader(node.incarnation, name, self.my_name, 0))
        else:
            self.send_to_node(node, ping)
        self.set_timer("late_ack", self.config.probe_timeout_ns)
        self.set_timer("verdict", self.awareness.scaled(self.config.probe_interval_ns))

    def probed_node(self, probe: PendingProbe) -> SwimNode | None:
        """The node of a probe; None if it is no longer up, or another start has taken its place meanwhile."""
        node = self.nodes.get(probe.name)
        return node if node is not None and node.is_up and node.member == probe.member else None

    @timer("late_ack")
    def probe_indirectly(self) -> None:
        """No answer within `probe_timeout`: send requests to helpers, try a connection."""
        probe = self.probe
        node = self.probed_node(probe) if probe is not None else None
        if probe is None or node is None:
            return
        wanted = self.config.indirect_checks
        number = len(self.ring) if wanted == ALL else int(wanted)
        helpers = self.ring.pick(number, lambda name: name != node.name and self.nodes[name].state == ALIVE)
        probe.helpers = len(helpers)
        probe.tried |= BY_HELPERS if helpers else 0
        place = None if self.views else self.addresses.my_physical()
        request = PingFor(probe.number, node.name, node.place, node.member, self.config.lifeguard, self.my_name, place)
        for helper in helpers:
            self.send_to_node(self.nodes[helper], request)
        if self.config.link_pings:
            self.probe_by_connection(probe, node)

    def probe_by_connection(self, probe: PendingProbe, node: SwimNode) -> None:
        """Try a stream or a link, which passes where a filter drops datagrams."""
        if self.streams is not None and node.place is not None:
            if self.streams.has_streams():
                probe.stream = self.new_number(probe)
                probe.tried |= BY_LINK
                ping = self.ping(probe.stream, node.name)
                self.pass_down(StreamTo(node.place, Batch(self.me, node.member, (), (ping,), CONTROL)))
        elif node.listener is not None:
            self.links += 1
            probe.link = self.links
            probe.tried |= BY_LINK
            timeout_ns = self.awareness.scaled(self.config.probe_interval_ns) - self.config.probe_timeout_ns
            self.emit(OpenLink(self.stack.net, probe.link, node.listener, timeout_ns))

    def probe_succeeded(self, probe: PendingProbe, path: str) -> None:
        """The node answered; path: "datagram", "helpers" or "link"."""
        self.count(f"answered_by_{path}")
        if path == "link":
            self.warn(f"{self.display_name(probe.name)} answers on a connection, but no datagrams")
        self.awareness.change(-1)
        self.end_probe(probe)
        self.set_timer("probe", max(0, probe.sent_ns + self.config.probe_interval_ns - self.now_ns))

    def end_probe(self, probe: PendingProbe) -> None:
        """Forget the probe; a later answer to it counts as a late ack."""
        self.pending_pings.pop(probe.number, None)
        self.pending_pings.pop(probe.stream, None)
        self.cancel_timer("late_ack")
        self.cancel_timer("verdict")
        if probe.link:
            self.emit(CloseLink(self.stack.net, probe.link))
        self.probe = None

    @timer("verdict")
    def probe_interval_over(self) -> None:
        """No answer in the whole interval: suspect the node, and probe the next one."""
        probe = self.probe
        assert probe is not None, "the timer is set only while a probe is under way"
        self.end_probe(probe)
        node = self.probed_node(probe)
        took_ns, allowed_ns = self.now_ns - probe.sent_ns, self.awareness.scaled(self.config.probe_interval_ns)
        if self.config.lifeguard and took_ns >= allowed_ns + self.config.probe_timeout_ns:
            # The timer fired late, so this process did not run: the answer may have come and been lost meanwhile.
            self.count("own_pauses")
            self.awareness.change(1)
        elif node is not None:
            self.suspect(node, probe)
        self.probe_next()

    def suspect(self, node: SwimNode, probe: PendingProbe) -> None:
        """Apply and spread this member's own suspicion."""
        self.count("unanswered")
        self.awareness.change(after_failed_probe(probe.helpers if self.config.lifeguard else 0, len(probe.nacks)))
        self.on_suspected(SuspectedHeader(node.incarnation, node.name, self.my_name, probe.tried))

    # --- pings and their answers --------------------------------------------------------------------------------------

    def on_ping(self, ping: PingHeader, batch: Batch) -> None:
        """Answer a ping, unless it names another node: the sender must not take this start for that one."""
        if not self.my_name or (ping.node and ping.node != self.my_name):
            self.drop("pings_for_others", batch, f"it is meant for {ping.node!r}")
            return
        self.send_with_updates(batch.src, ping.place, ProbeAck(ping.number, b""))

    def on_ack(self, ack: ProbeAck, batch: Batch) -> None:
        """An answer to one of the pending pings."""
        purpose = self.pending_pings.pop(ack.number, None)
        match purpose:
            case PendingProbe():
                direct = batch.src == purpose.member
                node = self.probed_node(purpose)
                # Only the direct path and the first ping measure the round trip to the node.
                if node is not None and direct and ack.number == purpose.number:
                    node.rtt_ns = self.now_ns - purpose.sent_ns
                path = "link" if ack.number == purpose.stream else "datagram" if direct else "helpers"
                self.probe_succeeded(purpose, path)
            case IndirectPing():
                self.cancel_timer("delegated_ping", ack.number)
                self.send_with_updates(purpose.requester, purpose.place, ProbeAck(purpose.number, ack.payload))
            case StartCheck():
                self.cancel_timer("name_check", ack.number)
                self.start_answered(purpose, batch.src)
            case None:
                self.drop("late_acks", batch, f"ping {ack.number} is over")

    def on_nack(self, nack: Nack, batch: Batch) -> None:
        """A helper got no answer either; its Nack shows that this member's own network works [Lifeguard]."""
        probe = self.pending_pings.get(nack.number)
        if isinstance(probe, PendingProbe):
            probe.nacks[batch.src] = None

    # --- pings for other members --------------------------------------------------------------------------------------

    def on_ping_request(self, request: PingFor, batch: Batch) -> None:
        """Ping a node for the sender."""
        if not self.my_name:
            return
        self.count("indirect_pings")
        node = self.nodes.get(request.node)
        if node is not None and node.is_up and node.member != request.member:
            # The sender probes an earlier start of the node, and has missed the Alive of the current one.
            self.send_with_updates(batch.src, request.place, node.as_alive())
        number = self.new_number(IndirectPing(batch.src, request.place, request.number, request.nack))
        self.send_with_updates(request.member, request.target, self.ping(number, request.node))
        self.set_timer("delegated_ping", self.config.probe_timeout_ns, number)

    @timer("delegated_ping")
    def indirect_ping_expired(self, number: int) -> None:
        """No answer within `probe_timeout`."""
        indirect = self.pending_pings.pop(number)
        assert isinstance(indirect, IndirectPing), "the timer is set for indirect pings only"
        if indirect.nack:
            self.send_with_updates(indirect.requester, indirect.place, Nack(indirect.number))

    # --- links --------------------------------------------------------------------------------------------------------

    @on(Connect)
    def connecting(self, event: Connect) -> None:
        """Open a listener for the links of other members; transports with streams have one of their own."""
        if self.config.link_pings and self.streams is None:
            self.emit(Listen(self.stack.net, "", self.config.link_port, LINK_PORTS))

    @on(Listening)
    def listening(self, event: Listening) -> None:
        mine = self.addresses.my_physical()
        self.listener = event.physical if mine is None else (mine[0], event.physical[1])
        if self.my_name:
            self.announce_change()

    @on(LinkUp)
    def link_up(self, event: LinkUp) -> None:
        probe = self.probe
        if probe is None or event.link != probe.link:
            return
        if event.peer == probe.member.raw:
            self.probe_succeeded(probe, "link")
        else:
            self.link_refused(probe)                   # another process has the port: the one that was probed is gone

    @on(LinkDown)
    def link_down(self, event: LinkDown) -> None:
        probe = self.probe
        if probe is not None and event.link == probe.link:
            probe.link = 0
            if event.refused:
                self.link_refused(probe)

    def link_refused(self, probe: PendingProbe) -> None:
        """No such process listens any more: evidence, and with `trust_refusal` a failure without a suspicion."""
        probe.tried |= REFUSED
        node = self.probed_node(probe)
        if self.config.trust_refusal and node is not None:
            self.count("refused")
            self.end_probe(probe)
            evidence = Accusation(self.my_name, probe.tried, self.now_ns)
            self.mark_failed(node, Dead(node.incarnation, node.name, self.my_name), (evidence,))
            self.probe_next()

    # --- several starts under one name --------------------------------------------------------------------------------

    def ping_previous_start(self, node: SwimNode) -> None:
        self.ping_start(StartCheck(node.name, START_PINGS))

    def ping_start(self, check: StartCheck) -> None:
        """Ping whichever start receives at the node's physical address: the source of the answer shows which it is."""
        node = self.nodes[check.name]
        check.left -= 1
        number = self.new_number(check)
        dest = None if node.place is not None else node.member
        self.send_with_updates(dest, node.place, self.ping(number, node.name))
        self.set_timer("name_check", max(1, self.config.probe_timeout_ns // START_PINGS), number)

    @timer("name_check")
    def start_ping_expired(self, number: int) -> None:
        """No answer to one of the pings; after the last one the previous start counts as gone."""
        check = self.pending_pings.pop(number)
        assert isinstance(check, StartCheck), "the timer is set for checks of starts only"
        node = self.nodes.get(check.name)
        if node is None or node.pending_start is None:
            return
        if check.left:
            self.ping_start(check)
        else:
            self.replace_start(node)

    def start_answered(self, check: StartCheck, src: Address) -> None:
        """A process answered at the previous start's physical address: that start, or the pending one."""
        node = self.nodes.get(check.name)
        if node is None or node.pending_start is None:
            return
        if src == node.pending_start.member:
            self.replace_start(node)
        else:
            self.keep_start(node)
