"""The configuration file of a broker: YAML with the keys of gmqtt, so that its files start this broker unchanged.

A key of gmqtt without effect here is accepted with a warning; a value that this broker does not support is refused if
clients would notice the difference. Keys that gmqtt does not have are marked "Ours"; those of the federation are in
`plugins.federation`. Source: gmqtt's config package (v0.5.0), and its federation plugin's README.
"""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import attrs

from jgroups_py.blocks.mqtt.broker.auth import FastPassword, Password
from jgroups_py.blocks.mqtt.broker.options import AckWhen, BrokerOptions, WhenFull
from jgroups_py.blocks.mqtt.broker.subscription_tree import split_shared
from jgroups_py.blocks.mqtt.codec.text import topic_filter_fault
from jgroups_py.blocks.mqtt.server.listen import ListenAddress, TlsFiles
from jgroups_py.config.problems import Place, stop
from jgroups_py.config.sections import inner, listed, read_list, read_sections
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.units import NS_PER_S, choice, count, flag, parse_duration, parsed, size, text

EXAMPLE = "a broker's file has sections: `listeners:`, `mqtt:`, `plugins:`, `log:`"
PASSWORD_EXAMPLE = "a password file is a list: `- username: alice`, and below it `  password: ...`"
MQTT_PORT = 1883
FEDERATION_PORT, GOSSIP_PORT = 8901, 8902
MAX_RULES = 1_000
MOST_NS = 10 * 365 * 24 * 3600 * NS_PER_S
_GO_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|ms|s|m|h|d)")
_WORD = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def go_duration(value: Any) -> int:
    """Nanoseconds of a duration as Go writes it.

    >>> go_duration("1h30m") // NS_PER_S, go_duration("500ms"), go_duration("0")
    (5400, 500000000, 0)
    """
    if isinstance(value, int):
        return value
    parts = _GO_PART.findall(value)
    if value == "0":
        return 0
    if not parts or "".join(number + unit for number, unit in parts) != value:
        raise ConfigError(f"{value!r} is not a duration; write for example 2h, 1m30s or 500ms")
    return sum(parse_duration(number + unit) for number, unit in parts)


def _duration(default: str, *, doc: str, least: str = "0", also: tuple[str, ...] = ()) -> Any:
    def convert(value: Any) -> int:
        found = go_duration(value)
        if not go_duration(least) <= found <= MOST_NS:
            raise ConfigError(f"{value!r} is out of range: {least} to {MOST_NS // (3600 * NS_PER_S)}h")
        return found
    return parsed(default, parse=convert, unit="time", doc=doc, also=also)


def _address(default_port: int) -> Callable[[str], tuple[str, int]]:
    def convert(value: Any) -> tuple[str, int]:
        return value if isinstance(value, tuple) else host_and_port(value, default_port)
    return convert


def host_and_port(value: str, default_port: int) -> tuple[str, int]:
    """Host ("" for all addresses) and port of an address as Go writes it.

    >>> host_and_port(":1883", 1), host_and_port("[::1]:80", 1), host_and_port("node2", 8902)
    (('', 1883), ('::1', 80), ('node2', 8902))
    >>> host_and_port("tcp://127.0.0.1:8083", 1), host_and_port("8084", 1)
    (('127.0.0.1', 8083), ('', 8084))
    """
    bare = value.removeprefix("tcp://")
    match = re.fullmatch(r"\[([0-9A-Fa-f:.%]+)\](?::([0-9]+))?|([^:/\s\[\]]*)(?::([0-9]+))?", bare)
    if match is None or not bare:
        raise ConfigError(f"{value!r} is not an address; write for example :1883, 127.0.0.1:1883 or [::1]:1883")
    host, port = match[1] or match[3] or "", match[2] or match[4]
    if port is None and host.isdigit():
        host, port = "", host                            # gmqtt's own default file has `addr: 8084`
    number = default_port if port is None else int(port)
    if number > 65_535:
        raise ConfigError(f"{value!r}: a port is at most 65535")
    return ("" if host in ("0.0.0.0", "::") else host), number


