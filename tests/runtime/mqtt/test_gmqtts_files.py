"""gmqtt's example files of a federation start brokers of ours unchanged: its quick start, in a network of its own.

The files have fixed ports and listen at all addresses, so this needs a private network (root, `unshare` and `ip`).
"""
from __future__ import annotations

import json
from time import monotonic

import pytest

from tests.documents.shell import Shell
from tests.documents.test_blocks import may_unshare
from tests.test_tidy import ROOT
from tests.unit.blocks.mqtt.test_config import NODE, STANDARD

pytestmark = [pytest.mark.real, pytest.mark.skipif(
    not may_unshare(), reason="needs networks of its own: root, and unshare and ip on the PATH")]
SECOND = {":1883": ":1884", "8083": "8183", "8084": "8184", "node1": "node2", ":8901": ":8911", ":8902": ":8912",
          "127.0.0.1:8912\n      - node3": "127.0.0.1:8902"}
THIRD = {":1883": ":1885", "8083": "8283", "8084": "8284", "node1": "node3", ":8901": ":8931", ":8902": ":8932",
         "    retry_join:\n      - 127.0.0.1:8912\n      - node3\n": ""}
ADDRESS = "192.168.0.105"
PATIENCE_SECONDS = 60


def test_the_quick_start_of_the_seed(tmp_path):
    def waits(shell: Shell, command: str, holds: str) -> list[str]:
        end = monotonic() + PATIENCE_SECONDS
        while True:
            _, found = shell.run(command)
            if holds in "\n".join(found):
                return found
            assert monotonic() < end, found
    with Shell(tmp_path, ROOT, private=True) as shell:
        for name, changes in (("node1", {}), ("node2", SECOND), ("join_node3", THIRD)):
            text = NODE
            for before, after in sorted(changes.items(), key=lambda pair: -len(pair[0])):
                assert before in text, before
                text = text.replace(before, after)
            (shell.folder / f"{name}_config.yml").write_text(text)
        shell.run(f"ip link add lan type veth peer name far; ip addr add {ADDRESS}/24 dev lan; ip link set lan up")
        for name in ("node1", "node2", "join_node3"):
            shell.run(f"jgroups mqtt serve -c {name}_config.yml > {name}.log 2>&1 &")
        for name, rest in (("node1", 8083), ("node2", 8183), ("join_node3", 8283)):
            waits(shell, f"cat {name}.log", f"listening at http://127.0.0.1:{rest}")
        waits(shell, "curl -s 127.0.0.1:8083/v1/federation/members", '"node2"')
        shell.run("mosquitto_sub -t topicA -h 127.0.0.1 -p 1884 -C 1 > got &")
        waits(shell, "curl -s '127.0.0.1:8083/v1/federation/interest?topic=topicA'", '"node2"')
        assert shell.run("mosquitto_pub -t topicA -m 123 -h 127.0.0.1 -p 1883") == (0, [])
        assert waits(shell, "cat got", "123") == ["123"]
        join = """curl -s -X POST -d '{"hosts":["127.0.0.1:8932"]}' '127.0.0.1:8083/v1/federation/join'"""
        assert shell.run(join) == (0, ["{}"])
        found = waits(shell, "curl -s http://127.0.0.1:8083/v1/federation/members", '"node3"')
        assert sorted(json.loads("".join(found))["members"], key=lambda each: str(each["name"])) == [
            {"name": name, "addr": f"{ADDRESS}:{port}", "tags": {"fed_addr": f"{ADDRESS}:{port - 1}"},
             "status": "STATUS_ALIVE"} for name, port in (("node1", 8902), ("node2", 8912), ("node3", 8932))]


def test_the_standard_file(tmp_path):
    with Shell(tmp_path, ROOT, private=True) as shell:
        tls = "\n      tls:\n        cert_file: \"cert.pem\"\n        key_file: \"key.pem\""
        assert tls in STANDARD
        (shell.folder / "config.yml").write_text(STANDARD.replace(tls, ""))
        shell.run("HOME=$PWD jgroups mqtt serve -c config.yml > log 2>&1 &")
        end = monotonic() + PATIENCE_SECONDS
        while not (found := shell.run("grep -s listening log")[1]):
            assert monotonic() < end, shell.run("cat log")
        assert found[0] == "listening at mqtt://*:1883"
        assert "bad user name" in "\n".join(shell.run("mosquitto_pub -t a -m b 2>&1")[1]), "it has no users yet"
