"""Broker: one server of MQTT 3.1.1 and 5 as a pure object.

Inputs are connections, packets and the clock; outputs (outputs.py) are packets, closings, and wishes about reading.

    router.py   which sessions get a message      session.py   what one client has queued and in flight
    ports.py    permissions, the other brokers    options.py   every limit; counters.py: what each one turned away

This module is what is between them: CONNECT and the end of a connection, the packets one by one, wills, deadlines,
acknowledgements that wait for peers, and publishers that wait for a full subscriber. Statements of the standard are
cited by their numbers in version 5; design/mqtt.md has the decisions where it leaves a choice.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from random import Random
from typing import Any

import attrs

from jgroups_py.blocks.mqtt.broker.counters import COUNTERS
from jgroups_py.blocks.mqtt.broker.deadlines import Deadline, Deadlines
from jgroups_py.blocks.mqtt.broker.options import AckWhen, BrokerOptions, WhenFull
from jgroups_py.blocks.mqtt.broker.outputs import (
    CloseConnection,
    Output,
    PauseReading,
    ResumeReading,
    SendAcks,
    SendPacket,
)
from jgroups_py.blocks.mqtt.broker.ports import Access, AllowAll, Authorizer, Federation, NoFederation
from jgroups_py.blocks.mqtt.broker.publication import NEVER, SECOND, Publication, expiry_ns
from jgroups_py.blocks.mqtt.broker.retained import RetainedStore, RetainedTable
from jgroups_py.blocks.mqtt.broker.router import SYSTEM, Router
from jgroups_py.blocks.mqtt.broker.session import (
    FAILED,
    MAX_PACKET_BYTES,
    MAX_RECEIVE_MAXIMUM,
    V5,
    ClientConnection,
    ClientSession,
    Delivery,
    GrantedOptions,
    HeldAck,
    Outbox,
)
from jgroups_py.blocks.mqtt.broker.subscription_tree import split_shared
from jgroups_py.blocks.mqtt.codec.packets import (
    MAX_REMAINING_BYTES,
    NO_PROPERTIES,
    Ack,
    AuthPacket,
    ConnAckPacket,
    ConnectPacket,
    DisconnectPacket,
    MqttError,
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
    SubAckPacket,
    SubscribePacket,
    Subscription,
    UnsubAckPacket,
    UnsubscribePacket,
    Will,
    acknowledgement,
)
from jgroups_py.model.counters import Counters

SUCCESS = ReasonCode.SUCCESS
PROTOCOL_ERROR = ReasonCode.PROTOCOL_ERROR
MAX_EARLY_PACKETS = 1_000
"""Of a client whose CONNECT waits for its session."""
ACKS = "acknowledgements"
"""Why a publisher is paused that is no session: too many acknowledgements of it wait for peers."""


@attrs.define(eq=False)
class ClaimedConnect:
    """A CONNECT that waits for a session of another node. packets: what the client has sent since."""

    connection: ClientConnection
    connect: ConnectPacket
    packets: list[Packet] = attrs.field(factory=list)


@attrs.define(eq=False)
class WaitingAcks:
    """Acknowledgements that wait for one token of the federation, until a time at most."""

    until_ns: int
    acks: list[tuple[ClientSession, ClientConnection, HeldAck]] = attrs.field(factory=list)


class Broker:
    """See the module. rng: for the client ids that it assigns. connection: a number that the server never uses again.

    After each call the server carries out `drain()`, and calls `tick` at `next_deadline_ns()`.
    """

    COUNTERS = COUNTERS

    def __init__(
        self, options: BrokerOptions, rng: Random, *, now_ns: int, authorizer: Authorizer | None = None,
        federation: Federation | None = None, retained: RetainedStore | None = None,
    ) -> None:
        self.options = options
        self.connections: dict[int, ClientConnection] = {}
        self.sessions: dict[str, ClientSession] = {}
        self.deadlines = Deadlines()
        self._ack_timeout_ns = round(options.ack_timeout_s * SECOND)
        self._forbidden = ReasonCode.NOT_AUTHORIZED if options.reveal_refusals else ReasonCode.UNSPECIFIED_ERROR
        self._rng = rng
        self._outbox = Outbox()
        self._authorizer = AllowAll() if authorizer is None else authorizer
        self._allows_all = self._authorizer.__class__ is AllowAll
        self._federation = NoFederation() if federation is None else federation
        self.router = Router(options, self._outbox, self._federation,
                             RetainedTable(options.max_retained) if retained is None else retained)
        self._waiting: dict[int, WaitingAcks] = {}       # token -> what is held back, oldest first
        self._overdue: Deadline | None = None            # while something waits
        self._paused: dict[int, dict[ClientSession | str, None]] = {}       # connection -> why it is not read
        self._blocking: dict[ClientSession, Deadline] = {}                  # full -> until when publishers wait
        self._adopted_wills: dict[str, tuple[str, Will]] = {}     # client id -> (node, will) of a copy of its session
        self._claims: dict[str, ClaimedConnect] = {}                        # client id -> its CONNECT
        self._claiming: dict[int, ClaimedConnect] = {}                      # by connection
        self._started_ns = now_ns
        self._handlers: dict[type[Packet], Callable[[ClientConnection, ClientSession, Any, int], None]] = {
            PublishPacket: self._on_publish, PubAckPacket: self._on_ack, PubRecPacket: self._on_ack,
            PubCompPacket: self._on_ack, PubRelPacket: self._on_release, SubscribePacket: self._on_subscribe,
            UnsubscribePacket: self._on_unsubscribe, PingReqPacket: self._on_ping,
            DisconnectPacket: self._on_disconnect, AuthPacket: self._on_auth,
        }
        if options.sys_interval_s:
            self._report_system(now_ns)

    # --- inputs -------------------------------------------------------------------------------------------------------

    def connected(self, connection: int, now_ns: int, peer: str = "") -> None:
        """A network connection was accepted. peer: for the authorizer and the log."""
        if len(self.connections) >= self.options.max_clients:
            self.counters.add("refused_full")
            self._outbox.outputs.append(CloseConnection(connection, ReasonCode.SERVER_BUSY, "too many connections"))
            return
        made = self.connections[connection] = ClientConnection(connection, peer, now_ns)
        made.deadline = self.deadlines.set(
            now_ns + round(self.options.connect_timeout_s * SECOND), lambda now_ns: self._no_connect(made, now_ns))

    def received(self, connection: int, packets: Sequence[Packet], now_ns: int) -> None:
        """What a client has sent, in order."""
        self.deadlines.run(now_ns)
        found = self.connections.get(connection)
        if found is None:
            return
        found.last_ns = now_ns
        handlers, outbox = self._handlers, self._outbox
        for packet in packets:
            session, handler = found.session, handlers.get(packet.__class__)
            try:
                if session is None or handler is None:
                    self._on_connect(found, packet, now_ns)
                else:
                    handler(found, session, packet, now_ns)
            except MqttError as error:
                outbox.counters.add("protocol_errors")
                self._disconnect(found, error.reason, error.detail, now_ns)
            if outbox.full:
                self._full(found, now_ns)
            if connection not in self.connections:
                return

    def failed(self, connection: int, error: MqttError, now_ns: int) -> None:
        """The decoder refused what came next; hand over `error.packets` before."""
        found = self.connections.get(connection)
        if found is None:
            return
        self.counters.add("malformed")
        if found.session is None and error.reason is ReasonCode.UNSUPPORTED_PROTOCOL_VERSION:
            # [MQTT-3.1.2-2]; a client of another version understands the return code of 3.1.1.
            found.version = ProtocolVersion.MQTT_3_1_1
            self._send(found, ConnAckPacket(False, error.reason))
        self._disconnect(found, error.reason, error.detail, now_ns)
        self._settle(now_ns)

    def lost(self, connection: int, now_ns: int) -> None:
        """A network connection has ended without DISCONNECT. Also for one that the broker closed: no effect."""
        found = self.connections.get(connection)
        if found is not None:
            self._detach(found, now_ns, with_will=True)
            self._settle(now_ns)

    def write_blocked(self, connection: int) -> None:
        """The transport holds more for this client than it should: what follows waits in the session's queue."""
        found = self.connections.get(connection)
        if found is not None:
            found.is_blocked = True

    def write_ready(self, connection: int, now_ns: int) -> None:
        """The transport takes more."""
        found = self.connections.get(connection)
        if found is not None and found.is_blocked:
            found.is_blocked = False
            if found.session is not None:
                found.session.pump(now_ns)
                self._drained(found.session, now_ns)

    def tick(self, now_ns: int) -> None:
        """Time has passed."""
        self.deadlines.run(now_ns)
        self._settle(now_ns)

    def next_deadline_ns(self) -> int | None:
        """When `tick` is to be called, if nothing happens before."""
        return self.deadlines.next_ns()

    def release(self, token: int, now_ns: int) -> None:
        """The peers have what was published with this token: acknowledge it. An unknown token has no effect: its time
        is over."""
        waiting = self._waiting.pop(token, None)
        if waiting is None:
            return
        connections: dict[ClientConnection, None] = {}
        for session, connection, held in waiting.acks:
            held.is_ready = True
            connections[connection] = None
            if held.qos == 2:
                for packet_id in held.packet_ids:
                    if session.recorded.get(packet_id) == token:
                        session.recorded[packet_id] = 0
        for connection in connections:
            self._acknowledge_ready(connection, now_ns)

    def deliver(
        self, publication: Publication, groups: Collection[tuple[str, str]], now_ns: int, shared_only: bool = False,
    ) -> bool:
        """A message of a peer's client. groups: (group, filter) of shared subscriptions that are served here;
        shared_only: plain subscriptions here have had it. Returns whether a plain subscription matches."""
        is_wanted = self.router.deliver(publication, groups, now_ns, shared_only)
        if self._outbox.full:
            self._full(None, now_ns)
        return is_wanted

    def publish(
        self, topic: str, payload: bytes, qos: int, retain: bool, now_ns: int, properties: Properties = NO_PROPERTIES,
    ) -> None:
        """Publish in the broker's own name."""
        self.router.publish(Publication(topic, payload, qos, retain, properties,
                                        expires_ns=expiry_ns(properties, now_ns)), now_ns)
        self._settle(now_ns)

    def send_to(self, client_id: str, publication: Publication, now_ns: int) -> bool:
        """Send a message to one session, whatever it has subscribed to. Returns whether there is such a session."""
        session = self.sessions.get(client_id)
        if session is not None:
            session.deliver(Delivery(publication, publication.qos, publication.wants_retain), now_ns)
            self._settle(now_ns)
        return session is not None

    # --- sessions that move (federation/handover.py) ------------------------------------------------------------------

    def claimed(self, client_id: str, now_ns: int) -> None:
        """What another node had of a session is here, or nothing will come: CONNECT is answered."""
        claim = self._claims.pop(client_id, None)
        if claim is None:
            return
        connection, is_new = claim.connection, client_id not in self.sessions
        del self._claiming[connection.number]
        self._accept(connection, claim.connect, client_id, now_ns)
        if is_new and not claim.packets:
            self.sessions[client_id].unheard_ns = now_ns
        self.received(connection.number, claim.packets, now_ns)

    def refuse_claimed(self, client_id: str, now_ns: int) -> None:
        """The client has connected at yet another node."""
        claim = self._claims.pop(client_id, None)
        if claim is not None:
            self.counters.add("taken_over")
            self._send(claim.connection, ConnAckPacket(False, ReasonCode.SERVER_BUSY))
            self._close(claim.connection, ReasonCode.SERVER_BUSY, "the client connected elsewhere", now_ns)

    def take_connection(self, client_id: str, now_ns: int) -> ClientSession | None:
        """The client has connected at another node: close its connection here. Returns its session, if it outlives the
        connection."""
        session = self.sessions.get(client_id)
        if session is not None and session.connection is not None:
            self.counters.add("taken_over")                                                # [MQTT-3.1.4-3]
            self._disconnect(session.connection, ReasonCode.SESSION_TAKEN_OVER, "the client connected elsewhere",
                             now_ns)
            self._settle(now_ns)
        return self.sessions.get(client_id)

    def adopt(
        self, client_id: str, expiry_s: int, subscriptions: Sequence[tuple[str, GrantedOptions]], now_ns: int,
        away_ns: int = 0, last_id: int = 0,
    ) -> None:
        """Begin a session that comes from another node, without a connection. If the client has a session here, it gets
        the subscriptions that it lacks. away_ns: for how long it has had no connection; last_id: the packet id behind
        which its own begin."""
        session = self.sessions.get(client_id)
        if session is None:
            session = self.sessions[client_id] = ClientSession(client_id, self.options, self._outbox)
            made = session
            session.expiry_s = min(expiry_s, self.options.max_session_expiry_s)
            session.ends = self.deadlines.set(
                now_ns + session.expiry_s * SECOND - away_ns, lambda now_ns: self._expire(made, now_ns))
        session.pass_ids(last_id)
        for filter, granted in subscriptions:
            if filter not in session.subscriptions:
                self.router.subscribe(session, filter, granted)

    def adopt_will(self, client_id: str, will: Will, now_ns: int, left_ns: int, of_node: str = "") -> None:
        """The will of a connection that has ended at another node: publish it at once, or when its delay is over.
        left_ns: of that. of_node: it is of a copy of a session of that node; `withdraw_adopted_will` may take it back.
        Meanwhile it waits in the session, which `adopt` has begun. One can wait there: of two, of parts of a split
        group, the one that is due first comes now (seed 65078)."""
        session = self.sessions.get(client_id)
        if session is not None and session.will is not None and session.will_due is not None and left_ns > 0 and (
                session.will_due.at_ns <= now_ns + left_ns):
            session.will_due.cancel()
            self._publish_will(session, now_ns)
            self._settle(now_ns)
        if session is None or session.connection is not None or left_ns <= 0 or session.will is not None:
            self.counters.add("wills")
            self.router.publish(self._of_will(client_id, will, now_ns), now_ns)
            self._settle(now_ns)
            return
        made = session
        session.will = will
        self._adopted_wills.pop(client_id, None)
        if of_node:
            self._adopted_wills[client_id] = of_node, will
        session.will_due = self.deadlines.set(now_ns + left_ns, lambda now_ns: self._publish_will(made, now_ns))

    def withdraw_adopted_will(self, client_id: str) -> None:
        """The node that had the session is back, or sends it with the will that waits there, if there is one: that of a
        copy counts no more (seed 40007)."""
        session, (_, will) = self.sessions.get(client_id), self._adopted_wills.pop(client_id, ("", None))
        if session is not None and will is not None and session.will is will:
            session.will = None
            if session.will_due is not None:
                session.will_due.cancel()
            session.will_due = None
            if session.journal is not None:
                session.journal.connection(session.expiry_s, session.connection is not None, None)

    def withdraw_adopted_wills(self, node: str) -> None:
        """The same for all that came of copies of this node's sessions, which still has them."""
        for client_id in [client_id for client_id, (name, _) in self._adopted_wills.items() if name == node]:
            self.withdraw_adopted_will(client_id)

    def forget_session(self, client_id: str) -> None:
        """It is at another node now, with all that it had."""
        self._take_out(self.sessions[client_id])

    def forget_copy(self, client_id: str, now_ns: int) -> None:
        """As `forget_session`, for a session that another node has too. Its messages of shared subscriptions are here
        alone, so they go to other members."""
        session = self.sessions[client_id]
        self._take_out(session)
        self.move([each for each in session.queue if each.group], now_ns)

    def move(self, deliveries: Iterable[Delivery], now_ns: int) -> None:
        """Give what a session that is not here any more was to get of shared subscriptions to other members."""
        self.router.move(deliveries, now_ns)
        self._settle(now_ns)

    def end_session(self, client_id: str, now_ns: int) -> None:
        """End a session."""
        self._end_session(self.sessions[client_id], now_ns)
        self._settle(now_ns)

    def kick(self, client_id: str, now_ns: int) -> bool:
        """Close a client's connection; whether it had one."""
        session = self.sessions.get(client_id)
        if session is None or session.connection is None:
            return False
        self._disconnect(session.connection, ReasonCode.ADMINISTRATIVE_ACTION, "by an administrator", now_ns)
        self._settle(now_ns)
        return True

    def shutdown(self, now_ns: int) -> None:
        """Close all connections. Wills without a delay are published."""
        for connection in list(self.connections.values()):
            if connection.number in self.connections:
                self._disconnect(connection, ReasonCode.SERVER_SHUTTING_DOWN, "the broker ends", now_ns)

    # --- outputs and questions ----------------------------------------------------------------------------------------

    def drain(self) -> list[Output]:
        """What is to be done, in order; empty afterwards."""
        outbox = self._outbox
        found, outbox.outputs = outbox.outputs, []
        outbox.round += 1
        return found

    def outgoing(self) -> list[Output]:
        """What `drain` will give, to be added to."""
        return self._outbox.outputs

    @property
    def counters(self) -> Counters:
        """See counters.py."""
        return self._outbox.counted()

    def subscriptions(self) -> Iterator[tuple[str, str, GrantedOptions]]:
        """(client id, filter, options) of all sessions."""
        for client_id, session in self.sessions.items():
            for filter, granted in session.subscriptions.items():
                yield client_id, filter, granted

    # --- CONNECT ------------------------------------------------------------------------------------------------------

    def _on_connect(self, connection: ClientConnection, packet: Packet, now_ns: int) -> None:
        if connection.session is not None:
            # [MQTT-3.1.0-2], or what servers send.
            raise MqttError(PROTOCOL_ERROR, f"{packet.type.name} from a client that has connected")
        claimed = self._claiming.get(connection.number)
        if claimed is not None:
            if len(claimed.packets) >= MAX_EARLY_PACKETS:
                raise MqttError(ReasonCode.QUOTA_EXCEEDED, "too many packets before CONNACK")
            claimed.packets.append(packet)
            return
        if not isinstance(packet, ConnectPacket):
            self.counters.add("not_connected")
            raise MqttError(PROTOCOL_ERROR, f"{packet.type.name} before CONNECT")          # [MQTT-3.1.0-1]
        connection.version = packet.version
        reason, detail = self._may_connect(connection, packet)
        if reason is not SUCCESS:
            self.counters.add("refused_connect")
            self._send(connection, ConnAckPacket(False, reason))
            self._close(connection, reason, detail, now_ns)
            return
        client_id = packet.client_id or self._new_client_id()
        if packet.client_id and self._wait_for_session(connection, packet, now_ns):
            return
        self._accept(connection, packet, client_id, now_ns)

    def _wait_for_session(self, connection: ClientConnection, packet: ConnectPacket, now_ns: int) -> bool:
        """Whether CONNECT has to wait for a session that another node has."""
        client_id = packet.client_id
        earlier = self._claims.get(client_id)
        if earlier is not None:
            self.counters.add("taken_over")
            self._disconnect(earlier.connection, ReasonCode.SESSION_TAKEN_OVER, "the client connected again", now_ns)
        elif not self._federation.connecting(client_id, packet.clean_start, now_ns):
            return False
        self._claims[client_id] = self._claiming[connection.number] = ClaimedConnect(connection, packet)
        if connection.deadline is not None:              # CONNECT has come in time (seed 88007)
            connection.deadline.cancel()
        return True

    def _accept(self, connection: ClientConnection, packet: ConnectPacket, client_id: str, now_ns: int) -> None:
        """Answer CONNECT with success, and go on with the session, or begin one."""
        before = self.sessions.get(client_id)
        if before is not None and before.connection is not None:
            self.counters.add("taken_over")                                                # [MQTT-3.1.4-3]
            self._disconnect(before.connection, ReasonCode.SESSION_TAKEN_OVER, "the client connected again", now_ns)
            before = self.sessions.get(client_id)
        if before is not None and packet.clean_start:                                      # [MQTT-3.1.2-4]
            self._end_session(before, now_ns)
            before = None
        session = before
        if session is None:
            session = self.sessions[client_id] = ClientSession(client_id, self.options, self._outbox)
        if session.ends is not None:
            session.ends.cancel()
        if session.will_due is not None:
            session.will_due.cancel()                                                      # [MQTT-3.1.3-9]
        session.will_due = session.ends = None
        session.will = packet.will
        session.username = packet.username
        session.expiry_s = self._session_expiry(packet)
        self._configure(connection, packet)
        self.counters.add("connects")
        self._send(connection, ConnAckPacket(before is not None, SUCCESS,
                                             self._connack_properties(connection, packet, client_id, session)))
        self._federation.attached(session, now_ns)
        session.attach(connection, now_ns)
        self._watch(connection, now_ns)
        self.router.online_changed(session)

    def _may_connect(self, connection: ClientConnection, packet: ConnectPacket) -> tuple[ReasonCode, str]:
        """SUCCESS, or why not."""
        will = packet.will
        if not packet.client_id and packet.version is not V5 and not packet.clean_start:
            return ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, "no client id, and a session to keep"   # 3.1.1: 3.1.3-8
        if packet.properties.authentication_method is not None:
            return ReasonCode.BAD_AUTHENTICATION_METHOD, packet.properties.authentication_method   # [MQTT-4.12.0-1]
        if packet.client_id not in self.sessions and len(self.sessions) >= self.options.max_clients:
            return ReasonCode.QUOTA_EXCEEDED, "too many sessions"
        reason = self._authorizer.authenticate(packet, connection.peer)
        if reason is not SUCCESS or will is None:
            return reason, "the authorizer refuses it"
        if will.qos > self.options.max_qos:
            return ReasonCode.QOS_NOT_SUPPORTED, "QoS of the will"                                  # [MQTT-3.2.2-12]
        if will.retain and not self.options.retain_available:
            return ReasonCode.RETAIN_NOT_SUPPORTED, "retained will"                                 # [MQTT-3.2.2-13]
        if self._refuses_topic(will.topic):
            return ReasonCode.TOPIC_NAME_INVALID, "topic of the will"
        if not self._authorizer.may(packet.client_id, packet.username, Access.PUBLISH, will.topic):
            return self._forbidden, "topic of the will"
        return SUCCESS, ""

    def _new_client_id(self) -> str:
        while True:
            client_id = f"{self.options.node_name}-{self._rng.getrandbits(64):016x}"
            if client_id not in self.sessions:
                return client_id

    def _session_expiry(self, packet: ConnectPacket) -> int:
        """Seconds that the session outlives the connection; in 3.1.1 CleanSession decides."""
        most = self.options.max_session_expiry_s
        if packet.version is V5:
            return min(packet.properties.session_expiry_interval or 0, most)
        return 0 if packet.clean_start else most

    def _configure(self, connection: ClientConnection, packet: ConnectPacket) -> None:
        """What the client allows us, and the keep-alive."""
        properties, options = packet.properties, self.options
        connection.allow(min(properties.receive_maximum or MAX_RECEIVE_MAXIMUM, options.max_inflight),
                         min(properties.topic_alias_maximum or 0, options.topic_alias_maximum),
                         properties.maximum_packet_size)
        connection.keep_alive_ns = self._keep_alive_s(packet) * SECOND * 3 // 2            # [MQTT-3.1.2-22]

    def _keep_alive_s(self, packet: ConnectPacket) -> int:
        most = self.options.max_keep_alive_s
        # 3.1.1 has no way to tell the client another one.
        if packet.version is V5 and most and not 0 < packet.keep_alive_s <= most:
            return most
        return packet.keep_alive_s

    def _connack_properties(
        self, connection: ClientConnection, packet: ConnectPacket, client_id: str, session: ClientSession,
    ) -> Properties:
        if packet.version is not V5:
            return NO_PROPERTIES
        options = self.options
        keep_alive_s = self._keep_alive_s(packet)
        wanted = packet.properties.session_expiry_interval or 0
        return Properties(
            session_expiry_interval=session.expiry_s if session.expiry_s != wanted else None,
            receive_maximum=options.receive_maximum if options.receive_maximum < MAX_RECEIVE_MAXIMUM else None,
            # Absent when it is 2: clients take any value for a refusal of QoS 2 (3.2.2.3.4).
            maximum_qos=options.max_qos if options.max_qos < 2 else None,
            retain_available=None if options.retain_available else 0,
            # Absent when it limits nothing: paho-mqtt 2.2 takes a larger value for a malformed packet.
            maximum_packet_size=options.max_packet_bytes if options.max_packet_bytes < MAX_REMAINING_BYTES else None,
            assigned_client_identifier=None if packet.client_id else client_id,            # [MQTT-3.2.2-16]
            topic_alias_maximum=options.topic_alias_maximum or None,
            server_keep_alive=keep_alive_s if keep_alive_s != packet.keep_alive_s else None)

    # --- the end of a connection --------------------------------------------------------------------------------------

    def _on_disconnect(
        self, connection: ClientConnection, session: ClientSession, packet: DisconnectPacket, now_ns: int,
    ) -> None:
        expiry = packet.properties.session_expiry_interval
        if expiry is not None:
            if expiry and not session.expiry_s:
                raise MqttError(PROTOCOL_ERROR, "DISCONNECT wants a session that CONNECT did not")   # 3.14.2.2.2
            session.expiry_s = min(expiry, self.options.max_session_expiry_s)
        self._detach(connection, now_ns, with_will=packet.reason != ReasonCode.NORMAL_DISCONNECTION)
        self._outbox.outputs.append(CloseConnection(connection.number, packet.reason, "the client disconnected"))

    def _disconnect(self, connection: ClientConnection, reason: ReasonCode, detail: str, now_ns: int) -> None:
        """Our DISCONNECT: in version 5 the client gets the reason."""
        if connection.session is not None and connection.version is V5:
            # A text could make it larger than the client takes.
            properties = Properties(reason_string=detail)
            if connection.max_packet_bytes < MAX_PACKET_BYTES:
                properties = NO_PROPERTIES
            self._send(connection, DisconnectPacket(reason, properties))
        self._close(connection, reason, detail, now_ns)

    def _close(self, connection: ClientConnection, reason: ReasonCode, detail: str, now_ns: int) -> None:
        self._outbox.outputs.append(CloseConnection(connection.number, reason, detail))
        self._detach(connection, now_ns, with_will=True)

    def _detach(self, connection: ClientConnection, now_ns: int, with_will: bool) -> None:
        """The connection is no more: the will, the session's expiry."""
        del self.connections[connection.number]
        self._paused.pop(connection.number, None)
        claimed = self._claiming.pop(connection.number, None)
        if claimed is not None and self._claims.get(claimed.connect.client_id) is claimed:
            del self._claims[claimed.connect.client_id]
        connection.held.clear()
        connection.held_number, connection.acks = 0, None
        if connection.deadline is not None:
            connection.deadline.cancel()
        session = connection.session
        if session is None:
            return
        is_unheard = session.is_unheard
        session.detach(now_ns)
        self._unblock(session, now_ns)
        self.router.online_changed(session)
        if not with_will:
            session.will = None                                                            # [MQTT-3.1.2-10]
        will = session.will
        if will is not None:
            delay_s = will.properties.will_delay_interval or 0
            if delay_s and session.expiry_s:
                session.will_due = self.deadlines.set(
                    now_ns + delay_s * SECOND, lambda now_ns: self._publish_will(session, now_ns))
            else:
                self._publish_will(session, now_ns)
        if is_unheard or not session.expiry_s:           # its client is to learn that there is none (mqtt 942871)
            self._end_session(session, now_ns, is_heard=not is_unheard)
        else:
            self._federation.detached(session, now_ns)
            session.ends = self.deadlines.set(
                now_ns + session.expiry_s * SECOND, lambda now_ns: self._expire(session, now_ns))

    def _expire(self, session: ClientSession, now_ns: int) -> None:
        self.counters.add("expired_sessions")
        self._end_session(session, now_ns)

    def _end_session(self, session: ClientSession, now_ns: int, is_heard: bool = True) -> None:
        """Its subscriptions and messages go; a will that waits for its delay comes now (3.1.3.2.2)."""
        self._take_out(session)
        if is_heard:
            self._federation.ended(session.client_id, now_ns)
        else:
            self._federation.dropped(session.client_id)
        self.router.move(session.end(), now_ns)
        self._publish_will(session, now_ns)

    def _take_out(self, session: ClientSession) -> None:
        self._federation.leaving(session)
        del self.sessions[session.client_id]
        self._adopted_wills.pop(session.client_id, None)
        for deadline in (session.ends, session.will_due):
            if deadline is not None:
                deadline.cancel()
        for filter in list(session.subscriptions):
            self.router.unsubscribe(session, filter)

    def _publish_will(self, session: ClientSession, now_ns: int) -> None:
        will, session.will = session.will, None
        if will is not None:
            if session.journal is not None:
                session.journal.connection(session.expiry_s, session.connection is not None, None)
            self.counters.add("wills")
            self.router.publish(self._of_will(session.client_id, will, now_ns), now_ns)

    def _of_will(self, client_id: str, will: Will, now_ns: int) -> Publication:
        properties = will.properties
        if properties.will_delay_interval is not None:
            properties = Properties(
                payload_format_indicator=properties.payload_format_indicator,
                message_expiry_interval=properties.message_expiry_interval, content_type=properties.content_type,
                response_topic=properties.response_topic, correlation_data=properties.correlation_data,
                user_properties=properties.user_properties)
        return Publication(will.topic, will.payload, will.qos, will.retain, properties, client_id,
                           expiry_ns(properties, now_ns))

    # --- messages of clients ------------------------------------------------------------------------------------------

    def _on_publish(
        self, connection: ClientConnection, session: ClientSession, packet: PublishPacket, now_ns: int,
    ) -> None:
        outbox, payload = self._outbox, packet.payload
        outbox.received += 1
        outbox.received_bytes += len(payload)
        qos, packet_id = packet.qos, packet.packet_id
        topic, properties = packet.topic, packet.properties
        if properties is not NO_PROPERTIES:
            topic, properties = self._own_properties(connection, topic, properties)
        if qos > self.options.max_qos:
            raise MqttError(ReasonCode.QOS_NOT_SUPPORTED, f"PUBLISH of QoS {qos}")         # [MQTT-3.2.2-11]
        if packet.retain and not self.options.retain_available:
            raise MqttError(ReasonCode.RETAIN_NOT_SUPPORTED, "PUBLISH with RETAIN")        # [MQTT-3.2.2-14]
        if qos:
            if qos == 2 and packet_id in session.recorded:
                self._repeated(connection, session, packet_id)
                return
            if len(session.recorded) + connection.held_number >= self.options.receive_maximum:
                self._check_quota(connection)
        token, reason = 0, SUCCESS
        if not self._allows_all or topic[:1] == "$" or topic.count("/") >= self.options.max_levels:
            reason = self._permission(session, topic)
        if qos == 2 and session.journal is not None and (reason is SUCCESS or connection.version is not V5):
            session.journal.recorded(packet_id)              # goes to the copies with what it brings
        if reason is SUCCESS:
            token, matched = self.router.publish(
                Publication(topic, payload, qos, packet.retain, properties, session.client_id,
                            NEVER if properties is NO_PROPERTIES else expiry_ns(properties, now_ns)), now_ns)
            if self.options.ack is AckWhen.LOCAL:
                token = 0
            if not matched and connection.version is V5:
                reason = ReasonCode.NO_MATCHING_SUBSCRIBERS
        elif connection.version is not V5:
            reason = SUCCESS                                 # 3.3.5 of 3.1.1: it has no other answer but to close
        if not qos:
            return
        if qos == 2 and reason < FAILED:
            session.recorded[packet_id] = token
        if token or connection.held:
            self._hold_ack(connection, session, packet_id, qos, reason, token, now_ns)
        else:
            self._send_acks(connection, qos, [packet_id], reason)

    def _own_properties(
        self, connection: ClientConnection, topic: str, properties: Properties,
    ) -> tuple[str, Properties]:
        """Topic and properties as they are forwarded: without the client's alias (3.3.2.3.4)."""
        if properties.subscription_identifiers:
            raise MqttError(PROTOCOL_ERROR, "a subscription identifier in a client's PUBLISH")       # [MQTT-3.3.4-6]
        alias = properties.topic_alias
        if alias is None:
            return topic, properties
        if not 0 < alias <= self.options.topic_alias_maximum:
            raise MqttError(ReasonCode.TOPIC_ALIAS_INVALID, f"topic alias {alias}")        # [MQTT-3.3.2-8], [-9]
        if topic:
            connection.client_aliases[alias] = topic
        else:
            topic = connection.client_aliases.get(alias, "")
            if not topic:
                raise MqttError(PROTOCOL_ERROR, f"topic alias {alias} was not set")
        forwarded = Properties(
            payload_format_indicator=properties.payload_format_indicator,
            message_expiry_interval=properties.message_expiry_interval, content_type=properties.content_type,
            response_topic=properties.response_topic, correlation_data=properties.correlation_data,
            user_properties=properties.user_properties)
        return topic, NO_PROPERTIES if forwarded == NO_PROPERTIES else forwarded

    def _check_quota(self, connection: ClientConnection) -> None:
        """The client has more unacknowledged than Receive Maximum allows [MQTT-3.3.4-9]. In 3.1.1 there is none, so
        such a client is not read for a while."""
        if connection.version is V5:
            raise MqttError(ReasonCode.RECEIVE_MAXIMUM_EXCEEDED, "more in flight than CONNACK allows")
        if connection.held:
            self._pause(connection, ACKS)

    def _permission(self, session: ClientSession, topic: str) -> ReasonCode:
        if self._refuses_topic(topic):
            self.counters.add("refused_topic")
            return ReasonCode.TOPIC_NAME_INVALID
        if not self._authorizer.may(session.client_id, session.username, Access.PUBLISH, topic):
            self.counters.add("refused_publish")
            return self._forbidden
        return SUCCESS

    def _refuses_topic(self, topic: str) -> bool:
        return topic.startswith(SYSTEM) or topic.count("/") >= self.options.max_levels

    def _repeated(self, connection: ClientConnection, session: ClientSession, packet_id: int) -> None:
        """PUBLISH of QoS 2 with a packet id that was not released: nothing is routed [MQTT-4.3.3-10]."""
        token = session.recorded[packet_id]
        waiting = self._waiting.get(token)
        if waiting is None:
            self._send(connection, PubRecPacket(packet_id))
        elif all(other is not connection or packet_id not in held.packet_ids for _, other, held in waiting.acks):
            # The client came back before the peers had it: this connection gets the PUBREC.
            held = HeldAck([packet_id], 2, SUCCESS, token)
            connection.held.append(held)
            waiting.acks.append((session, connection, held))

    # --- acknowledgements to publishers -------------------------------------------------------------------------------

    def _hold_ack(
        self, connection: ClientConnection, session: ClientSession, packet_id: int, qos: int, reason: ReasonCode,
        token: int, now_ns: int,
    ) -> None:
        """PUBACK or PUBREC when the peers have the message; in the order of the publications [MQTT-4.6.0-2]."""
        if qos == 1 or reason >= FAILED:                     # else it is in session.recorded, and counts there
            connection.held_number += 1
        if connection.held:
            held = connection.held[-1]
            if held.token == token and held.is_ready is (not token) and held.qos == qos and held.reason is reason:
                held.packet_ids.append(packet_id)
                return
        held = HeldAck([packet_id], qos, reason, token, not token)
        connection.held.append(held)
        if token:
            waiting = self._waiting.get(token)
            if waiting is None:
                waiting = self._waiting[token] = WaitingAcks(now_ns + self._ack_timeout_ns)
                if self._overdue is None:
                    self._overdue = self.deadlines.set(waiting.until_ns, self._ack_overdue)
            waiting.acks.append((session, connection, held))

    def _ack_overdue(self, now_ns: int) -> None:
        """One deadline does for all that wait: all wait equally long."""
        self._overdue = None
        while self._waiting:
            token, waiting = next(iter(self._waiting.items()))
            if waiting.until_ns > now_ns:
                self._overdue = self.deadlines.set(waiting.until_ns, self._ack_overdue)
                return
            self.counters.add("ack_timeouts", sum(len(held.packet_ids) for _, _, held in waiting.acks))
            self.release(token, now_ns)

    def _acknowledge_ready(self, connection: ClientConnection, now_ns: int) -> None:
        held, number = connection.held, 0
        for each in held:
            if not each.is_ready:
                break
            number += 1
            if each.qos == 1 or each.reason >= FAILED:
                connection.held_number -= len(each.packet_ids)
            self._send_acks(connection, each.qos, each.packet_ids, each.reason)
        del held[:number]
        if 2 * connection.held_number <= self.options.receive_maximum:
            self._resume(connection.number, ACKS, now_ns)

    def _send_acks(self, connection: ClientConnection, qos: int, packet_ids: list[int], reason: ReasonCode) -> None:
        """Acknowledge publications. Acknowledgements of success of one kind become one output until something else is
        sent. packet_ids: the caller forgets the list."""
        kind: type[Ack] = PubAckPacket if qos == 1 else PubRecPacket
        if reason is not SUCCESS:
            for packet_id in packet_ids:
                self._send(connection, acknowledgement(kind, packet_id, reason))
            return
        outbox, acks = self._outbox, connection.acks
        if acks is not None and connection.ack_round == outbox.round and acks.kind is kind:
            acks.packet_ids += packet_ids
            return
        acks = connection.acks = SendAcks(connection.number, kind, packet_ids)
        connection.ack_round = outbox.round
        outbox.outputs.append(acks)

    def _on_release(
        self, connection: ClientConnection, session: ClientSession, packet: PubRelPacket, now_ns: int,
    ) -> None:
        known = session.recorded.pop(packet.packet_id, None) is not None
        if not known:
            self.counters.add("unexpected_acks")
        elif session.journal is not None:
            session.journal.unrecorded(packet.packet_id)
        reason = SUCCESS if known else ReasonCode.PACKET_IDENTIFIER_NOT_FOUND
        # [MQTT-4.3.3-11]
        self._send_behind(connection, session, acknowledgement(PubCompPacket, packet.packet_id, reason))

    def _on_ack(
        self, connection: ClientConnection, session: ClientSession, packet: PubAckPacket | PubRecPacket | PubCompPacket,
        now_ns: int,
    ) -> None:
        if packet.__class__ is not PubAckPacket or packet.reason or not session.arrived(connection, packet.packet_id):
            session.acknowledged(packet.type, packet.packet_id, packet.reason, now_ns)
        elif session.queue or connection.repeat or connection.retained:
            session.pump(now_ns)
        if session.is_stalled or self._blocking:
            self._drained(session, now_ns)

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def _on_subscribe(
        self, connection: ClientConnection, session: ClientSession, packet: SubscribePacket, now_ns: int,
    ) -> None:
        identifiers = packet.properties.subscription_identifiers
        reasons, granted = [], []
        for wanted in packet.subscriptions:
            if wanted.no_local and split_shared(wanted.filter)[0]:
                raise MqttError(PROTOCOL_ERROR, "No Local with a shared subscription")     # [MQTT-3.8.3-4]
        for wanted in packet.subscriptions:
            reason = self._may_subscribe(session, wanted)
            if reason is SUCCESS:
                options = GrantedOptions(min(wanted.qos, self.options.max_qos), wanted.no_local,
                                         wanted.retain_as_published, identifiers)
                is_new = self.router.subscribe(session, wanted.filter, options)
                granted.append((wanted, options, is_new))
                reason = ReasonCode(options.qos)
            else:
                self.counters.add("refused_subscribe")
            reasons.append(reason)
        self._send_behind(connection, session, SubAckPacket(packet.packet_id, tuple(reasons)))   # [MQTT-3.8.4-6]
        for wanted, options, is_new in granted:
            self.router.send_retained(session, wanted.filter, options, wanted.retain_handling, is_new, now_ns)

    def _may_subscribe(self, session: ClientSession, wanted: Subscription) -> ReasonCode:
        filter = split_shared(wanted.filter)[1]
        if filter.count("/") >= self.options.max_levels:
            return ReasonCode.TOPIC_FILTER_INVALID
        if (wanted.filter not in session.subscriptions
                and len(session.subscriptions) >= self.options.max_subscriptions):
            return ReasonCode.QUOTA_EXCEEDED
        if not self._authorizer.may(session.client_id, session.username, Access.SUBSCRIBE, filter):
            return self._forbidden
        return SUCCESS

    def _on_unsubscribe(
        self, connection: ClientConnection, session: ClientSession, packet: UnsubscribePacket, now_ns: int,
    ) -> None:
        reasons = tuple(SUCCESS if self.router.unsubscribe(session, filter) else ReasonCode.NO_SUBSCRIPTION_EXISTED
                        for filter in packet.filters)
        self._send_behind(connection, session, UnsubAckPacket(packet.packet_id, reasons))  # [MQTT-3.10.4-5]

    # --- the rest -----------------------------------------------------------------------------------------------------

    def _on_ping(
        self, connection: ClientConnection, session: ClientSession, packet: PingReqPacket, now_ns: int,
    ) -> None:
        self._send(connection, PingRespPacket())                                           # [MQTT-3.12.4-1]

    def _on_auth(
        self, connection: ClientConnection, session: ClientSession, packet: AuthPacket, now_ns: int,
    ) -> None:
        raise MqttError(PROTOCOL_ERROR, "AUTH without an authentication method")           # [MQTT-4.12.0-6]

    def _send(self, connection: ClientConnection, packet: Packet) -> None:
        connection.acks = None                           # what follows comes behind this packet
        self._outbox.outputs.append(SendPacket(connection.number, packet, connection.version))

    def _send_behind(self, connection: ClientConnection, session: ClientSession, packet: Packet) -> None:
        session.send_behind(SendPacket(connection.number, packet, connection.version))

    def _no_connect(self, connection: ClientConnection, now_ns: int) -> None:
        self.counters.add("connect_timeouts")
        self._close(connection, ReasonCode.UNSPECIFIED_ERROR, "no CONNECT in time", now_ns)

    def _watch(self, connection: ClientConnection, now_ns: int) -> None:
        """Set the deadline of the keep-alive. What the client sends sets only a time, which is looked at when the
        deadline is due."""
        if connection.deadline is not None:
            connection.deadline.cancel()
        connection.deadline = None
        if not connection.keep_alive_ns:
            return
        if connection.number in self._paused:
            connection.last_ns = now_ns                      # it is not read: nothing can come
        end_ns = connection.last_ns + connection.keep_alive_ns
        if end_ns > now_ns:
            connection.deadline = self.deadlines.set(end_ns, lambda now_ns: self._watch(connection, now_ns))
            return
        self.counters.add("keep_alive_timeouts")
        self._disconnect(connection, ReasonCode.KEEP_ALIVE_TIMEOUT, "nothing came in 1.5 times the keep-alive", now_ns)

    def _report_system(self, now_ns: int) -> None:
        """$SYS, now and in every interval."""
        self.deadlines.set(now_ns + round(self.options.sys_interval_s * SECOND), self._report_system)
        values = {
            "uptime": (now_ns - self._started_ns) // SECOND,
            "clients/connected": sum(each.session is not None for each in self.connections.values()),
            "clients/total": len(self.sessions),
            "subscriptions/count": len(self.router.tree),
            "retained messages/count": len(self.router.retained),
            "messages/received": self.counters["received"],
            "messages/sent": self.counters["sent"],
            "messages/dropped": sum(number for name, number in self.counters.items()
                                    if name.startswith("dropped_")),
        }
        for name, value in values.items():
            self.router.publish_here(Publication(f"{SYSTEM}broker/{name}", str(value).encode(), 0, True), now_ns)

    # --- full subscribers ---------------------------------------------------------------------------------------------

    def _settle(self, now_ns: int) -> None:
        """After a message that no connection brought."""
        if self._outbox.full:
            self._full(None, now_ns)

    def _full(self, publisher: ClientConnection | None, now_ns: int) -> None:
        """Sessions have more queued than they may: their publisher waits, or they are disconnected."""
        full = self._outbox.full
        while full:
            session = next(iter(full))
            del full[session]
            if session.connection is None:
                continue
            if self.options.when_full is WhenFull.DISCONNECT:
                self.counters.add("slow_consumers")
                self._disconnect(session.connection, ReasonCode.QUOTA_EXCEEDED, "the queue is full", now_ns)
            elif publisher is not None and publisher.session is not session and publisher.number in self.connections:
                if session not in self._blocking:
                    self._blocking[session] = self._block(session, now_ns)
                self._pause(publisher, session)

    def _block(self, session: ClientSession, now_ns: int) -> Deadline:
        return self.deadlines.set(now_ns + round(self.options.block_timeout_s * SECOND),
                                  lambda now_ns: self._blocked_too_long(session, now_ns))

    def _blocked_too_long(self, session: ClientSession, now_ns: int) -> None:
        self.counters.add("block_timeouts")
        session.is_stalled = True
        self._unblock(session, now_ns)

    def _drained(self, session: ClientSession, now_ns: int) -> None:
        """Something left a session's queue."""
        if session.has_room:
            session.is_stalled = False
            self._unblock(session, now_ns)

    def _unblock(self, session: ClientSession, now_ns: int) -> None:
        deadline = self._blocking.pop(session, None)
        if deadline is not None:
            deadline.cancel()
            for number in list(self._paused):
                self._resume(number, session, now_ns)

    def _pause(self, connection: ClientConnection, why: ClientSession | str) -> None:
        reasons = self._paused.setdefault(connection.number, {})
        if not reasons:
            self.counters.add("paused_publishers")
            self._outbox.outputs.append(PauseReading(connection.number))
        reasons[why] = None

    def _resume(self, number: int, why: ClientSession | str, now_ns: int) -> None:
        reasons = self._paused.get(number)
        if reasons is None or why not in reasons:
            return
        del reasons[why]
        if not reasons:
            del self._paused[number]
            self.connections[number].last_ns = now_ns
            self._outbox.outputs.append(ResumeReading(number))
