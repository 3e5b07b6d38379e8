"""Members that find each other by a name with several addresses, which the system's resolver reads for them."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from jgroups_py.config.load import load
from jgroups_py.system.free_ports import free_range
from tests.integration.members import Member
from tests.runtime.name_server import NameServer

pytestmark = [pytest.mark.real, pytest.mark.slow]
OWN_HOSTS = ("unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"')
"""Runs a command with another /etc/hosts, in a mount namespace of its own (needs root)."""
STACK = """
<config>
    <TCP bind_addr="${bind_addr}" bind_port="${bind_port}" port_range="0"/>
    <DNS_PING dns_query="chat.example" port_range="0" refresh="1s"/>
    <MERGE3 min_interval="500ms" max_interval="1s"/>
    <FD_SOCK/> <FD_ALL/> <VERIFY_SUSPECT/> <NAKACK/> <UNICAST/> <STABLE/> <GMS join_timeout="500ms"/>
</config>
"""


@pytest.fixture
def members(tmp_path: Path) -> Iterator[dict[str, Member]]:
    """A, B, C on 127.0.0.11 to 13, at one port; each reads the file `hosts` as /etc/hosts."""
    (tmp_path / "stack.xml").write_text(STACK)
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n")
    port = free_range(1)
    with contextlib.ExitStack() as running:
        found = {}
        for at, name in enumerate("ABC", 11):
            found[name] = Member(name, str(tmp_path / "stack.xml"), "found-by-name", {
                "bind_addr": f"127.0.0.{at}", "bind_port": port}, prefix=(*OWN_HOSTS, str(tmp_path / "hosts")))
            running.callback(found[name].close)
        yield found


def test_members_without_records_are_alone_and_one_group_once_the_name_has_all_addresses(
    members: dict[str, Member], tmp_path: Path,
) -> None:
    for name, member in members.items():
        member.view_of(name)
    with (tmp_path / "hosts").open("w") as hosts:
        hosts.writelines(f"127.0.0.{number} chat.example\n" for number in (13, 11, 12))
    for member in members.values():
        member.view_of("ABC")
    members["A"].command("send hello")
    members["C"].wait(lambda event: event["event"] == "message" and event["payload"] == "hello", "message from A")


def test_the_stack_of_this_test_is_a_valid_one(tmp_path: Path) -> None:
    (tmp_path / "stack.xml").write_text(STACK)
    spec = load(str(tmp_path / "stack.xml"), {"bind_addr": "127.0.0.11", "bind_port": "7800"})
    assert spec.config_of("DNS_PING").dns_query == ("chat.example",)


SRV = STACK.replace('<DNS_PING dns_query="chat.example" port_range="0"',
                    '<DNS_PING dns_query="_jgroups._tcp.chat.example" dns_record_type="SRV" dns_address="${server}"')


def test_members_of_one_host_with_ports_of_their_own_meet_by_records_of_type_srv(tmp_path: Path) -> None:
    (tmp_path / "stack.xml").write_text(SRV)
    first = free_range(3)
    ports = {name: first + at for at, name in enumerate("ABC")}
    with contextlib.ExitStack() as running:
        server = running.enter_context(NameServer())
        server.records["node.example", "A"] = ["127.0.0.1"]
        members = {}
        for name, port in ports.items():
            members[name] = Member(name, str(tmp_path / "stack.xml"), "found-by-name", {
                "bind_addr": "127.0.0.1", "bind_port": port, "server": server.address})
            running.callback(members[name].close)
        for name, member in members.items():
            member.view_of(name)                             # the service has no records yet
        server.records["_jgroups._tcp.chat.example", "SRV"] = [f"0 0 {port} node.example." for port in ports.values()]
        for member in members.values():
            member.view_of("ABC")
        server.manner = "silent"
        members["A"].command("send hello")
        members["C"].wait(lambda event: event["event"] == "message" and event["payload"] == "hello", "A's message")
