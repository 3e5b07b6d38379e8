"""Clients of federated brokers that go from node to node, on the simulator; `--profile mqtt`, `mqtt-expiry`, where
sessions end with their connection, some seconds later, or by DISCONNECT, and `mqtt-slow`, where clients acknowledge
late, and some take few messages at once.

The nodes are those of mqtt.py. A client connects at any node: to the one where its session is, to another one while its
former connection is still open there (a take-over), with and without clean start. Clients publish, subscribe, share
subscriptions, set retained messages and clear them, have wills, and send what makes no sense. Every payload is a number
of its own. design/mqtt.md has for each of Q1 to Q14 what is checked here, and where that ends.
"""
from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from random import Random
from typing import Any

import attrs

import jgroups_py as jg
from jgroups_py.blocks.mqtt.broker.outputs import CloseConnection, Output, SendAcks, SendPacket, SendPublish
from jgroups_py.blocks.mqtt.broker.publication import Publication
from jgroups_py.blocks.mqtt.broker.session import ClientSession, Delivery, LateSource
from jgroups_py.blocks.mqtt.codec.decoder import Decoder
from jgroups_py.blocks.mqtt.codec.packets import (
    NO_PROPERTIES,
    ConnAckPacket,
    ConnectPacket,
    DisconnectPacket,
    Packet,
    Properties,
    ProtocolVersion,
    PubAckPacket,
    PubCompPacket,
    PublishPacket,
    PubRecPacket,
    PubRelPacket,
    ReasonCode,
    SentBy,
    SubAckPacket,
    SubscribePacket,
    Subscription,
    UnsubscribePacket,
    Will,
)
from jgroups_py.blocks.mqtt.federation.copy_bytes import SessionCopy, read_delivery
from jgroups_py.blocks.mqtt.federation.orphans import LIVE, Adoption, EndedNode
from jgroups_py.blocks.mqtt.federation.peer import FederationPeer
from jgroups_py.blocks.mqtt.federation.sessions import QueuedDelivery, SessionMoved, SessionOffer
from jgroups_py.blocks.mqtt.federation.wire import EventKind
from jgroups_py.model.units import NS_PER_S, millis, seconds
from jgroups_py.simulator.plan_parts import WHOLE, PlanPart
from jgroups_py.simulator.runner import APPLICATIONS, Outcome
from jgroups_py.testing.simulation.ledger import Broken
from jgroups_py.testing.simulation.mqtt import (
    ACK_TIMEOUT_NS,
    BURST,
    FOR_EVER,
    IN_ONE_READ,
    KEEP_PEER_S,
    MqttNode,
    MqttRun,
)
from jgroups_py.testing.simulation.trial import Trial

PROFILE, EXPIRY_PROFILE, SLOW_PROFILE = "mqtt", "mqtt-expiry", "mqtt-slow"
TOPICS = ("a/1", "a/2", "b/1", "b", "s/1", "s/2")
KEPT = ("kept/1", "kept/2")
FILTERS: dict[str, tuple[str, ...]] = {
    "a/+": ("a/1", "a/2"), "a/1": ("a/1",), "#": (*TOPICS, "wills", *KEPT), "+/1": ("a/1", "b/1", "s/1", "kept/1"),
    "b/#": ("b/1", "b"), "+": ("b", "wills"), "wills": ("wills",)}
"""Filter -> the topics here that it matches."""
SHARED: dict[str, tuple[str, ...]] = {
    "$share/g/s/+": ("s/1", "s/2"), "$share/h/s/1": ("s/1",), "$share/g/a/1": ("a/1",)}
IDENTIFIERS = {filter: number for number, filter in enumerate(SHARED, 1)}
"""Shared subscriptions have an identifier, so a client can distinguish what comes by them."""
OF_IDENTIFIER = {number: filter for filter, number in IDENTIFIERS.items()}
CLIENTS_A_NODE = 2
HANDOVER_NS = seconds(5)
ADOPT_NS = seconds(2)
KEEP_NS = seconds(KEEP_PEER_S)
SLACK_NS = millis(600)
"""More than a node needs to see that a time has come."""
WILL_DELAYS_S = (0, 0, 1, 3)
EXPIRIES_S = (FOR_EVER, 0, FOR_EVER, 2, 0)
"""By turns, how long sessions outlive their connections in profile mqtt-expiry."""
RECEIVE_MAXIMA = (None, 1, 3, None, 2)
"""By turns, how many messages clients take at once in profile mqtt-slow."""
NO_EPOCH = -1
FAIR_ROUNDS = 20
"""Messages of a shared subscription for each member, at the end."""


@attrs.define(eq=False)
class RoutedMessage:
    """A publication. due: (client, its epoch) -> the node that had the session when the message was routed; groups:
    shared subscription -> its members then; ungranted: those of `due` that match by filters without a SUBACK alone;
    wanted: the peers that it had to be sent to, or might be; answered_at: the node of the first PUBACK or PUBREC, which
    came late if nobody was waited for any longer; alone: its node had no other one, and so no copy of a session;
    origin: as nodes number it."""

    number: int
    publisher: str
    topic: str
    qos: int
    node: RoamingNode
    at_ns: int
    due: dict[tuple[str, int], RoamingNode] = attrs.field(factory=dict)
    groups: dict[str, dict[str, tuple[int, RoamingNode]]] = attrs.field(factory=dict)
    ungranted: dict[tuple[str, int], None] = attrs.field(factory=dict)
    wanted: frozenset[str] = frozenset()
    routed_ns: list[int] = attrs.field(factory=list)
    acknowledged: bool = False
    answered_at: RoamingNode | None = None
    came_late: bool = False
    alone: bool = False
    origin: tuple[int, int] = (0, 0)
    will: ModelWill | None = None

    @property
    def routed(self) -> int:
        """How often: a client that had no answer publishes it again, at the same node or another one."""
        return len(self.routed_ns)


@attrs.define(eq=False)
class ModelWill:
    """The will of a connection. lost_ns: when the node found the connection gone; has_left: DISCONNECT; is_cancelled:
    the client came back in time; heir: the node that had it from a copy, or with its session, adopted_ns: since when;
    of_copy: the nodes where it waits that have it from a copy; copies: how often one had, and may have published it."""

    delay_ns: int
    node: RoamingNode
    lost_ns: int = 0
    has_left: bool = False
    is_cancelled: bool = False
    heir: RoamingNode | None = None
    adopted_ns: int = 0
    of_copy: dict[RoamingNode, None] = attrs.field(factory=dict)
    copies: int = 0


