"""From the bridge into the group: the relay takes FORWARD and multicasts DISSEMINATE (relay rule 4).

It multicasts what is new and in order, and sends NEED for holes. It keeps nothing that is out of order: the bridge is
FIFO, so holes are rare, and the sender's cursor goes back to the hole (go-back-N), which saves a buffer at every relay.

What it has multicast and not delivered itself is `in_flight`. If the view changes first, the multicast may have reached
no member of the new view; so the relay multicasts it again behind the SYNC of that view. Members that have it drop it.
"""
from __future__ import annotations

from collections import deque

from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_RELAY, Batch
from jgroups_py.model.counter_jumps import MAX_JUMP, TOP
from jgroups_py.model.events import ViewChange
from jgroups_py.protocols.relay.announcements import OriginForgotten, PrefixDelivered
from jgroups_py.protocols.relay.group import LocalGroup
from jgroups_py.protocols.relay.headers import (
    BaseHeader,
    Disseminate,
    Forward,
    NeedHeader,
    Numbers,
    ProbeHeader,
    Vector,
)
from jgroups_py.protocols.relay.outbound.peers import RelayPeers
from jgroups_py.protocols.relay.part import RELIABLE, RelayPart, RelayPort, on_announcement, receives_from_bridge
from jgroups_py.protocols.relay.ports import (
    AcknowledgerPort,
    BridgePort,
    DeliveryCheckPort,
    DeliveryPort,
    DisseminatorPort,
    IntroducerPort,
    SiteGuardPort,
    StateForwarderPort,
    TopicFilterPort,
)
from jgroups_py.stack.component import needs
from jgroups_py.stack.protocol import on


