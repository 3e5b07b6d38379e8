"""Every file in stacks/, and JGroups' own, carries messages between members on real sockets."""
from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from time import monotonic, sleep

import pytest

import jgroups_py as jg
from jgroups_py.system.free_ports import free_range
from tests.integration.members import free_ports
from tests.unit.config.stock import write_all

pytestmark = pytest.mark.real

STACKS = Path(__file__).parents[2] / "stacks"
LOCAL = ["udp.xml", "udp.yaml", "tcp.xml", "tcp.yaml"]
PATIENCE_SECONDS = 120.0
NO_MEMBERS = jg.GlobalView({})


class Collector(jg.Receiver):
    """Keeps what arrives, and waits for it."""

    def __init__(self, stack: Path, name: str, cluster: str, properties: Mapping[str, object]) -> None:
        self.got: list[bytes] = []
        self.changed = threading.Condition()
        self.channel = jg.JChannel(str(stack), name=name, properties=properties, receiver=self)
        self.channel.connect(cluster)

    def receive(self, message: jg.Message) -> None:
        with self.changed:
            self.got.append(message.payload)
            self.changed.notify_all()

    def view_accepted(self, view: jg.View) -> None:
        with self.changed:
            self.changed.notify_all()

    def sees(self, number: int) -> None:
        """Wait for a view of `number` members."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.channel.view or ()) == number, PATIENCE_SECONDS)

    def sees_sites(self, names: list[str]) -> None:
        """Wait for a global view of these sites."""
        until = monotonic() + PATIENCE_SECONDS
        while sorted((self.channel.global_view or NO_MEMBERS).sites) != names:
            assert monotonic() < until, f"{self.channel.name} sees {self.channel.global_view}"
            sleep(0.01)

    def wait_for(self, expected: list[bytes]) -> None:
        """Wait for exactly these messages, in any order."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.got) >= len(expected), PATIENCE_SECONDS), self.got
        assert sorted(self.got) == sorted(expected)


def carries_messages(stack: Path, properties: Mapping[str, object]) -> None:
    """Two members, a message from each, everything at both."""
    collectors = [Collector(stack, name, "stacks", properties) for name in "AB"]
    try:
        for receiver in collectors:
            receiver.sees(2)
        for receiver in collectors:
            receiver.channel.send(None, receiver.channel.name.encode())
        for receiver in collectors:
            receiver.wait_for([b"A", b"B"])
    finally:
        for receiver in collectors:
            receiver.channel.close()


@pytest.mark.parametrize("name", LOCAL)
def test_a_shipped_stack_carries_messages(name):
    carries_messages(STACKS / name, free_ports(name))


@pytest.mark.parametrize("name", ["udp-5.0.xml", "udp-5.4.xml", "udp-5.5.xml"])
def test_the_stock_udp_stack_of_jgroups_carries_messages(name, tmp_path):
    write_all(tmp_path)
    (tmp_path / "udp-default.xml").unlink()               # it would bind this machine's network; ours takes a property
    port = free_ports("udp")["mcast_port"]
    given = {"jgroups.udp.mcast_port": port, "jgroups.bind_addr": "127.0.0.1"}
    carries_messages(tmp_path / name, given)


@pytest.mark.parametrize("name", ["tcp-5.0.xml", "tcp-5.4.xml", "tcp-5.5.xml"])
def test_the_stock_tcp_stack_of_jgroups_carries_messages(name, tmp_path):
    write_all(tmp_path)
    (tmp_path / "tcp-default.xml").unlink()
    port = free_range(4)
    carries_messages(tmp_path / name, {"jgroups.bind_addr": "127.0.0.1", "jgroups.bind_port": port,
                                       "jgroups.tcpping.initial_hosts": f"127.0.0.1[{port}]"})


@pytest.mark.parametrize("suffix", ["xml", "yaml"])
def test_the_shipped_sites_carry_messages_over_their_bridge(suffix):
    first = free_range(10)
    bridge = {"bridge_port": first, "bridge_hosts": f"127.0.0.1[{first}]", "bridge_name": f"bridge-{first}"}
    collectors = [Collector(STACKS / f"{site}.{suffix}", site, site, {**free_ports(site),
                                                                      **bridge}) for site in ("nyc", "sfo")]
    try:
        for receiver in collectors:                                  # a site gets what is sent once it is known
            receiver.sees_sites(["NYC", "SFO"])
        for receiver in collectors:
            receiver.channel.send(None, receiver.channel.name.encode())
        for receiver in collectors:
            receiver.wait_for([b"nyc", b"sfo"])
    finally:
        for receiver in collectors:
            receiver.channel.close()
