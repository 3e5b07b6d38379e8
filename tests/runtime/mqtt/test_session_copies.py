"""`sessions: replicated` with real processes: the node of a session is killed with kill -9."""
from __future__ import annotations

import subprocess

import pytest

from jgroups_py.cli import main
from tests.runtime.mqtt.federated import GROUP, ask, nodes, running, until
from tests.runtime.mqtt.processes import END_SECONDS, tool

pytestmark = pytest.mark.real

MESSAGES = 200


def program(name: str, port: int, *options: str, lines: str = "") -> str:
    """A client of mosquitto's, until it ends; what it printed."""
    done = subprocess.run([tool(name), "-h", "127.0.0.1", "-p", str(port), *options], input=lines, capture_output=True,
                          text=True, timeout=END_SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout


def publish_numbers(port: int, numbers: range) -> None:
    """Each is a message of QoS 1; all are acknowledged."""
    program("mosquitto_pub", port, "-t", "a/b", "-q", "1", "-l", lines="".join(f"{number}\n" for number in numbers))


def test_a_client_finds_its_session_when_its_node_was_killed(tmp_path, capsys):
    one, two, three = nodes(tmp_path, 3, {**GROUP, "sessions": "replicated"})
    wanted = "-i", "me", "-c", "-t", "a/#", "-q", "1"
    with running(one, two, three) as processes:
        program("mosquitto_sub", one.port, *wanted, "-E")
        until(lambda: "node1" in two.interested("a/b"), "interest")
        publish_numbers(two.port, range(MESSAGES))
        assert main(["mqtt", "where", "--api", f"127.0.0.1:{one.rest}", "me"]) == 0
        assert "node1  the session  not connected" in capsys.readouterr().out
        processes[0].process.kill()
        publish_numbers(two.port, range(MESSAGES, 2 * MESSAGES))
        found = program("mosquitto_sub", three.port, *wanted, "-C", str(2 * MESSAGES), "-W", "30")
        assert found.split() == [str(number) for number in range(2 * MESSAGES)]
        session = ask(three.rest, "/v1/federation/sessions/me")["session"]
        assert (session["node"], session["is_here"], list(session["copies_at"])) == ("node3", True, ["node2"])
