"""Pods as the API server lists them: what is found, and servers that refuse, redirect, lie or are slow."""
from __future__ import annotations

import json
import logging
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from jgroups_py.model.events import NameResolved
from jgroups_py.model.kubernetes_pods import PodQuery
from jgroups_py.model.name_resolution import MAX_ADDRESSES, PODS, Chain, ResolverSpec
from jgroups_py.model.outputs import LOCAL, Resolve
from jgroups_py.runtime.name_resolution import kubernetes_pods
from jgroups_py.runtime.name_resolution.kubernetes_pods import ALL_S, MAX_PAGE_BYTES, PAGE_PODS, TIMEOUT_S
from jgroups_py.runtime.name_resolution.resolver_threads import Resolving
from jgroups_py.runtime.name_resolution.resolvers import find_places, make_resolvers
from tests.runtime.api_server import ApiServer, pod
from tests.runtime.helpers import eventually

pytestmark = pytest.mark.real
SPARE_S = 5.0                               # of a machine that is busy


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ApiServer]:
    with ApiServer(tmp_path) as made:
        made.pods = [pod("10.0.0.1"), pod("10.0.0.2")]
        yield made


class Asking:
    """One resolver, as one member has it."""

    def __init__(self, server: ApiServer, **properties: Any) -> None:
        values = {"host": "127.0.0.1", "port": server.port, "token_file": str(server.account / "token"),
                  "ca_file": str(server.account / "ca.crt"), **properties}
        self.chain = Chain((ResolverSpec(PODS, PodQuery(**values).text()),), "pods")
        self.resolvers = make_resolvers(self.chain)

    def hosts(self, version: int = 4) -> list[str]:
        found = find_places(self.resolvers, "pods", 7800, "endpoint", False, version)
        assert all(port == 7800 for _, port in found)
        return [host for host, _ in found]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_the_running_pods_of_the_accounts_namespace_are_found_and_the_token_is_shown(server: ApiServer) -> None:
    server.pods += [pod("10.0.0.3", phase="Succeeded"), pod("10.0.0.4", namespace="other"), pod(phase="Pending")]
    assert Asking(server).hosts() == ["10.0.0.1", "10.0.0.2"]
    path, query, authorization = server.asked[0]
    assert path == "/api/v1/namespaces/chat/pods"
    assert query == {"limit": str(PAGE_PODS), "fieldSelector": "status.phase=Running"}
    assert authorization == "Bearer first-token"
    assert Asking(server, namespace="other").hosts() == ["10.0.0.4"]


def test_labels_choose_pods(server: ApiServer) -> None:
    server.pods += [pod("10.0.0.5", labels={"app": "chat", "tier": "a"}), pod("10.0.0.6", labels={"app": "chat"})]
    assert Asking(server, labels="app=chat").hosts() == ["10.0.0.5", "10.0.0.6"]
    assert Asking(server, labels="app=chat,tier=a").hosts() == ["10.0.0.5"]


def test_pods_that_are_not_ready_count_unless_told_otherwise_and_ending_ones_stand_last(server: ApiServer) -> None:
    server.pods = [pod("10.0.0.1", ending=True), pod("10.0.0.2", ready=False), pod("10.0.0.3")]
    assert Asking(server).hosts() == ["10.0.0.2", "10.0.0.3", "10.0.0.1"]
    assert Asking(server, ready_only=True).hosts() == ["10.0.0.3", "10.0.0.1"]


def test_the_ip_version_of_the_transport_is_preferred(server: ApiServer) -> None:
    server.pods = [pod("10.0.0.1", "fd00::1"), pod("10.0.0.2")]
    assert Asking(server).hosts() == ["10.0.0.1", "10.0.0.2"]
    assert Asking(server).hosts(6) == ["fd00::1", "10.0.0.2"]


