"""MosquittoLink: joins an unmodified mosquitto with a broker of this package. Pure; sidecar.py has the sockets.

    mosquitto's clients -- mosquitto <-- link --> broker -- federation -- other nodes

The link is a client of both. It subscribes at each of the two the filters of the other side:

    at mosquitto   the filters of peers (interest.py) and of the broker's own clients
    at the broker  the filters of mosquitto's clients (learned.py)

A PUBLISH of one is passed on to the other with its packet id, and so are the acknowledgements: the two sessions keep
the states of QoS 1 and 2, and the link keeps none. So mosquitto gets PUBACK from the federation when the peers have the
message, and QoS 2 crosses the link once. If one connection breaks, the link ends the other one too: both sessions
stay, queue, and go on when the link is set up again.

No loops: No Local on both sides; the federation forwards nothing from one peer to another.
No duplicates: mosquitto sends a message once for each matching filter of the link, each with the identifier of its
filter. The copy for the oldest filter is used, the others are acknowledged and dropped.
Retained messages: after SUBSCRIBE mosquitto sends its retained messages; those that the federation has too are dropped.
A retained message of the federation is given to mosquitto when a client there subscribes to it for the first time, and
at each later change, even without subscribers there, so that mosquitto keeps no old one. These messages have a user
property (RETAINED_MARK), by which the link recognizes them when mosquitto sends them back.
"""
from __future__ import annotations

import enum
from collections.abc import Callable
from hashlib import blake2b
from random import Random

import attrs

from jgroups_py.blocks.mqtt.broker.broker import Broker
from jgroups_py.blocks.mqtt.broker.publication import SECOND, Publication
from jgroups_py.blocks.mqtt.broker.subscription_tree import SubscriptionTree
from jgroups_py.blocks.mqtt.codec.packets import (
    NO_PROPERTIES,
    ConnAckPacket,
    ConnectPacket,
    DisconnectPacket,
    Packet,
    PingReqPacket,
    PingRespPacket,
    Properties,
    ProtocolVersion,
    PubAckPacket,
    PubCompPacket,
    PublishPacket,
    PubRecPacket,
    PubRelPacket,
    ReasonCode,
    RetainHandling,
    SubAckPacket,
    SubscribePacket,
    Subscription,
    UnsubAckPacket,
    UnsubscribePacket,
)
from jgroups_py.blocks.mqtt.federation.interest import InterestOfPeers
from jgroups_py.blocks.mqtt.mosquitto.learned import LOG, LOG_TOPICS, LearnedInterest
from jgroups_py.blocks.mqtt.mosquitto.options import COUNTERS, MosquittoOptions, mosquitto_counters

RETAINED_MARK = "jgroups-retained"
"""Name of the user property that a retained message of the federation has at mosquitto."""
MARK_BYTES = 300
"""Bytes that it adds to a packet at most."""
OWNER = "$jgroups/sidecar/"
"""Together with the client id: the topic at mosquitto whose retained message names the link that connected last."""
PROBE = "jgroups/probe"
"""A filter that the link unsubscribes, to find out whether mosquitto logs that."""
MAX_IDENTIFIER = 268_435_455
FIRST_ID, MAX_ID = 60_001, 65_535
"""Packet ids of the link's SUBSCRIBE and UNSUBSCRIBE; the broker numbers its packets upwards from 1."""
V5 = ProtocolVersion.MQTT_5
FINAL = {
    ReasonCode.BAD_USER_NAME_OR_PASSWORD, ReasonCode.NOT_AUTHORIZED, ReasonCode.BANNED,
    ReasonCode.UNSUPPORTED_PROTOCOL_VERSION, ReasonCode.CLIENT_IDENTIFIER_NOT_VALID,
    ReasonCode.BAD_AUTHENTICATION_METHOD}
"""Reasons of a refused CONNECT for which a retry is useless."""
NEEDED = "log_dest topic, log_type subscribe, log_type unsubscribe, log_type notice"
NO_REPORT = (f"mosquitto does not report subscriptions: its configuration needs {NEEDED}, each in a line of its own; "
             "without it the filters of its clients are not known")


