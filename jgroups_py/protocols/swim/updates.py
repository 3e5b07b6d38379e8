"""Membership updates: which ones are applied to the table of nodes, which are spread, how accusations are refuted.

Incarnation numbers order the updates about one node; only the node itself raises its own. On reception of

    Alive(i)        applied if i is higher than the incarnation in the table;
    Suspected(i)    applied to a node that is alive with an incarnation <= i; from a further accuser it confirms;
    Dead(i)         applied to a node that is up with an incarnation <= i; with the node as its own source: it left;
    about us        an accusation is refuted by Alive with a higher incarnation.

Every update that is applied is spread further by gossip. A *start* is one life of a process under a node's name, with
an address of its own. Sources: SWIM, section 4.2; the precedence of memberlist's state.go. Deviations:

* A node that is accused with an incarnation below its own sends its Alive again: the accuser missed it.
* Another start under a name in the table is admitted once the previous one, pinged at its physical address, does not
  answer (memberlist refuses a changed address until the previous one counts as dead).
* A member whose own process did not run for a time extends its suspicions instead of failing the suspects.
* Incarnations that no node can have reached are counted and dropped: the highest one could not be refuted any more.
  A node raises its own by one for each refutation, so the highest incarnation that is accepted of it grows with the
  time since its first update (`ceiling`). All members compute the same bound: what one of them applies, the accused
  node can exceed, and the others apply that too.
"""
from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import attrs

from jgroups_py import wire
from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.counters import counter, declare, drop, figure
from jgroups_py.model.events import OutputInOrder, SendTo, Suspect, Unsuspect, UserHeard
from jgroups_py.model.outputs import MemberChanged
from jgroups_py.model.ports import AddressBook
from jgroups_py.model.swim_member import CONFLICT, FAILED, JOINED, MEMBER_LEFT, REFUTED, SUSPECTED, UPDATED, Accusation
from jgroups_py.model.units import NS_PER_S
from jgroups_py.protocols.swim import suspicion
from jgroups_py.protocols.swim.awareness import Awareness
from jgroups_py.protocols.swim.config import SwimConfig
from jgroups_py.protocols.swim.gossip import GossipQueue, transmit_limit
from jgroups_py.protocols.swim.headers import ALIVE, DEAD, LEFT, SUSPECT, Alive, Dead, SuspectedHeader, UserMessage
from jgroups_py.protocols.swim.metadata import MAX_META_BYTES
from jgroups_py.protocols.swim.ring import Ring
from jgroups_py.protocols.swim.suspicion import Suspicion
from jgroups_py.protocols.swim.table import GONE, SwimNode
from jgroups_py.stack.protocol import CONTROL, Protocol, timer

INCARNATION_LIMIT = 1 << 31       # every incarnation is below it
FIRST_INCARNATIONS = 1 << 24      # a node may exceed its first known incarnation by so many at once (forgeries),
INCARNATIONS_PER_S = 32           # and by so many more in each second since: INCARNATION_LIMIT is two years away
MAX_NAME_LENGTH = 255
CLAIM_ROUNDS = 5                  # probe intervals between two checks of the same claim on a name


def ceiling(first: int, since_ns: int, now_ns: int) -> int:
    """The highest incarnation that a node can have `now_ns`, if `since_ns` its first known one was `first`."""
    grown = FIRST_INCARNATIONS + INCARNATIONS_PER_S * (now_ns - since_ns) // NS_PER_S
    return min(first + grown, INCARNATION_LIMIT - 1)