def _address_field(default: str | None, port: int, *, doc: str) -> Any:
    convert = _address(port)
    if default is None:
        return attrs.field(default=None, converter=lambda value: value if value is None else convert(value),
                           metadata={"doc": doc, "name": None, "also": ()})
    return parsed(default, parse=convert, unit="address", doc=doc)


def _filter(value: str) -> str:
    fault = topic_filter_fault(value)
    if fault:
        raise ConfigError(f"{value!r} is no topic filter: {fault}")
    if split_shared(value)[0]:
        raise ConfigError(f"{value!r} is a shared subscription; write its filter alone, {split_shared(value)[1]!r}")
    return value


def _node_name(value: Any) -> str:
    if value and not _WORD.fullmatch(str(value)):
        raise ConfigError(f"{value!r} is no name of a node: letters, digits, _ . - are allowed, 64 at most")
    return str(value)


def _cluster(value: Any) -> str:
    if not _WORD.fullmatch(str(value)):
        raise ConfigError(f"{value!r} is no name of a group: letters, digits, _ . - are allowed, 64 at most")
    return str(value)


def _property(value: str) -> tuple[str, str]:
    name, equals, content = value.partition("=")
    if not equals or not name:
        raise ConfigError(f"{value!r} is no property of a stack; write NAME=VALUE")
    return name, content


def _true(doc: str) -> Any:
    """A flag that is always on here."""
    def convert(value: Any) -> bool:
        if value not in (True, "true", "True", "yes", "on"):
            raise ConfigError(f"{value!r} is not supported here: only true is")
        return True
    return parsed(True, parse=convert, unit="true", doc=doc)


@attrs.frozen
class TlsSection:
    """`listeners[].tls`."""

    cert_file: str = text(doc="Certificate chain, PEM.")
    key_file: str = text(doc="Its private key, PEM.")
    client_ca_file: str = text("", doc="Ours: clients need a certificate signed by one of these. Empty: none.")

    def as_files(self) -> TlsFiles:
        """For the server."""
        return TlsFiles(self.cert_file, self.key_file, self.client_ca_file)


@attrs.frozen
class WebsocketSection:
    """`listeners[].websocket`."""

    path: str = text("/", doc="Path of the HTTP request; / takes any.")

    def __attrs_post_init__(self) -> None:
        if not self.path.startswith("/"):
            raise ConfigError(f"path {self.path!r} does not begin with /")


@attrs.frozen
class ListenerSection:
    """`listeners[]`."""

    address: tuple[str, int] = parsed(parse=_address(MQTT_PORT), unit="address", doc="HOST:PORT; no host: all.")
    tls: TlsSection | None = inner(TlsSection, doc="TLS; absent: none.", optional=True)
    websocket: WebsocketSection | None = inner(WebsocketSection, doc="WebSocket; absent: MQTT over TCP.", optional=True)

    def as_address(self) -> ListenAddress:
        """For the server."""
        tls = None if self.tls is None else self.tls.as_files()
        return ListenAddress(*self.address, tls, None if self.websocket is None else self.websocket.path)


