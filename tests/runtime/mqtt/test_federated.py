"""`jgroups mqtt serve` with other nodes: federations of real processes."""
from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.error
from contextlib import ExitStack

import pytest
import yaml

from jgroups_py.cli import main
from jgroups_py.system.free_ports import free_range
from tests.runtime.mqtt.federated import GMQTT, GROUP, PATIENCE_SECONDS, Node, ask, metrics, nodes, running, until
from tests.runtime.mqtt.processes import Subscriber, publish, serving

pytestmark = pytest.mark.real


@pytest.mark.parametrize("kind", [GROUP, GMQTT], ids=["group", "gmqtt"])
def test_the_quick_start_and_a_peer_that_ends(kind, tmp_path):
    one, two = nodes(tmp_path, 2, kind)
    with running(one, two) as processes:
        assert processes[0].listeners == [f"mqtt://127.0.0.1:{one.port}", f"http://127.0.0.1:{one.rest}"]
        with Subscriber(two.port, "topicA", "-C", "1") as sub:
            until(lambda: "node2" in one.interested("topicA"), "interest")
            publish(one.port, "topicA", "123", "-q", "1")
            assert sub.lines() == ["123"]
        publish(one.port, "kept", "value", "-r", "-q", "1")
        until(lambda: ask(two.rest, "/v1/retained?filter=kept")["retained"], "the retained message is there")
        peer = one.peers()["node2"]
        assert (peer["accepted"], peer["acknowledged"], peer["alive"]) == (peer["accepted"], peer["accepted"], True)
        with Subscriber(one.port, "will", "-C", "1", "-q", "1") as watching, \
                Subscriber(two.port, "x", "--will-topic", "will", "--will-payload", "gone", "--will-qos", "1"):
            until(lambda: "node1" in two.interested("will"), "interest")
            assert processes[1].end(signal.SIGTERM) == (0, "stopped\n")
            assert watching.lines() == ["gone"], "the last will reached the other node before this one left"
        until(lambda: one.statuses() == {"node1": "STATUS_ALIVE", "node2": "STATUS_LEFT"}, "it has left")


@pytest.mark.parametrize("kind", [GROUP, GMQTT], ids=["group", "gmqtt"])
def test_a_peer_that_is_killed_has_failed_and_comes_back(kind, tmp_path):
    one, two = nodes(tmp_path, 2, kind)
    with running(one, two) as processes:
        processes[1].process.kill()
        until(lambda: one.statuses()["node2"] == "STATUS_FAILED", "it has failed")
        assert not one.peers()["node2"]["alive"]
        ask(one.rest, "/v1/federation/force_leave", {"node_name": "node2"})
        until(lambda: one.statuses().get("node2", "STATUS_LEFT") == "STATUS_LEFT", "it counts as left")
        with serving("-c", str(two.file), listeners=2), Subscriber(two.port, "t", "-C", "1") as sub:
            until(lambda: "node2" in one.interested("t"), "interest")
            publish(one.port, "t", "again", "-q", "1")
            assert sub.lines() == ["again"]


def test_a_node_leaves_by_request_and_serves_its_own_clients(tmp_path):
    one, two = nodes(tmp_path, 2, GROUP)
    with running(one, two):
        assert ask(two.rest, "/v1/federation/leave", {}) == {}
        until(lambda: one.statuses()["node2"] == "STATUS_LEFT", "it has left")
        assert two.statuses()["node2"] == "STATUS_LEFT"
        with Subscriber(two.port, "t", "-C", "1") as sub:
            publish(two.port, "t", "here")
            assert sub.lines() == ["here"]
        assert refused_to_join(two, one.gossip) == "Serf can't Join after Leave or Shutdown"


def refused_to_join(node: Node, *ports: int) -> str:
    """What REST answers to an order to join nodes of loopback."""
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(node.rest, "/v1/federation/join", {"hosts": [f"127.0.0.1:{port}" for port in ports]})
    return json.loads(refused.value.read())["message"]


