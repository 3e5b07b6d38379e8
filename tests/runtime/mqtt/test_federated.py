"""`jgroups mqtt serve` with other nodes: federations of real processes, by the files that people write."""
from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import attrs
import pytest
import yaml

from jgroups_py.cli import main
from tests.integration.members import free_range
from tests.runtime.mqtt.processes import BrokerProcess, Subscriber, publish, serving

pytestmark = pytest.mark.real
PATIENCE_SECONDS = 60
GROUP, GMQTT = {"stack": "tcp"}, {"retry_interval": "200ms"}


def until(holds: Callable[[], object], what: str) -> None:
    end = monotonic() + PATIENCE_SECONDS
    while not holds():
        assert monotonic() < end, what
        sleep(0.05)


def ask(port: int, path: str, body: object = None, method: str | None = None) -> Any:
    """The JSON that REST answers."""
    data = None if body is None else json.dumps(body).encode()
    wanted = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, method=method)
    with urllib.request.urlopen(wanted, timeout=30) as answer:
        return json.loads(answer.read())


@attrs.define
class Node:
    """A node as it is configured; port: of its clients, gossip: of the membership."""

    name: str
    file: Path
    port: int
    rest: int
    gossip: int

    def statuses(self) -> dict[str, str]:
        """Name -> status of the members."""
        return {each["name"]: each["status"] for each in ask(self.rest, "/v1/federation/members")["members"]}

    def peers(self) -> dict[str, Any]:
        return {each["name"]: each for each in ask(self.rest, "/v1/federation/peers")["peers"]}

    def interested(self, topic: str) -> set[str]:
        """The nodes that want a topic."""
        return {each["name"] for each in ask(self.rest, f"/v1/federation/interest?topic={topic}")["peers"]}


def nodes(folder: Path, number: int, more: dict[str, object], join: bool = True) -> list[Node]:
    """Files of nodes that know of each other, on free ports."""
    first = free_range(4 * number)
    found = []
    gossip = [f"127.0.0.1:{first + 4 * at + 2}" for at in range(number)]
    for at in range(number):
        own = first + 4 * at
        node = Node(f"node{at + 1}", folder / f"node{at + 1}.yml", own, own + 1, own + 2)
        federation: dict[str, object] = {"node_name": node.name, "gossip_addr": f"127.0.0.1:{node.gossip}", **more}
        if "stack" not in more:
            federation["fed_addr"] = f"127.0.0.1:{own + 3}"
        if join:
            federation["retry_join"] = [place for place in gossip if place != gossip[at]]
        node.file.write_text(yaml.safe_dump({
            "listeners": [{"address": f"127.0.0.1:{node.port}"}],
            "api": {"http": [{"address": f"tcp://127.0.0.1:{node.rest}"}]},
            "plugins": {"federation": federation}, "plugin_order": ["federation"], "log": {"level": "warn"}}))
        found.append(node)
    return found


@contextmanager
def running(*wanted: Node) -> Iterator[list[BrokerProcess]]:
    """These nodes, all of which see all."""
    with ExitStack() as stack:
        processes = [stack.enter_context(serving("-c", str(node.file), listeners=2)) for node in wanted]
        everyone = {node.name for node in wanted}
        until(lambda: all(set(node.statuses()) >= everyone for node in wanted), "all see all")
        yield processes


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
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(one.rest, "/v1/federation/join", {"hosts": ["127.0.0.1:1"]})
        assert "put them into retry_join" in json.loads(refused.value.read())["message"]


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


def test_what_is_advertised_is_what_others_get(tmp_path):
    one, two = nodes(tmp_path, 2, GMQTT)
    text = yaml.safe_load(one.file.read_text())
    text["plugins"]["federation"] |= {"advertise_gossip_addr": "localhost:1", "advertise_fed_addr": "localhost:2"}
    one.file.write_text(yaml.safe_dump(text))
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
    ({"stack": "tcp", "sessions": "replicated"}, "plugins.federation.sessions: replicated is not built yet"),
    ({"on_full": "block"}, "plugins.federation.on_full: block needs `stack`"),
    ({"stack": "nothing"}, "'nothing': is neither a path that ends in"),
])
def test_what_cannot_be_is_refused(key, text, tmp_path, capfd):
    node, = nodes(tmp_path, 1, key)
    assert main(["mqtt", "serve", "-c", str(node.file)]) == 2
    assert text in capfd.readouterr().err