@attrs.frozen
class MqttSection:
    """`mqtt`."""

    session_expiry: int = _duration("2h", doc="The longest that a session outlives its connection.")
    session_expiry_check_timer: int = _duration("20s", also=("session_expiry_check_Interval",),
                                                doc="No effect: each session has a deadline of its own.")
    message_expiry: int = _duration("2h", doc="The longest that a message may be queued; 0: as its publisher sets it.")
    max_packet_bytes: int = size("256M", least=20, most=268_435_456, name="max_packet_size",
                                 doc="A larger packet ends its connection; a client's incomplete packet may cost it.")
    server_receive_maximum: int = count(100, least=1, most=65_535,
                                        doc="Unacknowledged publications of one client; version 5 clients are told.")
    max_keepalive: int = count(60, most=65_535, doc="Seconds; more is lowered (version 5). 0: as the client wants.")
    topic_alias_maximum: int = count(10, most=65_535, doc="Topic aliases of one client, in each direction.")
    subscription_identifier_available: bool = _true("Subscription identifiers.")
    wildcard_subscription_available: bool = _true("Wildcards in filters.")
    shared_subscription_available: bool = _true("$share.")
    maximum_qos: int = count(2, most=2, doc="The highest QoS of a publication.")
    retain_available: bool = flag(True, doc="Retained messages.")
    max_queued_messages: int = count(1000, least=1, doc="Of one session; what then happens: when_full.")
    max_inflight: int = count(100, least=1, most=65_535, doc="Unacknowledged messages towards one client.")
    max_awaiting_rel: int = count(100, doc="No effect: server_receive_maximum bounds it.")
    queue_qos0_messages: bool = flag(True, doc="Whether sessions without a connection queue QoS 0.")
    delivery_mode: str = choice("onlyonce", allowed=("onlyonce",),
                                doc="A session gets a message once, however many filters match.")
    allow_zero_length_clientid: bool = _true("Clients without an id get one.")
    max_clients: int = count(100_000, least=1, doc="Ours: connections, and sessions.")
    queue_bytes: int = size("64M", least="64K", name="queue_size", doc="Ours: of one session.")
    when_full: str = choice("drop-oldest", allowed=[each.value for each in WhenFull], doc="Ours: full queues.")
    max_retained: int = count(1_000_000, doc="Ours: retained messages.")
    connect_timeout: int = _duration("10s", least="10ms", doc="Ours: from the connection to CONNECT.")
    reveal_refusals: bool = flag(True, doc="Ours: whether clients learn that a rule forbids something; false: 0x80.")
    sys_interval: int = _duration("10s", doc="Ours: between two reports below $SYS; 0: none.")


