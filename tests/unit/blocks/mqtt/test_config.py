"""A broker's file: gmqtt's keys, ours, and what is said of a wrong one."""
from __future__ import annotations

import re

import attrs
import pytest

from jgroups_py.blocks.mqtt.broker.auth import FastPassword
from jgroups_py.blocks.mqtt.broker.options import AckWhen, WhenFull
from jgroups_py.blocks.mqtt.node.places import group_properties
from jgroups_py.blocks.mqtt.server import config
from jgroups_py.blocks.mqtt.server.config import BrokerFile, FederationSection, read_broker_file, read_gmqtt_passwords
from jgroups_py.blocks.mqtt.server.listen import ListenAddress, TlsFiles
from jgroups_py.config.load import load
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.units import NS_PER_S

NODE = """\
listeners:
  - address: ":1883"
api:
  grpc:
    - address: "tcp://127.0.0.1:8084"
  http:
    - address: "tcp://127.0.0.1:8083"
      map: "tcp://127.0.0.1:8084" # a comment,
mqtt:
  session_expiry: 2h
  session_expiry_check_timer: 20s
  message_expiry: 2h
  max_packet_size: 268435456
  server_receive_maximum: 100
  max_keepalive: 60
  topic_alias_maximum: 10
  subscription_identifier_available: true
  wildcard_subscription_available: true
  shared_subscription_available: true
  maximum_qos: 2
  retain_available: true
  max_queued_messages: 10000
  max_inflight: 1000
  queue_qos0_messages: true
  delivery_mode: onlyonce # overlap or onlyonce
  allow_zero_length_clientid: true

plugins:
  federation:
    node_name: node1
    fed_addr: :8901
    advertise_fed_addr: :8901
    gossip_addr: :8902
    retry_join:
      - 127.0.0.1:8912
      - node3
    rejoin_after_leave: false
    snapshot_path:

plugin_order:
  # - auth
  - federation
log:
  level: debug # debug | info | warn | error
  format: text # json | text
  dump_packet: false
"""
"""As in gmqtt's examples of a federation."""
STANDARD = """\
listeners:
    - address: ":1883"
      tls:
        cert_file: "cert.pem"
        key_file: "key.pem"
    - address: "[::1]:8883"
      websocket:
        path: "/mqtt"
mqtt:
persistence:
  type: memory
  redis:
    addr: "127.0.0.1:6379"
    max_idle: 1000
    max_active: 0
    idle_timeout: 240s
    password: ""
    database: 0
topic_alias_manager:
  type: fifo
plugins:
  prometheus:
    path: "/metrics"
    listen_address: ":8082"
  admin:
    http:
      enable: true
      addr: :8083
    grpc:
      addr: 8084
  auth:
    hash: md5
    # password_file:
plugin_order:
  - auth
  - prometheus
log:
  level: info
"""
"""As in gmqtt's default files."""


def read(text: str) -> BrokerFile:
    return read_broker_file(text, "node.yml")[0]


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read_broker_file(text, "node.yml")
    return str(caught.value)


def test_a_node_of_gmqtts_federation():
    found, warnings = read_broker_file(NODE, "node.yml")
    options = found.broker_options("host")
    assert found.addresses() == [ListenAddress("", 1883)]
    assert (options.node_name, options.queue_messages, options.max_inflight, options.max_keep_alive_s,
            options.max_session_expiry_s, options.max_queued_s) == ("node1", 10_000, 1_000, 60, 7200, 7200.0)
    federation = found.federation
    assert federation is not None
    assert federation.fed_addr == ("", 8901)
    assert federation.nodes_to_join == (("127.0.0.1", 8912), ("node3", 8902))
    assert found.api.http[0].address == ("127.0.0.1", 8083)
    assert [re.sub(r"^node\.yml:\d+: | has no.*", "", each) for each in warnings] == [
        "api.grpc", "mqtt.session_expiry_check_timer", "log.dump_packet"]


def test_gmqtts_standard_file():
    found, warnings = read_broker_file(STANDARD, "node.yml")
    assert found.addresses() == [ListenAddress("", 1883, TlsFiles("cert.pem", "key.pem")),
                                 ListenAddress("::1", 8883, websocket_path="/mqtt")]
    assert found.federation is None
    assert found.auth is not None
    assert found.plugins.admin.grpc.addr == ("", 8084)
    assert warnings == ["node.yml:34: the plugin prometheus does nothing here"]


def test_an_empty_file_is_gmqtts_defaults():
    assert read("") == read("listeners:\nmqtt:\nlog:\n") == BrokerFile()
    assert BrokerFile().addresses() == [ListenAddress("", 1883), ListenAddress("", 8883, websocket_path="/")]


