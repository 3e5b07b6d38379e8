"""Members behind NAT: each in a private network of its own, whose router passes on two ports (nft DNAT)."""
from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from time import monotonic

import attrs
import pytest

from tests.chaos.netns import do
from tests.integration.members import Member

pytestmark = pytest.mark.netns
PRIVATE = "10.94.7.2"                       # of each member, in its own network: the same address twice
INSIDE = "10.94.7.1"
BIND_PORT, WATCH_PORT = 7800, 7850
QUICK_S = 3.0                               # FD_ALL needs 5 s and a verification
RULES = """
table ip nat {{
    chain in {{
        type nat hook prerouting priority dstnat;
        iifname "out" tcp dport {port} dnat to {private}:{bind_port}
        iifname "out" tcp dport {watch} dnat to {private}:{watch_port}
    }}
    chain out {{ type nat hook postrouting priority srcnat; oifname "out" masquerade; }}
}}
"""


@attrs.frozen
class Site:
    """A router and the ports that it passes on."""

    public: str
    port: int
    watch: int


SITES = {"A": Site("10.94.0.1", 17800, 17850), "B": Site("10.94.0.2", 18800, 18850)}


class Nat:
    """For each member a namespace and that of its router; the routers are joined by veth."""

    def __init__(self) -> None:
        self.tag = f"jgnat{os.getpid()}"
        self.made: list[str] = []

    def namespace(self, name: str) -> str:
        return f"{self.tag}-{name}"

    def __enter__(self) -> Nat:
        for name in SITES:
            for where in (name, f"r{name}"):
                do("ip", "netns", "add", self.namespace(where))
                self.made.append(self.namespace(where))
                do("ip", "-n", self.namespace(where), "link", "set", "lo", "up")
        a, b = (self.namespace(f"r{name}") for name in SITES)
        do("ip", "link", "add", "out", "netns", a, "type", "veth", "peer", "name", "out", "netns", b)
        for name, site in SITES.items():
            member, router = self.namespace(name), self.namespace(f"r{name}")
            do("ip", "-n", router, "addr", "add", f"{site.public}/24", "dev", "out")
            do("ip", "-n", router, "link", "set", "out", "up")
            do("ip", "link", "add", "eth0", "netns", member, "type", "veth", "peer", "name", "in", "netns", router)
            do("ip", "-n", member, "addr", "add", f"{PRIVATE}/24", "dev", "eth0")
            do("ip", "-n", router, "addr", "add", f"{INSIDE}/24", "dev", "in")
            for where, device in ((member, "eth0"), (router, "in")):
                do("ip", "-n", where, "link", "set", device, "up")
            do("ip", "-n", member, "route", "add", "default", "via", INSIDE)
            do("ip", "netns", "exec", router, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
            do("ip", "netns", "exec", router, "nft", "-f", "-", stdin_text=RULES.format(
                port=site.port, watch=site.watch, private=PRIVATE, bind_port=BIND_PORT, watch_port=WATCH_PORT))
        return self

    def __exit__(self, *_: object) -> None:
        for name in self.made:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=20)

    def member(self, name: str) -> Member:
        site = SITES[name]
        hosts = ",".join(f"{other.public}:{other.port}" for other in SITES.values())
        return Member(name, "tcp", "nat", {
            "bind_addr": PRIVATE, "bind_port": BIND_PORT, "port_range": 0, "initial_hosts": hosts,
            "external_addr": site.public, "external_port": site.port,
            "watch_port": WATCH_PORT, "watch_external_port": site.watch},
            prefix=("ip", "netns", "exec", self.namespace(name)))


@pytest.fixture
def members(namespaces: None) -> Iterator[dict[str, Member]]:
    with Nat() as nat, contextlib.ExitStack() as running:
        found = {}
        for name in SITES:
            found[name] = nat.member(name)
            running.callback(found[name].close)
        yield found


def test_members_behind_nat_form_a_group_send_and_notice_a_crash_by_the_listener_that_is_passed_on(
    members: dict[str, Member],
) -> None:
    """Both have one private address: whatever goes to an address that is not told, goes to the sender itself."""
    for member in members.values():
        member.view_of("AB")
    for name, member in members.items():
        member.command(f"flood 500 100 {500}")
        member.command(f"send from {name}")
    for member in members.values():
        member.received_all({"A": 500, "B": 500})
    since, killed = members["A"].mark(), monotonic()
    members["B"].process.send_signal(signal.SIGKILL)
    members["A"].view_of("A", since)
    assert monotonic() - killed < QUICK_S, "FD_SOCK's link did not notice that the process ended"