@attrs.frozen
class FederationSection:
    """`plugins.federation`: gmqtt's keys, then ours."""

    node_name: str = parsed("", parse=_node_name, unit="text", doc="The node's name; empty: that of the host.")
    fed_addr: tuple[str, int] = _address_field(f":{FEDERATION_PORT}", FEDERATION_PORT, doc="gRPC of the federation.")
    advertise_fed_addr: tuple[str, int] | None = _address_field(
        None, FEDERATION_PORT, doc="fed_addr as given to other nodes; absent: the same.")
    gossip_addr: tuple[str, int] | None = _address_field(
        None, GOSSIP_PORT, doc="Membership, UDP and TCP; absent: port 8902 of all addresses. With `stack`: of the "
        "group, absent: as in the stack.")
    advertise_gossip_addr: tuple[str, int] | None = _address_field(
        None, GOSSIP_PORT, doc="gossip_addr as given to other nodes; absent: the same.")
    retry_join: tuple[tuple[str, int], ...] = listed(_address(GOSSIP_PORT), doc="Nodes to join at the start.")
    join: tuple[tuple[str, int], ...] = listed(_address(GOSSIP_PORT), doc="An older name of retry_join.")
    retry_interval: int = _duration("5s", least="10ms", doc="Between two attempts to join.")
    retry_timeout: int = _duration("1m", least="10ms", doc="After so long without success the broker ends.")
    snapshot_path: str = text("", doc="Where known nodes are kept over a restart; empty: nowhere.")
    rejoin_after_leave: bool = flag(False, doc="Whether a restart joins again after a leave.")
    stack: str = text("", doc="Ours: the other nodes are members of a group with this stack: a file, or a packaged one "
                      "(tcp, udp); empty: they are nodes of gmqtt's federation.")
    cluster: str = parsed("mqtt", parse=_cluster, unit="text", doc="Ours: the name of the group.")
    gmqtt: bool = flag(False, doc="Ours: with `stack`, the node is in gmqtt's federation too, which the "
                       "addresses are for.")
    properties: tuple[tuple[str, str], ...] = listed(_property, doc="Ours: for the stack's ${NAME}s: `- NAME=VALUE`.")
    ack: str = choice("peers", allowed=[each.value for each in AckWhen],
                      doc="Ours: when PUBACK is sent: `local`, taken over here; `peers`, at the matching nodes too.")
    ack_timeout: int = _duration("5s", least="10ms", doc="Ours: the longest that an acknowledgement waits for peers.")
    silent_after: int = _duration("50ms", least="10ms", doc="Ours: acknowledgements do not wait for a node that owes "
                                  "an answer and is silent for so long; for longer if its answers usually take longer.")
    keep_peer: int = _duration("1m", doc="Ours: how long the queue of a node that is gone is kept under its name.")
    queue_bytes: int = size("64M", least="64K", name="queue_bytes", doc="Ours: queued for one node.")
    on_full: str = choice("drop-oldest", allowed=[each.value for each in WhenFull],
                          doc="Ours: what happens when that is reached.")
    sessions: str = choice("local", allowed=("local", "replicated"), doc="Ours: where sessions live: `local`, at "
                           "their node; `replicated`, with copies at others, so that they outlive it.")
    session_replicas: int = count(2, least=2, most=3, doc="Ours: nodes that have a session, its own among them; so "
                                  "many less one may be killed at once.")
    topics_in: tuple[str, ...] = listed(_filter, doc="Ours: filters of what this site takes from other sites; empty: "
                                        "all. The same at all nodes of a site.")
    topics_out: tuple[str, ...] = listed(_filter, doc="Ours: filters of what this site gives to other sites; empty: "
                                         "all. The same at all nodes of a site.")

    def __attrs_post_init__(self) -> None:
        if self.sessions == "replicated" and not self.stack:
            raise ConfigError("sessions: replicated needs `stack`: nodes of gmqtt keep no copies; local is allowed")
        if self.sessions == "replicated" and self.ack != AckWhen.PEERS.value:
            raise ConfigError(f"sessions: replicated needs `ack: peers`: with {self.ack} no acknowledgement waits"
                              " for the copies")
        for name in ("topics_in", "topics_out"):
            filters = getattr(self, name)
            if filters and not self.stack:
                raise ConfigError(f"{name} is between sites: it needs a `stack` with RELAY; else only [] is allowed")
            if len(filters) > MAX_RULES:
                raise ConfigError(f"{name}: {len(filters)} filters; at most {MAX_RULES} are allowed")

    @property
    def session_copies(self) -> int:
        """At other nodes."""
        return self.session_replicas - 1 if self.sessions == "replicated" else 0

    @property
    def nodes_to_join(self) -> tuple[tuple[str, int], ...]:
        """Both names of the list."""
        return (*self.retry_join, *self.join)


@attrs.frozen
class AuthSection:
    """`plugins.auth`."""

    hash: str = choice("md5", allowed=("plain", "md5", "sha256", "bcrypt", "scrypt"),
                       doc="Of the passwords in the file; scrypt is ours, with a line `USER:scrypt:...` a user.")
    password_file: str = text("", doc="Users and passwords; empty: gmqtt_password.yml in the home folder.")
    rules_file: str = text("", doc="Ours: which user may publish and subscribe what; empty: all may all.")
    allow_anonymous: bool = flag(False, doc="Ours: whether clients without a user name are let in.")

    def __attrs_post_init__(self) -> None:
        if self.hash == "bcrypt":
            raise ConfigError("hash: bcrypt is not supported here; plain, md5, sha256 and scrypt are")


@attrs.frozen
class EndpointSection:
    """`api.grpc[]`, `api.http[]`."""

    address: tuple[str, int] = parsed(parse=_address(8083), unit="address", doc="Where it listens.")
    map: tuple[str, int] | None = _address_field(None, 8084, doc="No effect: REST is served without gRPC behind it.")
    tls: TlsSection | None = inner(TlsSection, doc="TLS; absent: none.", optional=True)


@attrs.frozen
class ApiSection:
    """`api`."""

    grpc: tuple[EndpointSection, ...] = listed(EndpointSection, doc="No effect: there is no gRPC interface.")
    http: tuple[EndpointSection, ...] = listed(EndpointSection, doc="REST.")