def test_our_keys_of_the_federation():
    found = read("""\
plugins:
  federation:
    stack: tcp.xml
    ack: peers
    ack_timeout: 2s
    keep_peer: 1m30s
    queue_bytes: 1M
    on_full: block
    sessions: replicated
    session_replicas: 3
    topics_in: [a/#, "+/b"]
    topics_out: [c]
plugin_order: [federation]
""")
    federation = found.federation
    assert federation is not None
    assert attrs.asdict(federation, filter=lambda field, value: field.name in (
        "stack", "ack", "keep_peer", "queue_bytes", "on_full", "sessions", "topics_in", "topics_out")) == {
            "stack": "tcp.xml", "ack": "peers", "keep_peer": 90 * NS_PER_S, "queue_bytes": 1 << 20,
            "on_full": "block", "sessions": "replicated", "topics_in": ("a/#", "+/b"), "topics_out": ("c",)}
    options = found.broker_options("host")
    assert (options.node_name, options.ack, options.ack_timeout_s) == ("host", AckWhen.PEERS, 2.0)
    assert federation.session_copies == 2


@pytest.mark.parametrize(("keys", "error"), [
    ("{sessions: replicated}", "node.yml:1: plugins.federation: sessions: replicated needs `stack`"),
    ("{stack: tcp, sessions: replicated, ack: local}", "sessions: replicated needs `ack: peers`"),
    ("{stack: tcp, sessions: replicated, session_replicas: 1}", "session_replicas"),
    ("{stack: tcp, sessions: copied}", "'copied' is not one of local, replicated"),
])
def test_copies_of_sessions_that_cannot_be_are_refused(keys, error):
    with pytest.raises(ConfigError, match=re.escape(error)):
        read(f"plugins: {{federation: {keys}}}\nplugin_order: [federation]\n")


def test_without_copies_their_number_has_no_effect():
    found, warnings = read_broker_file("""\
plugins: {federation: {stack: tcp, ack: local, session_replicas: 3}}
plugin_order: [federation]
""", "node.yml")
    assert found.federation is not None
    assert found.federation.session_copies == 0
    assert found.broker_options("host").ack is AckWhen.LOCAL
    assert warnings == ["node.yml:1: plugins.federation.session_replicas has no effect without sessions: replicated"]


def test_the_group_of_a_federation():
    found, warnings = read_broker_file("""\
plugins:
  federation: {stack: tcp, cluster: brokers, properties: [a=b=c, d=], fed_addr: ":1", topics_in: [x]}
plugin_order: [federation]
""", "node.yml")
    assert found.federation is not None
    assert (found.federation.cluster, found.federation.properties) == ("brokers", (("a", "b=c"), ("d", "")))
    assert warnings == ["node.yml:2: plugins.federation.fed_addr has no effect beside stack without gmqtt"]
    _, warnings = read_broker_file("plugins: {federation: {cluster: x}}\nplugin_order: [federation]\n", "node.yml")
    assert warnings == ["node.yml:1: plugins.federation.cluster has no effect without stack"]


def test_addresses_of_a_file_fill_the_stack_of_a_group():
    section = FederationSection(gossip_addr="10.0.0.1", advertise_gossip_addr="10.0.0.2:1",
                                retry_join=(("a", 1), ("b", 2)))
    assert group_properties(section) == {
        "bind_addr": "10.0.0.1", "bind_port": 8902, "port_range": 0, "external_addr": "10.0.0.2", "external_port": 1,
        "initial_hosts": "a[1],b[2]"}
    assert group_properties(FederationSection()) == {}
    told = {"external_addr": "10.0.0.1", "external_port": 1}
    assert not load("serf", told).warnings
    assert not load("tcp", {**told, "watch_port": 7900}).warnings
    (warning,) = load("tcp", told).warnings
    assert "FD_SOCK listens on any free port" in warning, "no proxy passes that one on"


def test_our_keys_of_sessions():
    assert not read("mqtt: {reveal_refusals: false}\n").broker_options("host").reveal_refusals
    options = read("mqtt:\n  when_full: disconnect\n  queue_size: 1M\n  max_clients: 7\n").broker_options("host")
    assert (options.when_full, options.queue_bytes, options.max_clients) == (WhenFull.DISCONNECT, 1 << 20, 7)


