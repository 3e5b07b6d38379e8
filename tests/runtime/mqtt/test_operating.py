"""`jgroups mqtt members|peers|clients|retained|explain` ask running brokers."""
from __future__ import annotations

import json
import re
import socket
import threading

import pytest

from jgroups_py.cli import main
from jgroups_py.system.free_ports import free_range
from tests.runtime.mqtt.federated import GROUP, ask, nodes, running, until
from tests.runtime.mqtt.processes import Subscriber, publish, serving

pytestmark = pytest.mark.real


def test_two_brokers_are_shown(tmp_path, capsys):
    one, two = nodes(tmp_path, 2, GROUP)
    api = f"127.0.0.1:{one.rest}"

    def lines(*words: str) -> list[str]:
        assert main(["mqtt", *words, "--api", api]) == 0
        return capsys.readouterr().out.splitlines()
    with running(one, two), Subscriber(one.port, "a/#", "-i", "here", "-q", "1"), \
            Subscriber(two.port, "a/b", "-i", "there"), Subscriber(two.port, "$share/g/a/+", "-i", "member"):
        until(lambda: {"a/b", "$share/g/a/+"} == {
            filter for peer in ask(one.rest, "/v1/federation/interest?topic=a/b")["peers"]
            for filter in peer["filters"]}, "interest")
        publish(one.port, "a/b", "21.5", "-r", "-q", "1")
        head, *members = lines("members")
        assert head.split() == ["name", "address", "state", "tags"]
        assert [line.split() for line in members] == [
            [node.name, f"127.0.0.1:{node.gossip}", "alive", "-"] for node in (one, two)]
        head, peer = lines("peers")
        assert peer.split()[:5] == ["node2", "connected", "1", "1", "0"]
        clients = lines("clients")
        assert [line.split()[:5] for line in clients[1:]] == [["here", "yes", "3.1.1", "-", "1"]]
        assert lines("clients", "here")[-1].split() == ["a/#", "1"]
        assert [line.split() for line in lines("retained")[1:]] == [["a/b", "1", "4", "21.5"], ["1", "message"]]
        assert lines("retained", "x/#")[-1] == "0 messages"
        text = "\n".join(re.sub(" +", " ", line) for line in lines("explain", "a/b"))
        assert text == """\
a/b, published at node1
sessions here: 1
 client QoS by what becomes of it
 here 1 a/# at once
$share/g/a/+, to one member: at node2
other nodes:
 node by state queued under way
 node2 a/b connected 0 0
retained: '21.5', 4 bytes, QoS 1; a new subscriber gets it
QoS 1 and 2 are acknowledged when node2 has it, after 5 s at most"""
        found = json.loads("\n".join(lines("explain", "a/b", "--json")))
        assert (found["node_name"], found["acknowledgement"]["nodes"]) == ("node1", ["node2"])
        for command in (["clients", "nothing"], ["explain", "a/#"], ["retained", "a#"]):
            assert main(["mqtt", *command, "--api", api]) == 2
        errors = capsys.readouterr().err.splitlines()
        assert errors[0] == f"{api}: no session has the client id 'nothing'"
        assert errors[1].startswith(f"{api}: invalid topic: ")
        assert errors[2].startswith(f"{api}: invalid filter: ")


def test_a_broker_by_itself_has_no_members_and_explains(tmp_path, capsys):
    node, = nodes(tmp_path, 1, GROUP)
    node.file.write_text(node.file.read_text().replace("plugin_order:\n- federation\n", ""))
    with serving("-c", str(node.file), listeners=2):
        for command in ("members", "peers"):
            assert main(["mqtt", command, "--api", f"http://127.0.0.1:{node.rest}/"]) == 2
            assert "this broker has no other nodes" in capsys.readouterr().err
        assert main(["mqtt", "explain", "a", "--api", f"127.0.0.1:{node.rest}"]) == 0
        assert "sessions here: none has a filter that matches" in capsys.readouterr().out


@pytest.mark.parametrize(("api", "text"), [
    ("", "--api '' is no address"), ("ftp://x", "--api 'ftp://x' is no address"),
    ("127.0.0.1:x", "--api '127.0.0.1:x' is no address"), ("a b", "--api 'a b' is no address"),
])
def test_what_is_no_address_is_refused(api, text, capsys):
    assert main(["mqtt", "members", "--api", api]) == 2
    assert text in capsys.readouterr().err


def test_where_no_broker_is_that_is_said(capsys):
    port = free_range()
    assert main(["mqtt", "clients", "--api", f"127.0.0.1:{port}"]) == 2
    assert f"127.0.0.1:{port}: no REST of a broker there: Connection refused; a broker has it where its file says" \
        in capsys.readouterr().err


@pytest.mark.parametrize("answer", [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno", b"\x20\x02\x00\x00", b""])
def test_something_else_that_answers_is_no_broker(answer, capsys):
    with socket.create_server(("127.0.0.1", 0)) as server:
        def serve() -> None:
            client, _ = server.accept()
            with client:
                client.recv(1 << 16)
                client.sendall(answer)
        thread = threading.Thread(target=serve)
        thread.start()
        assert main(["mqtt", "clients", "--api", f"127.0.0.1:{server.getsockname()[1]}"]) == 2
        thread.join()
    assert "no REST of a broker there" in capsys.readouterr().err