class RoamingRun(MqttRun):
    """The objects that all members of one seed share."""

    def __init__(self, seed: int, profile: str = PROFILE) -> None:
        super().__init__(seed)
        self.expiries_s = EXPIRIES_S if profile == EXPIRY_PROFILE else (FOR_EVER,)
        self.is_slow = profile == SLOW_PROFILE
        self.receive_maxima = RECEIVE_MAXIMA if self.is_slow else (None,)
        self.session_copies = Random(f"{seed}/copies").choice((0, 1, 1, 2))
        self.homes: dict[str, RoamingNode] = {}          # name -> its latest life
        self.roamers: dict[str, RoamingClient] = {}
        self.facts: dict[int, RoutedMessage] = {}
        self.superseded: dict[int, RoamingNode] = {}     # retained message -> the node that replaced it, having it
        self.begun_ended: dict[tuple[str, int], None] = {}       # (group, message): see session_ended, joined_behind
        self.has_given_up = False
        self.by_group: defaultdict[tuple[str, int], Counter[str]] = defaultdict(Counter)
        self.fair: dict[str, list[int]] = {}             # shared subscription -> the messages that show whether it is
        self.is_fairness_asked = False
        self.all_wills: list[RoutedMessage] = []

    def start(self, channel: Any) -> RoamingNode:
        node = RoamingNode(channel, self)
        self.homes[channel.name] = node
        self.nodes[channel.name] = node
        self.lives.append(node)
        for number in range(CLIENTS_A_NODE):
            name = f"{channel.name}{number}"
            self.roamers.setdefault(name, RoamingClient(self, name))
        return node

    def is_live(self, node: RoamingNode | None) -> bool:
        """Whether a life of a node is the present one, and in the group."""
        return (node is not None and self.homes.get(node.channel.name) is node
                and node.channel.state is jg.ChannelState.CONNECTED)

    # --- at rest ------------------------------------------------------------------------------------------------------

    def at_end(self, nodes: list[Any]) -> None:
        """Once all is at rest: everything has arrived, and all know the same."""
        if self.broken is not None:
            raise self.broken
        for client in self.roamers.values():
            if client.at is None or client.at not in nodes:
                client.come(nodes[len(self.facts) % len(nodes)])
            elif not client.connection:
                client.come(client.at)
        self.is_slow = False
        for client in self.roamers.values():
            client.catch_up()
        for node in nodes:
            node.check()
            node.check_peers([other for other in nodes if other is not node])
        self.check_sessions(nodes)
        self.check_retained(nodes)
        for client in self.roamers.values():
            if client.unacknowledged:
                raise Broken("Q11", f"{client.name} has no answer for {sorted(client.unacknowledged)}")
        self.give_up(nodes)
        for fact in self.facts.values():
            for (name, epoch), node in fact.due.items():
                self.check_due(fact, self.roamers[name], epoch, node, nodes)
            for filter, members in fact.groups.items():
                self.check_group(fact, filter, members, nodes)
        self.check_fairness(nodes)

    def give_up(self, nodes: list[Any]) -> None:
        """Let `keep_peer_s` pass for the nodes that have ended for good: what was under way to them, for a group, may
        have arrived, and goes to other members only then (seed 45573)."""
        ended = [peer for node in nodes for peer in node.core.peers.values() if not peer.is_up]
        if ended and not self.has_given_up:
            self.has_given_up = True
            for peer in ended:
                peer.went_ns -= KEEP_NS
            raise Broken("Q6", "nodes that have ended are just being given up")

    def check_due(
        self, fact: RoutedMessage, client: RoamingClient, epoch: int, node: RoamingNode, nodes: list[Any],
    ) -> None:
        """Q1, Q10. Excused: a session that was lost with its node, or given up by clean start or after `handover_s`; a
        publisher's node that is gone, with what it had for a peer that it could not reach; a node that had adopted a
        session whose former node lived on, and ended with all its copies (seed 102427); a filter without SUBACK at a
        node that is gone, which no copy needs to have. Of a message that was published twice, the publication that is
        due: the former one may have come to a node where the session was not subscribed yet (seed 46575)."""
        if (client.name, epoch) in fact.ungranted and (
                node not in nodes or any(at_ns >= fact.at_ns for at_ns in client.adopted_ns)):
            return                                       # the copy that was adopted need not have it (seed 10634)
        if not fact.qos or not fact.acknowledged or client.epoch != epoch or fact.number in client.ever_got:
            return
        if fact.node not in nodes and node is not fact.node and (
                fact.origin not in node.took or node not in nodes):
            return
        if fact.alone and node is fact.node and node not in nodes:
            return                                       # its part of a split group has ended with it (seed 800683)
        if fact.qos == 2 and fact.node not in nodes and fact.answered_at is not fact.node:
            return                                       # its node ended before PUBREC, and a copy knew its packet id
        if node not in nodes and (fact.will is not None or fact.came_late or node.core.counters["copies_late"]):
            return                                       # acknowledged to nobody, or when the copies did not answer
        if node not in nodes and client.in_splits and not any(
                home.has_copy(client.name, node) for home in self.homes.values()):
            return                                       # it ended with all that had copies of what it had adopted
        raise Broken("Q1" if not client.moves else "Q10",
                     f"{client.session} at {node.channel.address} never got {fact.number}, published by "
                     f"{fact.publisher} at {fact.node.channel.name} at {fact.at_ns / NS_PER_S:.6f}")

    def check_group(
        self, fact: RoutedMessage, filter: str, members: dict[str, tuple[int, RoamingNode]], nodes: list[Any],
    ) -> None:
        """Q6: one member had it. Excused: a member that has left or lost its session since; QoS 2 that was begun in a
        session which then ended (seed 110192) or came behind its client, whatever member that was: it may have arrived,
        so no other session takes it (seeds 41725, 46397); a publisher's node that is gone; a node that had given it on
        to one that was silent, or back, and is gone (mqtt-slow 1300)."""
        got = self.by_group[filter, fact.number]
        if got or not fact.qos or not fact.acknowledged or not members or fact.node not in nodes:
            return
        if fact.qos == 2 and (self.was_begun(fact) or (filter, fact.number) in self.begun_ended):
            return
        if any(node not in nodes and fact.number in given_on_by(node) for node in self.lives):
            return
        for name, (epoch, node) in members.items():
            client = self.roamers[name]
            if client.group_epoch != epoch or node not in nodes:
                return
        raise Broken("Q6", f"no member of {filter} got {fact.number} of {fact.publisher}: {sorted(members)}")

    def was_begun(self, fact: RoutedMessage) -> bool:
        """Whether a message of QoS 2 for a group was sent to a node that has ended since, or may have been, by the node
        where it was published or by one that had given it on (seed 900524): no other member gets it then. It is counted
        as lost once the node is back as a new process, or given up (seed 13304)."""
        return any(isinstance(node, RoamingNode) and (fact.number in node.begun or any(
            fact.number in begun_for(peer) for peer in node.core.peers.values() if not peer.is_up))
            for node in self.lives)

    def check_sessions(self, nodes: list[Any]) -> None:
        """Q10: one session and one connection of each client id."""
        for client in self.roamers.values():
            found = [node for node in nodes if client.name in node.broker.sessions]
            if found != [client.at]:
                raise Broken("Q10", f"{client.name} is at {client.at and client.at.channel.name}, its sessions are at "
                                    f"{[node.channel.name for node in found]}")
        for node in nodes:
            for number, connection in node.broker.connections.items():
                session = connection.session
                if session is not None and self.roamers[session.client_id].connection != number:
                    raise Broken("Q10", f"{session.client_id} still has connection {number} at {node.channel.name}")

    def site_of(self, payload: bytes) -> str:
        return self.facts[int(payload)].node.site

    def check_retained(self, nodes: list[Any]) -> None:
        """Q8: one winner of each topic, and none that was replaced where it was known."""
        super().check_retained(nodes)
        for each in nodes[0].broker.router.retained.matching("#", nodes[0].now_ns()):
            writer = self.superseded.get(number_of(each))
            if writer in nodes and self.facts[number_of(each)].routed == 1:      # not one that its client repeated
                raise Broken("Q8", f"{number_of(each)} of {each.topic} is back, which {writer and writer.channel.name} "
                                   "replaced")

    def check_fairness(self, nodes: list[Any]) -> None:
        """Q7, at rest: publish for each shared subscription, then count how many messages each session got."""
        publisher = self.roamers[min(self.roamers)]
        if not self.is_fairness_asked:
            for client in self.roamers.values():
                # What the publisher sends before CONNACK it sends again (seed 40107); members that are not connected
                # get nothing while others are (seed 67404).
                if not client.is_accepted:
                    raise Broken("Q11", f"{client.name} waits for CONNACK")
            self.is_fairness_asked = True
            for filter, topics in SHARED.items():
                members = self.members_of(filter, nodes)
                if members:
                    self.fair[filter] = []
                    for _ in members:
                        # In one read, else a node whose application is slow has not taken it all in time (seed 269).
                        made = [publisher.publication(topics[0], 1) for _ in range(FAIR_ROUNDS)]
                        self.fair[filter] += [number for number, _ in made]
                        publisher.send(*[packet for _, packet in made])
            raise Broken("Q7", "the messages for it have just been published")
        for filter, numbers in self.fair.items():
            members = self.members_of(filter, nodes)
            shares: Counter[str] = Counter()
            for number in numbers:
                shares += self.by_group[filter, number]
            if sum(shares.values()) != len(numbers):
                raise Broken("Q6", f"{len(numbers)} messages for {filter} came {sum(shares.values())} times")
            for name in members:
                if abs(shares[name] - FAIR_ROUNDS) > 2:
                    raise Broken("Q7", f"of {len(numbers)} messages for {filter} the {len(members)} members got "
                                       f"{dict(shares)}")

    def members_of(self, filter: str, nodes: list[Any]) -> list[str]:
        """Clients with a shared subscription, those that came with a session of another part of a split group too."""
        return [session.client_id for node in nodes for session in node.broker.sessions.values()
                if filter in session.subscriptions]

    def reached(self) -> dict[str, int]:
        counts = Counter(super().reached())
        for node in self.lives:
            counts["sessions moved"] += node.core.counters["sessions_in"]
            counts["messages given to another member"] += node.core.counters["rerouted"]
            counts["handovers given up"] += node.core.counters["handover_timeouts"]
            counts["messages behind their session"] += node.core.counters["late_messages"]
        return dict(counts)


