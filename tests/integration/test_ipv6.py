"""Groups over IPv6 on the loopback interface: found by address and by name, a crash noticed, two sites joined."""
from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jgroups_py.system.free_ports import free_range
from tests.integration.members import Member
from tests.integration.test_dns_ping import OWN_HOSTS, STACK

pytestmark = [pytest.mark.real, pytest.mark.slow]


@pytest.fixture
def running() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


def start(running: contextlib.ExitStack, name: str, stack: str, properties: dict[str, object], *options: str) -> Member:
    member = Member(name, stack, "six", properties, options)
    running.callback(member.close)
    return member


def test_a_group_over_tcp_forms_sends_and_notices_a_crash(running: contextlib.ExitStack, tmp_path: Path) -> None:
    port = free_range(4)
    properties: dict[str, object] = {
        "bind_addr": "::1", "bind_port": port, "port_range": 3, "initial_hosts": f"[::1]:{port}"}
    control = tmp_path / "a.sock"
    members = {name: start(running, name, "tcp", properties, *(["--control", str(control)] if name == "A" else []))
               for name in "ABC"}
    for member in members.values():
        member.view_of("ABC")
    members["C"].command("send over six")
    for member in members.values():
        member.wait(lambda event: event["event"] == "message" and event["payload"] == "over six", "C's message")
    listed = subprocess.run([sys.executable, "-m", "jgroups_py", "members", "--control", str(control), "--json"],
                            capture_output=True, text=True, timeout=60)
    places = [member["address"] for member in json.loads(listed.stdout)["members"]]
    assert all(place.startswith("[::1]:") for place in places), places
    members["C"].process.send_signal(signal.SIGKILL)
    since = members["A"].mark()
    members["A"].view_of("AB", since)


def test_members_are_found_by_a_name_with_records_of_type_aaaa(tmp_path: Path) -> None:
    """Each at one address, so at ports of their own; the name has an address of IPv4 too, at which nobody is."""
    stack = STACK.replace('dns_query="chat.example" port_range="0"',
                          'dns_query="chat.example" dns_record_type="AAAA" dns_port="${bind_port}" port_range="2"')
    stack = stack.replace('port_range="0"/>', 'port_range="2"/>', 1)
    (tmp_path / "stack.xml").write_text(stack)
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n127.0.0.9 chat.example\n::1 chat.example\n")
    port = free_range(3)
    with contextlib.ExitStack() as members:
        found = []
        for name in "ABC":
            found.append(Member(name, str(tmp_path / "stack.xml"), "found-by-name", {
                "bind_addr": "::1", "bind_port": port}, prefix=(*OWN_HOSTS, str(tmp_path / "hosts"))))
            members.callback(found[-1].close)
        for member in found:
            member.view_of("ABC")


def test_two_sites_are_joined_by_a_bridge_over_ipv6(running: contextlib.ExitStack) -> None:
    """The bridge is on ::1; within the sites there is IPv4."""
    bridge = free_range(4)
    members = {}
    for name, site in (("A", "nyc"), ("D", "sfo")):
        members[name] = start(running, name, site, {
            "mcast_port": free_range(1), "bridge_addr": "::1", "bridge_port": bridge, "bridge_port_range": 3,
            "bridge_hosts": f"[::1]:{bridge}"})
    for member in members.values():
        member.wait(lambda event: event["event"] == "global_view" and len(event["sites"]) == 2, "both sites")
    members["A"].command("send across")
    members["D"].wait(lambda event: event["event"] == "message" and event["payload"] == "across", "A's message")