class Disseminator(RelayPart, DisseminatorPort):
    """See the module. Does nothing unless its member is the relay."""

    group: LocalGroup = needs(LocalGroup)
    bridge: BridgePort = needs(BridgePort)
    peers: RelayPeers = needs(RelayPeers)
    introducer: IntroducerPort = needs(IntroducerPort)
    delivery: DeliveryPort = needs(DeliveryPort)
    acknowledger: AcknowledgerPort = needs(AcknowledgerPort)
    topic_filter: TopicFilterPort = needs(TopicFilterPort)
    guard: SiteGuardPort = needs(SiteGuardPort)
    delivery_check: DeliveryCheckPort = needs(DeliveryCheckPort)
    state_forwarder: StateForwarderPort = needs(StateForwarderPort)

    def __init__(self, layer: RelayPort) -> None:
        super().__init__(layer)
        self.next_out: Vector = {}                   # site -> origin -> the number that is disseminated next
        self.in_flight: dict[Address, deque[tuple[Disseminate, Batch]]] = {}    # multicast, not yet delivered here
        self.needs_sent: dict[Address, tuple[int, Address, int]] = {}    # origin -> last NEED: number, its relay, time

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        if not self.group.is_relay:
            self.in_flight, self.next_out, self.needs_sent = {}, {}, {}

    # --- FORWARD ----------------------------------------------------------------------------------------------------

    @receives_from_bridge(Forward)
    def forward(self, header: Forward, batch: Batch) -> None:
        """A batch from another site: multicast here what is new and in order, request what is missing."""
        peer = self.introducer.accepted_sender(header.site, header.epoch, header, batch)
        if peer is None:
            return None                              # fenced (relay rule 11)
        if header.first > TOP:
            return self.drop("implausible_dropped", batch, "no number is so high", header)
        if self.state_forwarder.defers(header.site, header.origin):
            # It would be delivered between the state's cut and its installation, and then once more with the state.
            return self.drop("forwards_deferred", batch, "a state is on its way that may hold it", header)
        wanted = self.wanted(header.site, header.origin, header.base)
        if header.base > wanted:
            if header.base - wanted > MAX_JUMP:
                return self.drop("implausible_dropped", batch, f"base {header.base} is far ahead of {wanted}", header)
            wanted = header.base
        stop = header.first + batch.count
        if header.first > wanted:
            self.drop("forwards_ahead", batch, f"{wanted} of its origin has not arrived and is requested", header)
            return self.ask(header.origin, wanted, peer.address)
        if stop <= wanted:
            # The site has it. The sender is a new relay, or an earlier relay of this site crashed before it sent SEEN.
            # Acknowledging it once more ends the replay (relay rule 8).
            self.drop("forwards_again", batch, "this site has it", header)
            return self.acknowledger.ack_again(header.site, {header.origin: stop})
        if self.topic_filter.refuses(batch):
            # Only numbers, chosen by the sender before the interest of this site that includes the topic arrived there.
            self.topic_filter.refuse(peer, batch)
            return self.ask(header.origin, wanted, peer.address)
        if header.first < wanted:
            self.drop("forwards_again", batch, f"this site has what is below {wanted}", header,
                      number=wanted - header.first)
        piece = batch.cut(wanted - header.first, batch.count)
        if not self.guard.rights(header.site).sends:
            piece = self.topic_filter.numbers_of(wanted, piece)
            self.drop("not_taken_dropped", piece, f"the trust file lets {header.site} send nothing", header)
        out = Disseminate(header.site, header.origin, wanted, min(header.base, wanted), header.flags)
        self.next_out.setdefault(header.site, {})[header.origin] = stop
        local = Batch(self.me, None, piece.payloads, piece.headers, NO_RELAY)
        self.in_flight.setdefault(header.origin, deque()).append((out, local))
        self.count("disseminated", piece.count)
        self.pass_down(local.push(out))
        return self.delivery_check.start_check((header.site, header.origin))

    def ask(self, origin: Address, wanted: int, sender: Address) -> None:
        """Send NEED for a hole: once, and not for each batch that arrives behind it, as each NEED is answered with a
        window."""
        last_wanted, last_sender, sent_ns = self.needs_sent.get(origin, (0, sender, 0))
        again_ns = sent_ns + self.config.resend_interval_ns
        if (last_wanted, last_sender) != (wanted, sender) or self.now_ns >= again_ns:
            self.needs_sent[origin] = wanted, sender, self.now_ns
            self.bridge.send_to(sender, NeedHeader({origin: wanted}))

    @receives_from_bridge(BaseHeader)
    def base_received(self, header: BaseHeader, batch: Batch) -> None:
        """Nothing below these numbers will come any more: multicast that in this group.

        Fenced like FORWARD: the relay of the other half of a split site may hold less of an origin, and its BASE could
        pass messages that are still to come (relay rule 11).
        """
        if self.introducer.accepted_sender(header.site, header.epoch, header, batch) is None:
            return
        out = self.next_out.setdefault(header.site, {})
        for origin, number in header.numbers.items():
            if 0 < number - self.wanted(header.site, origin, number) <= MAX_JUMP:
                out[origin] = number
        # An empty BASE matters once: from it on, messages of the site count as meant for the members (relay rule 5).
        if header.numbers or header.site not in self.delivery.sites_with_base:
            self.send(header, dest=None, flags=RELIABLE)

    @receives_from_bridge(ProbeHeader)
    def probe(self, header: ProbeHeader, batch: Batch) -> None:
        """The sender lacks acknowledgements: answer with SEEN, and with NEED where something did not arrive."""
        peer = self.peers.get(batch.src)
        if peer is None:
            return self.drop("non_peer_dropped", batch, "its relay has not sent HELLO", header)
        site, lacking = peer.site.name, {}
        for origin, sent in header.numbers.items():
            wanted = self.wanted(site, origin, 1)
            if wanted < sent:
                lacking[origin] = wanted
        if lacking and not self.state_forwarder.is_fetching:
            self.bridge.send_to(peer.address, NeedHeader(lacking))
        return self.acknowledger.ack_again(site, header.numbers)

    # --- the next number --------------------------------------------------------------------------------------------

    def wanted(self, site: str, origin: Address, base: int) -> int:
        out = self.next_out.get(site, {}).get(origin)
        return self.delivery.seen.get(site, {}).get(origin, base) if out is None else out

    @on_announcement(PrefixDelivered)
    def came_back(self, event: PrefixDelivered) -> None:
        """What the relay has delivered, all members of its view deliver, whatever happens next (virtual synchrony)."""
        batches = self.in_flight.get(event.origin)
        while batches and batches[0][0].first + batches[0][1].count <= event.number:
            batches.popleft()

    def repeat_swallowed(self) -> None:
        wanted_again: Vector = {}
        for origin, batches in self.in_flight.items():
            if self.topic_filter.outdated(batches):
                # A joiner may have subscribed to messages of which only the numbers came: request the messages.
                wanted_again.setdefault(batches[0][0].site, {})[origin] = batches[0][0].first
                continue
            for header, batch in batches:
                self.pass_down(batch.push(header))
        self.rewind(wanted_again)

    def rewind(self, behind: Vector) -> None:
        """Request everything from these numbers on, and disseminate it once more.

        Repeating is always right: members that have a message drop it (relay rule 5).
        """
        for site, numbers in behind.items():
            again: Numbers = {}
            for origin, number in numbers.items():
                again[origin] = self.next_out.setdefault(site, {})[origin] = max(1, number)
                self.in_flight.pop(origin, None)
            self.count("rewinds", len(again))
            self.bridge.send_to_relays_of(site, NeedHeader(again))

    def skip_to(self, vector: Vector) -> None:
        for site, numbers in vector.items():
            out = self.next_out.setdefault(site, {})
            for origin, number in numbers.items():
                out[origin] = max(number, out.get(origin, 1))

    @on_announcement(OriginForgotten)
    def forget(self, event: OriginForgotten) -> None:
        self.needs_sent.pop(event.origin, None)
        for numbers in self.next_out.values():
            numbers.pop(event.origin, None)