@attrs.frozen
class PrometheusSection:
    """`plugins.prometheus`."""

    path: str = text("/metrics", doc="No effect.")
    listen_address: tuple[str, int] = _address_field(":8082", 8082, doc="No effect.")


@attrs.frozen
class AdminHttpSection:
    """`plugins.admin.http` and `.grpc`."""

    enable: bool = flag(True, doc="No effect.")
    addr: tuple[str, int] = _address_field(":8083", 8083, doc="No effect.")


@attrs.frozen
class AdminSection:
    """`plugins.admin`."""

    http: AdminHttpSection = inner(AdminHttpSection, doc="No effect.")
    grpc: AdminHttpSection = inner(AdminHttpSection, doc="No effect.")


@attrs.frozen
class PluginsSection:
    """`plugins`."""

    federation: FederationSection | None = inner(FederationSection, doc="Other nodes.", optional=True)
    auth: AuthSection = inner(AuthSection, doc="Passwords and rules; only if plugin_order names it.")
    prometheus: PrometheusSection = inner(PrometheusSection, doc="No effect.")
    admin: AdminSection = inner(AdminSection, doc="No effect: see api.")


@attrs.frozen
class RedisSection:
    """`persistence.redis`."""

    addr: str = text("", doc="No effect.")
    max_idle: int = count(0, doc="No effect.")
    max_active: int = count(0, doc="No effect.")
    idle_timeout: int = _duration("0", doc="No effect.")
    password: str = text("", doc="No effect.")
    database: int = count(0, doc="No effect.")


@attrs.frozen
class PersistenceSection:
    """`persistence`."""

    type: str = choice("memory", allowed=("memory",), doc="Where sessions and retained messages are kept.")
    redis: RedisSection = inner(RedisSection, doc="No effect.")


@attrs.frozen
class TopicAliasSection:
    """`topic_alias_manager`."""

    type: str = choice("fifo", allowed=("fifo",), doc="No effect: the first topics get the aliases.")


@attrs.frozen
class LogSection:
    """`log`."""

    level: str = choice("info", allowed=("debug", "info", "warn", "warning", "error"), doc="What is logged to stderr.")
    format: str = choice("text", allowed=("text", "json"), doc="One JSON object a line, or text.")
    dump_packet: bool = flag(False, doc="No effect.")


@attrs.frozen
class BrokerFile:
    """A whole file."""

    listeners: tuple[ListenerSection, ...] = listed(ListenerSection, doc="Where clients connect.")
    api: ApiSection = inner(ApiSection, doc="Where operators connect.")
    mqtt: MqttSection = inner(MqttSection, doc="What clients may do.")
    persistence: PersistenceSection = inner(PersistenceSection, doc="Memory.")
    topic_alias_manager: TopicAliasSection = inner(TopicAliasSection, doc="No effect.")
    plugins: PluginsSection = inner(PluginsSection, doc="Parts that may be switched off.")
    plugin_order: tuple[str, ...] = listed(str, doc="The plugins that are switched on.")
    log: LogSection = inner(LogSection, doc="The log.")
    pid_file: str = text("", doc="No effect: the process writes none.")

    @property
    def federation(self) -> FederationSection | None:
        """If it is switched on."""
        return (self.plugins.federation or FederationSection()) if "federation" in self.plugin_order else None

    @property
    def auth(self) -> AuthSection | None:
        """If it is switched on."""
        return self.plugins.auth if "auth" in self.plugin_order else None

    def addresses(self) -> list[ListenAddress]:
        """Of all listeners; without any, gmqtt's defaults."""
        found = [each.as_address() for each in self.listeners]
        return found or [ListenAddress("", MQTT_PORT), ListenAddress("", 8883, websocket_path="/")]

    def broker_options(self, host_name: str) -> BrokerOptions:
        """For the broker. host_name: the node's name if the file gives none."""
        mqtt, federation = self.mqtt, self.federation or FederationSection()
        return BrokerOptions(
            node_name=federation.node_name or host_name, max_clients=mqtt.max_clients,
            max_packet_bytes=mqtt.max_packet_bytes, max_qos=mqtt.maximum_qos, retain_available=mqtt.retain_available,
            max_retained=mqtt.max_retained, receive_maximum=mqtt.server_receive_maximum,
            max_inflight=mqtt.max_inflight, topic_alias_maximum=mqtt.topic_alias_maximum,
            queue_messages=mqtt.max_queued_messages, queue_bytes=mqtt.queue_bytes, when_full=WhenFull(mqtt.when_full),
            queue_qos_0=mqtt.queue_qos0_messages, max_session_expiry_s=mqtt.session_expiry // NS_PER_S,
            max_queued_s=mqtt.message_expiry / NS_PER_S, connect_timeout_s=mqtt.connect_timeout / NS_PER_S,
            max_keep_alive_s=mqtt.max_keepalive, ack=AckWhen(federation.ack),
            ack_timeout_s=federation.ack_timeout / NS_PER_S, reveal_refusals=mqtt.reveal_refusals,
            sys_interval_s=mqtt.sys_interval / NS_PER_S)