class RoamingNode(MqttNode):
    """One life of a broker. took: the publications of peers, as nodes number them, that it has taken over for plain
    subscriptions too."""

    def __init__(self, channel: Any, run: RoamingRun) -> None:
        super().__init__(channel, run)
        self.clients = run
        self.joined: dict[str, tuple[int, RoamingNode]] = {}     # client id -> when its session had come, from where
        self.took: dict[tuple[int, int], int] = {}
        self.told: dict[str, int] = {}                   # filter -> members, as the federation was told
        self.received_last = b""
        self._publish = self.broker.router.publish
        self.broker.router.publish = self.routed         # type: ignore[method-assign]
        self._interest = self.core.interest
        self.core.interest = self.interest               # type: ignore[method-assign]
        self.born_ns = self.now_ns()
        self._complete = self.core.orphans._complete
        self.core.orphans._complete = self.adopted       # type: ignore[method-assign]
        self.unheard: dict[str, dict[str, None]] = {}    # ended node -> those that had not told which copies they have
        self._decide = self.core.orphans._decide
        self.core.orphans._decide = self.decided         # type: ignore[method-assign]
        self._adopt_will = self.broker.adopt_will
        self.broker.adopt_will = self.adopt_will         # type: ignore[method-assign]
        self._withdraw_will = self.broker.withdraw_adopted_will
        self.broker.withdraw_adopted_will = self.withdraw_will       # type: ignore[method-assign]
        self._end_session = self.broker._end_session
        self.broker._end_session = self.session_ended    # type: ignore[method-assign]
        self._forget_copy = self.broker.forget_copy
        self.broker.forget_copy = self.forget_copy       # type: ignore[method-assign]
        self.moving_from: RoamingNode | None = None      # while a session comes from there
        self.stays_at: RoamingNode | None = None         # while it says that it keeps the session
        self.late_came: dict[tuple[str, tuple[int, int]], None] = {}     # (client id, publication) from former nodes
        self.offered_ns: dict[str, int] = {}             # client id -> when its session began to come here last
        self.copies_late_ns: list[int] = []              # when it gave up waiting for copies
        self.onward_late_ns: list[int] = []              # and for nodes that sessions have moved to
        self._look_at_onwards = self.core.held_acks.look
        self.core.held_acks.look = self.look_at_onwards  # type: ignore[method-assign]
        self._look_at_copies = self.core.copies.look
        self.core.copies.look = self.look_at_copies      # type: ignore[method-assign]
        self.begun: dict[int, None] = {}                 # messages for groups under way to peers that have ended
        self._restarted, self._forget = self.core.parked.restarted, self.core._forget
        self.core.parked.restarted = self.peer_restarted     # type: ignore[method-assign]
        self.core._forget = self.peer_forgotten          # type: ignore[method-assign]
        self._send_onward = self.core.send_onward
        self.core.send_onward = self.send_onward         # type: ignore[method-assign]
        self._new_ones = self.core.handovers._new_ones
        self.core.handovers._new_ones = self.joined_behind   # type: ignore[method-assign]
        self._came_late, self._held_came = self.core.handovers.came_late, self.core.handovers.held_came
        self.core.handovers.came_late = self.came_late   # type: ignore[method-assign]
        self.core.handovers.held_came = self.held_came   # type: ignore[method-assign]
        self._event_came = self.core.handovers.event_came
        self.core.handovers.event_came = self.event_came     # type: ignore[method-assign]

    # --- what is observed ---------------------------------------------------------------------------------------------

    def routed(self, publication: Publication, now_ns: int) -> tuple[int, bool]:
        """A message of a client or a will: which sessions must get it is what is known here now."""
        run = self.clients
        fact = run.facts[number_of(publication)]
        fact.routed_ns.append(now_ns)
        fact.node, fact.at_ns, fact.alone = self, now_ns, not self.core.names_up()
        fact.due, fact.groups, fact.ungranted = {}, {}, {}
        for client in run.roamers.values():
            for node in client.holders():
                # While a session moves, its filters count where those of the former node are known.
                heard = [filter for filter in client.filters
                         if fact.topic in FILTERS.get(filter, ()) and self.has_heard(node, client, filter)
                         and (client.place is None or self.has_heard(client.place, client, filter))]
                if heard:
                    if not any(filter in client.granted for filter in heard):
                        fact.ungranted[client.name, client.epoch] = None
                    if node is not self or not self.has_a_copy(client):
                        fact.due[client.name, client.epoch] = node
                    else:                                # if this node ends, the session goes on where it comes from
                        fact.due.setdefault((client.name, client.epoch), node)
        for node in run.homes.values():
            for session in node.broker.sessions.values():
                client = run.roamers[session.client_id]
                for filter in session.subscriptions:
                    if fact.topic in SHARED.get(filter, ()) and self.has_heard(node, client, filter):
                        # Of a session that its client has left behind nothing is demanded.
                        epoch = client.group_epoch if node in client.holders() else NO_EPOCH
                        fact.groups.setdefault(filter, {})[client.name] = epoch, node
        fact.wanted |= frozenset(self.peers_that_want(fact.topic))
        if fact.will is not None:
            self.will_routed(fact, fact.will)
        if publication.wants_retain:
            for before in self.broker.router.retained.matching(fact.topic, now_ns):
                run.superseded[number_of(before)] = self
        found = self._publish(publication, now_ns)
        fact.origin = publication.origin, publication.number
        return found

    # --- sessions of nodes that have ended ----------------------------------------------------------------------------

    def decided(self, node: EndedNode, now_ns: int) -> None:
        """Who adopts what is decided by what was told within `adopt_s` (seed 65865). Q10: the node with the best copy
        of a session adopts it, also if its client does not come back: what is published from then on waits for it. One
        that was on its way to that node may have gone to the next process of its name meanwhile (seed 960840)."""
        self.unheard[node.name] = dict(node.missing)
        copies = {client_id: self.core.orphans._copy(client_id, node.name) for client_id in self.core.copies.here}
        ended = [client_id for client_id, copy in copies.items() if copy is not None and not copy[1].expiry_s]
        self._decide(node, now_ns)
        for client_id, rank in node.told[self.channel.name].items():
            if client_id in ended:
                continue
            owner, next_life = self.core.handovers.owner_of(client_id), self.clients.homes[node.name]
            if rank == LIVE and self.clients.is_live(next_life) and client_id in next_life.broker.sessions:
                continue
            if (rank.is_owners and owner is not None and owner.node == node.name
                    and node.best(client_id) == self.channel.name and client_id not in self.broker.sessions):
                raise self.found("Q10", f"{client_id} was at {node.name}, which has ended; {self.channel.name} has the "
                                        "best copy of its session, and did not adopt it")

    def adopted(self, adoption: Adoption, now_ns: int) -> None:
        """Sessions begin here, each of the best copy that can be reached: Q10."""
        for client_id, (claim, copy) in adoption.sessions.items():
            if self.core.handovers.is_adopting(client_id, claim):
                self.clients.roamers[client_id].inherited(self, adoption.name, copy)
        for queued in adoption.sent_on:
            self.clients.roamers[queued.client_id].late[number_of(queued.delivery.publication)] = None
        self._complete(adoption, now_ns)

    def adopt_will(self, client_id: str, will: Will, now_ns: int, left_ns: int, of_node: str = "") -> None:
        """The will of a connection that ended with its node, or came with its session."""
        made = self.clients.facts[int(will.payload)].will
        assert made is not None, "wills are of connections"
        made.heir, made.adopted_ns = self, now_ns + left_ns - made.delay_ns
        if self.moving_from is None:
            made.copies += 1
            made.of_copy[self] = None
        else:
            made.lost_ns = 0                             # it is demanded of its heir now
            if self.moving_from in made.of_copy:
                del made.of_copy[self.moving_from]
                made.of_copy[self] = None
        self._adopt_will(client_id, will, now_ns, left_ns, of_node)

    def session_ended(self, session: ClientSession, now_ns: int, is_heard: bool = True) -> None:
        """Q6: QoS 2 of a group that has begun goes to no other member [MQTT-4.8.2-5]."""
        for each in session.in_flight.values():
            if each.group and each.qos == 2:
                self.clients.begun_ended[each.group, number_of(each.publication)] = None
        self._end_session(session, now_ns, is_heard)

    def forget_copy(self, client_id: str, now_ns: int) -> None:
        """The session stays where it was, and what came here for it is due there, by the publisher (seed 65380). Not
        what had come here before, when it was here, and has gone there with it (seed 990352). The client may have
        another one since, where it is now (seed 1022630)."""
        client, offered_ns = self.clients.roamers[client_id], self.offered_ns.get(client_id, 0)
        stays_at = self.stays_at or client.place
        for fact in self.clients.facts.values():
            if stays_at is not None and fact.due.get((client_id, client.epoch)) is self and (
                    self.took.get(fact.origin, offered_ns) >= offered_ns):
                fact.due[client_id, client.epoch] = stays_at
        self._forget_copy(client_id, now_ns)

    def has_will(self, client_id: str, number: int) -> bool:
        """Whether a will waits here for its delay."""
        session = self.broker.sessions.get(client_id)
        return session is not None and session.will is not None and int(session.will.payload) == number

    def withdraw_will(self, client_id: str) -> None:
        """The will of a copy that waits here will not be published: the session comes from another node, or stays at
        its own, which has the will (seed 1003804)."""
        session = self.broker.sessions.get(client_id)
        before = None if session is None else session.will
        self._withdraw_will(client_id)
        if session is not None and before is not None and session.will is None:
            made = self.clients.facts[int(before.payload)].will
            if made is not None and self in made.of_copy:
                del made.of_copy[self]
                made.copies -= 1
                made.heir = None if made.heir is self else made.heir

    def has_copy(self, client_id: str, owner: RoamingNode) -> bool:
        """Whether this node, in the life that the owner knew when it ended, should have a session's copy.

        Another life of the same name counted too, so seed 423 failed: the owner had not seen yet that its keeper had
        ended when it ended itself, and the keeper's name was there again, with nothing. So did a keeper that had been
        sent the session and had acknowledged nothing (seed 511): no client was told of more than the former keeper had.
        """
        kept = owner.core.copies.kept.get(client_id)
        name = self.channel.name
        peer = owner.core.peers.get(name)
        return (kept is not None and 0 < kept.keepers.get(name, 0) <= kept.safe_turn
                and self.clients.is_live(self) and peer is not None and peer.handle == self.channel.address)

    def has_heard(self, node: RoamingNode, client: RoamingClient, filter: str) -> bool:
        """Whether this node takes a subscription of a session at a node into account."""
        session = node.broker.sessions.get(client.name)
        return (session is not None and filter in session.subscriptions
                and (node is self or self.knows(node, filter)))

    def has_a_copy(self, client: RoamingClient) -> bool:
        """Whether a session here waits for all that it has at another node, which keeps it until then."""
        arriving = self.core.handovers.arriving.get(client.name)
        return arriving is not None and arriving.is_copy

    def peers_that_want(self, topic: str) -> Iterator[str]:
        """Peers with a plain filter for a topic, as this node knows, those of which it knows nothing yet, and those
        whose former lives had one."""
        interest = self.core.interest_of_peers.peers
        for name, peer in self.core.peers.items():
            filters: Iterable[str] = interest[name].filters if name in interest else ()
            if name not in interest or name in self.core.parked.unknown or any(
                    topic in FILTERS.get(filter, ()) for filter in (*filters, *peer.remembered)):
                yield name

    def will_routed(self, fact: RoutedMessage, will: ModelWill) -> None:
        """Q9."""
        fact.acknowledged = True
        self.run.counts["wills published"] += 1
        if fact.routed > 1 + will.copies:
            # A part of a split group may have an old copy, whose session may come back since (seed 60371).
            raise self.found("Q9", f"will {fact.number} of {fact.publisher} was published {fact.routed} times; "
                                   f"{will.copies} copies of it were adopted")
        if self is not will.node:
            # Its node has ended, or takes itself for the only one that is left.
            self.run.counts["wills published by other nodes"] += 1
            return
        if will.has_left:
            raise self.found("Q9", f"will {fact.number} of {fact.publisher} was published after DISCONNECT")
        if will.is_cancelled:
            raise self.found("Q9", f"will {fact.number} of {fact.publisher} was published though the client came back")

    def take_over(self, publication: Publication, groups: Any, now_ns: int, shared_only: bool = False) -> bool:
        """A peer's message, on its way to the sessions here: Q5."""
        number = number_of(publication)
        fact = self.clients.facts[number]
        if not shared_only:                              # else plain subscriptions had it, or never will (seed 100759)
            self.took[publication.origin, publication.number] = now_ns
        if not shared_only and self.channel.name not in fact.wanted:
            raise self.found("Q5", f"{self.channel.name} got {number} about {fact.topic}, and {fact.node.channel.name} "
                                   "knew of no filter for it")
        return self._deliver(publication, groups, now_ns, shared_only)

    def interest(self, group: str, filter: str, members: int, online: int) -> None:
        """Q5: of plain filters the federation is told of the first subscriber and the last."""
        if not group:
            if members > 1 or self.told.get(filter, 0) == members:
                raise self.found("Q5", f"{self.channel.name} told of {members} subscribers of {filter}, behind "
                                       f"{self.told.get(filter, 0)}")
            self.told[filter] = members
        self._interest(group, filter, members, online)

    def event_came(self, name: str, kind: int, body: bytes, now_ns: int) -> bool:
        """An event of a handover: all of a session is here, or a message that comes behind it."""
        if kind == EventKind.MOVED:
            moved = SessionMoved.decode(body)
            arriving = self.core.handovers.arriving.get(moved.client_id)
            if moved.is_found and arriving is not None:
                self.joined[moved.client_id] = now_ns, self.clients.homes[name]
                client = self.clients.roamers[moved.client_id]
                client.moved_from(self.clients.homes[name], self)
                client.came_behind(self.clients.homes[name], self, had_one=not arriving.is_copy)
                self.moving_from = self.clients.homes[name]
            if moved.is_redirected:
                self.stays_at = self.clients.homes[name]
        elif kind == EventKind.OFFER:
            self.offered_ns[SessionOffer.decode(body).client_id] = now_ns
        elif kind == EventKind.QUEUED:
            queued = QueuedDelivery.decode(body, now_ns)
            publication = queued.delivery.publication
            self.late_came[queued.client_id, (publication.origin, publication.number)] = None
        try:
            return self._event_came(name, kind, body, now_ns)
        finally:
            self.moving_from = self.stays_at = None

    def came_late(self, name: str, queued: QueuedDelivery, now_ns: int) -> None:
        """A message that comes behind its session, in no order with what came directly."""
        if not queued.packet_id:
            self.clients.roamers[queued.client_id].late[number_of(queued.delivery.publication)] = None
        self._came_late(name, queued, now_ns)

    def held_came(self, client_id: str, source: LateSource, publication: Publication, now_ns: int) -> None:
        """The same of one that would have come by a node that is away."""
        self.clients.roamers[client_id].late[number_of(publication)] = None
        self._held_came(client_id, source, publication, now_ns)

    def joined_behind(self, session: ClientSession, moved: list[QueuedDelivery]) -> list[Delivery]:
        """A session comes into one that is in use, without QoS 2 that was begun."""
        found = self._new_ones(session, moved)
        for each in moved:
            if each.packet_id and each.delivery.qos == 2 and each.delivery.group:
                self.clients.begun_ended[each.delivery.group, number_of(each.delivery.publication)] = None
        return found

    def peer_restarted(self, peer: FederationPeer, ended: list[str], now_ns: int) -> None:
        """A peer is a new process."""
        self.begun.update(begun_for(peer))
        self._restarted(peer, ended, now_ns)

    def peer_forgotten(self, peer: FederationPeer, now_ns: int) -> None:
        """A peer has stayed away for too long."""
        self.begun.update(begun_for(peer))
        self._forget(peer, now_ns)

    def look_at_copies(self, timeout_ns: int, now_ns: int) -> None:
        """What has waited for copies for too long goes on without them."""
        before = self.core.counters["copies_late"]
        self._look_at_copies(timeout_ns, now_ns)
        if self.core.counters["copies_late"] != before:
            self.copies_late_ns.append(now_ns)

    def look_at_onwards(self, now_ns: int) -> None:
        """The same for what was sent on."""
        before = self.core.counters["onward_late"]
        self._look_at_onwards(now_ns)
        if self.core.counters["onward_late"] != before:
            self.onward_late_ns.append(now_ns)

    def send_onward(self, name: str, kind: int, body: bytes) -> None:
        """A message for a session that has moved from here goes on to its next node."""
        queued = QueuedDelivery.decode(body, self.now_ns())
        client, publication = self.clients.roamers[queued.client_id], queued.delivery.publication
        client.sent_on.setdefault((publication.origin, publication.number), []).append(
            (self, self.clients.homes[name], self.now_ns()))
        self.run.counts["messages sent on to where a session had moved"] += 1
        self._send_onward(name, kind, body)

    def sees(self, other: RoamingNode, since_ns: int) -> bool:
        """Whether it has had this life of another node, or itself, in its view since then."""
        peer = self.core.peers.get(other.channel.name)
        return self.clients.is_live(other) and (other is self or (
            peer is not None and peer.is_up and peer.handle == other.channel.address and peer.came_ns < since_ns))

    def awaits(self, other: RoamingNode, since_ns: int) -> bool:
        """Whether it sees another node and its acknowledgements have waited for that since then."""
        peer = self.core.peers.get(other.channel.name)
        return self.sees(other, since_ns) and (
            peer is None or (peer.is_awaited and peer.awaited_since_ns < since_ns))

    def found(self, guarantee: str, text: str) -> Broken:
        """What is wrong, kept for the end: the broker may catch what is raised inside it."""
        broken = Broken(guarantee, text)
        self.run.broken = self.run.broken or broken
        return broken

    def now_ns(self) -> int:
        self.last_ns = super().now_ns()
        self.last_address = self.channel.address or self.last_address      # one that has left has none (seed 13401)
        return self.last_ns

    last_ns = 0
    last_address: Any = None

    def receive(self, message: jg.Message) -> None:
        self.received_last = message.payload
        super().receive(message)

    # --- operations and checks ----------------------------------------------------------------------------------------

    def act(self, rng: Random) -> None:
        """Some operations of clients at this node, or of some that come to it."""
        run = self.clients
        for _ in range(rng.choice(BURST)):
            here = [client for client in run.roamers.values() if client.at is self and client.connection]
            client = rng.choice(here if here and rng.random() < 0.9 else list(run.roamers.values()))
            if client.at is self and client.connection:
                client.act(rng)
            elif not client.connection or not run.is_live(client.at) or rng.random() < 0.5:
                client.come(self, clean_start=rng.random() < 0.1, rng=rng)
        if rng.random() < 0.05:
            self.nonsense(rng)
        self.check()

    def nonsense(self, rng: Random) -> None:
        """Q13: a part of a frame, which no peer would send, is counted, and nothing else happens."""
        names = self.core.names_up()
        if names and self.received_last:
            counted = self.core.counters["malformed"]
            self.core.receive(rng.choice(names), self.received_last[:rng.randrange(len(self.received_last))],
                              self.now_ns())
            self.run.counts["senseless frames"] += 1
            if self.core.counters["malformed"] != counted + 1:
                raise Broken("Q13", f"{self.channel.name} took a part of {self.received_last!r} for a frame")

    def check_peers(self, others: list[MqttNode]) -> None:
        """Q14: also what this node takes for its filters is what its sessions have."""
        wanted = {filter for session in self.broker.sessions.values() for filter in session.subscriptions}
        if set(self.core.own.filters) != wanted:
            raise Broken("Q14", f"{self.channel.name} tells of {sorted(self.core.own.filters)}, its sessions have "
                                f"{sorted(wanted)}")
        super().check_peers(others)

    def check(self) -> None:
        """Q9, Q11, Q12."""
        now_ns = self.now_ns()
        self.core.tick(now_ns)
        self.broker.tick(now_ns)
        self.settle()
        self.check_ledgers()
        for fact in self.clients.all_wills:
            will = fact.will
            if will is None or fact.routed or will.is_cancelled:
                continue
            client = self.clients.roamers[fact.publisher]
            session = self.broker.sessions.get(fact.publisher)
            # In time for a delay; perhaps by a CONNECT that had waited here before the client went on (seed 302196).
            is_back = client.will is not fact or client.is_accepted or (session is not None and session.had_client)
            # A better copy may know of DISCONNECT (seed 48977).
            if will.heir is self and not will.has_left and not (will.delay_ns and is_back) and (
                    now_ns > will.adopted_ns + will.delay_ns + SLACK_NS):
                raise Broken("Q9", f"will {fact.number} of {fact.publisher} was not published by its heir")
            if will.node is not self or not will.lost_ns:
                continue
            if client.at is not self or client.connect_ns >= will.lost_ns:
                continue                                 # it has come back, here or elsewhere
            if now_ns > will.lost_ns + will.delay_ns + SLACK_NS:
                raise Broken("Q9", f"will {fact.number} of {fact.publisher} was not published")
        for client in self.clients.roamers.values():
            if client.at is self and client.connection:
                client.check_times(now_ns)

    def drop(self, connection: int) -> None:
        """The node finds a connection gone that its client left behind."""
        if self.channel.state is jg.ChannelState.CONNECTED:
            found = self.broker.connections.get(connection)
            if found is not None and found.session is not None:
                self.clients.roamers[found.session.client_id].lost_by(self, connection)
            self.broker.lost(connection, self.now_ns())
            self.settle()