class MosquittoState(enum.Enum):
    """How far the link is."""

    DOWN = "down"
    OPENING = "opening a connection to mosquitto"
    GREETING = "CONNECT sent to mosquitto"
    JOINING = "CONNECT sent to the broker"
    UP = "up"


@attrs.frozen
class OpenMosquitto:
    """Connect to mosquitto; then `mosquitto_opened`, or `broke`."""


@attrs.frozen
class OpenBroker:
    """Connect to the broker; then `broker_opened`, or `broke`."""


@attrs.frozen(eq=False)
class ToMosquitto:
    """Send a packet of MQTT 5 to mosquitto."""

    packet: Packet


@attrs.frozen(eq=False)
class ToBroker:
    """Send a packet of MQTT 5 to the broker."""

    packet: Packet


@attrs.frozen
class CloseBoth:
    """Send what is queued, then close both connections. why: for the log."""

    why: str


@attrs.frozen
class LinkFailed:
    """The link has ended for good: only another configuration helps. why: for the user."""

    why: str


MosquittoOutput = OpenMosquitto | OpenBroker | ToMosquitto | ToBroker | CloseBoth | LinkFailed


class SubscriptionState(enum.Enum):
    """A filter of the link at mosquitto."""

    SUBSCRIBING = "SUBSCRIBE is under way"
    ACTIVE = "granted"
    ENDING = "UNSUBSCRIBE is under way"
    REFUSED = "mosquitto refused it"


@attrs.define(eq=False)
class MosquittoSubscription:
    """See SubscriptionState. identifier: grows with each SUBSCRIBE."""

    filter: str
    identifier: int
    state: SubscriptionState = SubscriptionState.SUBSCRIBING
    synced_ns: int = 0                                   # until then retained messages may be old ones


