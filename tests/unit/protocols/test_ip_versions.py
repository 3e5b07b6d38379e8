"""What a stack file may say about IPv6, and what the wire carries of it."""
from __future__ import annotations

import pytest

from jgroups_py.config.load import load
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.errors import ConfigError
from jgroups_py.protocols.discovery.base import DiscoveryRequest
from jgroups_py.protocols.discovery.tcpping import parse_hosts
from jgroups_py.protocols.transport.protocol import TcpConfig, UdpConfig
from jgroups_py.wire import Interner, cluster_id, decode_frame, encode_frame

A = Address(b"a" * 16, "A")


@pytest.mark.parametrize(("properties", "problem"), [
    ({"bind_addr": "fd00::1"}, "bind_addr fd00::1 and mcast_addr 239.8.8.8 are of different IP versions; set both"),
    ({"mcast_addr": "ff15::8"}, "bind_addr 127.0.0.1 and mcast_addr ff15::8 are of different IP versions"),
    ({"bind_addr": "fd00::1", "mcast_addr": "fd00::2"}, "'fd00::2' is not an IP multicast address"),
    ({"bind_addr": "fe80::1%eth0", "mcast_addr": "ff12::8%eth0"}, "ff00::/8 without a scope"),
])
def test_addresses_that_do_not_fit_each_other_are_a_wrong_configuration(
    properties: dict[str, str], problem: str,
) -> None:
    with pytest.raises(ConfigError, match=problem):
        UdpConfig(**properties)                              # type: ignore[arg-type]


@pytest.mark.parametrize("bind_addr", ["fd00::1", "[fd00::1]", "fe80::1%eth0", "site_local", "match-interface:eth0"])
def test_a_multicast_address_of_ipv6_fits_addresses_of_ipv6_and_words(bind_addr: str) -> None:
    assert UdpConfig(bind_addr=bind_addr, mcast_addr="ff15::8:8:8").mcast_addr == "ff15::8:8:8"


def test_without_multicast_the_version_of_its_address_does_not_matter() -> None:
    assert UdpConfig(bind_addr="::1", ip_mcast=False).bind_addr == "::1"


@pytest.mark.parametrize(("text", "problem"), [
    ("[fe80::1%eth0]:7800", "has a scope; write the address without it: link-local addresses are on the link of bind"),
    ("::1", r"'::1' has no port; write \[::1\]:7800"),
    ("10.0.0.1", "'10.0.0.1' has no port; write 10.0.0.1:7800"),
    ("[abc]:7800", "'abc' is no IPv6 address"),
    ("[1.2.3.4.5]:7800", "'1.2.3.4.5' is no IPv6 address"),
    ("[::1]:70000", "a port is at most 65535"),
])
def test_a_wrong_entry_of_initial_hosts_says_how_to_write_it(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_hosts(text)


@pytest.mark.parametrize("suffix", ["xml", "yaml"])
def test_addresses_of_ipv6_fill_properties_of_stack_files(suffix: str) -> None:
    spec = load(f"stacks/tcp.{suffix}", {"bind_addr": "::1", "initial_hosts": "[::1]:7800,[0:0::2][7801]"})
    transport = spec.layers[0].config
    assert isinstance(transport, TcpConfig)
    assert transport.bind_addr == "::1"
    assert spec.config_of("TCPPING").initial_hosts == (("::1", 7800), ("::2", 7801))


def test_a_frame_carries_an_address_of_ipv6_as_text_as_it_does_one_of_ipv4() -> None:
    """As before, so members of earlier versions read it; they send nothing there (design/wire.md)."""
    request = DiscoveryRequest(A, ("fd00::1", 7800), None, None, None, False)
    data = b"".join(encode_frame(cluster_id("chat"), Batch(A, None, (), (request,), 0)))
    assert b"\x00\x07fd00::1\x1e\x78" in data
    (header,) = decode_frame(data, cluster_id("chat"), Interner()).headers
    assert header == request