class RoamingClient:
    """A client. life: of its session; epoch: rises when messages of the session may have been lost, so those of before
    are not demanded any more; group_epoch: the same for what it has as a member of shared subscriptions."""

    def __init__(self, run: RoamingRun, name: str) -> None:
        self.run = run
        self.name = name
        self.at: RoamingNode | None = None               # where it is connected, or was last
        self.place: RoamingNode | None = None            # where its latest CONNACK came from
        self.heirs: list[RoamingNode] = []               # nodes that have its session since
        self.adopted_ns: list[int] = []                  # when a node made its session of a copy
        self.in_splits = 0
        self.connection = 0
        self.is_accepted = False
        self.connect_ns = 0
        self.merged_ns = 0                               # when another session of it came into the one in use
        self.in_part: list[RoamingNode] = []             # heirs whose copy was not all, as the former node lived on
        self.is_clean = False
        self.born_at: RoamingNode | None = None          # the node that began the session, until it moves
        self.life = self.epoch = self.group_epoch = self.moves = 0
        self.last_id = 0
        self.is_slow = run.is_slow
        self.expiry_s = FOR_EVER                         # of its session, behind this connection
        self.will: RoutedMessage | None = None
        self.wills: dict[tuple[int, int], RoutedMessage] = {}        # (node's life, connection) -> its will
        self.decoder = Decoder(SentBy.SERVER, ProtocolVersion.MQTT_5)
        self.filters: dict[str, int] = {}
        self.granted: dict[str, None] = {}               # those that SUBACK has come for
        self.subscribes: dict[int, str] = {}             # packet id of a SUBSCRIBE -> its filter
        self.ever: dict[str, None] = {}                  # filters that it had at any time
        self.retained_due: Counter[str] = Counter()      # topic -> how often a subscription may have brought it
        self.unacknowledged: dict[int, PublishPacket | None] = {}    # None: PUBREC came
        self.numbers: dict[int, int] = {}                # packet id -> number
        self.received_2: dict[int, None] = {}
        self.unanswered: list[Packet] = []               # what it has still to answer with
        self.times: Counter[tuple[int, int]] = Counter()             # (epoch, number) -> how often it came
        self.uncopied: dict[tuple[int, int], None] = {}  # of these, those that copies may not have known then
        self.ever_got: dict[int, None] = {}
        self.late: dict[int, None] = {}                  # numbers that a former node has sent on
        # A publication as nodes number it -> from, to, when it was sent on to the session's next node.
        self.sent_on: dict[tuple[int, int], list[tuple[RoamingNode, RoamingNode, int]]] = {}
        self.highest: dict[tuple[Any, ...], int] = {}

    @property
    def session(self) -> str:
        """The name of its session."""
        return f"{self.name}/{self.life}"

    def holders(self) -> list[RoamingNode]:
        """The nodes that have its session, as far as it can know."""
        if not self.life:
            return []
        nodes = [self.place] if self.at is self.place else [self.place, self.at]
        found = [node for node in nodes if node is not None and self.run.is_live(node)]
        found += [node for node in self.heirs if self.run.is_live(node) and node not in found]
        if not found and not self.heirs and self.place is not None and self.run.session_copies:
            return [self.place]                          # gone; its session is not, and nobody has adopted it yet
        return found

    # --- connections --------------------------------------------------------------------------------------------------

    def come(self, node: RoamingNode, clean_start: bool = False, rng: Random | None = None) -> None:
        """Connect at a node, whatever became of the former connection."""
        self.leave_behind(rng)
        node.last_connection += 1
        now_ns = node.now_ns()
        self.at, self.connection, self.connect_ns = node, node.last_connection, now_ns
        self.is_accepted, self.is_clean = False, clean_start
        self.unanswered.clear()
        self.decoder = Decoder(SentBy.SERVER, ProtocolVersion.MQTT_5)
        if clean_start:
            self.run.counts["clean starts"] += 1
            self.filters.clear()
            self.unacknowledged.clear()
        node.connections[self.connection] = self         # type: ignore[assignment]
        node.broker.connected(self.connection, now_ns)
        delay_s = WILL_DELAYS_S[len(self.run.facts) % len(WILL_DELAYS_S)]
        self.expiry_s = self.run.expiries_s[len(self.run.facts) % len(self.run.expiries_s)]
        self.will = self.fact("wills", 2, 0)
        self.will.will = ModelWill(seconds(delay_s), node)
        self.wills[id(node), self.connection] = self.will
        self.run.all_wills.append(self.will)
        self.send(ConnectPacket(
            self.name, ProtocolVersion.MQTT_5, clean_start,
            will=Will("wills", b"%d" % self.will.number, 2, False, Properties(will_delay_interval=delay_s or None)),
            properties=Properties(
                session_expiry_interval=self.expiry_s,
                receive_maximum=self.run.receive_maxima[len(self.run.facts) % len(self.run.receive_maxima)])))

    def leave_behind(self, rng: Random | None) -> None:
        """Its former connection stays open until the node finds it gone, or sees the take-over."""
        if self.connection and self.at is not None:
            self.run.counts["connections left behind"] += 1
            self.at.connections.pop(self.connection, None)
            if rng is not None and rng.random() < 0.5:
                self.at.channel.later(rng.choice((0.0, 0.01, 0.5, 3.0)), self.at.drop, self.connection)
            self.connection_ended()
        self.connection, self.is_accepted = 0, False

    def connection_ended(self) -> None:
        """Its session ends now, or may end before it comes back: nothing of it is demanded any more."""
        if self.expiry_s != FOR_EVER:
            self.run.counts["sessions that ended"] += 1
            self.epoch += 1
            self.group_epoch += 1
            self.place, self.heirs, self.in_part, self.born_at = None, [], [], None

    def connected(self, packet: ConnAckPacket) -> None:
        """CONNACK came. A session that is new, or an old one of a node that was cut off, gets the subscriptions."""
        node = self.at
        assert node is not None, "it is connected"
        now_ns = node.now_ns()
        self.is_accepted = True
        joined_ns, source = node.joined.get(self.name, (-1, node))
        moved = joined_ns >= self.connect_ns
        is_mine = packet.session_present and (
            node is self.place or (moved and source is self.place) or node in self.heirs)
        if not packet.session_present and not self.is_clean:
            self.check_lost(node)
        if packet.session_present and self.is_clean:
            raise Broken("MQTT", f"{self.name} got a session in spite of clean start")
        for (of_node, connection), will in self.wills.items():
            if (of_node == id(node) and packet.session_present and will.will is not None and not will.routed
                    and (of_node, connection) != (id(node), self.connection)):
                will.will.is_cancelled = True
        if is_mine:
            self.run.counts["sessions that went on"] += 1
        else:
            self.begin_life()
        if node in self.in_part and node is not self.place:
            self.merged_ns = now_ns                      # what it had of the former node since may come (11482)
        self.place, self.heirs, self.in_part = node, [], []
        if not is_mine:
            for filter in self.filters:
                self.subscribe(filter)
        for packet_id, publish in list(self.unacknowledged.items()):
            if publish is None and packet.session_present:
                self.send(PubRelPacket(packet_id))
            elif publish is None:
                del self.unacknowledged[packet_id]       # the new session knows nothing of it
            else:
                self.send(attrs.evolve(publish, dup=True))
        if now_ns - self.connect_ns > HANDOVER_NS + SLACK_NS:
            self.run.counts["connections that waited while their node was paused"] += 1

    def check_lost(self, node: RoamingNode) -> None:
        """Q10: a session whose node has ended, and which nodes that can be reached have copies of, is found."""
        former = self.place
        if not self.life or former is None or self.run.is_live(former) or self.heirs:
            return
        peer = node.core.peers.get(former.channel.name)
        if peer is not None and peer.is_up and peer.handle == former.last_address:
            return                                       # that it has ended is not known yet
        if node.now_ns() - self.connect_ns >= HANDOVER_NS and not self.was_known_in_time(node, former):
            return
        for keeper in self.run.homes.values():
            if not keeper.has_copy(self.name, former):
                continue
            at = node.core.peers.get(keeper.channel.name)
            if keeper is node or (at is not None and at.is_up and at.came_ns < former.last_ns):
                raise Broken("Q10", f"{self.session} was at {former.channel.address}, {keeper.channel.name} has a copy,"
                                    f" and {node.channel.name} began another one")

    def was_known_in_time(self, node: RoamingNode, former: RoamingNode) -> bool:
        """Whether a node that CONNECT waits at knew, so early that the session could have come from a copy, that its
        node had ended, and which copies there are."""
        ended = node.core.orphans.ended.get(former.channel.name)
        return (ended is not None and not node.unheard.get(ended.name, {"": None})
                and ended.at_ns + 2 * ADOPT_NS + SLACK_NS < self.connect_ns + HANDOVER_NS)

    def inherited(self, node: RoamingNode, name: str, copy: SessionCopy) -> None:
        """A node makes its session of a copy."""
        self.run.counts["sessions adopted"] += 1
        former = next((each for each in (*reversed(self.heirs), self.place)
                       if each is not None and each.channel.name == name), None)
        if former is None or node is self.place:
            # Of a part of the group that was split: behind what the client has had since.
            self.run.counts["sessions that came behind their client"] += 1
            self.merged_ns = node.now_ns()
            self.in_splits += 1
            self.epoch += 1
            self.group_epoch += 1
            return
        kept = former.core.copies.kept.get(self.name)
        is_newest = kept is not None and copy.begin == kept.begin and copy.turn >= kept.safe_turn
        if not is_newest and not self.run.is_live(former):
            for keeper in self.run.homes.values():
                at = node.core.peers.get(keeper.channel.name)
                if (keeper.has_copy(self.name, former) and at is not None and at.is_up and at.came_ns < former.last_ns
                        and keeper.channel.name not in node.unheard.get(name, ())):
                    raise node.found("Q10", f"{node.channel.name} adopted an older copy of {self.session} than "
                                            f"{keeper.channel.name} has")
        if not is_newest or self.run.is_live(former):
            self.in_splits += 1
            self.epoch += 1
            self.group_epoch += 1
            if kept is not None and former is self.born_at and copy.begin != kept.begin:
                # Of the session before, which a clean start has ended, as this part of the group does not know; so it
                # is none of the client's (seed 48479).
                self.run.counts["sessions adopted after a clean start"] += 1
                return
            self.run.counts["sessions adopted in part"] += 1
            self.in_part.append(node)
        self.adopted_ns.append(node.now_ns())
        self.born_at = None
        self.heirs.append(node)

    def begin_life(self) -> None:
        """Nothing of before is demanded any more."""
        self.life += 1
        self.epoch += 1
        self.group_epoch += 1
        self.born_at = self.at
        self.received_2.clear()
        self.granted.clear()

    def moved_from(self, source: RoamingNode, dest: RoamingNode) -> None:
        """Its session has moved."""
        self.moves += 1
        self.born_at = None
        if source in self.heirs or source is self.place:
            self.heirs.append(dest)
        if source in self.in_part:
            self.in_part.append(dest)                    # with what it lacked (seed 13454)
        session = dest.broker.sessions.get(self.name)
        is_back = self.name in dest.broker._claims or (session is not None and session.had_client)
        # Else a will that waits for its delay goes with the session, and waits there (seed 62400).
        for (of_node, connection), will in self.wills.items() if is_back else ():
            if (source is self.at and connection == self.connection) or connection in source.broker._claiming:
                continue                                 # it has gone back there meanwhile, or had (seed 584)
            if source.has_will(self.name, will.number):
                continue                                 # of a session that was begun there since (seed 62594)
            if of_node == id(source) and will.will is not None and not will.routed:
                will.will.is_cancelled = True            # it was there in time for its delay

    def came_behind(self, source: RoamingNode, node: RoamingNode, had_one: bool) -> None:
        """All of a session of it has come to a node. If CONNACK came before, or it is not the one that the client had
        last, it comes behind what is newer.

        had_one: the node had a session of this client before, as after a split the client went to the other part's node
        and the table of owners still had the former one for the later owner. Then both sessions had got what was
        published since the parts met, and neither node knows what the client has had of the other one: QoS 1 may come
        from both. This had been taken for a session that simply moves, so seed 96 failed.
        """
        if had_one or node is self.place or (source is not self.place and source not in self.heirs):
            self.run.counts["sessions that came behind their client"] += 1
            self.merged_ns = node.now_ns()
            self.epoch += 1
            self.group_epoch += 1

    def lost_by(self, node: RoamingNode, connection: int) -> None:
        """The node finds a connection of it gone."""
        will = self.wills.get((id(node), connection))
        if will is not None and will.will is not None and not will.routed:
            will.will.lost_ns = node.now_ns()

    def leave(self, with_will: bool) -> None:
        """End the connection, with DISCONNECT or without."""
        node, connection, self.connection = self.at, self.connection, 0
        assert node is not None, "it is connected"
        self.is_accepted = False
        node.connections.pop(connection, None)
        if with_will:
            self.lost_by(node, connection)
            node.broker.lost(connection, node.now_ns())
        else:
            assert self.will is not None, "every connection has a will"
            if self.will.will is not None:
                self.will.will.has_left = True
            if self.run.expiries_s is EXPIRIES_S and len(self.run.facts) % 3 == 0:
                self.expiry_s = 0
            properties = NO_PROPERTIES if self.expiry_s else Properties(session_expiry_interval=0)
            node.broker.received(connection, (DisconnectPacket(properties=properties),), node.now_ns())
        self.connection_ended()
        node.settle()

    def check_times(self, now_ns: int) -> None:
        """Q11: CONNECT and publications are answered in time."""
        if not self.is_accepted:
            if now_ns > self.connect_ns + HANDOVER_NS + SLACK_NS:
                raise Broken("Q11", f"{self.name} waits for CONNACK since {self.connect_ns / NS_PER_S:.3f}")
            return
        for packet_id, publish in self.unacknowledged.items():
            fact = self.run.facts[self.numbers[packet_id]]
            if (publish is not None and fact.routed and fact.node is self.at
                    and now_ns > max(fact.at_ns, self.connect_ns) + ACK_TIMEOUT_NS + SLACK_NS):
                raise Broken("Q11", f"{self.name} has no answer for {fact.number} since {fact.at_ns / NS_PER_S:.3f}")

    # --- operations ---------------------------------------------------------------------------------------------------

    def act(self, rng: Random) -> None:
        """One operation."""
        if not self.is_accepted:
            return
        if self.unanswered:
            self.catch_up(rng.choice((0, 1, 3, 1 << 30)))
        action, = rng.choices(("publish", "retain", "clear", "subscribe", "share", "unsubscribe", "vanish", "leave",
                               "nonsense"), (40, 3, 1, 3, 2, 2, 1, 1, 0.3))
        if action == "publish":
            self.publish(rng.choice(TOPICS), rng.choice((0, 1, 2)),
                         in_one_read=IN_ONE_READ[len(self.run.facts) % len(IN_ONE_READ)])
        elif action in ("retain", "clear"):
            self.run.counts["retained messages"] += 1
            self.publish(rng.choice(KEPT), 1, retain=True, is_clear=action == "clear")
        elif action in ("subscribe", "share"):
            filter = rng.choice(tuple(FILTERS if action == "subscribe" else SHARED))
            if filter not in self.filters:
                self.filters[filter] = 2
                self.ever[filter] = None
                self.subscribe(filter)
        elif action == "unsubscribe" and self.filters:
            self.unsubscribe(rng.choice(tuple(self.filters)))
        elif action in ("vanish", "leave"):
            self.leave(with_will=action == "vanish")
        elif action == "nonsense":
            self.run.counts["senseless packets"] += 1
            if self.at is not None:
                self.lost_by(self.at, self.connection)
            self.send(SubAckPacket(1, (ReasonCode.SUCCESS,)))        # which servers send
            if self.connection:
                raise Broken("Q13", f"{self.name} was not disconnected for what a client never sends")

    def subscribe(self, filter: str) -> None:
        """SUBSCRIBE, which brings retained messages."""
        identifier = IDENTIFIERS.get(filter)
        for topic in FILTERS.get(filter, ()):
            self.retained_due[topic] += 1
        packet_id = self.next_id()
        self.subscribes[packet_id] = filter
        self.send(SubscribePacket(
            packet_id, (Subscription(filter, 2),),
            NO_PROPERTIES if identifier is None else Properties(subscription_identifiers=(identifier,))))

    def unsubscribe(self, filter: str) -> None:
        """End a subscription; what it would have brought is not demanded any more."""
        del self.filters[filter]
        self.granted.pop(filter, None)
        if filter in SHARED:
            self.group_epoch += 1
        for fact in self.run.facts.values():
            if fact.topic in FILTERS.get(filter, ()):    # also one that has come, and is published again (seed 12742)
                fact.due.pop((self.name, self.epoch), None)
        self.send(UnsubscribePacket(self.next_id(), (filter,)))

    def fact(self, topic: str, qos: int, packet_id: int) -> RoutedMessage:
        """A publication that is about to be sent."""
        assert self.at is not None, "it is connected"
        number = len(self.run.facts) + 1
        made = RoutedMessage(number, self.name, topic, qos, self.at, self.at.now_ns())
        self.run.facts[number] = made
        self.numbers[packet_id] = number
        return made

    def publish(
        self, topic: str, qos: int, retain: bool = False, is_clear: bool = False, in_one_read: Sequence[int] = (),
    ) -> int:
        """Publish a message of its own; its number, 0 for none as too much has no answer. in_one_read: the QoS of
        messages that come behind it before the node has answered."""
        if len(self.unacknowledged) > 2_000:
            return 0
        number, packet = self.publication(topic, qos, retain, is_clear)
        self.send(packet, *[self.publication(topic, each)[1] for each in in_one_read])
        return number

    def publication(
        self, topic: str, qos: int, retain: bool = False, is_clear: bool = False,
    ) -> tuple[int, PublishPacket]:
        """A message and its number. A clear has an empty payload, so its number is in a property."""
        packet_id = self.next_id() if qos else 0
        fact = self.fact(topic, qos, packet_id)
        properties = Properties(content_type=str(fact.number)) if is_clear else NO_PROPERTIES
        packet = PublishPacket(topic, b"" if is_clear else b"%d" % fact.number, qos, retain, packet_id=packet_id,
                               properties=properties)
        if qos:
            self.unacknowledged[packet_id] = packet
        return fact.number, packet

    def next_id(self) -> int:
        """A packet id that is free."""
        while True:
            self.last_id = self.last_id % 65_535 + 1
            if self.last_id not in self.unacknowledged:
                return self.last_id

    def send(self, *packets: Packet) -> None:
        """To the node, in one read, if there is a connection."""
        if self.connection and self.at is not None:
            self.at.broker.received(self.connection, packets, self.at.now_ns())
            self.at.settle()

    # --- what comes ---------------------------------------------------------------------------------------------------

    def take(self, output: Output) -> None:
        """Carry out an output of the broker for its present connection."""
        if isinstance(output, SendPublish):
            self.got(output)
        elif isinstance(output, SendPacket):
            self.answered(output.packet)
        elif isinstance(output, SendAcks):
            for packet in output.packets:
                self.answered(packet)
        elif isinstance(output, CloseConnection):
            if output.reason not in (ReasonCode.SESSION_TAKEN_OVER, ReasonCode.SERVER_BUSY, ReasonCode.PROTOCOL_ERROR):
                raise Broken("MQTT", f"{self.name} was disconnected: {output.reason.name}, {output.detail}")
            self.run.counts["connections closed by nodes"] += 1
            if self.at is not None:
                self.at.connections.pop(self.connection, None)
            self.connection, self.is_accepted = 0, False
            self.connection_ended()

    def got(self, output: SendPublish) -> None:
        """A message came: Q2, Q3, Q4, Q6, Q8."""
        packet, = self.decoder.feed(output.frames.frame(output.qos, output.packet_id, output.retain, output.dup))
        assert isinstance(packet, PublishPacket), "frames of a PUBLISH"
        if output.qos == 2 and output.packet_id in self.received_2:
            self.answer(PubRecPacket(output.packet_id))
            return
        self.run.counts["messages delivered"] += 1
        number = int(packet.payload or packet.properties.content_type or 0)
        fact = self.run.facts[number]
        if packet.properties.subscription_identifiers:
            self.got_as_member(fact, OF_IDENTIFIER[packet.properties.subscription_identifiers[0]], output)
        else:
            self.got_plain(fact, output)
        if output.qos == 1:
            self.answer(PubAckPacket(output.packet_id))
        elif output.qos == 2:
            self.received_2[output.packet_id] = None
            self.answer(PubRecPacket(output.packet_id))

    def got_plain(self, fact: RoutedMessage, output: SendPublish) -> None:
        """By plain filters."""
        number, text = fact.number, f"{self.session} got {fact.number} of {fact.publisher}"
        if output.dup and self.is_slow and number in self.ever_got:
            return                                       # had, and not acknowledged yet
        self.ever_got[number] = None
        if not any(fact.topic in FILTERS.get(filter, ()) for filter in self.ever):
            raise Broken("Q4", f"{text} about {fact.topic}, which no filter of {sorted(self.ever)} matches")
        if output.retain and not output.dup and fact.at_ns > self.merged_ns:     # else each session brings it (74089)
            self.retained_due[fact.topic] -= 1
            if self.retained_due[fact.topic] < 0:
                raise Broken("Q8", f"{text}, retained, without a new subscription")
        if fact.at_ns <= self.merged_ns:
            return                                       # may be in both sessions, and in either order
        self.times[self.epoch, number] += 1
        times = self.times[self.epoch, number]
        if times == 1:
            self.note_uncopied(fact)
        if times > self.may_come(fact, output.qos) and fact.topic not in KEPT and not output.dup:
            raise Broken("Q10" if self.moves else "Q2", f"{text} {times} times; it was routed {fact.routed} times")
        key = self.epoch, fact.publisher, id(fact.node), fact.topic, fact.qos
        # What the former node sent on after `handover_s` comes behind what came directly.
        if (fact.routed == 1 and fact.topic in TOPICS and times == 1 and not output.dup
                and number not in self.late):
            if number < self.highest.get(key, 0):
                raise Broken("Q3", f"{text} behind {self.highest[key]}")
            self.highest[key] = number

    def may_come(self, fact: RoutedMessage, qos: int) -> int:
        """How often a message may come without DUP. Each publication of it once; with QoS 1 again after each adoption,
        since what its node had sent, and no copy of its session was told of, comes again; in two parts of a split group
        from both. Adoptions had counted once for all publications of a message, so seeds 10115, 10291 and 11443 failed.
        QoS 2 comes again too, if its node sent it without waiting longer for a copy that was late (seed 40315).
        """
        # No copy is told of QoS 0 (seed 1042755).
        is_repeated = qos < 2 or (self.epoch, fact.number) in self.uncopied
        return max(1, fact.routed) * (1 + self.in_splits) + (self.adoptions_since(fact) if is_repeated else 0)

    def adoptions_since(self, fact: RoutedMessage) -> int:
        """Of each publication of a message."""
        return sum(at_ns <= adopted_ns for at_ns in fact.routed_ns for adopted_ns in self.adopted_ns)

    def note_uncopied(self, fact: RoutedMessage) -> None:
        """A message has come, perhaps before the copies of the session knew."""
        if self.at is not None and any(at_ns >= fact.at_ns for at_ns in self.at.copies_late_ns):
            self.uncopied[self.epoch, fact.number] = None

    def got_as_member(self, fact: RoutedMessage, filter: str, output: SendPublish) -> None:
        """By a shared subscription."""
        got = self.run.by_group[filter, fact.number]
        got[self.name] += not output.dup
        if got[self.name] == 1:
            self.note_uncopied(fact)
        self.run.counts["messages of shared subscriptions"] += 1
        if filter not in self.ever or fact.topic not in SHARED[filter]:
            raise Broken("Q4", f"{self.session} got {fact.number} about {fact.topic} by {filter}")
        members = [self.run.roamers[name] for name in got]
        again = sum(each.in_splits * max(1, fact.routed)                     # see may_come (seeds 200380, 304082)
                    + each.adoptions_since(fact) * ((each.epoch, fact.number) in each.uncopied) for each in members)
        if fact.qos != 1 and sum(got.values()) > fact.routed + again:
            raise Broken("Q6", f"{dict(got)} got {fact.number} of {fact.publisher}, QoS {fact.qos}, by {filter}; it "
                               f"was routed {fact.routed} times")

    def answered(self, packet: Packet) -> None:
        if isinstance(packet, ConnAckPacket):
            if packet.reason is ReasonCode.SUCCESS:
                self.connected(packet)
        elif isinstance(packet, PubRelPacket):
            self.received_2.pop(packet.packet_id, None)
            self.answer(PubCompPacket(packet.packet_id))
        elif isinstance(packet, SubAckPacket):
            filter = self.subscribes.pop(packet.packet_id, "")
            if filter in self.filters:
                self.granted[filter] = None
        elif not isinstance(packet, PubAckPacket | PubRecPacket | PubCompPacket):
            return
        elif packet.packet_id in self.unacknowledged:
            if not isinstance(packet, PubCompPacket):
                self.acknowledged(self.run.facts[self.numbers[packet.packet_id]])
            if isinstance(packet, PubRecPacket):
                self.unacknowledged[packet.packet_id] = None
                self.answer(PubRelPacket(packet.packet_id))
            else:
                del self.unacknowledged[packet.packet_id]

    def answer(self, packet: Packet) -> None:
        """Inside `settle`, which carries on with what follows; a slow client does it later."""
        if self.run.is_slow and not isinstance(packet, PubRelPacket):
            self.unanswered.append(packet)
        elif self.connection and self.at is not None:
            self.at.broker.received(self.connection, (packet,), self.at.now_ns())

    def catch_up(self, number: int = 1 << 30) -> None:
        """Answer some of what came first."""
        now, self.unanswered = self.unanswered[:number], self.unanswered[number:]
        if now:
            self.run.counts["answers of slow clients"] += len(now)
            self.send(*now)

    def acknowledged(self, fact: RoutedMessage) -> None:
        """Q1, at once: what was acknowledged in time is at every node that could have it."""
        if fact.acknowledged:
            return
        fact.acknowledged, fact.answered_at = True, self.at
        fact.came_late = fact.node.now_ns() - fact.at_ns >= ACK_TIMEOUT_NS
        self.run.counts["publishes acknowledged"] += 1
        if fact.node is not self.at or fact.came_late:
            return
        for (name, _), node in fact.due.items():
            peer = fact.node.core.peers.get(node.channel.name)
            if node is fact.node or peer is None or not peer.is_up or peer.handle != node.channel.address:
                continue
            if not peer.is_awaited or peer.awaited_since_ns >= fact.at_ns:
                self.run.counts["messages that silent peers were not waited for"] += fact.origin not in node.took
            elif fact.origin not in node.took and (name, fact.origin) not in node.late_came:     # with the session
                raise Broken("Q1", f"{fact.number} of {fact.publisher} was acknowledged before the node of {name} had "
                                   "it")
        for client in self.run.roamers.values():
            for former, node, at_ns in client.sent_on.get(fact.origin, ()):
                self.check_sent_on(fact, client, former, node, at_ns)
        for (name, epoch), node in fact.due.items():
            if self.run.roamers[name].epoch == epoch:    # else a session that has begun since is there (seed 505)
                self.check_copies(fact, name, node)

    def check_sent_on(
        self, fact: RoutedMessage, client: RoamingClient, former: RoamingNode, node: RoamingNode, at_ns: int,
    ) -> None:
        """Q1: what came late to the former node of a session is at the node that has it now, and in its copies, before
        it is acknowledged. Of a message that was published twice, the publication that is acknowledged: the former one
        may be on its way (seed 30370). Excused: nodes that the one before them did not reach all the time; what was
        waited for until `ack_timeout_s` since."""
        if (at_ns <= fact.at_ns or not fact.node.awaits(former, fact.at_ns) or not former.sees(node, at_ns)
                or not fact.qos or any(late_ns >= at_ns for late_ns in (*former.onward_late_ns, *node.copies_late_ns))):
            return
        if (client.name, fact.origin) not in node.late_came:
            raise Broken("Q1", f"{fact.number} of {fact.publisher} was acknowledged before {node.channel.name} had it, "
                               f"where the session of {client.name} is since it left {former.channel.name}")
        session, kept = node.broker.sessions.get(client.name), node.core.copies.kept.get(client.name)
        if session is None or kept is None or not session.expiry_s:
            return
        has = [number_of(each.publication) for each in (*session.in_flight.values(), *session.queue) if each.qos]
        for keeper in kept.keepers if fact.number in has else ():
            home = self.run.homes[keeper]
            copy = home.core.copies.here.get(client.name, {}).get(node.channel.name)
            if copy is None or copy.begin != kept.begin or not node.sees(home, at_ns):
                continue                                 # it is to replace one that was there before
            stored = (*copy.queue, *(each for each in copy.in_flight.values() if each is not None))
            self.run.counts["messages sent on that copies had"] += 1
            if not any(number_of(read_delivery(each).publication) == fact.number for each in stored):
                raise Broken("Q1", f"{fact.number} of {fact.publisher}, which came late, was acknowledged before "
                                   f"{keeper} had it in its copy of {client.name}'s session at {node.channel.name}")

    def check_copies(self, fact: RoutedMessage, name: str, node: RoamingNode) -> None:
        """Q1: what was acknowledged is at the nodes with copies of the session that gets it."""
        kept, peer = node.core.copies.kept.get(name), fact.node.core.peers.get(node.channel.name)
        if kept is None or not kept.session.expiry_s:        # its copies have its will alone
            return
        if not self.run.is_live(node) or node.core.counters["copies_late"] or (
                node is not fact.node and (peer is None or not peer.is_up or peer.handle != node.channel.address
                                           or not fact.node.awaits(node, fact.at_ns) or fact.origin not in node.took)):
            return
        copies = [(keeper, self.run.homes[keeper].core.copies.here.get(name, {}).get(node.channel.name))
                  for keeper in kept.keepers]
        origin, number = fact.origin
        for keeper, copy in copies:
            if (copy is None or copy.begin != kept.begin or not node.core.peers[keeper].is_up
                    or kept.keepers[keeper] > kept.safe_turn):
                return                                   # it is to replace one that was there before (seed 11482)
            if copy.seen.get(origin, 0) < number:
                raise Broken("Q1", f"{fact.number} of {fact.publisher} was acknowledged before {keeper} had it in its "
                                   f"copy of {name}'s session at {node.channel.name}")
        self.run.counts["publishes that copies had"] += bool(copies)


