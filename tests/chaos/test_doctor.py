"""The doctor between two network namespaces: healthy ones are called so, and each planted fault is found."""
from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.chaos.two_hosts import ADDRESSES, TwoHosts

pytestmark = pytest.mark.netns
END_S = 60.0


class DoctorsHosts(TwoHosts):
    """Two hosts, and what the doctor says of them."""

    def examined(self, stack: str = "udp", **properties: str) -> dict[str, set[str]]:
        """check -> the levels that host a finds, while b listens."""
        listening = subprocess.Popen(
            self.words("b", "doctor", stack, "--listen", "--timeout", "30", properties=properties),
            stdout=subprocess.PIPE, text=True)
        assert listening.stdout is not None
        try:
            assert "listening" in listening.stdout.readline()
            time.sleep(0.2)
            done = subprocess.run(
                self.words("a", "doctor", stack, "--peer", ADDRESSES["b"], "--json", properties=properties),
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
def hosts(namespaces: None) -> Iterator[DoctorsHosts]:
    with DoctorsHosts() as made:
        yield made


def bad(levels: dict[str, set[str]]) -> set[str]:
    return {check for check, found in levels.items() if "bad" in found}


TCP = {"initial_hosts": f"{ADDRESSES['a']}[7800],{ADDRESSES['b']}[7800]"}


def test_a_healthy_pair_is_called_so(hosts: DoctorsHosts):
    assert bad(hosts.examined(ip_ttl="1")) == set()
    found = hosts.examined("tcp", **TCP)
    assert (bad(found), found["transport"], found["reach"]) == (set(), {"ok"}, {"ok"})


def test_a_ttl_of_0_that_lets_no_multicast_out_of_the_host(hosts: DoctorsHosts):
    found = hosts.examined()
    assert (bad(found), found["reach"]) == ({"multicast"}, {"warn"})


def test_a_firewall_that_drops_multicasts(hosts: DoctorsHosts):
    hosts.drop("ip daddr 224.0.0.0/4")
    assert bad(hosts.examined(ip_ttl="1")) == {"multicast"}


def test_a_firewall_that_drops_all_datagrams(hosts: DoctorsHosts):
    hosts.drop("meta l4proto udp")
    assert bad(hosts.examined(ip_ttl="1")) == {"datagrams", "multicast"}


def test_a_firewall_that_passes_the_doctor_but_not_the_transport(hosts: DoctorsHosts):
    hosts.drop("tcp dport 7800")
    assert bad(hosts.examined("tcp", **TCP)) == {"transport", "initial_hosts"}


def test_a_firewall_that_drops_tcp(hosts: DoctorsHosts):
    hosts.drop("meta l4proto tcp")
    assert bad(hosts.examined(ip_ttl="1")) == {"peer"}


def test_a_network_that_drops_fragments(hosts: DoctorsHosts):
    hosts.drop("ip frag-off & 0x3fff != 0")
    assert bad(hosts.examined(ip_ttl="1")) == {"datagrams"}


def test_no_other_host_in_initial_hosts(hosts: DoctorsHosts):
    found = hosts.examined("tcp", initial_hosts=f"{ADDRESSES['a']}[7800]")
    assert (bad(found), found["reach"]) == (set(), {"warn"})