def test_a_rolling_update_may_split_the_pods_by_their_revision(
    server: ApiServer, caplog: pytest.LogCaptureFixture,
) -> None:
    for label in ("pod-template-hash", "controller-revision-hash", "deployment"):
        server.pods = [pod("10.0.0.1", labels={label: "old"}), pod("fd00:0::2", labels={label: "new"}),
                       pod("10.0.0.3", labels={label: "old"}), pod("10.0.0.4")]
        assert Asking(server, like="10.0.0.3").hosts() == ["10.0.0.1", "10.0.0.3"]
        assert Asking(server, like="fd00::2").hosts() == ["fd00::2"]
        assert len(Asking(server).hosts()) == 4
    assert not warnings(caplog)
    assert len(Asking(server, like="10.0.0.9").hosts()) == 4
    assert "no pod in the list has the address 10.0.0.9" in warnings(caplog)[0]


def test_a_long_list_is_read_in_pages_and_the_first_addresses_of_it_are_used(
    server: ApiServer, caplog: pytest.LogCaptureFixture,
) -> None:
    server.pods = [pod(f"10.0.{number >> 8}.{number & 255}") for number in range(PAGE_PODS + 1)]
    assert len(Asking(server).hosts()) == PAGE_PODS + 1
    assert not warnings(caplog)
    server.pods = [pod(f"10.0.{number >> 8}.{number & 255}") for number in range(1000)]
    server.asked.clear()
    assert len(Asking(server).hosts()) == MAX_ADDRESSES
    assert len(server.asked) == kubernetes_pods.MAX_PAGES
    assert "more than 512 pods" in warnings(caplog)[0]


def test_a_token_that_changed_is_read_again(server: ApiServer, caplog: pytest.LogCaptureFixture) -> None:
    asking = Asking(server)
    assert asking.hosts()
    server.tokens = ["second-token"]
    assert asking.hosts() == []
    (server.account / "token").write_text("second-token\n")
    assert asking.hosts() == ["10.0.0.1", "10.0.0.2"]
    assert "answers 401: the token is not accepted: check saTokenFile" in warnings(caplog)[0]
    assert "token\n" not in caplog.text.replace("the token", "")
    assert not any(token in caplog.text for token in ("first-token", "second-token"))


@pytest.mark.parametrize(("manner", "said"), [
    (403, "may not list pods: bind a Role that allows list of pods in this namespace"),
    (500, "answers 500: an error of the API server; it is asked again"),
    (404, "answers 404: there is no such list"),
    ("redirects", "answers 302: a redirect, which is not followed with a token"),
    (b"<html>", "something else than a list of pods"), (b"[]", "something else"), (b"null", "something else"),
    (b'{"items": 7}', "something else"), (b"[" * 200_000, "something else"), (b"\xff\xfe", "something else"),
    (b"9" * 100_000, "something else"), ("cut", "does not answer (IncompleteRead)"),
    ("huge", "with more than 4 MB for 64 pods, which is not used"),
])
def test_what_fails_gives_no_pods_and_is_logged_once_with_what_to_do(
    server: ApiServer, manner: str | int | bytes, said: str, caplog: pytest.LogCaptureFixture,
) -> None:
    asking = Asking(server)
    server.manner = manner
    for _ in range(3):
        assert asking.hosts() == []
    assert len(server.asked) == 3, "the token went elsewhere"
    assert len(warnings(caplog)) == 1, "not logged once"
    assert said in warnings(caplog)[0]
    assert "first-token" not in caplog.text
    server.manner = "lists"
    assert asking.hosts() == ["10.0.0.1", "10.0.0.2"], "does not recover"


def test_what_is_no_pod_is_left_out(server: ApiServer, caplog: pytest.LogCaptureFixture) -> None:
    absurd: list[Any] = [None, 7, "pod", [], {}, {"status": None},
                         {"status": {"podIP": 7, "podIPs": {"ip": "10.0.0.9"}}}, {"status": {"podIP": "evil.example"}},
                         {"status": {"podIP": "fe80::1%eth0"}},
                         {"status": {"podIP": "10.0.0.3", "podIPs": [None, {"ip": []}], "conditions": "Ready"},
                          "metadata": ["labels"]},
                         {"status": {"podIP": "10.0.0.4", "phase": ["Running"]}}]
    server.pods = [*absurd, pod("10.0.0.1")]
    assert Asking(server).hosts() == ["10.0.0.3", "10.0.0.1"]
    server.manner = json.dumps({"items": [pod("10.0.0.1")], "metadata": {"continue": {"a": 1}}}).encode()
    assert Asking(server).hosts() == ["10.0.0.1"]
    assert not warnings(caplog)


