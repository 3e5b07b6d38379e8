"""The warning to a member that is alone, between two hosts: in each wrong setup it says what is wrong, else nothing."""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.chaos.two_hosts import ADDRESSES, TwoHosts
from tests.integration.members import Member

pytestmark = pytest.mark.netns
BOTH = ",".join(f"{address}[7800]" for address in ADDRESSES.values())
OWN = {name: f"{address}[7800]" for name, address in ADDRESSES.items()}


@pytest.fixture
def hosts(namespaces: None) -> Iterator[TwoHosts]:
    with TwoHosts() as made:
        yield made


def members(hosts: TwoHosts, stack: ExitStack, file: str, **properties: str) -> list[Member]:
    """A member at each host, started at the same time. A property "own": the value is the host's own address."""
    made = []
    for name, address in ADDRESSES.items():
        given = {"bind_addr": address, **properties}
        given = {key: OWN[name] if value == "own" else value for key, value in given.items()}
        made.append(Member(name, file, "alone", dict(given), prefix=["ip", "netns", "exec", hosts.names[name]]))
        stack.callback(made[-1].close)
    return made


@pytest.mark.parametrize(("file", "properties", "drops", "reason"), [
    ("udp", {"bind_addr": "127.0.0.1"}, "", "bind_addr is 127.0.0.1, so only members on this host can find it"),
    ("udp", {}, "", "ip_ttl is 0, so no multicast leaves this host"),
    ("udp", {"ip_ttl": "1"}, "ip daddr 224.0.0.0/4", "check that the network passes IP multicasts"),
    ("tcp", {"initial_hosts": "own"}, "", "answered: check addresses, ports and firewalls"),
    ("tcp", {"initial_hosts": BOTH}, "tcp dport 7800", "answered: check addresses, ports and firewalls"),
], ids=["loopback", "ttl", "multicasts", "hosts", "firewall"])
def test_in_a_wrong_setup_both_members_are_told_what_is_wrong(
    hosts: TwoHosts, file: str, properties: dict[str, str], drops: str, reason: str,
):
    for host in ADDRESSES if drops else ():
        hosts.drop(drops, host)
    with ExitStack() as stack:
        for member in members(hosts, stack, file, **properties):
            said = member.wait(lambda event: event["event"] == "alone", "event alone")
            assert reason in said["reason"]
            assert len(member.last_view()) == 1


@pytest.mark.parametrize(("file", "properties"), [
    ("udp", {"ip_ttl": "1"}), ("udp", {"bind_addr": "site_local"}), ("tcp", {"initial_hosts": BOTH}),
    ("tcp", {"bind_addr": "site_local", "initial_hosts": BOTH}),
], ids=["udp", "udp-site-local", "tcp", "tcp-site-local"])
def test_in_a_right_setup_they_find_each_other_and_nobody_is_told(
    hosts: TwoHosts, file: str, properties: dict[str, str],
):
    with ExitStack() as stack:
        made = members(hosts, stack, file, **properties)
        for member in made:
            member.view_of("ab", timeout=60)
        with pytest.raises(AssertionError, match="no word within 6 s"):
            made[0].wait(lambda event: event["event"] == "alone", "word", timeout=6)
        assert not [event for member in made for event in member.events if event["event"] == "alone"]