def test_nodes_of_groups_join_by_request(tmp_path):
    """Two, and a third at one that does not coordinate."""
    found = nodes(tmp_path, 3, GROUP, join=False)
    with ExitStack() as stack:
        for node in found:
            stack.enter_context(serving("-c", str(node.file), listeners=2))
        one, two, three = found
        closed = free_range(1)
        assert refused_to_join(one, closed) == (
            "1 error occurred:\n\t* Failed to join 127.0.0.1: "
            f"dial tcp 127.0.0.1:{closed}: connect: connection refused\n\n")
        assert "no member of 'mqtt' has joined within 10 s" in refused_to_join(one, two.port), "clients' port"
        assert ask(one.rest, "/v1/federation/join", {"hosts": [f"127.0.0.1:{two.gossip}"]}) == {}
        until(lambda: one.statuses() == two.statuses() == dict.fromkeys(("node1", "node2"), "STATUS_ALIVE"), "joined")
        for node in (one, two):
            assert ask(node.rest, "/v1/federation/join", {"hosts": [f"127.0.0.1:{three.gossip}"]}) == {}
        until(lambda: all(set(node.statuses()) == {"node1", "node2", "node3"} for node in found), "all have joined")
        with Subscriber(three.port, "t", "-C", "1") as sub:
            until(lambda: "node3" in one.interested("t"), "interest")
            publish(one.port, "t", "hello", "-q", "1")
            assert sub.lines() == ["hello"]


def test_a_third_node_joins_gmqtts_federation_by_request(tmp_path):
    one, two = nodes(tmp_path, 2, GMQTT, join=False)
    with ExitStack() as stack:
        for node in (one, two):
            stack.enter_context(serving("-c", str(node.file), listeners=2))
        assert one.statuses() == {"node1": "STATUS_ALIVE"}
        assert ask(one.rest, "/v1/federation/join", {"hosts": [f"127.0.0.1:{two.gossip}"]}) == {}
        until(lambda: one.statuses() == two.statuses() == dict.fromkeys(("node1", "node2"), "STATUS_ALIVE"), "joined")
        member = ask(one.rest, "/v1/federation/members")["members"][0]
        assert member == {"name": "node1", "addr": f"127.0.0.1:{one.gossip}", "status": "STATUS_ALIVE",
                          "tags": {"fed_addr": f"127.0.0.1:{one.gossip + 1}"}}


def test_two_nodes_in_a_group_and_in_gmqtts_federation_with_a_third(tmp_path):
    one, two, foreign = nodes(tmp_path, 3, GMQTT)
    first = free_range(20)
    for node in (one, two):
        change(node.file, stack="tcp", gmqtt=True, properties=[f"bind_port={first}", "port_range=19",
                                                               f"initial_hosts=127.0.0.1[{first}]"])
    with running(one, two, foreign):
        until(lambda: set(one.peers()) == {"node2", "node3"}, "peers")
        assert {name: "fed_addr" in peer for name, peer in one.peers().items()} == {"node2": False, "node3": True}
        tags = {each["name"]: each["tags"].get("jg") for each in ask(one.rest, "/v1/federation/members")["members"]}
        assert tags == {"node1": "mqtt", "node2": "mqtt", "node3": None}
        with ExitStack() as stack:
            subs = [stack.enter_context(Subscriber(node.port, "t", "-q", "1", "-C", "4"))
                    for node in (one, two, foreign)]
            until(lambda: all(len(node.interested("t")) == 2 for node in (one, two, foreign)), "interest")
            for number, node in enumerate((one, two, foreign, one)):
                publish(node.port, "t", str(number), "-q", "1")
            assert [sorted(sub.lines()) for sub in subs] == [["0", "1", "2", "3"]] * 3
        publish(foreign.port, "kept", "value", "-r", "-q", "1")
        until(lambda: all(ask(node.rest, "/v1/retained?filter=kept")["retained"] for node in (one, two)), "retained")
        publish(two.port, "kept", "", "-r", "-q", "1")
        until(lambda: not any(ask(node.rest, "/v1/retained?filter=kept")["retained"] for node in (one, two)), "cleared")
        assert "jgroups_mqtt_gmqtt_messages_sent_total " in metrics(one)


def test_what_is_advertised_is_what_others_get(tmp_path):
    one, two = nodes(tmp_path, 2, GMQTT)
    change(one.file, advertise_gossip_addr="localhost:1", advertise_fed_addr="localhost:2")
    with running(one, two):
        member = next(each for each in ask(two.rest, "/v1/federation/members")["members"] if each["name"] == "node1")
        assert (member["addr"], member["tags"]["fed_addr"]) == ("127.0.0.1:1", "localhost:2")


