"""Brokers of MQTT that federate (blocks/mqtt) on the simulator: nodes, and clients that stay at theirs.

Here is profile mqtt-sites: several sites with RELAY, in half of the seeds with `topics_in` and `topics_out`.

Clients that go from node to node, of profile mqtt, are in mqtt_roaming.py. Every member is a node: a broker, its
federation, and a link on the simulated channel. Clients belong to a node; they publish, subscribe, vanish and come
back, also to the node's next life, where they set their subscriptions again. Every payload is a number of its own. Q1
to Q6, Q8, Q11, Q12, Q14 and Q15 of design/mqtt.md are checked; Q2 not of retained messages, which a new subscriber may
get from the table and, a moment later, live.
"""
from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from random import Random
from typing import Any

import attrs

import jgroups_py as jg
from jgroups_py.blocks.mqtt.broker.broker import Broker
from jgroups_py.blocks.mqtt.broker.options import BrokerOptions
from jgroups_py.blocks.mqtt.broker.outputs import CloseConnection, MoreToSend, Output, SendAcks, SendPacket, SendPublish
from jgroups_py.blocks.mqtt.broker.publication import Publication
from jgroups_py.blocks.mqtt.codec.decoder import Decoder
from jgroups_py.blocks.mqtt.codec.packets import (
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
    SentBy,
    SubscribePacket,
    Subscription,
    UnsubscribePacket,
    Will,
)
from jgroups_py.blocks.mqtt.federation.core import FederationCore
from jgroups_py.blocks.mqtt.federation.group_link import GroupLink, lost_counter
from jgroups_py.blocks.mqtt.federation.options import FederationOptions
from jgroups_py.blocks.mqtt.federation.tables import key_of
from jgroups_py.blocks.mqtt.federation.wire import RETAINED, SiteMessage, decode_frame, read_message
from jgroups_py.model.address import Address, ProxyUUID
from jgroups_py.model.batch import Flag
from jgroups_py.model.errors import ChannelError
from jgroups_py.model.outputs import MessagesLost
from jgroups_py.model.units import NS_PER_S, seconds
from jgroups_py.simulator.plan_parts import WHOLE, PlanPart
from jgroups_py.simulator.runner import APPLICATIONS, Outcome
from jgroups_py.testing.simulation.alarm import Alarm
from jgroups_py.testing.simulation.ledger import Broken
from jgroups_py.testing.simulation.mqtt_silence import SilenceCheck
from jgroups_py.testing.simulation.trial import Trial

PROFILE, SITES_PROFILE = "mqtt", "mqtt-sites"
TOPICS = ("a/1", "a/2", "b/1", "b")
FILTERS: dict[str, tuple[str, ...]] = {
    "a/+": ("a/1", "a/2"), "a/1": ("a/1",), "#": (*TOPICS, "wills", "kept/1", "kept/2", "kept/3"),
    "+/1": ("a/1", "b/1", "kept/1"), "b/#": ("b/1", "b"), "+": ("b", "wills"), "wills": ("wills",)}
"""Filter -> the topics here that it matches."""
KEPT, EARLY = ("kept/1", "kept/2"), "kept/3"
RETAINED_TOPICS = (*KEPT, EARLY)
"""EARLY: in seeds with rules, set before a site that starts late is there, and not again."""
SHARED, SHARED_TOPIC = "$share/g/a/1", "a/1"
"""In seeds with rules, some clients are members of this; its messages have an identifier."""
MATCHED = {**FILTERS, SHARED: (SHARED_TOPIC,)}
RULES: dict[str, tuple[str, ...]] = {
    "a/#": ("a/1", "a/2"), "+/1": ("a/1", "b/1", "kept/1"), "b/#": ("b/1", "b"), "+": ("b", "wills"),
    "kept/#": RETAINED_TOPICS, "kept/2": ("kept/2",), "wills": ("wills",)}