class MembershipUpdates(Protocol):
    """The table of nodes and the updates to it; probing and exchanges build on this class."""

    control_only = True
    Config = SwimConfig
    config: SwimConfig
    COUNTERS = declare(
        counter("joined", "Members that joined."),
        counter("updated", "Members whose metadata or address changed."),
        counter("suspected", "Members that came under suspicion."),
        counter("refuted", "Suspicions that the member refuted."),
        counter("failed", "Members that failed."),
        counter("left", "Members that left."),
        counter("conflict", "Second processes that claimed the name of a member that is up."),
        counter("refutations", "Accusations of this member that it refuted."),
        counter("name_claims", "Earlier starts under this member's name that it overrode with a higher incarnation."),
        counter("confirmations", "Suspicions that another member confirmed."),
        counter("own_pauses", "Deadlines that were extended because this process itself did not run."),
        counter("gossip_frames", "Frames sent only to carry updates."),
        counter("probes", "Probes begun."),
        counter("unanswered", "Probes without an answer on any path."),
        counter("refused", "Probes whose host answered that no process listens there any more."),
        counter("answered_by_datagram", "Probes answered directly."),
        counter("answered_by_helpers", "Probes answered through other members."),
        counter("answered_by_link", "Probes answered over a connection."),
        counter("indirect_pings", "Pings sent at the request of other members."),
        counter("exchanges", "Exchanges of the whole table (push-pull) begun."),
        drop("late_acks", "Answers to pings that are over."),
        drop("pings_for_others", "Pings meant for another node than this one."),
        drop("unknown_addresses", "Messages to a node whose physical address is not known."),
        drop("absurd_incarnations_dropped", "Updates with incarnations that no node can have reached."),
        drop("oversized_updates", "Updates too large to be passed on in a packet."),
        drop("unexpected_headers", "Messages that have no meaning in this place."),
        figure("members", "Members that are up."),
        figure("suspects", "Members suspected now."),
        figure("failed_now", "Members that failed and are remembered."),
        figure("left_now", "Members that left and are remembered."),
        figure("health", "Lifeguard: how slow this process is, 0 for not at all."),
        figure("incarnation", "This member's own incarnation."),
        figure("updates_waiting", "Updates that are still being spread."),
    )

    needs = {"addresses": AddressBook}
    addresses: AddressBook

    def start(self) -> None:
        self.my_name = ""                              # "": in no group
        self.incarnation = 1
        self.since_ns = self.now_ns                    # when this member began to receive updates
        self.meta = b""
        self.listener: PhysicalAddress | None = None
        self.views = False                             # the members are those of GMS's view
        self.leaving = False
        self.nodes: dict[str, SwimNode] = {}           # all others, by name
        self.up_count = 0                              # of them, alive or suspected
        self.ring = Ring(self.rng)
        self.gossip = GossipQueue()
        self.awareness = Awareness(self.config.awareness_max_mult - 1 if self.config.lifeguard else 0)
        self.frame_bytes = wire.headers_nbytes(Batch(self.me, self.me))
        self.overrode_ns: int | None = None            # when a claim on our name was last overridden
        self.handlers: dict[type[Header], Callable[[Any, Batch], None]] = {
            Alive: lambda alive, batch: self.on_alive(alive),
            SuspectedHeader: lambda update, batch: self.on_suspected(update),
            Dead: lambda update, batch: self.on_dead(update), UserMessage: self.on_user_message}

    # --- sending ------------------------------------------------------------------------------------------------------

    def send_to_node(self, node: SwimNode, *headers: Header) -> None:
        """Send to a node, with updates piggybacked."""
        self.send_with_updates(node.member, node.place, *headers)

    def send_with_updates(self, dest: Address | None, place: PhysicalAddress | None, *headers: Header) -> None:
        """Send with piggybacked updates.

        dest: None for whichever start receives at `place`. place: None where the transport has the physical address.
        """
        self.send_headers(dest, place, (*self.piggyback(headers), *headers))

    def send_headers(self, dest: Address | None, place: PhysicalAddress | None, headers: tuple[Header, ...]) -> None:
        """Send exactly these headers."""
        batch = Batch(self.me, dest, (), headers, CONTROL)
        if place is not None:
            self.pass_down(SendTo(place, batch))
        elif dest is not None:
            self.pass_down(batch)
        else:
            self.drop("unknown_addresses", batch, "its physical address is not known")

    def piggyback(self, headers: tuple[Header, ...]) -> list[Header]:
        """Queued updates that fit into one packet beside `headers` [SWIM, section 4.1]."""
        if not len(self.gossip):
            return []
        out = bytearray()
        wire.encode_headers(headers, out)
        room = self.config.packet_bytes - self.frame_bytes - len(out)
        return self.gossip.take(room, transmit_limit(self.config.retransmit_mult, self.up_count + 1))

    def spread(self, topic: Hashable, header: Header) -> None:
        """Queue an update for all members, in place of an earlier one about `topic`."""
        self.gossip.put(topic, header)
        if not self.timer_is_set("gossip"):
            # Members that received the same update at the same time should not spread it at the same time.
            self.set_timer("gossip", self.rng.randint(1, self.config.gossip_interval_ns))

    @timer("gossip")
    def send_gossip(self) -> None:
        """Send updates to a few nodes; the timer rests while the queue is empty or there is no node to send to."""
        receivers = self.ring.pick(self.config.gossip_nodes, self.is_gossip_target)
        # Live nodes first: each update is sent a limited number of times, which failed nodes must not use up.
        receivers.sort(key=lambda name: not self.is_up(name))
        for name in receivers:
            updates = self.piggyback(())
            if not updates:
                return
            node = self.nodes[name]
            self.count("gossip_frames")
            self.send_headers(node.member, node.place, tuple(updates))
        if receivers and len(self.gossip):
            self.set_timer("gossip", self.config.gossip_interval_ns)

    def is_gossip_target(self, name: str) -> bool:
        """Whether gossip goes to a node: one that is up, or failed a short while ago and may refute."""
        node = self.nodes[name]
        return node.is_up or (
            node.state == DEAD and self.now_ns - node.changed_ns <= self.config.gossip_to_the_dead_ns)

    def is_up(self, name: str) -> bool:
        """Whether the node of this name is alive or suspected."""
        return self.nodes[name].is_up

    def report_change(self, change: str, node: SwimNode, accusations: tuple[Accusation, ...] = ()) -> None:
        """Report a change of a node to the application, after what was passed up before it."""
        self.count(change)
        named = tuple(attrs.evolve(accusation, by=self.display_name(accusation.by)) for accusation in accusations)
        self.pass_up(OutputInOrder(MemberChanged(change, node.shown(self.display_name(node.name)), named)))

    def display_name(self, name: str) -> str:
        """The name of a node for people: under GMS, where nodes are named by digits, the member's logical name."""
        node = self.nodes.get(name)
        member = node.member if node is not None else self.me if name == self.my_name else None
        return str(member) if self.views and member is not None else name

    # --- updates about this member ------------------------------------------------------------------------------------

    def own_alive(self) -> Alive:
        """This member's Alive."""
        place = None if self.views else self.addresses.my_physical()
        return Alive(self.incarnation, self.my_name, place, self.me, self.listener, self.meta)

    def announce(self) -> None:
        """Spread this member's Alive."""
        self.spread(self.my_name, self.own_alive())

    def announce_change(self) -> None:
        """Spread this member's Alive with the next incarnation, without which others ignore what changed in it."""
        self.incarnation = min(self.incarnation + 1, INCARNATION_LIMIT - 1)
        self.announce()

    def on_accusation(self, incarnation: int) -> None:
        """This member is suspected or declared dead: refute it. A leaving member lets it stand."""
        if self.leaving or self.is_absurd(incarnation, None):
            return
        if incarnation >= self.incarnation:
            self.incarnation = incarnation
            self.count("refutations")
            # Lifeguard: the accusers got no answer in time, perhaps because this process is slow.
            self.awareness.change(1)
            self.announce_change()
        else:
            self.announce()                            # the accuser has missed the refutation that was already sent

    def on_name_claim(self, alive: Alive) -> None:
        """An Alive of another start under this member's name: override it with a higher incarnation.

        At most once in a probe interval: the other start may still run and override in turn, without end.
        """
        if self.leaving or alive.incarnation < self.incarnation or self.is_absurd(alive.incarnation, None):
            return
        if self.overrode_ns is None or self.now_ns - self.overrode_ns >= self.config.probe_interval_ns:
            self.overrode_ns = self.now_ns
            self.count("name_claims")
            self.incarnation = alive.incarnation
            self.announce_change()

    def is_absurd(self, incarnation: int, node: SwimNode | None) -> bool:
        """Whether a node cannot have reached `incarnation`. node None: this member, or a node not in the table."""
        first, since_ns = (node.first, node.since_ns) if node is not None else (0, self.since_ns)
        if incarnation <= ceiling(first, since_ns, self.now_ns):
            return False
        self.drop("absurd_incarnations_dropped", None, f"no node can have reached incarnation {incarnation}")
        return True

    # --- Alive --------------------------------------------------------------------------------------------------------

    def on_alive(self, alive: Alive) -> None:
        """Alive, from the node itself or by gossip."""
        node = self.nodes.get(alive.node)
        if not self.my_name:
            return
        if len(alive.meta) > MAX_META_BYTES or len(alive.node) > MAX_NAME_LENGTH:
            self.drop("oversized_updates", None, "it does not fit into a packet with other updates")
            return
        if alive.node == self.my_name:
            if alive.member != self.me:
                self.on_name_claim(alive)
        elif node is None:
            # Under GMS the view alone decides which nodes there are.
            if not self.views and not self.is_absurd(alive.incarnation, None):
                self.admit(alive)
        elif alive.incarnation <= node.incarnation or self.is_absurd(alive.incarnation, node):
            return
        elif alive.member != node.member and node.is_up:
            self.check_previous_start(node, alive)
        else:
            self.apply_alive(node, alive)

    def admit(self, alive: Alive) -> None:
        """Enter a new node into the table."""
        node = self.nodes[alive.node] = SwimNode(alive.node, alive.member, state=DEAD, first=alive.incarnation,
                                                 since_ns=self.now_ns)
        self.ring.add(node.name)
        self.apply_alive(node, alive)

    def apply_alive(self, node: SwimNode, alive: Alive) -> None:
        """The node is alive, with newer facts than those in the table."""
        was, known = node.state, (node.member, node.place, node.meta)
        node.update(alive)
        self.set_state(node, ALIVE)
        self.spread(node.name, alive)
        if was in GONE:
            self.report_change(JOINED, node)
        elif was == SUSPECT:
            self.report_change(REFUTED, node)
        if was not in GONE and known != (node.member, node.place, node.meta):
            self.report_change(UPDATED, node)
        if was == DEAD and self.views:
            self.pass_up(Unsuspect((node.member,)))

    def set_state(self, node: SwimNode, state: int) -> None:
        """Change a node's state; `up_count` and the timer of its suspicion follow."""
        self.up_count += (state not in GONE) - node.is_up
        if state != SUSPECT:
            node.suspicion = None
            self.cancel_timer("suspicion", node.name)
        if state != node.state:
            node.state, node.changed_ns = state, self.now_ns

    # --- several starts under one name --------------------------------------------------------------------------------

    def check_previous_start(self, node: SwimNode, alive: Alive) -> None:
        """Another start of a node that is up: ping the previous one, unless it was checked a short while ago.

        Without that pause, an Alive repeated by gossip would cause pings and conflict reports at the rate of gossip.
        """
        pause_ns = CLAIM_ROUNDS * self.config.probe_interval_ns
        if node.checked_ns is not None and self.now_ns - node.checked_ns < pause_ns:
            if node.pending_start is not None:
                node.pending_start = alive
            return
        node.pending_start, node.checked_ns = alive, self.now_ns
        self.ping_previous_start(node)

    def ping_previous_start(self, node: SwimNode) -> None:
        """Ping a node at its physical address in the table; `keep_start` or `replace_start` follows."""
        raise NotImplementedError

    def keep_start(self, node: SwimNode) -> None:
        """The previous start answered, so it keeps the name; the application gets a conflict."""
        node.pending_start = None
        self.report_change(CONFLICT, node)

    def replace_start(self, node: SwimNode) -> None:
        """The previous start is gone: the pending one takes its place."""
        alive, node.pending_start, node.checked_ns = node.pending_start, None, None
        if alive is None or alive.incarnation <= node.incarnation:
            return
        gone = Dead(node.incarnation, node.name, self.my_name)
        if node.is_up:
            self.mark_failed(node, gone, ())
        self.apply_alive(node, alive)
        # Under a topic of its own, beside the Alive: with it other members need not ping the previous start as well.
        self.spread((node.name, "gone"), gone)

    # --- Suspected ----------------------------------------------------------------------------------------------------

    def on_suspected(self, update: SuspectedHeader) -> None:
        """A member got no answer from a node."""
        if update.node == self.my_name:
            self.on_accusation(update.incarnation)
            return
        node = self.nodes.get(update.node)
        if node is None or update.incarnation < node.incarnation or self.is_absurd(update.incarnation, node):
            return
        accusation = Accusation(update.source, update.tried, self.now_ns)
        if node.suspicion is not None:
            # Only confirmations that shorten the time are spread, which bounds the traffic [Lifeguard, section IV].
            if node.suspicion.confirm(accusation):
                self.count("confirmations")
                self.set_suspicion_timer(node, node.suspicion)
                self.spread(node.name, update)
        elif node.state == ALIVE:
            self.begin_suspicion(node, update, accusation)

    def begin_suspicion(self, node: SwimNode, update: SuspectedHeader, accusation: Accusation) -> None:
        """Suspect a node; without Lifeguard the time to refute is fixed at its shortest."""
        config, nodes = self.config, self.up_count + 1
        shortest_ns = suspicion.least_ns(config.suspicion_mult, nodes, config.probe_interval_ns)
        wanted = suspicion.wanted(config.suspicion_mult, nodes) if config.lifeguard else 0
        longest_ns = shortest_ns * config.suspicion_max_mult if config.lifeguard else shortest_ns
        node.incarnation = update.incarnation
        self.set_state(node, SUSPECT)
        node.suspicion = Suspicion(self.now_ns, wanted, shortest_ns, longest_ns, [accusation])
        self.set_suspicion_timer(node, node.suspicion)
        self.spread(node.name, update)                 # hearsay too: it must reach the suspect, which alone can refute
        self.report_change(SUSPECTED, node, (accusation,))

    def set_suspicion_timer(self, node: SwimNode, running: Suspicion) -> None:
        self.set_timer("suspicion", max(0, running.deadline_ns() - self.now_ns), node.name)

    @timer("suspicion")
    def suspicion_expired(self, name: str) -> None:
        """The suspect did not refute in time."""
        node = self.nodes[name]
        running = node.suspicion
        assert running is not None, "the timer is set only while the node is suspected"
        late_ns = self.now_ns - running.deadline_ns()
        if self.config.lifeguard and late_ns >= self.config.probe_interval_ns:
            # This process did not run (SIGSTOP, overload): a refutation may lie unread in its sockets.
            self.count("own_pauses")
            running.since_ns += late_ns + running.shortest_ns
            self.set_suspicion_timer(node, running)
            return
        self.mark_failed(node, Dead(node.incarnation, name, self.my_name), tuple(running.accusations))

    # --- Dead ---------------------------------------------------------------------------------------------------------

    def on_dead(self, update: Dead) -> None:
        """A node failed, or left."""
        if update.node == self.my_name:
            self.on_accusation(update.incarnation)
            return
        node = self.nodes.get(update.node)
        if node is None or update.incarnation < node.incarnation or not node.is_up:
            return
        if self.is_absurd(update.incarnation, node):
            return
        accusations = tuple(node.suspicion.accusations) if node.suspicion is not None else ()
        if update.source == update.node:
            node.incarnation = update.incarnation
            self.set_state(node, LEFT)
            self.spread(node.name, update)
            self.report_change(MEMBER_LEFT, node)
        else:
            self.mark_failed(node, update, accusations or (Accusation(update.source, 0, self.now_ns),))
        if node.pending_start is not None:
            self.replace_start(node)

    def mark_failed(self, node: SwimNode, update: Dead, accusations: tuple[Accusation, ...]) -> None:
        """The node is gone without having left; under GMS that is a suspicion which needs no verification."""
        assert node.is_up, "a node fails once"
        node.incarnation = update.incarnation
        self.set_state(node, DEAD)
        self.spread(node.name, update)
        self.report_change(FAILED, node, accusations)
        if self.views:
            self.pass_up(Suspect((node.member,), certain=True))

    # --- messages of layers above -------------------------------------------------------------------------------------

    def on_user_message(self, message: UserMessage, batch: Batch) -> None:
        """Pass a message up to a layer above, which decides whether to spread it further."""
        self.pass_up(UserHeard(message.payload, batch.src))
