"""Groups over IPv6 between network namespaces: by multicast, also with addresses of the link alone, and by TCP."""
from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.chaos.netns import do
from tests.integration.members import Member

pytestmark = pytest.mark.netns
NETWORK = {"A": "fd00:93::1", "B": "fd00:93::2", "C": "fd00:93::3"}
READY_S = 10.0


class Bridge:
    """Three namespaces on a bridge in a fourth one; addresses of IPv6 only."""

    def __init__(self) -> None:
        self.tag = f"jgsix{os.getpid()}"
        self.made: list[str] = []

    def namespace(self, name: str) -> str:
        return f"{self.tag}-{name}"

    def __enter__(self) -> Bridge:
        for name in ("switch", *NETWORK):
            do("ip", "netns", "add", self.namespace(name))
            self.made.append(self.namespace(name))
            do("ip", "-n", self.namespace(name), "link", "set", "lo", "up")
        switch = self.namespace("switch")
        do("ip", "-n", switch, "link", "add", "br0", "type", "bridge", "mcast_snooping", "0")
        do("ip", "-n", switch, "link", "set", "br0", "up")
        for name, address in NETWORK.items():
            do("ip", "-n", self.namespace(name), "link", "add", "eth0", "type", "veth", "peer", "name", f"to-{name}",
               "netns", switch)
            do("ip", "-n", switch, "link", "set", f"to-{name}", "master", "br0", "up")
            do("ip", "-n", self.namespace(name), "addr", "add", f"{address}/64", "dev", "eth0", "nodad")
            do("ip", "-n", self.namespace(name), "link", "set", "eth0", "up")
        return self

    def __exit__(self, *_: object) -> None:
        for name in self.made:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=20)

    def link_local(self, name: str) -> str:
        """The address of the link alone, once the kernel has found that nobody else has it."""
        until = time.monotonic() + READY_S
        while time.monotonic() < until:
            shown = subprocess.run(["ip", "-n", self.namespace(name), "-6", "addr", "show", "dev", "eth0", "scope",
                                    "link"], capture_output=True, text=True, timeout=20).stdout
            found = re.search(r"inet6 (fe80[0-9a-f:]+)", shown)
            if found and "tentative" not in shown:
                return found[1]
            time.sleep(0.1)
        raise AssertionError(f"{name} has no link-local address: {shown}")

    def member(self, name: str, stack: str, **properties: object) -> Member:
        return Member(name, stack, "six", properties, prefix=("ip", "netns", "exec", self.namespace(name)))


@pytest.fixture
def network(namespaces: None) -> Iterator[Bridge]:
    with Bridge() as made:
        for name in NETWORK:
            made.link_local(name)
        yield made


def one_group(members: dict[str, Member]) -> None:
    """They are in one view, and messages of each arrive at all; then one fails, and the others notice."""
    for member in members.values():
        member.view_of(members)
    for name, member in members.items():
        member.command(f"send from {name}")
    for member in members.values():
        for name in members:
            member.wait(lambda event, name=name: event["event"] == "message" and  # type: ignore[misc]
                        event["payload"] == f"from {name}", f"message of {name}")
    gone, *others = reversed(members)
    since = {name: members[name].mark() for name in others}
    members[gone].process.kill()
    for name in others:
        members[name].view_of(others, since[name])


def test_members_meet_by_multicast_of_ipv6(network: Bridge) -> None:
    with contextlib.ExitStack() as running:
        members = {}
        for name, address in NETWORK.items():
            members[name] = network.member(name, "udp", bind_addr=address, mcast_addr="ff15::8:8:8", ip_ttl=1)
            running.callback(members[name].close)
        one_group(members)


@pytest.mark.parametrize("written", ["{address}%eth0", "{address}", "link_local"])
def test_members_meet_by_multicast_with_addresses_of_the_link_alone(network: Bridge, written: str) -> None:
    """Each one gives the addresses of the others the scope of its own; none is sent."""
    with contextlib.ExitStack() as running:
        members = {}
        for name in NETWORK:
            bind_addr = written.format(address=network.link_local(name))
            members[name] = network.member(name, "udp", bind_addr=bind_addr, mcast_addr="ff12::8:8:8", ip_ttl=1)
            running.callback(members[name].close)
        one_group(members)


def test_members_meet_over_tcp_with_addresses_of_the_link_alone(network: Bridge) -> None:
    hosts = ",".join(f"[{network.link_local(name)}]:7800" for name in NETWORK)
    with contextlib.ExitStack() as running:
        members = {}
        for name in NETWORK:
            members[name] = network.member(name, "tcp", bind_addr=f"{network.link_local(name)}%eth0", port_range=0,
                                           initial_hosts=hosts)
            running.callback(members[name].close)
        one_group(members)


def test_a_ttl_of_0_keeps_multicasts_on_the_host(network: Bridge) -> None:
    with contextlib.ExitStack() as running:
        members = {}
        for name in "AB":
            members[name] = network.member(name, "udp", bind_addr=NETWORK[name], mcast_addr="ff15::8:8:8", ip_ttl=0)
            running.callback(members[name].close)
        for name, member in members.items():
            event = member.wait(lambda event: event["event"] == "alone", "event alone")
            assert "ip_ttl is 0" in event["reason"]
            assert member.last_view() == [name]


@pytest.mark.parametrize(("stack", "properties"), [
    ("udp", {"mcast_addr": "ff15::8:8:8", "ip_ttl": "1"}), ("tcp", {"initial_hosts": "[fd00:93::2]:7800"})])
def test_the_doctor_calls_a_healthy_pair_healthy(network: Bridge, stack: str, properties: dict[str, str]) -> None:
    def command(name: str, *options: str) -> list[str]:
        words = ["ip", "netns", "exec", network.namespace(name), sys.executable, "-m", "jgroups_py", "doctor", stack]
        for key, value in {"bind_addr": NETWORK[name], **properties}.items():
            words += ["-p", f"{key}={value}"]
        return [*words, *options]
    listening = subprocess.Popen(command("B", "--listen", "--timeout", "30"), stdout=subprocess.PIPE, text=True)
    assert listening.stdout is not None
    try:
        assert "listening" in listening.stdout.readline()
        time.sleep(0.2)
        done = subprocess.run(command("A", "--peer", NETWORK["B"], "--json"), capture_output=True, text=True,
                              timeout=60)
    finally:
        listening.kill()
        listening.wait()
    findings = json.loads(done.stdout)["findings"]
    assert [finding for finding in findings if finding["level"] == "bad"] == []
    assert {"peer", "datagrams"} <= {finding["check"] for finding in findings}
    if stack == "udp":
        assert [finding["level"] for finding in findings if finding["check"] == "multicast"] == ["ok"] * 3