"""What topics_in and topics_out are drawn from; filter -> the topics here that it matches."""
RULE_SIZES = (0, 0, 1, 2, 3, 4)
CLIENTS_A_NODE = 2
ACK_TIMEOUT_NS = seconds(2)
SILENT_S = (0.05, 0.05, 0.3, 60.0)
"""By seed; the last one: acknowledgements wait for silent peers too."""
FOR_EVER = 1_000_000
KEEP_PEER_S = 600
"""Longer than any run."""
LATE_NS = seconds(2)
SHARING = 0.05
"""How often a client becomes a member of SHARED, or ends that, in seeds with rules."""
BURST = (1, 1, 2, 3, 5, 20)
IN_ONE_READ: tuple[tuple[int, ...], ...] = ((), (), (), (1, 2), (0, 1, 1), ())
"""By turns, the QoS of messages that a node reads together with one."""
COUNTED = {"messages_received": "messages from peers", "events_resent": "events sent again",
           "site_messages_received": "messages from other sites", "site_filters_sent": "filters sent to sites",
           "kept_in_site": "messages kept in their site", "dropped_topics_in": "messages that a site did not let in",
           "peer_restarts": "restarts of a peer", "parked": "messages parked", "trees_wanted": "trees asked for"}


@attrs.define(eq=False)
class PublishedMessage:
    """A publication of a client. due: sessions that have to get it, with the node that each is at; routed: how often a
    node got it from the client, which repeats it to a node that does not know its session; sites: the other sites that
    it may be sent to; members: clients that share it -> their membership, and their nodes; was_shared: how often one of
    them got it."""

    number: int
    publisher: str
    topic: str
    qos: int
    node: MqttNode
    at_ns: int
    due: dict[str, MqttNode] = attrs.field(factory=dict)
    routed: int = 0
    acknowledged: bool = False
    sites: dict[str, None] = attrs.field(factory=dict)
    members: dict[str, tuple[int, MqttNode]] = attrs.field(factory=dict)
    was_shared: int = 0


@attrs.frozen
class SiteRules:
    """topics_in and topics_out of a site; empty: all topics."""

    topics_in: tuple[str, ...] = ()
    topics_out: tuple[str, ...] = ()

    def lets_in(self, topic: str) -> bool:
        """Whether it takes a topic from other sites."""
        return not self.topics_in or any(topic in RULES[filter] for filter in self.topics_in)

    def lets_out(self, topic: str) -> bool:
        """Whether it gives a topic to other sites."""
        return not self.topics_out or any(topic in RULES[filter] for filter in self.topics_out)