def test_nodes_to_join_that_do_not_answer_end_the_process_with_their_addresses(tmp_path):
    one, two = nodes(tmp_path, 2, {"retry_interval": "100ms", "retry_timeout": "1s"})
    done = subprocess.run([sys.executable, "-m", "jgroups_py", "mqtt", "serve", "-c", str(one.file)],
                          capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 1
    place = f"127.0.0.1:{two.gossip}"
    assert f"jgroups mqtt: retry_join: none of {place} could be reached in 1 s" in done.stderr
    assert f"dial tcp {place}: connect: connection refused" in done.stderr


@pytest.mark.parametrize(("kind", "taken", "text"), [
    (GROUP, "rest", "REST: 127.0.0.1:{port}: the port is in use by another process"),
    (GROUP, "gossip", "{port}"), (GMQTT, "gossip", "{port}"), (GMQTT, "fed", "fed_addr 127.0.0.1:{port}: "),
])
def test_a_port_in_use_is_named(kind, taken, text, tmp_path, capfd):
    node, = nodes(tmp_path, 1, kind)
    port = {"rest": node.rest, "gossip": node.gossip, "fed": node.gossip + 1}[taken]
    with socket.create_server(("127.0.0.1", port)):
        assert main(["mqtt", "serve", "-c", str(node.file)]) == 2
    assert text.format(port=port) in capfd.readouterr().err


@pytest.mark.parametrize(("key", "text"), [
    ({"sessions": "replicated"}, "plugins.federation: sessions: replicated needs `stack`"),
    ({"stack": "tcp", "sessions": "replicated", "ack": "local"}, "sessions: replicated needs `ack: peers`"),
    ({"stack": "tcp", "session_replicas": 4}, "session_replicas"),
    ({"on_full": "block"}, "plugins.federation.on_full: block needs `stack`"),
    ({"on_full": "block", "stack": "tcp", "gmqtt": True}, "plugins.federation.on_full: block needs `stack` without"),
    ({"stack": "nothing"}, "'nothing': is neither a path that ends in"),
])
def test_what_cannot_be_is_refused(key, text, tmp_path, capfd):
    node, = nodes(tmp_path, 1, key)
    assert main(["mqtt", "serve", "-c", str(node.file)]) == 2
    assert text in capfd.readouterr().err


def test_a_node_that_was_killed_finds_the_others_by_its_snapshot(tmp_path):
    one, two = nodes(tmp_path, 2, GMQTT, join=False)
    change(two.file, snapshot_path=str(tmp_path / "nodes"))
    both = dict.fromkeys(("node1", "node2"), "STATUS_ALIVE")
    with serving("-c", str(one.file), listeners=2):
        with serving("-c", str(two.file), listeners=2) as process:
            ask(two.rest, "/v1/federation/join", {"hosts": [f"127.0.0.1:{one.gossip}"]})
            until(lambda: one.statuses() == two.statuses() == both, "joined")
            until(lambda: (tmp_path / "nodes").exists(), "the file is written")
            assert (tmp_path / "nodes").read_text() == f"alive: node1 127.0.0.1:{one.gossip}\n"
            process.process.kill()
        with serving("-c", str(two.file), listeners=2) as process:
            until(lambda: one.statuses() == two.statuses() == both, "it is back")
            assert process.end() == (0, "stopped\n")
        assert (tmp_path / "nodes").read_text().endswith("leave\n")
        with serving("-c", str(two.file), listeners=2) as process:
            assert two.statuses() == {"node2": "STATUS_ALIVE"}, "it left, so it waits for an order to join"
            process.process.kill()
        (tmp_path / "nodes").write_text(f"alive: node1 127.0.0.1:{one.gossip}\nleave\n")
        change(two.file, rejoin_after_leave=True)
        with serving("-c", str(two.file), listeners=2):
            until(lambda: one.statuses() == two.statuses() == both, "it joins although it had left")


def test_a_snapshot_that_cannot_be_read_is_named(tmp_path, capfd):
    node, = nodes(tmp_path, 1, {"snapshot_path": str(tmp_path)})
    assert main(["mqtt", "serve", "-c", str(node.file)]) == 2
    assert f"snapshot_path {tmp_path}: Is a directory" in capfd.readouterr().err


def change(file, **keys: object) -> None:
    """Further keys of the federation."""
    text = yaml.safe_load(file.read_text())
    text["plugins"]["federation"] |= keys
    file.write_text(yaml.safe_dump(text))