def number_of(publication: Publication) -> int:
    """The number of a message."""
    return int(publication.payload or publication.properties.content_type or 0)


def begun_for(peer: FederationPeer) -> dict[int, None]:
    """The messages for groups that are under way to a peer: a member there may have had them."""
    return {number_of(event.item.publication): None for event in peer.stream.under_way
            if event.item is not None and event.item.targets}


def given_on_by(node: MqttNode) -> dict[int, None]:
    """The messages for groups that a node had for others, and whose acknowledgements did not wait for these."""
    return {number_of(event.item.publication): None for peer in node.core.peers.values()
            for event in (*peer.stream.under_way, *peer.stream.queued)
            if event.item is not None and event.item.is_moved and not event.token}


def act(node: RoamingNode, rng: Random) -> None:
    """Operations of clients: the trial's `act`."""
    node.act(rng)


def is_quiet(nodes: list[RoamingNode]) -> bool:
    """Whether the nodes have nothing for each other but digests: what waits for copies is acknowledged late."""
    return not any(peer.is_up and peer.stream.held for node in nodes for peer in node.core.peers.values())


def run(seed: int, part: PlanPart = WHOLE, keep: bool = False, profile: str = PROFILE) -> Outcome:
    """Run a seed, or a part of it."""
    shared = RoamingRun(seed, profile)
    outcome = Trial(profile, shared.start, act, at_end=shared.at_end, is_quiet=is_quiet).run(seed, part, keep=keep)
    return attrs.evolve(outcome, reached={**outcome.reached, **shared.reached()})


APPLICATIONS.update({name: partial(run, profile=name) for name in (PROFILE, EXPIRY_PROFILE, SLOW_PROFILE)})
