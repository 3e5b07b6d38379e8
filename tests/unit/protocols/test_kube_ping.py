"""KUBE_PING on the bench: what is asked of the API server, where requests go, and which properties are refused."""
from __future__ import annotations

import pytest

from jgroups_py.config.load import load
from jgroups_py.config.reach import why_alone
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import FindMembers, NameResolved, ResolveName, SendTo
from jgroups_py.model.kubernetes_pods import PodQuery
from jgroups_py.model.name_resolution import PODS
from jgroups_py.model.outputs import Resolve
from jgroups_py.model.units import seconds
from jgroups_py.protocols.discovery.kube_ping import NAME, KubePing, KubePingConfig
from jgroups_py.testing.bench import Bench, StubPorts


def searching(**properties: object) -> Bench:
    made = Bench(StubPorts(), KubePing(KubePingConfig(**properties)))   # type: ignore[arg-type]
    made.down(FindMembers(seconds(60), True))
    return made


def asked(made: Bench) -> list[PodQuery]:
    links = [output.chain.links[0] for output in made.outputs if isinstance(output, Resolve)]
    assert all(link.kind == PODS for link in links)
    return [PodQuery.parse(link.argument) for link in links]


def test_the_api_server_is_asked_past_the_resolvers_and_requests_go_to_all_pods_at_the_own_port() -> None:
    made = searching(namespace="chat", labels="app=chat", port_range=1)
    assert asked(made) == [PodQuery("chat", "app=chat")]
    assert made.passed_down(ResolveName) == []
    made.up(NameResolved(NAME, 7800, ("10.0.0.8", 7800), (("10.0.0.9", 7800),)))
    assert [event.physical for event in made.passed_down(SendTo)] == [
        ("10.0.0.8", 7800), ("10.0.0.8", 7801), ("10.0.0.9", 7800), ("10.0.0.9", 7801)]


def test_pods_are_no_names_without_an_address() -> None:
    layer = KubePing(KubePingConfig())
    Bench(StubPorts(), layer).down(FindMembers(seconds(60), True))
    assert list(layer.listed) == [], "it has no answer yet"
    assert layer.unknown_names() == ()


def test_pods_are_compared_with_this_one_only_if_a_rolling_update_shall_split_groups() -> None:
    assert asked(searching())[0].like == ""
    assert asked(searching(split_clusters_during_rolling_update=True))[0].like == "127.0.0.1"


@pytest.mark.parametrize(("properties", "problem"), [
    ({"namespace": "Chat"}, "'Chat' is no namespace"), ({"namespace": "a/../b"}, "is no namespace"),
    ({"labels": "app:chat"}, "'app:chat' is no requirement on a label; write app=chat"),
    ({"labels": "app=chat,,"}, "'' is no requirement"), ({"labels": "tier in a"}, "is no requirement"),
    ({"masterProtocol": "ftp"}, "'ftp' is not one of https, http"), ({"masterPort": "70000"}, "out of range"),
    ({"masterHost": "https://api"}, "is neither an IP address nor the name of a host"),
    ({"saTokenFile": ""}, "KUBE_PING without saTokenFile needs namespace"),
])
def test_what_kube_ping_cannot_do_is_an_error_that_says_what_can_be(properties: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        KubePingConfig(**properties)


@pytest.mark.parametrize("labels", ["app=chat", "app==chat, tier!=web", "example.com/app in (a, b),!old", "app", "a="])
def test_selectors_of_kubernetes_are_accepted(labels: str) -> None:
    assert KubePingConfig(labels=labels).labels == labels


def test_a_stack_with_it_is_checked_and_says_why_a_member_is_alone() -> None:
    _, _, *rest = load("tcp").layers

    def stack(port: int, **properties: object) -> tuple[str, ...]:
        spec = load([("TCP", {"bind_port": port, "bind_addr": "10.0.0.1"}), ("kubernetes.KUBE_PING", properties),
                     *rest])
        assert "kubectl get pods" in why_alone(spec)
        return tuple(map(str, spec.warnings))
    with pytest.raises(ConfigError, match="KUBE_PING looks for members at the port that all pods share"):
        stack(0, labels="app=chat")
    with pytest.raises(ConfigError, match="clientCertFile"):
        stack(7800, labels="app=chat", clientCertFile="/cert")
    assert not any("KUBE_PING" in warning for warning in stack(7800, labels="app=chat"))
    assert any("every pod of the namespace" in warning for warning in stack(7800))
    assert any("sends no token" in warning for warning in stack(7800, labels="a", masterProtocol="http"))