class MosquittoLink:
    """See the module. After each call of it or of the broker the host carries out `drain`, and calls `tick` at
    `next_deadline_ns`. interest: the filters of the federation's peers, None without a federation.

    wake: is called when a call of the broker has left outputs for `drain`.
    """

    COUNTERS = COUNTERS

    def __init__(
        self, options: MosquittoOptions, broker: Broker, interest: InterestOfPeers | None, rng: Random, now_ns: int,
    ) -> None:
        self.options = options
        self.counters = mosquitto_counters()
        self.state = MosquittoState.DOWN
        self.why = ""
        self.client_id = f"$mosquitto/{options.name}"    # at the broker; of one node only
        self._instance = f"{options.name} {rng.getrandbits(64):016x}".encode()
        self._owner_topic = OWNER + options.client_id
        self._owner_id = 0                               # packet id of its subscription
        self._has_owned = False                          # this link has published its name there, in this session
        self.learned = LearnedInterest(options, self.counters)
        self.wake: Callable[[], None] = lambda: None
        self._broker = broker
        self._of_peers = None if interest is None else interest.tree
        self._subs: dict[str, MosquittoSubscription] = {}
        self._by_identifier: dict[int, MosquittoSubscription] = {}
        self._oldest: SubscriptionTree[int, None] = SubscriptionTree(10_000)       # identifiers by filter
        self._last_identifier = 0
        self._asked: dict[int, MosquittoSubscription] = {}       # packet id -> SUBSCRIBE, UNSUBSCRIBE under way
        self._last_id = MAX_ID
        self._touched: dict[str, None] = {}              # filters whose subscribers here have changed
        self._to_ask: dict[str, None] = {}
        self._log_id = 0                                 # packet id of the subscription of the log
        self._probe_id = 0
        self._report_ns: int | None = None
        self._absorbed: dict[int, None] = {}             # packet ids of QoS 2 that the link answers itself
        self._passed: dict[int, None] = {}               # packet ids of QoS 2 from mosquitto that the broker has
        self._released: dict[int, None] = {}             # of these, those that the link released itself
        self._under_way: dict[int, None] = {}            # packet ids from the broker to mosquitto
        self._at_mosquitto: dict[str, bytes] = {}        # topic -> digest of the retained message there, if known
        self._changed_retained: dict[str, None] = {}
        self._look_at: dict[str, int] = {}               # topic -> when to compare its retained messages
        self._early: list[Packet] = []                   # from mosquitto, until the broker has answered CONNECT
        self._connack = ConnAckPacket()
        self._has_session = self._has_broker_session = False
        self._retry_ns = now_ns
        self._attempts = 0
        self._deadline_ns = 0
        self._down_ns = now_ns
        self._heard_ns = self._ping_ns = now_ns
        self._now_ns = now_ns
        self._outputs: list[MosquittoOutput] = []
        self._last_properties: tuple[Properties, Properties] = NO_PROPERTIES, NO_PROPERTIES
        broker.router.tree.watch = self._filter_changed
        if interest is not None:
            interest.tree.watch = self._filter_changed

    # --- connections --------------------------------------------------------------------------------------------------

    def mosquitto_opened(self, now_ns: int) -> None:
        """Connected to mosquitto."""
        self._now_ns = now_ns
        if self.state is MosquittoState.OPENING:
            self.state = MosquittoState.GREETING
            self._heard_ns = self._ping_ns = now_ns
            options = self.options
            self._to_mosquitto(ConnectPacket(
                options.client_id, V5, not self._has_session, options.keep_alive_s, options.username, options.password,
                None, Properties(session_expiry_interval=options.session_s, receive_maximum=options.receive_maximum,
                                 maximum_packet_size=options.max_packet_bytes)))

    def broker_opened(self, now_ns: int) -> None:
        """Connected to the broker."""
        if self.state is not MosquittoState.JOINING:
            return
        found = self._connack.properties
        most = found.maximum_packet_size
        self._to_broker(ConnectPacket(
            self.client_id, V5, not self._has_broker_session, properties=Properties(
                session_expiry_interval=0xFFFFFFFF, receive_maximum=found.receive_maximum,
                maximum_packet_size=None if most is None else max(MARK_BYTES, most - MARK_BYTES))))

    def broke(self, why: str, now_ns: int) -> None:
        """One of the connections has ended, or could not be made."""
        self._now_ns = now_ns
        if self.state is not MosquittoState.DOWN:
            self._down(why)

    def _down(self, why: str) -> None:
        """End both connections. Messages under way stay in the two sessions."""
        if self.state is MosquittoState.UP:
            self._down_ns = self._now_ns
        self.counters.add("link_breaks")
        self.state, self.why = MosquittoState.DOWN, why
        self._early.clear()
        self._report_ns = None
        delay_s = min(self.options.retry_most_s, self.options.retry_s * 2 ** min(self._attempts, 16))
        self._attempts += 1
        self._retry_ns = self._now_ns + round(delay_s * SECOND)
        self._outputs.append(CloseBoth(why))

    def _fail(self, why: str) -> None:
        self._down(why)
        self._retry_ns = 1 << 62
        self._outputs.append(LinkFailed(why))

    # --- packets from mosquitto ---------------------------------------------------------------------------------------

    def mosquitto_sent(self, packets: list[Packet], now_ns: int) -> None:
        """Packets of mosquitto, in order."""
        self._now_ns = self._heard_ns = now_ns
        for at, packet in enumerate(packets):
            if self.state is MosquittoState.UP:
                self._of_mosquitto(packet, now_ns)
            elif self.state is MosquittoState.GREETING and isinstance(packet, ConnAckPacket):
                self._greeted(packet)
            elif self.state is MosquittoState.JOINING:
                self._early += packets[at:]
                return

    def _greeted(self, packet: ConnAckPacket) -> None:
        if packet.reason is not ReasonCode.SUCCESS:
            why = f"mosquitto refuses the link: {packet.reason.name}"
            return self._fail(why) if packet.reason in FINAL else self._down(why)
        self._connack = packet
        if not packet.session_present:
            self._forget_session()
        self._has_session = True
        self.state = MosquittoState.JOINING
        self._outputs.append(OpenBroker())

    def _forget_session(self) -> None:
        """mosquitto has no session of this link: it has restarted, or the session has expired."""
        if self._has_session:
            self.learned.unsure(self._now_ns)
        self._subs.clear()
        self._by_identifier.clear()
        self._oldest = SubscriptionTree(10_000)
        self._asked.clear()
        self._to_ask.clear()
        self._absorbed.clear()
        self._at_mosquitto.clear()
        self._released.update(self._passed)
        self._passed.clear()
        self.learned.has_reported.clear()
        self._has_owned = False
        self._log_id = self._probe_id = 0

    def _of_mosquitto(self, packet: Packet, now_ns: int) -> None:
        if packet.__class__ is PublishPacket:
            self._message_in(packet, now_ns)
        elif packet.__class__ is PubAckPacket or packet.__class__ is PubCompPacket:
            self._under_way.pop(packet.packet_id, None)
            self._to_broker(packet)
        elif packet.__class__ is PubRecPacket:
            if packet.reason >= ReasonCode.UNSPECIFIED_ERROR:
                self._under_way.pop(packet.packet_id, None)
            self._to_broker(packet)
        elif packet.__class__ is PubRelPacket:
            if packet.packet_id in self._absorbed:
                del self._absorbed[packet.packet_id]
                self._to_mosquitto(PubCompPacket(packet.packet_id))
            else:
                self._to_broker(packet)
        elif isinstance(packet, SubAckPacket):
            self._on_suback(packet, now_ns)
        elif isinstance(packet, UnsubAckPacket):
            self._on_unsuback(packet)
        elif isinstance(packet, DisconnectPacket):
            self._down(f"mosquitto closes the connection: {packet.reason.name}")
        elif not isinstance(packet, PingRespPacket):
            self.counters.add("unexpected_packets")

    def _message_in(self, packet: PublishPacket, now_ns: int) -> None:
        """A PUBLISH of mosquitto: a line of its log, a message for the broker, or one to be dropped."""
        topic = packet.topic
        if topic.startswith("$"):
            if topic.startswith(LOG):
                self.learned.line(topic, packet.payload, now_ns)
            elif topic == self._owner_topic:
                self._owned_by(packet.payload)
            else:
                self.counters.add("dollar_topics")
            self._absorb(packet)
            return
        identifiers = packet.properties.subscription_identifiers
        oldest = min((found[0] for found in self._oldest.match(topic).plain), default=0)
        if identifiers and oldest not in identifiers:
            self.counters.add("overlap_copies")
            self._absorb(packet)
            return
        if packet.retain and self._is_known(packet, oldest, now_ns):
            self._absorb(packet)
            return
        if packet.qos == 2:
            self._passed[packet.packet_id] = None
        self.counters.add("messages_in")
        self._to_broker(PublishPacket(topic, packet.payload, packet.qos, packet.retain, packet.dup, packet.packet_id,
                                      self._without_identifiers(packet.properties)))

    def _owned_by(self, instance: bytes) -> None:
        """A link that connected later replaces this one. Its retained message shows that, because mosquitto 2.0 closes
        the connection of a client id that connects again without a DISCONNECT."""
        if instance != self._instance:
            self._fail(f"another sidecar has connected to mosquitto as {self.options.client_id!r}: "
                       f"{instance[:100].decode('utf-8', 'replace')}; one mosquitto has one sidecar")

    def _is_known(self, packet: PublishPacket, identifier: int, now_ns: int) -> bool:
        """Whether a retained message of mosquitto is known to the federation. Records what mosquitto has."""
        topic = packet.topic
        if not packet.payload:                           # a new subscription brings none of these: it was cleared now
            self._at_mosquitto.pop(topic, None)
            return False
        digest = retained_digest(packet.payload, packet.qos)
        known = self._broker.router.retained.get(topic, now_ns)
        if any(name == RETAINED_MARK for name, _ in packet.properties.user_properties):
            self.counters.add("retained_own")
            if known is not None:                        # unless neither side has one
                self._note(topic, digest)
                self._look_at[topic] = now_ns
            return True
        self._note(topic, digest)
        if known is None or digest != retained_digest(known.payload, known.qos):
            return False
        sub = self._by_identifier.get(identifier)
        if sub is not None and now_ns >= sub.synced_ns and sub.state is SubscriptionState.ACTIVE:
            return False                                 # a client has published the same again
        self.counters.add("retained_known")
        return True

    def _without_identifiers(self, properties: Properties) -> Properties:
        """The message's own properties. The decoder returns one object for equal bytes, so this is cached."""
        if not properties.subscription_identifiers:
            return properties
        before, after = self._last_properties
        if before is not properties:
            after = attrs.evolve(properties, subscription_identifiers=())
            after = NO_PROPERTIES if after == NO_PROPERTIES else after
            self._last_properties = properties, after
        return after

    def _absorb(self, packet: PublishPacket) -> None:
        """Acknowledge a message and drop it."""
        if packet.qos == 1:
            self._to_mosquitto(PubAckPacket(packet.packet_id))
        elif packet.qos:
            self._absorbed[packet.packet_id] = None
            self._to_mosquitto(PubRecPacket(packet.packet_id))

    # --- packets from the broker --------------------------------------------------------------------------------------

    def broker_sent(self, packets: list[Packet], now_ns: int) -> None:
        """Packets of the broker, in order."""
        self._now_ns = now_ns
        for packet in packets:
            if self.state is MosquittoState.UP:
                self._of_broker(packet)
            elif self.state is MosquittoState.JOINING and isinstance(packet, ConnAckPacket):
                if packet.reason is ReasonCode.SUCCESS:
                    self._joined(now_ns)
                else:
                    self._down(f"the broker refuses the link: {packet.reason.name}")

    def _joined(self, now_ns: int) -> None:
        """Both connections stand."""
        self.state, self.why = MosquittoState.UP, ""
        self._attempts = 0
        self.counters.add("links")
        self._has_broker_session = True
        for packet_id in self._released:
            self._to_broker(PubRelPacket(packet_id))
        self.learned.changed.update(dict.fromkeys(self.learned))
        self._touched = dict.fromkeys((*self._subs, *self._all_wanted()))
        if not self._log_id:
            self._log_id = self._new_id()
            self._to_mosquitto(SubscribePacket(self._log_id, tuple(
                Subscription(topic, 1, retain_handling=RetainHandling.NEVER) for topic in LOG_TOPICS)))
        self._owner_id = self._new_id()
        seen = RetainHandling.ALWAYS if self._has_owned else RetainHandling.NEVER
        if not self._has_owned:
            self._has_owned = True
            self._to_mosquitto(PublishPacket(self._owner_topic, self._instance, retain=True))
        self._to_mosquitto(SubscribePacket(self._owner_id, (
            Subscription(self._owner_topic, no_local=True, retain_handling=seen),)))
        for sub in list(self._subs.values()):            # what was under way when the link broke
            if sub.state in (SubscriptionState.SUBSCRIBING, SubscriptionState.ENDING):
                self._asked = {key: value for key, value in self._asked.items() if value is not sub}
                self._ask(sub)
        early, self._early = self._early, []
        self.mosquitto_sent(early, now_ns)

    def _of_broker(self, packet: Packet) -> None:
        if packet.__class__ is PublishPacket:
            self._message_out(packet)
        elif packet.__class__ is PubCompPacket:
            if packet.packet_id in self._released:       # mosquitto has no state for it any more
                del self._released[packet.packet_id]
            else:
                self._passed.pop(packet.packet_id, None)
                self._to_mosquitto(packet)
        elif packet.__class__ is PubRecPacket:
            if packet.reason >= ReasonCode.UNSPECIFIED_ERROR:
                self._passed.pop(packet.packet_id, None)
            self._to_mosquitto(packet)
        elif packet.__class__ is PubAckPacket or packet.__class__ is PubRelPacket:
            self._to_mosquitto(packet)
        elif isinstance(packet, SubAckPacket):
            self.counters.add("subscriptions_refused", sum(
                reason >= ReasonCode.UNSPECIFIED_ERROR for reason in packet.reasons))
        elif isinstance(packet, DisconnectPacket):
            self._down(f"the broker closes the connection: {packet.reason.name}")

    def _message_out(self, packet: PublishPacket) -> None:
        """A PUBLISH of the broker for mosquitto's clients."""
        if packet.qos:
            self._under_way[packet.packet_id] = None
        properties = packet.properties
        if packet.retain:
            if packet.payload:
                self._note(packet.topic, retained_digest(packet.payload, packet.qos))
                properties = attrs.evolve(properties, user_properties=(
                    *properties.user_properties, (RETAINED_MARK, self.options.name)))
            else:
                self._at_mosquitto.pop(packet.topic, None)
        retain = packet.retain and self._connack.properties.retain_available != 0
        self.counters.add("messages_out")
        self._to_mosquitto(packet if properties is packet.properties and retain == packet.retain else PublishPacket(
            packet.topic, packet.payload, packet.qos, retain, packet.dup, packet.packet_id, properties))

    # --- filters of mosquitto's clients, at the broker ----------------------------------------------------------------

    def _follow_learned(self) -> None:
        """Subscribe the filters of mosquitto's clients at the broker."""
        changed, self.learned.changed = self.learned.changed, {}
        self._subscribe_at_broker(tuple(filter for filter in changed if filter in self.learned))
        ended = tuple(filter for filter in changed if filter not in self.learned)
        if ended:
            self._to_broker(UnsubscribePacket(self._new_id(), ended))
        for filter in changed:
            if filter in self.learned:
                for publication in list(self._broker.router.retained.matching(filter, self._now_ns)):
                    self._place(publication.topic)

    def _subscribe_at_broker(self, filters: tuple[str, ...]) -> None:
        """Without retained messages: `_place` sends those that mosquitto lacks."""
        qos = 2 if self._connack.properties.maximum_qos is None else self._connack.properties.maximum_qos
        for at in range(0, len(filters), 100):
            self._to_broker(SubscribePacket(self._new_id(), tuple(
                Subscription(filter, qos, True, True, RetainHandling.NEVER) for filter in filters[at:at + 100])))

    # --- filters of peers and of the broker's clients, at mosquitto ---------------------------------------------------

    def _filter_changed(self, filter: str) -> None:
        """The number of subscribers of a filter (without $share/GROUP/) in the broker or the federation has changed."""
        if self.state is MosquittoState.UP:              # else all are examined when it is
            self._touched[filter] = None
            self.wake()

    def _is_wanted(self, filter: str) -> bool:
        """Whether the broker's clients or peers subscribe to it. Topics that begin with $ belong to one broker."""
        if filter.startswith("$"):
            return False
        own = self._broker.sessions.get(self.client_id)
        return (any(session is not own for session in self._broker.router.tree.interested(filter))
                or (self._of_peers is not None and any(True for _ in self._of_peers.interested(filter))))

    def _all_wanted(self) -> list[str]:
        found = dict.fromkeys(self._broker.router.tree.texts())
        if self._of_peers is not None:
            found.update(dict.fromkeys(self._of_peers.texts()))
        return [filter for filter in found if self._is_wanted(filter)]

    def _follow_others(self) -> None:
        """Change the subscriptions at mosquitto, some at a time, since its log reports these too."""
        self._to_ask.update(self._touched)
        self._touched.clear()
        while self._to_ask and len(self._asked) < self.options.subscribing:
            filter = next(iter(self._to_ask))
            del self._to_ask[filter]
            sub, is_wanted = self._subs.get(filter), self._is_wanted(filter)
            if sub is None and is_wanted:
                if self._last_identifier == MAX_IDENTIFIER:
                    self._has_session = False
                    return self._down("no more subscription identifiers: the link starts again")
                self._last_identifier += 1
                sub = self._subs[filter] = MosquittoSubscription(filter, self._last_identifier)
                self._by_identifier[sub.identifier] = sub
                self._oldest.subscribe(filter, sub.identifier, None)
                self.counters.add("subscribed")
                self._ask(sub)
            elif sub is not None and not is_wanted and sub.state is SubscriptionState.ACTIVE:
                sub.state = SubscriptionState.ENDING
                self.counters.add("unsubscribed")
                self._ask(sub)
            elif sub is not None and not is_wanted and sub.state is SubscriptionState.REFUSED:
                del self._subs[filter]

    def _ask(self, sub: MosquittoSubscription) -> None:
        packet_id = self._new_id()
        self._asked[packet_id] = sub
        if sub.state is SubscriptionState.ENDING:
            self._to_mosquitto(UnsubscribePacket(packet_id, (sub.filter,)))
        else:
            qos = 2 if self._connack.properties.maximum_qos is None else self._connack.properties.maximum_qos
            self._to_mosquitto(SubscribePacket(packet_id, (Subscription(sub.filter, qos, True, True),),
                                               Properties(subscription_identifiers=(sub.identifier,))))

    def _on_suback(self, packet: SubAckPacket, now_ns: int) -> None:
        if packet.packet_id == self._log_id:
            if any(reason >= ReasonCode.UNSPECIFIED_ERROR for reason in packet.reasons):
                return self._fail(f"mosquitto does not let the link read {LOG}#: its user needs the right to")
            self._probe_id = self._new_id()
            self._to_mosquitto(UnsubscribePacket(self._probe_id, (PROBE,)))
            self._report_ns = now_ns + round(self.options.report_s * SECOND)
            return
        if packet.packet_id == self._owner_id:
            return
        sub = self._asked.pop(packet.packet_id, None)
        if sub is None:
            self.counters.add("unexpected_packets")
        elif packet.reasons[0] >= ReasonCode.UNSPECIFIED_ERROR:
            self.counters.add("subscriptions_refused")
            self._oldest.unsubscribe(sub.filter, sub.identifier)
            del self._by_identifier[sub.identifier]
            sub.state = SubscriptionState.REFUSED
            self._touched[sub.filter] = None
        else:
            sub.state = SubscriptionState.ACTIVE
            sub.synced_ns = now_ns + round(self.options.sync_s * SECOND)
            self._touched[sub.filter] = None             # its last subscriber may have left meanwhile

    def _on_unsuback(self, packet: UnsubAckPacket) -> None:
        if packet.packet_id == self._probe_id:
            return
        sub = self._asked.pop(packet.packet_id, None)
        if sub is None:
            self.counters.add("unexpected_packets")
            return
        self._oldest.unsubscribe(sub.filter, sub.identifier)
        del self._by_identifier[sub.identifier]
        del self._subs[sub.filter]
        self._touched[sub.filter] = None                 # it may have a subscriber again

    # --- retained messages of the federation --------------------------------------------------------------------------

    def retained_changed(self, topic: str) -> None:
        """The federation's retained message of a topic was set or cleared."""
        if not topic.startswith("$") and (topic in self._at_mosquitto or self.learned.matches(topic)):
            self._changed_retained[topic] = None

    def _place(self, topic: str) -> None:
        """Give mosquitto the federation's retained message of a topic, if mosquitto has another one, or has none and a
        client of it subscribes to the topic."""
        if topic.startswith("$"):
            return
        known = self._broker.router.retained.get(topic, self._now_ns)
        here = self._at_mosquitto.get(topic)
        if known is None:
            if here is not None:
                del self._at_mosquitto[topic]
                self._send_retained(Publication(topic, b"", 1, True))
            return
        digest = retained_digest(known.payload, known.qos)
        if digest != here and (here is not None or self.learned.matches(topic)):
            self._note(topic, digest)
            self._send_retained(known)

    def _note(self, topic: str, digest: bytes) -> None:
        """Record the retained message that mosquitto has of a topic."""
        if topic not in self._at_mosquitto and len(self._at_mosquitto) >= self._broker.options.max_retained:
            del self._at_mosquitto[next(iter(self._at_mosquitto))]
        self._at_mosquitto[topic] = digest

    def _send_retained(self, publication: Publication) -> None:
        self.counters.add("retained_placed")
        self._broker.send_to(self.client_id, publication, self._now_ns)

    def _compare_retained(self, now_ns: int) -> None:
        """Compare after a time: a change also comes as a message, if mosquitto's clients subscribe to the topic."""
        due_ns = now_ns + round(self.options.sync_s * SECOND)
        for topic in self._changed_retained:
            self._look_at.setdefault(topic, due_ns)
        self._changed_retained.clear()
        for topic in [topic for topic, at_ns in self._look_at.items() if now_ns >= at_ns]:
            del self._look_at[topic]
            self._place(topic)

    # --- time and outputs ---------------------------------------------------------------------------------------------

    def tick(self, now_ns: int) -> None:
        """Time has passed."""
        self._now_ns = now_ns
        self.learned.tick(now_ns)
        if self.state is MosquittoState.DOWN:
            if now_ns >= self._retry_ns:
                self.state = MosquittoState.OPENING
                self._deadline_ns = now_ns + round(self.options.connect_s * SECOND)
                self._outputs.append(OpenMosquitto())
            return
        if self.state is not MosquittoState.UP:
            if now_ns >= self._deadline_ns:
                self._down(f"no answer in {self.options.connect_s:g} s ({self.state.value})")
            return
        if self._report_ns is not None and now_ns >= self._report_ns:
            self._report_ns = None
            if not {"M/subscribe", "M/unsubscribe"} <= self.learned.has_reported.keys():
                return self._fail(NO_REPORT)
        self._keep_alive(now_ns)

    def _keep_alive(self, now_ns: int) -> None:
        keep_alive_ns = self.options.keep_alive_s * SECOND
        if not keep_alive_ns:
            return
        if now_ns - self._heard_ns >= 3 * keep_alive_ns // 2:
            self._down(f"nothing came from mosquitto in {1.5 * self.options.keep_alive_s:g} s")
        elif now_ns - self._ping_ns >= keep_alive_ns // 2:
            self._ping_ns = now_ns
            self._to_mosquitto(PingReqPacket())

    def next_deadline_ns(self) -> int:
        """When `tick` is to be called: every second, or earlier."""
        wanted = self._retry_ns if self.state is MosquittoState.DOWN else self._now_ns + SECOND
        return min(wanted, self._now_ns + SECOND)

    def drain(self, now_ns: int) -> list[MosquittoOutput]:
        """Take the outputs, in order. The caller settles the broker afterwards."""
        self._now_ns = now_ns
        if self.state is MosquittoState.UP:
            if self.learned.changed:
                self._follow_learned()
            if self._touched or self._to_ask:
                self._follow_others()
            if self._changed_retained or self._look_at:
                self._compare_retained(now_ns)
        found, self._outputs = self._outputs, []
        return found

    def _to_mosquitto(self, packet: Packet) -> None:
        self._outputs.append(ToMosquitto(packet))

    def _to_broker(self, packet: Packet) -> None:
        self._outputs.append(ToBroker(packet))

    def _new_id(self) -> int:
        """A packet id of the link's own [MQTT-2.2.1-3]."""
        while True:
            self._last_id = self._last_id + 1 if self._last_id < MAX_ID else FIRST_ID
            if self._last_id not in self._under_way and self._last_id not in self._asked:
                return self._last_id

    def report(self) -> dict[str, object]:
        """For operators."""
        return {
            "state": self.state.value, "why": self.why, "wanted_here": list(self.learned),
            "wanted_elsewhere": [sub.filter for sub in self._subs.values() if sub.state is SubscriptionState.ACTIVE],
            "counters": dict(self.counters.items())}


def retained_digest(payload: bytes, qos: int) -> bytes:
    """Equal for two retained messages of a topic that have the same payload and QoS.

    >>> retained_digest(b"1", 0) == retained_digest(b"1", 0), retained_digest(b"1", 0) == retained_digest(b"1", 1)
    (True, False)
    """
    return blake2b(payload, digest_size=8, salt=bytes((qos,))).digest()