class MqttRun:
    """The objects that all members of one seed share."""

    def __init__(self, seed: int, has_sites: bool = False) -> None:
        self.seed = seed
        self.has_rules = has_sites and Random(f"{seed}/topic rules").random() < 0.5
        self.rules: dict[str, SiteRules] = {}
        self.session_copies = 0
        self.silent_s = Random(f"{seed}/silence").choice(SILENT_S)
        self.counts: Counter[str] = Counter()
        self.nodes: dict[str, MqttNode] = {}             # name -> its latest life
        self.lives: list[MqttNode] = []
        self.clients: dict[str, MqttClient] = {}
        self.messages: dict[int, PublishedMessage] = {}
        self.broken: Broken | None = None                # what was found while it came to rest

    def start(self, channel: Any) -> MqttNode:
        """The application of a member that starts."""
        node = MqttNode(channel, self)
        before = self.nodes.get(channel.name)
        self.nodes[channel.name] = node
        if all(other.site != node.site for other in self.lives) and node.now_ns() > LATE_NS:
            self.counts["sites that started late"] += 1
        self.lives.append(node)
        for number in range(CLIENTS_A_NODE):
            name = f"{channel.name}{number}"
            client = self.clients.setdefault(name, MqttClient(self, name, channel.name))
            if before is not None:
                client.lose_node()
        return node

    def site_of(self, payload: bytes) -> str:
        """Where a message was published."""
        return self.messages[int(payload)].node.site

    def rules_of(self, site: str) -> SiteRules:
        """Of a site: the same for all its nodes."""
        if site not in self.rules:
            rng = Random(f"{self.seed}/topic rules/{site}")
            drawn = [tuple(rng.sample(sorted(RULES), rng.choice(RULE_SIZES))) for _ in range(2)]
            self.rules[site] = SiteRules(*drawn) if self.has_rules and site else SiteRules()
        return self.rules[site]

    def may_cross(self, source: str, dest: str, topic: str) -> bool:
        """Whether a topic goes from a site to another one, or stays in its site."""
        return source == dest or (self.rules_of(source).lets_out(topic) and self.rules_of(dest).lets_in(topic))

    def reached(self) -> dict[str, int]:
        """State -> how often the run reached it."""
        counts = Counter(self.counts)
        for node in self.lives:
            counts.update({COUNTED[name]: number for name, number in node.core.counters.items() if name in COUNTED})
        return dict(counts)

    def at_end(self, nodes: list[MqttNode]) -> None:
        """Once all is at rest: everything has arrived, and all know the same."""
        if self.broken is not None:
            raise self.broken
        for client in self.clients.values():
            node = self.nodes[client.home]
            if node in nodes and not client.connection:
                client.come()
        for node in nodes:
            node.check_peers([other for other in nodes if other is not node and other.site == node.site])
            node.check_sites(nodes)
        self.check_retained(nodes)
        for client in self.clients.values():
            if self.nodes[client.home] in nodes and client.unacknowledged:
                raise Broken("Q11", f"{client.name} has no answer for {sorted(client.unacknowledged)}")
        for message in self.messages.values():
            for session, node in message.due.items():
                self.check_arrival(message, session, node, nodes)
            self.check_shared(message, nodes)

    def check_shared(self, message: PublishedMessage, nodes: list[MqttNode]) -> None:
        """Q6: a member in some site that may have it had it. Excused: a member that has left since, or whose node has
        ended; a publisher's node that has."""
        if (not message.qos or not message.acknowledged or not message.members or message.was_shared
                or message.node not in nodes):
            return
        if all(node in nodes and self.clients[name].membership == since
               for name, (since, node) in message.members.items()):
            raise Broken("Q6", f"no member of {SHARED} got {message.number} of {message.publisher} at "
                               f"{message.node.site}: {sorted(message.members)}")

    def check_arrival(self, message: PublishedMessage, session: str, node: MqttNode, nodes: list[MqttNode]) -> None:
        """Q1. Excused: a session whose node is gone; a publisher's node that is gone, with what it had for a peer that
        it could not reach."""
        if not message.qos or not message.acknowledged or node not in nodes:
            return
        of_site = [node] if message.node.site == node.site else [
            other for other in self.lives if other.site == node.site]
        if message.node not in nodes and not any(message.number in other.taken for other in of_site):
            return
        client = self.clients[session.partition("/")[0]]
        if message.number not in client.had[session]:
            raise Broken("Q1", f"{session} at {node.channel.address} never got {message.number}, published by "
                               f"{message.publisher} at {message.at_ns / NS_PER_S:.6f}")

    def check_retained(self, nodes: list[MqttNode]) -> None:
        """Q8: one winner of each topic in a site, and between sites that give the topic to each other. A site that is
        given one has that or a newer one. Q15: it has none that it is not given."""
        found: dict[MqttNode, dict[str, bytes]] = {node: {
            each.topic: each.payload for each in node.broker.router.retained.matching("#", node.now_ns())}
            for node in nodes}
        for topic in RETAINED_TOPICS:
            for node in nodes:
                payload = found[node].get(topic)
                source = None if payload is None else self.site_of(payload)
                if source is not None and not self.may_cross(source, node.site, topic):
                    raise Broken("Q15", f"{node.channel.name} has {payload!r} of {topic}, which {source} does not give "
                                        f"to {node.site}")
                for other in nodes:
                    there = found[other].get(topic)
                    if there == payload or not self.may_cross(node.site, other.site, topic):
                        continue
                    if self.may_cross(other.site, node.site, topic):
                        raise Broken("Q8", f"{topic} is {payload!r} at {node.channel.name} and {there!r} at "
                                           f"{other.channel.name}")
                    if source == node.site and not other.has_newer(topic, node):
                        raise Broken("Q8", f"{other.channel.name} has {there!r} of {topic}, and {node.channel.name} at "
                                           f"{node.site} has {payload!r}, which is newer")