PLUGINS = tuple(field.name for field in attrs.fields(PluginsSection))


def read_broker_file(content: str, file: str) -> tuple[BrokerFile, list[str]]:
    """The file, and a warning for each key in it that has no effect.

    Raises:
        ConfigError: with every problem, each with its line and what is allowed.
    """
    found, lines = read_sections(content, file, BrokerFile, EXAMPLE)
    for name in found.plugin_order:
        if name not in PLUGINS:
            raise stop(Place(file, lines["plugin_order"]),
                       f"plugin_order: {name!r} is no plugin; {', '.join(PLUGINS)} are")
    warnings = [f"{Place(file, line)}: {path} has no effect here" for path, line in lines.items() if _is_idle(path)]
    if found.federation is not None:
        warnings += [f"{Place(file, line)}: {path} has no effect {why}" for path, line in lines.items()
                     if (why := _idle_in_federation(path, found.federation))]
    for name in ("prometheus", "admin"):
        if name in found.plugin_order:
            warnings.append(f"{Place(file, lines['plugin_order'])}: the plugin {name} does nothing here")
    return found, warnings


OF_GMQTT = ("fed_addr", "advertise_fed_addr", "retry_interval", "retry_timeout", "snapshot_path", "rejoin_after_leave")
OF_GROUP = ("cluster", "properties", "gmqtt")


def _idle_in_federation(path: str, section: FederationSection) -> str:
    """Why a key of the federation has no effect; "": it has."""
    key = path.removeprefix("plugins.federation.")
    if key == "session_replicas" and not section.session_copies:
        return "without sessions: replicated"
    if section.stack:
        return "beside stack without gmqtt" if key in OF_GMQTT and not section.gmqtt else ""
    return "without stack" if key in OF_GROUP else ""


IDLE = ("mqtt.session_expiry_check_timer", "mqtt.session_expiry_check_Interval", "mqtt.max_awaiting_rel", "pid_file",
        "api.grpc", "log.dump_packet")


@attrs.frozen
class UserSection:
    """One user of gmqtt's password file."""

    username: str = text(doc="Name.")
    password: str = text(doc="Password, or its hash in hexadecimal.")


def read_gmqtt_passwords(content: str, file: str, kind: str) -> dict[str, Password]:
    """User -> password of gmqtt's `password_file`. kind: how the passwords are hashed there.

    Raises:
        ConfigError: with every problem, each with its line.
    """
    found = read_list(content, file, UserSection, PASSWORD_EXAMPLE)
    passwords: dict[str, Password] = {}
    for user, line in found:
        if user.username in passwords:
            raise stop(Place(file, line), f"user {user.username!r} again")
        value = user.password if kind == "plain" else user.password.lower()
        passwords[user.username] = FastPassword(kind, value.encode())
    return passwords


def _is_idle(path: str) -> bool:
    return path in IDLE
