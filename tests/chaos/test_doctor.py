"""The doctor between two network namespaces: healthy ones are called so, and each planted fault is found."""
from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.chaos.netns import do, missing

pytestmark = pytest.mark.netns
ADDRESSES = {"a": "10.93.7.1", "b": "10.93.7.2"}
RULES = """
table inet planted {{
    chain early {{ type filter hook prerouting priority -450; {rule} drop; }}
}}
"""
END_S = 60.0


class TwoHosts:
    """Namespaces a and b, joined by veth."""

    def __init__(self) -> None:
        self.names = {name: f"jgdoc{os.getpid()}-{name}" for name in ADDRESSES}

    def __enter__(self) -> TwoHosts:
        for name in self.names.values():
            do("ip", "netns", "add", name)
        a, b = self.names.values()
        do("ip", "link", "add", "eth0", "netns", a, "type", "veth", "peer", "name", "eth0", "netns", b)
        for name, netns in self.names.items():
            do("ip", "-n", netns, "addr", "add", f"{ADDRESSES[name]}/24", "dev", "eth0")
            do("ip", "-n", netns, "link", "set", "eth0", "up")
            do("ip", "-n", netns, "link", "set", "lo", "up")
        return self

    def __exit__(self, *_: object) -> None:
        for name in self.names.values():
            do("ip", "netns", "del", name)

    def drop(self, rule: str) -> None:
        """Host b drops what the rule says."""
        do("ip", "netns", "exec", self.names["b"], "nft", "-f", "-", stdin_text=RULES.format(rule=rule))

    def command(self, name: str, stack: str, properties: dict[str, str], *options: str) -> list[str]:
        words = ["ip", "netns", "exec", self.names[name], sys.executable, "-m", "jgroups_py", "doctor", stack, *options]
        for key, value in {"bind_addr": ADDRESSES[name], **properties}.items():
            words += ["-p", f"{key}={value}"]
        return words

    def examined(self, stack: str = "udp", **properties: str) -> dict[str, set[str]]:
        """check -> the levels that host a finds, while b listens."""
        listening = subprocess.Popen(self.command("b", stack, properties, "--listen", "--timeout", "30"),
                                     stdout=subprocess.PIPE, text=True)
        assert listening.stdout is not None
        try:
            assert "listening" in listening.stdout.readline()
            time.sleep(0.2)
            done = subprocess.run(self.command("a", stack, properties, "--peer", ADDRESSES["b"], "--json"),
                                  capture_output=True, text=True, timeout=END_S)
        finally:
            listening.kill()
            listening.wait()
        document: dict[str, Any] = json.loads(done.stdout)
        assert done.returncode == int(not document["ok"])
        levels: dict[str, set[str]] = {}
        for finding in document["findings"]:
            levels.setdefault(finding["check"], set()).add(finding["level"])
        return levels


@pytest.fixture
def hosts() -> Iterator[TwoHosts]:
    if reason := missing():
        pytest.fail(reason)
    with TwoHosts() as made:
        yield made


def bad(levels: dict[str, set[str]]) -> set[str]:
    return {check for check, found in levels.items() if "bad" in found}


TCP = {"initial_hosts": f"{ADDRESSES['a']}[7800],{ADDRESSES['b']}[7800]"}


def test_a_healthy_pair_is_called_so(hosts: TwoHosts):
    assert bad(hosts.examined(ip_ttl="1")) == set()
    found = hosts.examined("tcp", **TCP)
    assert (bad(found), found["transport"], found["reach"]) == (set(), {"ok"}, {"ok"})


def test_a_ttl_of_0_that_lets_no_multicast_out_of_the_host(hosts: TwoHosts):
    found = hosts.examined()
    assert (bad(found), found["reach"]) == ({"multicast"}, {"warn"})


def test_a_firewall_that_drops_multicasts(hosts: TwoHosts):
    hosts.drop("ip daddr 224.0.0.0/4")
    assert bad(hosts.examined(ip_ttl="1")) == {"multicast"}


def test_a_firewall_that_drops_all_datagrams(hosts: TwoHosts):
    hosts.drop("meta l4proto udp")
    assert bad(hosts.examined(ip_ttl="1")) == {"datagrams", "multicast"}


def test_a_firewall_that_passes_the_doctor_but_not_the_transport(hosts: TwoHosts):
    hosts.drop("tcp dport 7800")
    assert bad(hosts.examined("tcp", **TCP)) == {"transport", "initial_hosts"}


def test_a_firewall_that_drops_tcp(hosts: TwoHosts):
    hosts.drop("meta l4proto tcp")
    assert bad(hosts.examined(ip_ttl="1")) == {"peer"}


def test_a_network_that_drops_fragments(hosts: TwoHosts):
    hosts.drop("ip frag-off & 0x3fff != 0")
    assert bad(hosts.examined(ip_ttl="1")) == {"datagrams"}


def test_no_other_host_in_initial_hosts(hosts: TwoHosts):
    found = hosts.examined("tcp", initial_hosts=f"{ADDRESSES['a']}[7800]")
    assert (bad(found), found["reach"]) == (set(), {"warn"})