class MqttNode(jg.Receiver):
    """One life of a broker."""

    def __init__(self, channel: Any, run: MqttRun) -> None:
        self.channel = channel
        self.run = run
        self.site = channel.site or ""
        rng = Random(f"{run.seed}/{channel.name}/{len(run.lives)}")
        options = FederationOptions(
            name=channel.name, keep_peer_s=KEEP_PEER_S, window_bytes=rng.choice((2_000, 1 << 20)),
            batch_bytes=rng.choice((500, 64 << 10)), session_copies=run.session_copies,
            silent_s=run.silent_s, topics_in=run.rules_of(self.site).topics_in,
            topics_out=run.rules_of(self.site).topics_out)
        self.core = FederationCore(
            options, rng, now_ns=self.now_ns(),
            wall_offset_ns=seconds(1_000_000) + rng.randrange(-seconds(1), seconds(1)))
        self.broker = Broker(
            BrokerOptions(node_name=channel.name, sys_interval_s=0, ack_timeout_s=ACK_TIMEOUT_NS / NS_PER_S,
                          match_cache=rng.choice((0, 2, 100))),
            rng, now_ns=self.now_ns(), federation=self.core)
        self.core.attach(self.broker)
        self.silence = SilenceCheck(self.core, seconds(run.silent_s), self.now_ns())
        self._received = self.core.receive
        self.core.receive = self.frame_came              # type: ignore[method-assign]
        self.link = GroupLink(self.core, self)
        self.taken: dict[int, None] = {}                 # numbers of peers' messages that this node has taken over
        self.connections: dict[int, MqttClient] = {}
        self.last_connection = 0
        self.is_settling = False
        self.alarm = Alarm(channel, self.now_ns, self.wake)
        self._deliver = self.broker.deliver
        self.broker.deliver = self.take_over             # type: ignore[method-assign]
        channel.receiver = self

    def take_over(self, publication: Publication, groups: Any, now_ns: int, shared_only: bool = False) -> bool:
        """A peer's message, on its way to the sessions here."""
        self.taken[int(publication.payload or 0)] = None
        return self._deliver(publication, groups, now_ns, shared_only)

    def frame_came(self, name: str, data: bytes, now_ns: int) -> None:
        """A peer's frame, on its way to the federation."""
        self.silence.ran(now_ns)
        self.silence.heard(name, now_ns)
        self._received(name, data, now_ns)

    # --- the group --------------------------------------------------------------------------------------------------

    def view_accepted(self, view: jg.View) -> None:
        self.link.view_installed(view, self.channel.address, self.now_ns())
        self.sites_changed()

    def global_view_accepted(self, view: Any) -> None:
        self.sites_changed()

    def site_status(self, site: str, status: str) -> None:
        self.sites_changed()

    def messages_lost(self, loss: MessagesLost) -> None:
        if lost_counter(loss, self.site) is not None:
            raise Broken("Q1", f"messages {loss.first} to {loss.stop} of {loss.origin} are lost at "
                               f"{self.channel.address}")

    def sites_changed(self) -> None:
        """What RELAY shows has changed."""
        if self.site:
            self.link.sites_changed(self.site, self.channel.sites, self.channel.global_view, self.now_ns())
        self.settle()

    def receive(self, message: jg.Message) -> None:
        assert message.src is not None, "a delivered message has a source"
        if message.dest is None and not message.flags & Flag.NO_RELAY and not isinstance(message.src, ProxyUUID):
            return                                       # for other sites, from this one
        self.link.received(message.src, message.payload, self.now_ns())
        self.settle()

    def now_ns(self) -> int:
        now_ns: int = round(self.channel.now * NS_PER_S)
        return now_ns

    def send(self, dest: Address | None, data: bytes) -> None:
        try:
            self.channel.send(dest, data, 0 if isinstance(dest, ProxyUUID) else Flag.NO_RELAY)
        except ChannelError:
            self.run.counts["frames refused by the channel"] += 1

    def send_to_sites(self, frames: Sequence[bytes], tokens: Sequence[int], sites: tuple[str, ...] | None) -> None:
        """See group_link.Carrier. A simulated channel has no receipts: acknowledgements do not wait for one. Q5: each
        message goes to sites that may want it alone; Q15: and that it may go to."""
        self.run.counts["messages for some of the sites"] += 0 if sites is None else len(frames)
        for frame in map(decode_frame, frames):
            if isinstance(frame, SiteMessage):
                item = read_message(frame.body, 0)
                message = self.run.messages[int(item.publication.payload or 0)]
                for site in self.core.sites.others if sites is None else sites:
                    is_given_on = (item.is_moved and item.shared_only and SHARED in self.core.sites.others[site].filters
                                   and self.run.may_cross(message.node.site, site, message.topic))
                    if site not in message.sites and not is_given_on:
                        may = self.run.may_cross(self.site, site, message.topic)
                        raise Broken("Q5" if may else "Q15", f"{self.channel.name} sends {message.number} about "
                                                             f"{message.topic} to {site}")
        try:
            self.channel.send_for_sites(sites, frames)
        except ChannelError:
            self.run.counts["frames refused by the channel"] += len(frames)
        self.core.sites_have(tokens)

    def settle(self) -> None:
        """Carry out what federation and broker want, until nothing more comes, and set the timer."""
        if self.is_settling:
            return
        self.is_settling = True
        try:
            while True:
                self.link.flush(self.now_ns())
                outputs = self.broker.drain()
                if not outputs:
                    break
                for output in outputs:
                    client = self.connections.get(output.connection)
                    if isinstance(output, MoreToSend):   # the client reads, so there is room at once
                        self.broker.write_ready(output.connection, self.now_ns())
                    elif client is not None:
                        client.take(output)
        except Broken as broken:
            self.run.broken = self.run.broken or broken
            raise
        finally:
            self.is_settling = False
        due_ns = self.core.next_deadline_ns()
        self.alarm.set(min(due_ns, self.broker.next_deadline_ns() or due_ns))

    def wake(self) -> None:
        if self.channel.state is jg.ChannelState.CONNECTED:
            self.silence.ran(self.now_ns())
            self.core.tick(self.now_ns())
            self.broker.tick(self.now_ns())
            self.settle()

    # --- operations and checks ----------------------------------------------------------------------------------------

    def act(self, rng: Random) -> None:
        """Some operations of clients of this node."""
        for _ in range(rng.choice(BURST)):
            self.run.clients[f"{self.channel.name}{rng.randrange(CLIENTS_A_NODE)}"].act(rng)
        self.check_ledgers()

    def check_ledgers(self) -> None:
        """Q12, and for which peers acknowledgements wait."""
        self.silence.ran(self.now_ns())
        self.silence.check(self.now_ns())
        for peer in self.core.report(self.now_ns()):
            held = peer["queued"] + peer["unacknowledged"]
            if peer["accepted"] != peer["acknowledged"] + held + sum(peer["dropped"].values()):
                raise Broken("Q12", f"the ledger of {self.channel.name} does not add up: {peer}")

    def check_peers(self, others: list[MqttNode]) -> None:
        """Q14, and nothing is left to be sent."""
        for other in others:
            name = other.channel.name
            known = self.core.interest_of_peers.peers.get(name)
            wanted = other.core.own.filters
            if known is None or known.filters != wanted:
                raise Broken("Q14", f"{self.channel.name} takes {None if known is None else known.filters} for the "
                                    f"filters of {name}: {wanted}")
            if self.core.peers[name].stream.held:
                raise Broken("Q1", f"{self.channel.name} still has {self.core.peers[name].stream.held} events for "
                                   f"{name}: {self.core.peers[name].state}")

    def check_sites(self, nodes: list[MqttNode]) -> None:
        """Q14 across sites: what this node takes another site for is what its brokers want."""
        for name, known in self.core.sites.others.items():
            wanted = {filter: None for node in nodes if node.site == name for filter in node.core.own.filters}
            lets_in = self.run.rules_of(name).lets_in
            needed = [filter for filter in wanted if any(map(lets_in, MATCHED[filter]))]
            if not known.incarnation or any(filter not in wanted for filter in known.filters) or any(
                    filter not in known.filters for filter in needed):
                raise Broken("Q14", f"{self.channel.name} takes {sorted(known.filters)} for the filters of {name}: "
                                    f"{sorted(wanted)}")

    def has_newer(self, topic: str, other: MqttNode) -> bool:
        """Whether this node's table has what another one's has of a topic, or something newer, or its deletion."""
        here, there = (node.core.broker_tables.tables[RETAINED] for node in (self, other))
        key = key_of(topic)
        entry, wanted = here.entries.get(key) or here.deleted.get(key), there.entries[key]
        return entry is not None and entry.version >= wanted.version

    def may_want(self, site: str, topic: str) -> bool:
        """Whether a message of this node may go to another site: it may cross, and the site has a filter, or this node
        does not know its filters, or its rules."""
        known = self.core.sites.others[site]
        return self.run.rules_of(self.site).lets_out(topic) and (
            not known.incarnation or (self.run.rules_of(site).lets_in(topic) and any(
                topic in MATCHED[filter] for filter in known.filters)))

    def knows(self, other: MqttNode, filter: str) -> bool:
        """Whether this node was told of a filter of another one's present life."""
        if other.site != self.site:
            site = self.core.sites.others.get(other.site)
            return site is not None and filter in site.filters
        known = self.core.interest_of_peers.peers.get(other.channel.name)
        return known is not None and known.incarnation == other.core.incarnation and filter in known.filters