def test_a_server_that_lists_the_same_page_for_ever_is_asked_a_bounded_number_of_times(server: ApiServer) -> None:
    server.manner = json.dumps({"items": [pod("10.0.0.1")] * 100, "metadata": {"continue": "0"}}).encode()
    assert Asking(server).hosts() == ["10.0.0.1"]
    assert len(server.asked) == kubernetes_pods.MAX_PAGES


def test_a_huge_answer_takes_little_memory(server: ApiServer) -> None:
    asking = Asking(server)
    server.manner = "huge"
    asking.hosts()
    tracemalloc.start()
    try:
        asking.hosts()
        assert tracemalloc.get_traced_memory()[1] < 3 * MAX_PAGE_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("manner", ["drips", "drips body", "silent"])
def test_a_slow_server_holds_a_thread_for_a_bounded_time_and_never_the_one_that_asks(
    server: ApiServer, manner: str, caplog: pytest.LogCaptureFixture,
) -> None:
    answers: list[NameResolved] = []
    resolving = Resolving(lambda _, answer: answers.append(answer))
    server.manner = manner
    began = monotonic()
    resolving.ask(Resolve(LOCAL, "pods", 7800, Asking(server).chain, "endpoint", False))
    resolving.ask(Resolve(LOCAL, "7.example", 1, Chain((ResolverSpec("static", "7.example=10.0.0.7"),), ""), "", False))
    assert monotonic() - began < 1, "ask waited for the server"
    eventually(lambda: len(answers) == 1, "another name")
    eventually(lambda: len(answers) == 2, "an answer without pods")
    assert monotonic() - began < ALL_S + TIMEOUT_S + SPARE_S
    assert answers[1] == NameResolved("pods", 7800, None)
    assert "does not answer" in warnings(caplog)[0]


def test_a_server_with_another_certificate_does_not_get_the_token(
    server: ApiServer, tmp_path: Path, caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "other").mkdir()
    with ApiServer(tmp_path / "other") as other:
        assert Asking(server, port=other.port).hosts() == []
        assert not other.asked
    assert "is not accepted" in warnings(caplog)[0]
    assert "check caCertFile" in warnings(caplog)[0]


@pytest.mark.parametrize(("name", "text", "said"), [
    ("token", None, "token cannot be read (No such file or directory): set saTokenFile"),
    ("token", "", "has no token: one line without blanks"),
    ("token", "first\r\nHost: elsewhere", "has no token"), ("token", "tök", "is no text of ASCII; check saTokenFile"),
    ("namespace", None, "namespace cannot be read"), ("namespace", "../../nodes", "has no namespace; set namespace"),
    ("ca.crt", None, "ca.crt has no certificates that can be read"), ("ca.crt", "none", "ca.crt has no certificates"),
])
def test_a_service_account_that_is_not_as_it_should_be_is_named(
    server: ApiServer, name: str, text: str | None, said: str, caplog: pytest.LogCaptureFixture,
) -> None:
    path = server.account / name
    if text is None:
        path.unlink()
    else:
        path.write_text(text, encoding="utf-8")
    assert Asking(server).hosts() == []
    assert said in warnings(caplog)[0]
    assert "first" not in caplog.text
    assert not server.asked


def test_the_environment_says_where_the_server_is_unless_the_configuration_does(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert Asking(server, host="", port=0).hosts() == []
    assert "KUBERNETES_SERVICE_HOST is not set, as it is in each pod; outside of one set masterHost" in caplog.text
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.port))
    assert Asking(server, host="", port=0).hosts() == ["10.0.0.1", "10.0.0.2"]
    for wrong in ("tcp://10.0.0.1:443", "99999999999"):
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", wrong)
        assert Asking(server, host="", port=0).hosts() == []
        assert f"KUBERNETES_SERVICE_PORT is {wrong!r}, which is no port; set masterPort" in caplog.text
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "bad host\n")
    assert Asking(server, host="").hosts() == []


def test_without_tls_the_token_is_not_sent(server: ApiServer, caplog: pytest.LogCaptureFixture) -> None:
    assert Asking(server, scheme="http").hosts() == []
    assert "does not answer" in caplog.text
    assert not server.asked, "the server of this test speaks TLS alone"
