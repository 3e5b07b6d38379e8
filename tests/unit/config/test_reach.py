"""The reason that a member gets which stays alone."""
from __future__ import annotations

import pytest

from jgroups_py.config.load import load
from jgroups_py.config.reach import why_alone


@pytest.mark.parametrize(("stack", "properties", "reason"), [
    ("udp", {}, "bind_addr is 127.0.0.1, so only members on this host can find it; for several hosts: "
     "bind_addr=site_local, or an address of this host and ip_ttl=1"),
    ("udp", {"bind_addr": "loopback"}, "bind_addr is loopback, so only members on this host"),
    ("udp", {"bind_addr": "10.0.0.1"}, "ip_ttl is 0, so no multicast leaves this host; ip_ttl=1"),
    ("udp", {"bind_addr": "site_local", "mcast_port": 1234}, "no member answered at 239.8.8.8:1234"),
    ("udp", {"bind_addr": "site_local", "ip_ttl": 0}, "ip_ttl is 0, so no multicast leaves this host"),
    ("tcp", {}, "bind_addr is 127.0.0.1"),
    ("tcp", {"bind_addr": "10.0.0.1"}, "initial_hosts has no address of another host"),
    ("tcp", {"bind_addr": "10.0.0.1", "initial_hosts": "10.0.0.1[7800],10.0.0.2[7800]"},
     "none of 10.0.0.1[7800], 10.0.0.2[7800] answered"),
])
def test_the_first_thing_that_keeps_a_member_alone_is_named(stack: str, properties: dict[str, object], reason: str):
    assert why_alone(load(stack, properties)).startswith(reason)


@pytest.mark.parametrize(("initial_hosts", "names", "reason"), [
    ("b[7800]", ("b",), "no address is known for b (initial_hosts): check what the name server, or /etc/hosts"),
    ("b[7800]", (), "none of b[7800] answered"),
])
def test_a_name_without_an_address_is_named(initial_hosts: str, names: tuple[str, ...], reason: str):
    spec = load("tcp", {"bind_addr": "10.0.0.1", "initial_hosts": initial_hosts})
    assert why_alone(spec, names).startswith(reason)