class MqttClient:
    """A client of one node, with a session that outlives its connections. life: of the session."""

    def __init__(self, run: MqttRun, name: str, home: str) -> None:
        self.run = run
        self.name = name
        self.home = home
        self.connection = 0
        self.life = 0
        self.last_id = 0
        self.will = 0
        self.decoder = Decoder(SentBy.SERVER, ProtocolVersion.MQTT_5)
        self.filters: dict[str, int] = {}
        self.is_member, self.membership = False, 0       # of SHARED; another number when its messages may be lost
        self.ever: dict[str, None] = {}                  # filters that it had at any time
        self.unacknowledged: dict[int, PublishPacket | None] = {}    # None: PUBREC came
        self.numbers: dict[int, int] = {}                # packet id -> number
        self.received_2: dict[int, None] = {}
        self.had: defaultdict[str, Counter[int]] = defaultdict(Counter)      # session -> number -> times
        self.highest: dict[tuple[str, str, str, int], int] = {}

    @property
    def node(self) -> MqttNode:
        """The life of its node that is there now."""
        return self.run.nodes[self.home]

    @property
    def session(self) -> str:
        """The name of its session."""
        return f"{self.name}/{self.life}"

    # --- connections --------------------------------------------------------------------------------------------------

    def come(self) -> None:
        """Connect, go on with the session or begin one with the same subscriptions, repeat what has no answer."""
        node = self.node
        node.last_connection += 1
        self.connection = node.last_connection
        self.decoder = Decoder(SentBy.SERVER, ProtocolVersion.MQTT_5)
        node.connections[self.connection] = self
        now_ns = node.now_ns()
        node.broker.connected(self.connection, now_ns)
        self.will = self.message("wills", 2, 0).number
        self.send(ConnectPacket(
            self.name, ProtocolVersion.MQTT_5, False, will=Will("wills", b"%d" % self.will, 2, False),
            properties=Properties(session_expiry_interval=FOR_EVER)))

    def connected(self, packet: ConnAckPacket) -> None:
        """CONNACK came."""
        if packet.session_present:
            self.run.counts["sessions that went on"] += 1
        else:
            self.life += 1
            self.received_2.clear()
            self.membership += 1
            for filter, qos in self.filters.items():
                self.send(SubscribePacket(self.next_id(), (Subscription(filter, qos),)))
            if self.is_member:
                self.share()
        for packet_id, publish in list(self.unacknowledged.items()):
            if publish is None and packet.session_present:
                self.send(PubRelPacket(packet_id))
            elif publish is None:
                del self.unacknowledged[packet_id]       # the new session knows nothing of it
            elif publish.qos == 2 and packet.session_present:
                self.send(attrs.evolve(publish, dup=True))       # which was routed when it came first
            else:
                self.route(self.run.messages[self.numbers[packet_id]], attrs.evolve(publish, dup=True))

    def lose_node(self) -> None:
        """Its node has ended: no will comes of that."""
        self.connection = 0

    def leave(self, with_will: bool) -> None:
        """End the connection, with DISCONNECT or without."""
        node, connection, self.connection = self.node, self.connection, 0
        now_ns = node.now_ns()
        if with_will:
            self.due(self.run.messages[self.will])
            node.broker.lost(connection, now_ns)
            self.run.messages[self.will].acknowledged = True
        else:
            node.broker.received(connection, (DisconnectPacket(),), now_ns)
        node.connections.pop(connection, None)
        node.settle()

    # --- operations ---------------------------------------------------------------------------------------------------

    def act(self, rng: Random) -> None:
        """One operation."""
        if not self.connection:
            self.come()
            if self.run.has_rules and self.node.now_ns() < LATE_NS:
                self.publish(EARLY, 1, retain=True)
            return
        action, = rng.choices(("publish", "retain", "subscribe", "unsubscribe", "vanish", "leave"), (30, 2, 3, 1, 1, 1))
        filter = rng.choice(tuple(FILTERS))
        if action == "publish":
            self.publish(rng.choice(TOPICS), rng.choice((0, 1, 2)),
                         in_one_read=IN_ONE_READ[len(self.run.messages) % len(IN_ONE_READ)])
        elif action == "retain":
            self.run.counts["retained messages"] += 1
            self.publish(rng.choice(KEPT), 1, retain=True)
        elif action == "subscribe" and filter not in self.filters:
            self.filters[filter] = 2
            self.ever[filter] = None
            self.send(SubscribePacket(self.next_id(), (Subscription(filter, 2),)))
        elif action == "unsubscribe" and filter in self.filters:
            del self.filters[filter]
            for message in self.run.messages.values():
                if message.topic in FILTERS[filter] and message.number not in self.had[self.session]:
                    message.due.pop(self.session, None)
            self.send(UnsubscribePacket(self.next_id(), (filter,)))
        elif action in ("vanish", "leave"):
            self.leave(with_will=action == "vanish")
        if self.run.has_rules and self.connection and rng.random() < SHARING:
            self.is_member = not self.is_member
            self.membership += 1
            if self.is_member:
                self.share()
            else:
                self.send(UnsubscribePacket(self.next_id(), (SHARED,)))

    def share(self) -> None:
        """Become a member."""
        self.send(SubscribePacket(self.next_id(), (Subscription(SHARED, 2),),
                                  Properties(subscription_identifiers=(1,))))

    def message(self, topic: str, qos: int, packet_id: int) -> PublishedMessage:
        number = len(self.run.messages) + 1
        made = PublishedMessage(number, self.name, topic, qos, self.node, self.node.now_ns())
        self.run.messages[number] = made
        self.numbers[packet_id] = number
        return made

    def publish(self, topic: str, qos: int, retain: bool = False, in_one_read: Sequence[int] = ()) -> None:
        """in_one_read: the QoS of messages that come behind it before the node has answered."""
        if len(self.unacknowledged) > 200:
            return
        self.send(*[self.publication(topic, each, retain) for each in (qos, *in_one_read)])

    def publication(self, topic: str, qos: int, retain: bool) -> PublishPacket:
        """A message that is about to be sent."""
        packet_id = self.next_id() if qos else 0
        message = self.message(topic, qos, packet_id)
        packet = PublishPacket(topic, b"%d" % message.number, qos, retain, packet_id=packet_id)
        if qos:
            self.unacknowledged[packet_id] = packet
        self.due(message)
        return packet

    def route(self, message: PublishedMessage, packet: PublishPacket) -> None:
        self.due(message)
        self.send(packet)

    def due(self, message: PublishedMessage) -> None:
        """The node gets a message now: the sessions that it must reach are those that the node was told of."""
        node = self.node
        message.routed += 1
        message.sites.update((site, None) for site in node.core.sites.others if node.may_want(site, message.topic))
        message.node, message.at_ns, message.due, message.members = node, node.now_ns(), {}, {}
        for client in self.run.clients.values():
            home = self.run.nodes.get(client.home)
            if home is None or not client.life or client.session_node is not home:
                continue
            if any(message.topic in FILTERS[filter] and (home is node or node.knows(home, filter))
                   for filter in client.filters) and self.run.may_cross(node.site, home.site, message.topic):
                message.due[client.session] = home
            if (client.is_member and message.topic == SHARED_TOPIC and (home is node or node.knows(home, SHARED))
                    and self.run.may_cross(node.site, home.site, SHARED_TOPIC)):
                message.members[client.name] = client.membership, home

    session_node: MqttNode | None = None                 # where the session of `life` is

    def next_id(self) -> int:
        """A packet id that is free."""
        while True:
            self.last_id = self.last_id % 65_535 + 1
            if self.last_id not in self.unacknowledged:
                return self.last_id

    def send(self, *packets: Packet) -> None:
        """To the node, in one read, if there is a connection."""
        if self.connection:
            self.node.broker.received(self.connection, packets, self.node.now_ns())
            self.node.settle()

    # --- what comes ---------------------------------------------------------------------------------------------------

    def take(self, output: Output) -> None:
        """Carry out an output of the broker."""
        if isinstance(output, SendPublish):
            self.got(output)
        elif isinstance(output, SendPacket):
            self.answered(output.packet)
        elif isinstance(output, SendAcks):
            for packet in output.packets:
                self.answered(packet)
        elif isinstance(output, CloseConnection):
            raise Broken("MQTT", f"{self.name} was disconnected: {output.reason.name}, {output.detail}")

    def got(self, output: SendPublish) -> None:
        """A message came: Q2, Q3, Q4."""
        packet, = self.decoder.feed(output.frames.frame(output.qos, output.packet_id, output.retain, output.dup))
        assert isinstance(packet, PublishPacket), "frames of a PUBLISH"
        number = int(packet.payload)
        message = self.run.messages[number]
        if output.qos == 2 and output.packet_id in self.received_2:
            self.answer(PubRecPacket(output.packet_id))
            return
        self.run.counts["messages delivered"] += 1
        if packet.properties.subscription_identifiers:
            self.got_as_member(message)
        else:
            self.got_plain(message, output)
        if output.qos == 1:
            self.answer(PubAckPacket(output.packet_id))
        elif output.qos == 2:
            self.received_2[output.packet_id] = None
            self.answer(PubRecPacket(output.packet_id))

    def got_as_member(self, message: PublishedMessage) -> None:
        """By the shared subscription."""
        self.run.counts["messages of shared subscriptions"] += 1
        message.was_shared += 1
        told = f"{self.session} got {message.number} of {message.publisher} about {message.topic}"
        if message.topic != SHARED_TOPIC:
            raise Broken("Q4", f"{told} by {SHARED}")
        self.check_entered(message, told)

    def check_entered(self, message: PublishedMessage, told: str) -> None:
        """Q15."""
        source = message.node.site
        if not self.run.may_cross(source, self.node.site, message.topic):
            raise Broken("Q15", f"{told}, which {source} does not give to {self.node.site}")

    def got_plain(self, message: PublishedMessage, output: SendPublish) -> None:
        """By plain filters."""
        number, times = message.number, self.had[self.session]
        times[number] += 1
        told = f"{self.session} got {number} of {message.publisher}"
        if not any(message.topic in FILTERS[filter] for filter in self.ever):
            raise Broken("Q4", f"{told} about {message.topic}, which no filter of {sorted(self.ever)} matches")
        self.check_entered(message, f"{told} about {message.topic}")
        if times[number] > max(1, message.routed) and message.topic not in RETAINED_TOPICS and not output.dup:
            raise Broken("Q2", f"{told} {times[number]} times; it was routed {message.routed} times")
        key = self.session, message.publisher, message.topic, message.qos
        if message.routed == 1 and message.topic in TOPICS and times[number] == 1 and not output.dup:
            if number < self.highest.get(key, 0):
                raise Broken("Q3", f"{told} behind {self.highest[key]}")
            self.highest[key] = number

    def answered(self, packet: Packet) -> None:
        if isinstance(packet, ConnAckPacket):
            self.session_node = self.node
            self.connected(packet)
        elif isinstance(packet, PubRelPacket):
            self.received_2.pop(packet.packet_id, None)
            self.answer(PubCompPacket(packet.packet_id))
        elif not isinstance(packet, PubAckPacket | PubRecPacket | PubCompPacket):
            return
        elif packet.packet_id in self.unacknowledged:
            if not isinstance(packet, PubCompPacket):
                self.acknowledged(self.run.messages[self.numbers[packet.packet_id]])
            if isinstance(packet, PubRecPacket):
                self.unacknowledged[packet.packet_id] = None
                self.answer(PubRelPacket(packet.packet_id))
            else:
                del self.unacknowledged[packet.packet_id]

    def answer(self, packet: Packet) -> None:
        """Inside `settle`, which carries on with what follows."""
        if self.connection:
            self.node.broker.received(self.connection, (packet,), self.node.now_ns())

    def acknowledged(self, message: PublishedMessage) -> None:
        """Q1, at once: what was acknowledged in time is at every node that could have it."""
        if message.acknowledged:
            return
        message.acknowledged = True
        self.run.counts["publishes acknowledged"] += 1
        if message.node.now_ns() - message.at_ns >= ACK_TIMEOUT_NS:
            return
        for session, home in message.due.items():
            peer = message.node.core.peers.get(home.channel.name)
            if home is message.node or peer is None or not peer.is_up or peer.handle != home.channel.address:
                continue
            if not peer.is_awaited or peer.awaited_since_ns >= message.at_ns:
                self.run.counts["messages that silent peers were not waited for"] += message.number not in home.taken
            elif message.number not in home.taken:
                raise Broken("Q1", f"{message.number} of {message.publisher} was acknowledged before {session} had it")


def act(node: MqttNode, rng: Random) -> None:
    """Operations of clients of a member: the trial's `act`."""
    node.act(rng)


def run(seed: int, part: PlanPart = WHOLE, keep: bool = False, profile: str = PROFILE) -> Outcome:
    """Run a seed, or a part of it."""
    shared = MqttRun(seed, has_sites=profile == SITES_PROFILE)
    outcome = Trial(profile, shared.start, act, at_end=shared.at_end, sends_for_ever=True).run(seed, part, keep=keep)
    return attrs.evolve(outcome, reached={**outcome.reached, **shared.reached()})


def run_sites(seed: int, part: PlanPart = WHOLE, keep: bool = False) -> Outcome:
    """The same for brokers of several sites."""
    return run(seed, part, keep, SITES_PROFILE)


APPLICATIONS[SITES_PROFILE] = run_sites
