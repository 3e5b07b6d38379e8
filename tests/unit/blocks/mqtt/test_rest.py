"""The REST API without sockets: its answers, its errors, and requests that make no sense."""
from __future__ import annotations

import json
from collections.abc import Coroutine, Mapping, Sequence
from random import Random
from typing import Any

import pytest

from jgroups_py.blocks.mqtt.codec.packets import Properties
from jgroups_py.blocks.mqtt.gmqtt.options import gmqtt_counters
from jgroups_py.blocks.mqtt.server.rest import JoinFailed, RestApi
from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.counters import Counters
from jgroups_py.runtime.http.messages import HttpAnswer
from tests.unit.blocks.mqtt.clients import Bench

MEMBER = {"name": "node1", "addr": "127.0.0.1:8902", "tags": {"z": "1", "fed_addr": "127.0.0.1:8901"},
          "status": "STATUS_ALIVE"}


class Federation:
    """Notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[object] = []
        self.counters: Counters = gmqtt_counters()

    async def members(self) -> list[dict[str, Any]]:
        return [MEMBER]

    async def join(self, places: Sequence[PhysicalAddress]) -> None:
        self.asked.append(list(places))
        if ("nowhere", 1) in places:
            raise JoinFailed("1 error occurred:\n\t* no & <never>\n\n")

    async def leave(self) -> None:
        self.asked.append("leave")

    def force_leave(self, name: str) -> None:
        self.asked.append(name)

    def report(self) -> list[dict[str, Any]]:
        return [{"name": 'no"de\n', "queued": 3, "queued_bytes": 300, "unacknowledged": 1}]

    async def sites(self, topic: str) -> dict[str, Any]:
        return {"site": "NYC", "relay": "A", "sites": [{"site": "SFO", **({"wants": True} if topic else {})}]}

    def sites_for(self, topic: str) -> dict[str, Any]:
        return {"site": "NYC", "leaves_site": topic == "a/b"}

    def interest_in(self, topic: str) -> Mapping[str, Sequence[str]]:
        return {"node2": ["a/#"]} if topic == "a/b" else {}


class Api:
    """The API of a broker in memory."""

    def __init__(self, alone: bool = False) -> None:
        self.bench = Bench(node_name="node1")
        self.federation = Federation()
        self.settled = 0
        self.api = RestApi(self.bench.broker, self.settle, None if alone else self.federation,
                           lambda: self.bench.now_ns, lambda: 1_000_000.0)

    def settle(self) -> None:
        self.settled += 1
        self.bench.settle()

    def ask(self, method: str, target: str, body: object = b"") -> HttpAnswer:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return run(self.api.handle(method, target, data))

    def get(self, target: str) -> Any:
        answer = self.ask("GET", target)
        assert answer.status == 200, answer
        return json.loads(answer.body)


def run(what: Coroutine[Any, Any, HttpAnswer]) -> HttpAnswer:
    """Run what waits for nothing."""
    try:
        what.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    raise AssertionError("it waits")


def test_members_are_shown_as_gmqtt_shows_them():
    assert Api().ask("GET", "/v1/federation/members?x=1") == HttpAnswer(200, (
        b'{"members":[{"name":"node1","addr":"127.0.0.1:8902","tags":{"fed_addr":"127.0.0.1:8901","z":"1"},'
        b'"status":"STATUS_ALIVE"}]}'))


@pytest.mark.parametrize(("body", "asked"), [
    (b'{"hosts":["127.0.0.1:8932"]}', [("127.0.0.1", 8932)]), (b'{"hosts":["node2","[::1]:9"]} rest',
                                                               [("node2", 8902), ("::1", 9)]),
    (b"", []), (b"null", []), (b'{"hosts":null,"other":1}', []),
])
def test_join(body: bytes, asked: list[PhysicalAddress]):
    api = Api()
    assert api.ask("POST", "/v1/federation/join", body) == HttpAnswer(200, b"{}")
    assert api.federation.asked == [asked]


@pytest.mark.parametrize(("path", "body", "status", "message"), [
    ("join", b"x", 400, "invalid character 'x' looking for beginning of value"),
    ("join", b'{"hosts":', 400, "unexpected EOF"),
    ("join", b"[]", 400, "json: cannot unmarshal array into Go value of type map[string]json.RawMessage"),
    ("join", b'{"hosts":"a"}', 400, "json: cannot unmarshal string into Go value of type []json.RawMessage"),
    ("join", b'{"hosts":[1]}', 400, "json: cannot unmarshal number into Go value of type string"),
    ("join", b'{"hosts":["a:b:c"]}', 400, "invalid hosts: address a:b:c: too many colons in address"),
    ("join", b'{"hosts":["[::1"]}', 400, "invalid hosts: address [::1: missing ']' in address"),
    ("join", b'{"hosts":["a:"]}', 400, "invalid hosts"),
    ("join", b'{"hosts":[""]}', 400, "missing hosts"),
    ("join", b'{"hosts":["a:99999"]}', 400, "invalid port number: 99999"),
    ("join", b'{"hosts":["a:x"]}', 400, "invalid port number: x"),
    ("force_leave", b"", 500, "host can not be empty"),
    ("force_leave", b'{"node_name":""}', 500, "host can not be empty"),
    ("force_leave", b'{"node_name":1}', 400, "json: cannot unmarshal number into Go value of type string"),
    ("leave", b"x", 400, "invalid character 'x' looking for beginning of value"),
])
def test_errors_are_those_of_gmqtt(path: str, body: bytes, status: int, message: str):
    api = Api()
    code = {400: 3, 500: 2}[status]
    assert api.ask("POST", f"/v1/federation/{path}", body) == HttpAnswer(status, (
        f'{{"error":"{message}","code":{code},"message":"{message}","details":[]}}').encode())
    assert api.federation.asked == []


def test_a_join_that_fails_has_the_words_of_serf():
    answer = Api().ask("POST", "/v1/federation/join", {"hosts": ["nowhere:1"]})
    text = r"1 error occurred:\n\t* no \u0026 \u003cnever\u003e\n\n"
    assert answer == HttpAnswer(500, f'{{"error":"{text}","code":2,"message":"{text}","details":[]}}'.encode())


def test_leave_and_force_leave():
    api = Api()
    for path, body in (("leave", b""), ("force_leave", b'{"node_name":"a"}'), ("force_leave", b'{"nodeName":"b"}')):
        assert api.ask("POST", f"/v1/federation/{path}", body).body == b"{}"
    assert api.federation.asked == ["leave", "a", "b"]


def test_paths_and_methods_that_are_not_there():
    api = Api()
    for target in ("/", "/v1/federation/members/", "/v1/clients/", "//", "", "*", "http://[/"):
        assert api.ask("GET", target) == HttpAnswer(404, b"Not Found\n", "text/plain; charset=utf-8")
    for method, target in (("POST", "/v1/federation/members"), ("HEAD", "/metrics"), ("GET", "/v1/publish"),
                           ("PUT", "/v1/clients/a")):
        assert api.ask(method, target).status == 405
    assert Api(alone=True).ask("GET", "/v1/federation/members").status == 404


def test_clients_and_subscriptions_by_pages():
    api = Api()
    for number in range(25):
        client = api.bench.client(f"c/{number}", keep_alive_s=30)
        client.subscribe(f"a/{number}", 1, no_local=True)
    first, second = api.get("/v1/clients"), api.get("/v1/clients?page=2&page_size=20")
    assert (len(first["clients"]), len(second["clients"]), first["total_count"]) == (20, 5, 25)
    assert first["clients"][0] == {
        "client_id": "c/0", "username": "", "keep_alive": 30, "version": 5, "remote_addr": "client", "connected": True,
        "connected_at": 1_000_000.0, "session_expiry": 0, "inflight_len": 0, "queue_len": 0, "queue_bytes": 0,
        "subscriptions_current": 1}
    assert api.get("/v1/clients/c%2F24")["client"]["client_id"] == "c/24"
    assert api.ask("GET", "/v1/clients/nobody").body == (
        b'{"error":"not found","code":5,"message":"not found","details":[]}')
    assert api.ask("GET", "/v1/clients?page=x").status == 400
    assert api.ask("GET", "/v1/clients?page=1&" + "&".join("x=1" for _ in range(100))).status == 200
    found = api.get("/v1/subscriptions?page_size=1")
    assert found == {"subscriptions": [{"topic_name": "a/0", "id": 0, "qos": 1, "no_local": True,
                                        "retain_as_published": False, "client_id": "c/0"}],
                     "total_count": len(api.bench.broker.sessions)}


def test_a_client_is_disconnected():
    api = Api()
    client = api.bench.client("c")
    assert api.ask("DELETE", "/v1/clients/c").body == b"{}"
    assert client.closed is not None
    assert api.ask("DELETE", "/v1/clients/nobody").status == 404


def test_publish_and_retained():
    api = Api()
    client = api.bench.client("c")
    client.subscribe("#")
    assert api.ask("POST", "/v1/publish", {
        "topic_name": "a/b", "payload": "text", "qos": 1, "retained": True, "content_type": "t",
        "correlation_data": "c", "message_expiry": 60, "payload_format": 1, "response_topic": "r",
        "user_properties": [{"K": "aw==", "V": "dg=="}]}).body == b"{}"
    (message,) = client.messages
    assert (message.topic, message.payload, message.qos) == ("a/b", b"text", 1)
    assert message.properties == Properties(
        content_type="t", correlation_data=b"c", message_expiry_interval=60, payload_format_indicator=1,
        response_topic="r", user_properties=(("k", "v"),))
    assert api.get("/v1/retained?filter=a/%2B") == {"retained": [
        {"topic_name": "a/b", "payload_base64": "dGV4dA==", "qos": 1, "expires_in": 60}], "total_count": 1}
    assert api.get("/v1/retained?filter=b")["retained"] == []
    assert api.ask("GET", "/v1/retained?filter=a%2B").status == 400
    assert api.ask("GET", "/v1/retained?filter=$share/g/a").status == 400


@pytest.mark.parametrize(("request_", "message"), [
    ({}, "invalid topic_name"), ({"topic_name": "a/#"}, "invalid topic_name"), ({"topic_name": "x" * 70_000},
                                                                               "invalid topic_name"),
    ({"topic_name": "\ud800"}, "invalid topic_name"), ({"topic_name": "a", "qos": 3}, "invalid qos"),
    ({"topic_name": "a", "qos": -1}, "invalid qos"),
    ({"topic_name": "a", "payload_format": 2}, "invalid payload_format"),
    ({"topic_name": "a", "response_topic": "+"}, "invalid response_topic"),
    ({"topic_name": "a", "content_type": "\0"}, "invalid content_type"),
    ({"topic_name": "a", "message_expiry": 1 << 32}, "invalid message_expiry"),
    ({"topic_name": "a", "user_properties": [{"K": "!"}]}, "invalid user_properties"),
    ({"topic_name": "a", "user_properties": [{"K": "/w=="}]}, "invalid user_properties"),
    ({"topic_name": "a", "user_properties": [1]},
     "json: cannot unmarshal number into Go value of type map[string]json.RawMessage"),
    ({"topic_name": "a", "qos": True}, "json: cannot unmarshal bool into Go value of type number"),
    ({"topic_name": "a", "retained": 1}, "json: cannot unmarshal number into Go value of type bool"),
])
def test_messages_that_cannot_be_published(request_: dict[str, Any], message: str):
    answer = Api().ask("POST", "/v1/publish", request_)
    assert (answer.status, json.loads(answer.body)["message"]) == (400, message)


def test_who_would_get_a_topic():
    api = Api()
    api.bench.client("c").subscribe("a/+")
    api.bench.client("d").subscribe("$share/g/a/b")
    assert api.get("/v1/federation/interest?topic=a/b") == {
        "topic": "a/b", "clients": [{"client_id": "c", "filters": ["a/+"]}],
        "groups": [{"filter": "$share/g/a/b", "members": 1}], "peers": [{"name": "node2", "filters": ["a/#"]}],
        "site": "NYC", "leaves_site": True}
    assert api.ask("GET", "/v1/federation/interest").status == 400
    assert api.ask("GET", "/v1/federation/interest?topic=%23").status == 400


def test_health_peers_and_metrics():
    api = Api()
    assert api.get("/v1/health") == {"status": "ok", "node_name": "node1"}
    assert api.get("/v1/federation/peers")["peers"][0]["queued"] == 3
    assert api.get("/v1/sites") == {"site": "NYC", "relay": "A", "sites": [{"site": "SFO"}]}
    assert api.get("/v1/sites?topic=a")["sites"][0]["wants"]
    assert api.ask("GET", "/v1/sites?topic=%23").status == 400
    api.federation.counters.add("rejoins", 2)
    lines = api.ask("GET", "/metrics").body.decode().splitlines()
    assert "jgroups_mqtt_federation_rejoins_total 2" in lines
    assert "jgroups_mqtt_broker_received_total 0" in lines
    assert r'jgroups_mqtt_peer_queued_bytes{peer="no\"de\n"} 300' in lines
    names = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(names) == len(set(names))


def test_random_requests_get_an_answer():
    rng = Random(3)
    api = Api()
    bodies = [b'{"hosts":["a"]}', b'{"topic_name":"a","user_properties":[{"K":"aw=="}]}', b"[" * 100_000, b"1e999",
              b"NaN", b'{"qos":1e5,"topic_name":"a"}', b"\xff\xfe"]
    for _ in range(3_000):
        body = bytearray(rng.choice(bodies))
        for _ in range(rng.randrange(3)):
            body[rng.randrange(min(len(body), 60))] = rng.randrange(256)
        target = rng.choice(list(api.api._routes)) + rng.choice(("", "?page=1", "?filter=%ff", "?topic=%00", "?x=%"))
        answer = api.ask(rng.choice(("GET", "POST")), target, bytes(body))
        assert answer.status in (200, 400, 404, 405, 500)
