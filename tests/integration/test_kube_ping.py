"""Members that find each other by the pods that an API server lists over HTTPS."""
from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from jgroups_py.system.free_ports import free_range
from tests.integration.members import Member
from tests.runtime.api_server import ApiServer, pod

pytestmark = [pytest.mark.real, pytest.mark.slow]
STACK = """
<config>
    <TCP bind_addr="${bind_addr}" bind_port="${bind_port}" port_range="0"/>
    <kubernetes.KUBE_PING labels="app=chat" port_range="0" refresh="1s" split_clusters_during_rolling_update="${split}"
                          saTokenFile="${account}/token" caCertFile="${account}/ca.crt"/>
    <MERGE3 min_interval="500ms" max_interval="1s"/>
    <FD_SOCK/> <FD_ALL/> <VERIFY_SUSPECT/> <NAKACK/> <UNICAST/> <STABLE/> <GMS join_timeout="500ms"/>
</config>
"""
APP = {"app": "chat"}


def start(running: contextlib.ExitStack, server: ApiServer, tmp_path: Path, split: bool) -> dict[str, Member]:
    """A and B on 127.0.0.11 and 12, at one port, told where the API server is as a pod is."""
    (tmp_path / "stack.xml").write_text(STACK)
    port = free_range(1)
    members = {}
    for at, name in enumerate("AB", 11):
        members[name] = Member(name, str(tmp_path / "stack.xml"), "found-by-pods", {
            "bind_addr": f"127.0.0.{at}", "bind_port": port, "account": server.account, "split": split},
            prefix=("env", "KUBERNETES_SERVICE_HOST=127.0.0.1", f"KUBERNETES_SERVICE_PORT={server.port}"))
        running.callback(members[name].close)
    return members


def test_members_find_each_other_once_the_api_server_lists_their_pods(tmp_path: Path) -> None:
    with contextlib.ExitStack() as running:
        server = running.enter_context(ApiServer(tmp_path))
        server.manner = 403
        members = start(running, server, tmp_path, split=False)
        for name, member in members.items():
            member.view_of(name)                             # they may not list pods yet
        server.pods = [pod("127.0.0.11", labels=APP, ready=False), pod("127.0.0.12", labels=APP, ready=False),
                       pod("127.0.0.13", labels={"app": "other"})]
        server.manner = "lists"
        for member in members.values():
            member.view_of("AB")
        members["A"].command("send hello")
        members["B"].wait(lambda event: event["event"] == "message" and event["payload"] == "hello", "A's message")
        for member in members.values():
            member.close()
            assert member.errors.count("answers 403: the service account may not list pods") == 1, member.errors
            assert "first-token" not in member.errors


def test_members_of_two_revisions_are_groups_of_their_own_until_the_old_pod_is_replaced(tmp_path: Path) -> None:
    with contextlib.ExitStack() as running:
        server = running.enter_context(ApiServer(tmp_path))
        server.pods = [pod("127.0.0.11", labels={**APP, "pod-template-hash": "old"}),
                       pod("127.0.0.12", labels={**APP, "pod-template-hash": "new"})]
        members = start(running, server, tmp_path, split=True)
        for name, member in members.items():
            member.view_of(name)
        seen = len(server.asked)
        members["A"].command("send alone")
        members["A"].wait(lambda event: event["event"] == "message" and event["payload"] == "alone", "its own message")
        server.pods = [pod("127.0.0.11", labels={**APP, "pod-template-hash": "new"}), server.pods[1]]
        for member in members.values():
            member.view_of("AB")
        assert len(server.asked) > seen