@pytest.mark.parametrize(("text", "problem"), [
    ("mqtt:\n  max_keepalife: 3\n", "node.yml:2: mqtt: unknown key 'max_keepalife'; the keys here are session_expiry,"),
    ("mqtt:\n  max_keepalife: 3\n", "did you mean 'max_keepalive'?"),
    ("mqtt:\n  maximum_qos: 3\n", "node.yml:2: mqtt.maximum_qos: '3' is out of range: 0 to 2"),
    ("mqtt:\n  maximum_qos: two\n", "mqtt.maximum_qos: 'two' is not a whole number"),
    ("mqtt:\n  delivery_mode: overlap\n", "mqtt.delivery_mode: 'overlap' is not one of onlyonce"),
    ("mqtt:\n  wildcard_subscription_available: false\n", "'false' is not supported here: only true is"),
    ("mqtt:\n  session_expiry: 2 hours\n", "'2 hours' is not a duration; write for example 2h, 1m30s or 500ms"),
    ("mqtt:\n  retain_available: [1]\n", "mqtt.retain_available: one value is expected here"),
    ("mqtt: 3\n", "node.yml:1: mqtt: keys with values are expected here"),
    ("mqtt:\n  max_inflight: 1\n  max_inflight: 2\n", "node.yml:3: mqtt: max_inflight is written twice"),
    ("listeners: {}\n", "node.yml:1: listeners: a list is expected here: `- ...`"),
    ("listeners:\n  - tls: {cert_file: a}\n", "node.yml:2: listeners[0].tls: key_file is missing"),
    ("listeners:\n  - {}\n", "node.yml:2: listeners[0]: address is missing"),
    ("listeners:\n  - address: a:b\n", "'a:b' is not an address; write for example :1883, 127.0.0.1:1883"),
    ("listeners:\n  - address: :99999\n", "':99999': a port is at most 65535"),
    ("listeners:\n  - address: :1\n    websocket: {path: x}\n", "[0].websocket: path 'x' does not begin with /"),
    ("persistence:\n  type: redis\n", "persistence.type: 'redis' is not one of memory"),
    ("plugins:\n  auth:\n    hash: bcrypt\n", "bcrypt is not supported here; plain, md5, sha256 and scrypt are"),
    ("plugins:\n  federation:\n    topics_in: ['a#']\n", "plugins.federation.topics_in: 'a#' is no topic filter: "),
    ("plugins:\n  federation:\n    stack: x\n    topics_out: [a, $share/g/b]\n",
     "node.yml:4: plugins.federation.topics_out: '$share/g/b' is a shared subscription; write its filter alone, 'b'"),
    ("plugins:\n  federation: {topics_in: [a]}\n",
     "node.yml:2: plugins.federation: topics_in is between sites: it needs a `stack` with RELAY; else only [] is"),
    (f"plugins:\n  federation: {{stack: x, topics_out: {['a'] * 1001}}}\n", "1001 filters; at most 1000 are allowed"),
    ("plugins:\n  federation:\n    node_name: a b\n", "plugins.federation.node_name: 'a b' is no name of a node"),
    ("plugins:\n  federation: {cluster: a b}\n", "plugins.federation.cluster: 'a b' is no name of a group"),
    ("plugins:\n  federation: {properties: [x]}\n", "'x' is no property of a stack; write NAME=VALUE"),
    ("plugin_order: [federation, what]\n", "node.yml:1: plugin_order: 'what' is no plugin; federation, auth, "),
    ("- a\n", "node.yml:1: a broker's file has sections: "),
    ("mqtt: &x {}\n", "node.yml:1: anchors and aliases are refused"),
    ("mqtt: {", "node.yml:1: not well-formed YAML"),
])
def test_what_is_wrong_is_named_with_its_line(text, problem):
    assert problem in refused(text)


def test_all_problems_are_shown_at_once():
    assert refused("mqtt:\n  a: 1\n  maximum_qos: 9\nlog: {level: loud}\n").count("\n") == 2


def test_every_key_is_documented():
    sections = [each for each in vars(config).values() if isinstance(each, type) and attrs.has(each)
                and each.__module__ == config.__name__]
    assert len(sections) > 10
    assert not [f"{each.__name__}.{field.name}" for each in sections for field in attrs.fields(each)
                if not field.metadata.get("doc")]


def test_gmqtts_passwords():
    text = "- username: root\n  password: root\n- username: ann\n  password: secret\n"
    plain = read_gmqtt_passwords(text, "p.yml", "plain")
    assert plain == {"root": FastPassword("plain", b"root"), "ann": FastPassword("plain", b"secret")}
    assert [plain["ann"].fits(each) for each in (b"secret", b"other")] == [True, False]
    hashed = read_gmqtt_passwords("- {username: root, password: 63A9F0EA7BB98050796B649E85481845}\n", "p.yml", "md5")
    assert [hashed["root"].fits(each) for each in (b"root", b"Root")] == [True, False]


@pytest.mark.parametrize(("text", "problem"), [
    ("username: a\n", "p.yml:1: a password file is a list"),
    ("- username: a\n", "p.yml:1: [0]: password is missing"),
    ("- {username: a, password: b}\n- {username: a, password: c}\n", "p.yml:2: user 'a' again"),
])
def test_a_wrong_password_file_is_named_with_its_line(text, problem):
    with pytest.raises(ConfigError) as caught:
        read_gmqtt_passwords(text, "p.yml", "md5")
    assert problem in str(caught.value)
