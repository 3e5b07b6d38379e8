"""`jgroups member` and the other commands that take a stack, configured by variables of the environment."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jgroups_py.system.free_ports import free_range
from tests.integration.members import Member

pytestmark = [pytest.mark.real, pytest.mark.slow]


def run(*words: str, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "jgroups_py", *words], input=stdin, capture_output=True, text=True,
                          timeout=60, env={**os.environ, **variables})


def test_a_member_without_arguments_joins_one_with_arguments() -> None:
    port = free_range(4)
    hosts = f"127.0.0.1:{port}"
    a = Member("A", "tcp", "chat", {"bind_port": port, "port_range": 3, "initial_hosts": hosts})
    try:
        a.view_of("A")
        since = a.mark()
        done = run("member", stdin="send hello\nleave\n", JGROUPS_STACK="tcp", JGROUPS_CLUSTER="chat", JGROUPS_NAME="B",
                   JGROUPS_BIND_PORT=str(port), JGROUPS_P_PORT_RANGE="3", JGROUPS_INITIAL_HOSTS=hosts)
        assert done.returncode == 0, done.stderr
        a.wait(lambda event: event["event"] == "message" and event["payload"] == "hello", "B's message", since)
    finally:
        a.close()


def test_a_wrong_value_names_the_variable_when_the_stack_is_read_and_when_the_socket_is_opened() -> None:
    done = run("member", JGROUPS_STACK="tcp", JGROUPS_CLUSTER="chat", JGROUPS_BIND_PORT="many")
    assert done.returncode == 2
    assert "bind_port is from JGROUPS_BIND_PORT in the environment" in done.stderr
    done = run("member", JGROUPS_STACK="tcp", JGROUPS_CLUSTER="chat", JGROUPS_BIND_ADDR="no.such.host.invalid")
    assert done.returncode == 1
    assert "bind_addr is from JGROUPS_BIND_ADDR in the environment" in done.stdout, done.stderr


def test_without_stack_and_cluster_the_error_names_the_variables() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JGROUPS_")}
    done = subprocess.run([sys.executable, "-m", "jgroups_py", "member"], capture_output=True, text=True, timeout=60,
                          env=environment)
    assert done.returncode == 2
    assert "--stack is missing; give it, or set JGROUPS_STACK in the environment" in done.stderr


def test_lint_reads_a_stack_file_with_variables(tmp_path: Path) -> None:
    file = tmp_path / "stack.yaml"
    file.write_text("- UDP: {bind_addr: '${env.POD_IP}'}\n- PING\n- NAKACK\n- UNICAST\n- GMS\n")
    assert run("lint", str(file), POD_IP="10.0.0.7").returncode == 0
    assert run("lint", str(file), POD_IP="10.0.0.7", JGROUPS_P_UNUSED="1").returncode == 0
