"""Where a message would go, and why: `explain` against what the broker then does."""
from __future__ import annotations

from typing import Any

from jgroups_py.blocks.mqtt.broker.options import AckWhen
from jgroups_py.blocks.mqtt.server.explain import explain
from tests.unit.blocks.mqtt.clients import Bench

PEERS = [
    {"name": "node2", "alive": True, "state": "connected", "why": "", "queued": 3, "unacknowledged": 1},
    {"name": "node3", "alive": False, "state": "away", "why": "not in the group", "queued": 7, "unacknowledged": 0},
    {"name": "node4", "alive": True, "state": "connected", "why": "", "queued": 0, "unacknowledged": 0},
]
INTEREST = {"node2": ["a/#", "$share/g/a/b"], "node3": ["a/b"], "node4": ["$share/h/a/+"]}


def of(bench: Bench, topic: str = "a/b", **more: Any) -> dict[str, Any]:
    return explain(bench.broker, topic, more.get("interest", {}), more.get("peers", []), bench.now_ns)


def test_a_session_with_all_its_filters_and_the_highest_qos():
    bench = Bench()
    client = bench.client("c")
    client.subscribe("a/#", 0)
    client.subscribe("a/+", 2, no_local=True)
    client.subscribe("other", 1)
    bench.client("nobody").subscribe("b/#", 1)
    assert of(bench)["sessions"] == [{
        "client_id": "c", "connected": True, "qos": 2, "queued": 0, "queued_bytes": 0, "in_flight": 0,
        "what": "at once",
        "filters": [{"filter": "a/#", "qos": 0, "no_local": False}, {"filter": "a/+", "qos": 2, "no_local": True}]}]
    assert of(bench, "$SYS/x")["sessions"] == []


def test_what_becomes_of_a_message_for_a_session():
    bench = Bench(queue_messages=2, max_inflight=1)
    client = bench.client("c", receive_maximum=1)
    client.subscribe("a/b", 1)
    client.acks = False
    publisher = bench.client("p")

    def what() -> str:
        return str(of(bench)["sessions"][0]["what"])
    publisher.publish("a/b", b"1", 1)
    assert what() == "QoS 0 at once; else queued: as much as the client allows is unacknowledged"
    publisher.publish("a/b", b"2", 1)
    assert what() == "queued: 1 before it"
    publisher.publish("a/b", b"3", 1)
    assert what() == "its queue is full: drop-oldest"


def test_shared_subscriptions_with_their_members_and_nodes():
    bench = Bench()
    bench.client("one").subscribe("$share/g/a/b", 1)
    found = of(bench, interest=INTEREST, peers=PEERS)
    assert found["sessions"] == []
    assert found["shared"] == [
        {"filter": "$share/g/a/b", "members": [{"client_id": "one", "connected": True}], "nodes": ["node2"]},
        {"filter": "$share/h/a/+", "members": [], "nodes": ["node4"]}]


def test_peers_and_what_an_acknowledgement_waits_for():
    found = of(Bench(), interest=INTEREST, peers=PEERS)
    assert [(peer["name"], peer["filters"], peer["queued"]) for peer in found["peers"]] == [
        ("node2", ["a/#"], 3), ("node3", ["a/b"], 7), ("node4", [], 0)]
    assert found["acknowledgement"] == {"when": "peers", "nodes": ["node2"], "timeout_s": 5.0}
    assert of(Bench(ack=AckWhen.LOCAL), interest=INTEREST, peers=PEERS)["acknowledgement"]["nodes"] == []


def test_the_retained_message():
    bench = Bench()
    assert of(bench)["retained"] is None
    bench.client("p").publish("a/b", b"x" * 2_000, 1, retain=True)
    kept = of(bench)["retained"]
    assert (kept["payload_bytes"], kept["qos"], len(kept["payload_base64"])) == (2_000, 1, 1_336)
